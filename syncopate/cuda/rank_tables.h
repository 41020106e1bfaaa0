// What lies in the memory of a rank for its kernels to read, as numbers: the plan's tables, with raises that reach
// mailboxes too, and the waits and raises of the runtime's own small kernels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "syncopate/cuda/arena.h"
#include "syncopate/cuda/driver.h"
#include "syncopate/cuda/mailboxes.h"
#include "syncopate/plan/plan.h"

namespace syncopate::cuda {

/// The tables of kernel_tables(), except that a raise of a tile reaches every word that something waits on: rows of
/// `signals` name words by their distance from their home rank's flags, a mailbox's behind those of the flags.
KernelTables tables_on_gpu(const Plan& plan, int rank, const ArenaLayout& layout,
                           const std::vector<SignalWords>& words);

/// One launch of the kernel syncopate_step (device_code.h): rows of a table of waits and of one of raises.
struct StepRows {
  std::size_t first_wait = 0;
  std::size_t waits = 0;
  std::size_t first_raise = 0;
  std::size_t raises = 0;
  bool empty() const { return waits == 0 && raises == 0; }
};

/// What a stream does for one transfer, beside moving its bytes.
struct TransferSteps {
  std::vector<MemoryOperation> take_mail;   ///< waits on mailboxes, and setting them back
  StepRows wait_kernel;                     ///< waits that have no mailbox
  std::vector<DevicePointer> epoch_copies;  ///< flags that are raised once a launch
  std::vector<MemoryOperation> send_mail;   ///< to mailboxes whose signal is raised once a launch
  StepRows raise_kernel;                    ///< signals that are raised several times a launch
};

struct RankSteps {
  std::vector<std::int64_t> waits;    ///< rows: flag slot, growth per launch, threshold
  std::vector<DevicePointer> raises;  ///< addresses to add 1 to
  StepRows start;
  StepRows completion;
  std::vector<std::vector<TransferSteps>> transfers;  ///< [queue][transfer]
};

/// `arenas` of all ranks as this rank's GPU addresses them.
RankSteps rank_steps(const Plan& plan, int rank, const ArenaLayout& layout, const Mailboxes& mailboxes,
                     const std::vector<SignalWords>& words, std::span<const DevicePointer> arenas);

/// Whether small kernels or copies inside the GPU run in a rank's queues while its kernel does: they may need SMs.
bool queues_need_multiprocessors(const Plan& plan, int rank, const Mailboxes& mailboxes,
                                 const std::vector<SignalWords>& words);

}  // namespace syncopate::cuda
