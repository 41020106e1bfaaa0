// The reference: the local kernel run over whole tensors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "syncopate/host/host.h"
#include "syncopate/kernel/concrete.h"

namespace syncopate::host {

/// A function of a kernel's text, ready to run. `file` is what messages call the text.
std::shared_ptr<const Program> load_program(const std::string& file, const std::string& text,
                                            const std::string& function);

/// A plan's local kernel, ready to run.
class LocalKernel {
 public:
  explicit LocalKernel(const Plan& plan);

  /// run_unfused() with the kernel loaded.
  std::vector<Bytes> run(const Plan& plan, int rank, const std::vector<Bytes>& inputs) const;
  /// The same with streamed loops in the kernel's own order.
  std::vector<Bytes> run_as_written(const Plan& plan, int rank, const std::vector<Bytes>& inputs) const;

 private:
  /// Without an order: as written.
  std::vector<Bytes> run_in(const IterationOrder* order, const Plan& plan, int rank,
                            const std::vector<Bytes>& inputs) const;

  std::shared_ptr<const Program> program_;
  std::optional<ReorderedKernel> reordered_;  ///< if it has streamed loops
};

}  // namespace syncopate::host
