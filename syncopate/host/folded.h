// Whether who reads from a folded buffer finds there what it means: its memory holds different parts in turn.
#pragma once

#include "syncopate/host/agents.h"
#include "syncopate/host/history.h"

namespace syncopate::host {

class FoldedParts {
 public:
  FoldedParts(const Plan& plan, const AgentLayout& layout) : plan_(plan), layout_(layout) {}

  /// Whether what `writer`, a transfer, has put into a folded buffer is what `reader`, a tile or a transfer, reads
  /// there.
  bool is_meant(int buffer, const Event& reader, const Event& writer) const;
  /// Whether `writer`, a transfer, brings again what `before` has brought in the same launch.
  bool comes_again(const Event& writer, const Event& before) const;

 private:
  const Transfer& transfer(const Event& event) const;

  const Plan& plan_;
  const AgentLayout& layout_;
};

}  // namespace syncopate::host
