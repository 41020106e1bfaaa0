// A worker of a rank: a program instance of the fused kernel, with the rank's memory and signals as its world.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "syncopate/host/world.h"
#include "syncopate/kernel/concrete.h"

namespace syncopate::host {

/// The arguments of the local kernel: the plan's scalars, and its buffers by number.
Arguments kernel_arguments(const Plan& plan, int rank);

class WorkerAgent final : public Environment {
 public:
  WorkerAgent(World& world, int agent, std::shared_ptr<const Program> program);

  /// Begins a launch.
  void start(std::int64_t launch);
  /// One step. Returns whether the worker is done with this launch.
  bool step();

  std::span<std::byte> access(int buffer, AccessKind kind, std::span<const Run> runs,
                              const SourceLocation& where) override;
  bool wait(const WaitRequest& request) override;
  void raise(int peers_buffer, std::int64_t home, std::int64_t slot, const SourceLocation& where) override;
  std::optional<std::int64_t> take(const TakeRequest& request) override;
  [[noreturn]] void deny(const std::string& assertion, const SourceLocation& where) override;

 private:
  /// A signal that the kernel has raised and that others do not see yet: the plan lets them wait until the worker waits
  /// for something itself or ends.
  struct Held {
    int signal = -1;
    Clock known;
  };

  /// From here on the worker works on a slot, or, numbered behind those, on an addition.
  void come_to(std::int64_t slot, const SourceLocation& where);
  /// Of its rank.
  std::int64_t slots() const;
  /// Of a dynamic order: the worker is done with the slot that it has taken, if any.
  void leave_slot();
  /// Whether signals are held; if so, they come next.
  bool hold_up();
  /// Lets others see the first. Returns whether more are held.
  bool raise_held();
  std::span<std::byte> runtime_access(RuntimeBuffer buffer, std::span<const Run> runs, const SourceLocation& where);
  [[noreturn]] void fail(const std::string& problem, const SourceLocation& where) const;

  World& world_;
  int agent_;
  int rank_;
  std::shared_ptr<const Program> program_;
  std::optional<Worker> worker_;
  std::int64_t launch_ = 0;
  std::int64_t taken_ = -1;  ///< of a dynamic order: the slot that the worker has taken
  EventId event_ = 0;        ///< of the slot being worked on; 0 before its first access, and after a raise
  std::deque<Held> held_;    ///< in the order of the raises
  bool must_raise_ = false;  ///< what is held has to come before anything else
};

}  // namespace syncopate::host
