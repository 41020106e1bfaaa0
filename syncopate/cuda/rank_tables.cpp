#include "syncopate/cuda/rank_tables.h"

#include <algorithm>

namespace syncopate::cuda {
namespace {

constexpr std::size_t kWord = sizeof(std::int64_t);
constexpr std::size_t kWaitColumns = 3;
/// In a row of KernelTables::tiles, behind the index values: where the numbers of rows of signals stand, with sums and
/// without.
constexpr std::size_t kSignalsColumn = 7;
constexpr std::size_t kSignalsColumnAlone = 2;
constexpr std::size_t kSignalsColumns = 4;

const Signal& signal_of(const Plan& plan, int index) { return plan.signals[static_cast<std::size_t>(index)]; }

const std::vector<Transfer>& transfers_of(const Plan& plan, int rank, std::size_t queue) {
  return plan.programs[static_cast<std::size_t>(rank)].queues[queue].transfers;
}

/// Makes the steps of one rank.
class StepMaker {
 public:
  StepMaker(const Plan& plan, int rank, const ArenaLayout& layout, const Mailboxes& mailboxes,
            const std::vector<SignalWords>& words, std::span<const DevicePointer> arenas)
      : plan_(plan), rank_(rank), layout_(layout), mailboxes_(mailboxes), words_(words), arenas_(arenas) {}

  RankSteps run() {
    const RankProgram& program = plan_.programs[static_cast<std::size_t>(rank_)];
    steps_.start = rows({}, program.start_signals);
    for (std::size_t queue = 0; queue < program.queues.size(); ++queue) {
      steps_.transfers.emplace_back();
      for (std::size_t i = 0; i < program.queues[queue].transfers.size(); ++i)
        steps_.transfers.back().push_back(transfer(static_cast<int>(queue), static_cast<int>(i)));
    }
    steps_.completion = rows(program.completion_waits, program.completion_signals);
    return std::move(steps_);
  }

 private:
  StepRows rows(const std::vector<Wait>& waits, const std::vector<int>& signals) {
    StepRows rows{steps_.waits.size() / kWaitColumns, waits.size(), steps_.raises.size(), 0};
    for (const Wait& wait : waits) {
      const Signal& signal = signal_of(plan_, wait.signal);
      steps_.waits.insert(steps_.waits.end(), {signal.slot, signal.per_launch, wait.threshold});
    }
    for (const int index : signals) {
      const SignalWords& words = words_[static_cast<std::size_t>(index)];
      if (words.flag) steps_.raises.push_back(flag(index));
      for (const int number : words.mailboxes) steps_.raises.push_back(mailbox_of(index, number));
    }
    rows.raises = steps_.raises.size() - rows.first_raise;
    return rows;
  }

  DevicePointer home(int index) const { return arenas_[static_cast<std::size_t>(signal_of(plan_, index).home)]; }
  DevicePointer flag(int index) const {
    return home(index) + layout_.flags + static_cast<std::size_t>(signal_of(plan_, index).slot) * kWord;
  }
  DevicePointer mailbox_of(int index, int number) const {
    return home(index) + layout_.mailboxes + static_cast<std::size_t>(number) * kWord;
  }

  TransferSteps transfer(int queue, int position) {
    const Transfer& about =
        transfers_of(plan_, rank_, static_cast<std::size_t>(queue))[static_cast<std::size_t>(position)];
    TransferSteps steps;
    std::vector<Wait> by_kernel;
    for (auto wait = about.waits.begin(); wait != about.waits.end(); ++wait) {
      const int number = mailboxes_.find(rank_, queue, wait->signal);
      if (number < 0) {
        by_kernel.push_back(*wait);
        continue;
      }
      const Mailbox& mailbox = mailboxes_.of_rank[static_cast<std::size_t>(rank_)][static_cast<std::size_t>(number)];
      const bool again =
          std::any_of(wait + 1, about.waits.end(), [&](const Wait& later) { return later.signal == wait->signal; });
      const std::int64_t value = mailbox.previous_launch ? signal_of(plan_, wait->signal).per_launch : wait->threshold;
      const DevicePointer address = mailbox_of(wait->signal, number);
      steps.take_mail.push_back(
          {MemoryOperation::kWait, address, static_cast<std::uint64_t>(value), kWaitGreaterOrEqual});
      if (mailbox.last_transfer == position && !again)
        steps.take_mail.push_back({MemoryOperation::kWrite, address, 0, kWriteAfterAllBefore});
    }
    steps.wait_kernel = rows(by_kernel, {});
    std::vector<int> counted;
    for (const int index : about.signals) {
      if (signal_of(plan_, index).per_launch > 1) {
        counted.push_back(index);
        continue;
      }
      const SignalWords& words = words_[static_cast<std::size_t>(index)];
      if (words.flag) steps.epoch_copies.push_back(flag(index));
      for (const int number : words.mailboxes)
        steps.send_mail.push_back({MemoryOperation::kWrite, mailbox_of(index, number), 1, kWriteAfterAllBefore});
    }
    steps.raise_kernel = rows({}, counted);
    return steps;
  }

  const Plan& plan_;
  int rank_;
  const ArenaLayout& layout_;
  const Mailboxes& mailboxes_;
  const std::vector<SignalWords>& words_;
  std::span<const DevicePointer> arenas_;
  RankSteps steps_;
};

}  // namespace

KernelTables tables_on_gpu(const Plan& plan, int rank, const ArenaLayout& layout,
                           const std::vector<SignalWords>& words) {
  KernelTables tables = kernel_tables(plan, rank);
  if (!slots_raise(plan)) return tables;
  tables.signals.clear();
  const auto to_mailboxes = static_cast<std::int64_t>((layout.mailboxes - layout.flags) / kWord);
  const std::vector<Slot>& slots = plan.programs[static_cast<std::size_t>(rank)].slots;
  std::vector<std::int64_t> moved;  // where each row of signals begins now, and the end
  for (const Slot& slot : slots) {
    for (const int index : slot.signals) {
      moved.push_back(static_cast<std::int64_t>(tables.signals.size() / 2));
      const Signal& signal = signal_of(plan, index);
      const SignalWords& reached = words[static_cast<std::size_t>(index)];
      if (reached.flag) tables.signals.insert(tables.signals.end(), {signal.home, signal.slot});
      for (const int number : reached.mailboxes)
        tables.signals.insert(tables.signals.end(), {signal.home, to_mailboxes + number});
    }
  }
  moved.push_back(static_cast<std::int64_t>(tables.signals.size() / 2));
  const std::size_t columns = plan.kernel.axes.size() + static_cast<std::size_t>(tile_columns(plan));
  check_internal(tables.tiles.size() == slots.size() * columns,
                 "the tile table has other columns than its reader knows");
  for (std::size_t row = 0; row < slots.size(); ++row) {
    const std::size_t first =
        row * columns + plan.kernel.axes.size() + (reduced_buffer(plan) < 0 ? kSignalsColumnAlone : kSignalsColumn);
    for (std::size_t at = first; at < first + kSignalsColumns; ++at)
      tables.tiles[at] = moved[static_cast<std::size_t>(tables.tiles[at])];
  }
  return tables;
}

RankSteps rank_steps(const Plan& plan, int rank, const ArenaLayout& layout, const Mailboxes& mailboxes,
                     const std::vector<SignalWords>& words, std::span<const DevicePointer> arenas) {
  return StepMaker(plan, rank, layout, mailboxes, words, arenas).run();
}

bool queues_need_multiprocessors(const Plan& plan, int rank, const Mailboxes& mailboxes,
                                 const std::vector<SignalWords>& words) {
  const auto& queues = plan.programs[static_cast<std::size_t>(rank)].queues;
  for (std::size_t queue = 0; queue < queues.size(); ++queue) {
    for (const Transfer& transfer : queues[queue].transfers) {
      if (transfer.source.rank == transfer.destination.rank) return true;
      for (const Wait& wait : transfer.waits)
        if (mailboxes.find(rank, static_cast<int>(queue), wait.signal) < 0) return true;
      for (const int index : transfer.signals) {
        const Signal& signal = signal_of(plan, index);
        if (signal.per_launch > 1 || (signal.home == rank && words[static_cast<std::size_t>(index)].flag)) return true;
      }
    }
  }
  return false;
}

}  // namespace syncopate::cuda
