#include "syncopate/plan/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "syncopate/core/text.h"

namespace syncopate {

namespace {

const RankProgram& program(const Plan& plan, int rank) { return plan.programs[static_cast<std::size_t>(rank)]; }
const Signal& signal(const Plan& plan, int index) { return plan.signals[static_cast<std::size_t>(index)]; }

template <typename Visitor>
void for_each_transfer(const Plan& plan, Visitor&& visit) {
  for (const RankProgram& rank : plan.programs)
    for (const Queue& queue : rank.queues)
      for (const Transfer& transfer : queue.transfers) visit(transfer);
}

std::string chunk_text(const Plan& plan, const View& view) {
  return fmt::format("{}{}", plan.buffer(view.buffer).name, view.region.to_string());
}

std::string line(std::string_view label, const std::string& text) { return fmt::format("  {:<14}{}\n", label, text); }

/// "2.00 MiB" or "1.00 MiB to 2.00 MiB".
std::string size_span(std::int64_t least, std::int64_t most) {
  if (least == most) return format_bytes(most);
  return fmt::format("{} to {}", format_bytes(least), format_bytes(most));
}

std::string chunks_line(const Plan& plan) {
  std::set<std::pair<int, Region>> chunks;
  std::int64_t transfers = 0;
  std::int64_t least = INT64_MAX;
  std::int64_t most = 0;
  std::int64_t moved = 0;
  for_each_transfer(plan, [&](const Transfer& transfer) {
    const std::int64_t bytes =
        transfer.destination.region.volume() * size_in_bytes(plan.buffer(transfer.destination.buffer).dtype);
    chunks.insert({transfer.source.buffer, transfer.source.region});
    least = std::min(least, bytes);
    most = std::max(most, bytes);
    moved += bytes;
    ++transfers;
  });
  if (transfers == 0) return "none";
  return fmt::format("{} of {}, {} by copy engines, {} in all", chunks.size(), size_span(least, most),
                     count_of(transfers, "transfer"), format_bytes(moved));
}

std::string tiles_line(const Plan& plan) {
  std::string axes;
  for (std::size_t a = 0; a < plan.kernel.axes.size(); ++a)
    axes += fmt::format("{}{} {}", a == 0 ? "" : " x ", plan.kernel.extents[a], plan.kernel.axes[a]);
  std::string text =
      fmt::format("{} per rank ({}), on {}", tiles_of(plan, 0).size(), axes, count_of(plan.workers, "worker"));
  if (is_dynamic(plan)) text += fmt::format(", which choose among {}", count_of(plan.lookahead, "slot"));
  if (plan.kernel.streamed_loops.empty()) return text;
  std::size_t most = 0;
  for (const Tile& tile : plan.tiles) most = std::max(most, tile.pieces.size());
  return text + fmt::format("; their loops over {} in up to {}", fmt::join(plan.kernel.streamed_loops, ", "),
                            count_of(most, "piece"));
}

/// "q_start is 0, 64, 128 and 192 on ranks 0 to 3"; of many ranks the first and the last.
std::string arguments_line(const Plan& plan) {
  constexpr std::size_t kMostListed = 16;
  std::vector<std::string> texts;
  for (const auto& own : plan.kernel.rank_arguments.front()) {
    std::vector<std::string> values;
    for (const ScalarArguments& of_rank : plan.kernel.rank_arguments)
      values.push_back(std::visit([](auto value) { return fmt::format("{}", value); }, of_rank.at(own.first)));
    if (values.size() > kMostListed) values = {values[0], values[1], "...", values.back()};
    texts.push_back(fmt::format("{} by rank: {}", own.first, fmt::join(values, ", ")));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

bool is_folded(const Plan& plan) {
  return std::any_of(plan.buffers.begin(), plan.buffers.end(), [](const Buffer& buffer) { return buffer.fold; });
}

std::string order_line(const Plan& plan) {
  if (plan.ranks == 1) return "as in the local kernel";
  std::int64_t least = INT64_MAX;
  std::int64_t parts = 0;
  for (const RankProgram& rank : plan.programs) {
    const auto first_wait = std::find_if(rank.slots.begin(), rank.slots.end(), waits_for_anything);
    least = std::min<std::int64_t>(least, first_wait - rank.slots.begin());
    parts += static_cast<std::int64_t>(rank.slots.size() - tiles_of(plan, 0).size());
  }
  std::string text = fmt::format(
      "{}; every rank starts with at least {} that wait{} for nothing",
      reduced_buffer(plan) >= 0 ? "chunks that leave first, in that order, then own ones in order of arrival"
      : is_folded(plan)         ? "in order of arrival, part by part of what is kept in bounded memory"
      : slots_raise(plan)       ? "in order of arrival, and of departure where that is the same"
                                : "local chunks first, then in order of arrival",
      count_of(least, "tile"), least == 1 ? "s" : "");
  if (parts > 0) text += fmt::format("; {} more for tiles that are stored in parts", parts);
  return text;
}

std::string waits_line(const Plan& plan) {
  std::int64_t tile_waits = 0;
  std::int64_t step_waits = 0;
  std::int64_t sum_waits = 0;
  std::int64_t addition_waits = 0;
  std::int64_t other_waits = 0;
  std::int64_t slots = 0;
  for (const RankProgram& rank : plan.programs) {
    for (const Slot& slot : rank.slots) {
      tile_waits += static_cast<std::int64_t>(slot.waits.size());
      for (const LoopStep& step : slot.steps) step_waits += static_cast<std::int64_t>(step.waits.size());
      sum_waits += static_cast<std::int64_t>(slot.sum_waits.size());
    }
    slots += static_cast<std::int64_t>(rank.slots.size());
    for (const Addition& addition : rank.additions) addition_waits += static_cast<std::int64_t>(addition.waits.size());
    other_waits += static_cast<std::int64_t>(rank.completion_waits.size());
  }
  for_each_transfer(plan, [&](const Transfer& t) { other_waits += static_cast<std::int64_t>(t.waits.size()); });
  std::string inside = plan.kernel.streamed_loops.empty() ? "" : fmt::format("{} in streamed loops, ", step_waits);
  if (reduced_buffer(plan) >= 0) inside += fmt::format("{} before they add, ", sum_waits);
  if (summands_buffer(plan) >= 0) inside += fmt::format("{} before sums, ", addition_waits);
  return fmt::format("{} before {}, {}{} before transfers and completion; {}", tile_waits, count_of(slots, "tile"),
                     inside, other_waits, count_of(plan.signals.size(), "signal"));
}

std::string memory_line(const Plan& plan) {
  const ExtraMemory extra = extra_memory(plan);
  return fmt::format("{} per rank: {} staging, {} signals, {} tables", format_bytes(extra.total()),
                     format_bytes(extra.staging), format_bytes(extra.signals), format_bytes(extra.tables));
}

std::string waits_text(const Plan& plan, const std::vector<Wait>& waits) {
  std::string text;
  for (const Wait& wait : waits) {
    const Signal& s = signal(plan, wait.signal);
    text += text.empty() ? "" : ", ";
    text += fmt::format("\"{}\"", s.name);
    if (wait.threshold == 0) text += " of the previous launch";
    if (s.per_launch > 1) text += fmt::format(" ({} of {})", wait.threshold, s.per_launch);
  }
  return text;
}

std::string signals_text(const Plan& plan, const std::vector<int>& signals) {
  std::string text;
  for (const int index : signals) text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", signal(plan, index).name);
  return text;
}

/// "(0 + 1 + (3 + 2))": ranks, in the order of addition.
std::string order_text(const SumOrder& order) {
  if (order.terms.empty()) return fmt::format("{}", order.rank);
  std::vector<std::string> terms;
  for (const SumOrder& term : order.terms) terms.push_back(order_text(term));
  return fmt::format("({})", fmt::join(terms, " + "));
}

std::string queues_text(const Plan& plan, int rank) {
  std::string text;
  for (const Queue& queue : program(plan, rank).queues) {
    text += fmt::format("  queue \"{}\" ({})\n", queue.name, name_of(queue.engine));
    for (const Transfer& transfer : queue.transfers) {
      const bool push = transfer.source.rank == rank;
      text += fmt::format("    {} {} {} rank {}", push ? "push" : "pull", chunk_text(plan, transfer.source),
                          push ? "to" : "from", push ? transfer.destination.rank : transfer.source.rank);
      if (transfer.destination.buffer != transfer.source.buffer)
        text += fmt::format(", into {}", chunk_text(plan, transfer.destination));
      if (!transfer.waits.empty()) text += ", after " + waits_text(plan, transfer.waits);
      text += '\n';
    }
  }
  return text;
}

/// Per slot, the class of the last chunk that it needed a wait for, or that its worker had waited for before.
std::vector<int> slot_phases(const Plan& plan, int rank, std::vector<std::string>& names) {
  std::vector<int> phases;
  std::map<int, int> phase_of_signal;
  const std::size_t stride = slot_stride(plan);
  std::vector<int> worker_phase(stride, 0);
  const std::vector<Slot>& slots = program(plan, rank).slots;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    int& phase = worker_phase[s % stride];
    for_each_waits_of(slots[s], [&](const std::vector<Wait>& waits) {
      for (const Wait& wait : waits) {
        const auto [found, is_new] = phase_of_signal.try_emplace(wait.signal, static_cast<int>(names.size()) + 1);
        if (is_new) names.push_back(signal(plan, wait.signal).name);
        phase = found->second;
      }
    });
    phases.push_back(phase);
  }
  return phases;
}

/// "n 0:4, 12:16 after ..., 4:12": iterations of streamed loops in the order of the slot. "" if it is the kernel's own
/// and nothing is waited for.
std::string steps_text(const Plan& plan, const Slot& slot) {
  const std::vector<LoopPiece>& pieces = plan.tiles[static_cast<std::size_t>(slot.tile)].pieces;
  std::string text;
  bool plain = true;
  int loop = -1;
  for (std::size_t s = 0; s < slot.steps.size(); ++s) {
    const LoopStep& step = slot.steps[s];
    const LoopPiece& piece = pieces[static_cast<std::size_t>(step.piece)];
    plain = plain && step.waits.empty() && step.piece == static_cast<int>(s);
    if (piece.loop != loop)
      text += fmt::format("{}{} ", text.empty() ? "" : "; then ",
                          plan.kernel.streamed_loops[static_cast<std::size_t>(piece.loop)]);
    else
      text += ", ";
    loop = piece.loop;
    text += fmt::format("{}:{}", piece.begin, piece.end);
    if (!step.waits.empty()) text += " after " + waits_text(plan, step.waits);
  }
  return plain ? "" : "walks " + text;
}

/// What there is to say about a slot beyond its tile, or "".
std::string slot_text(const Plan& plan, const Slot& slot) {
  std::vector<std::string> parts;
  if (slot.kept.dimensions() > 0) parts.push_back("keeps " + chunk_text(plan, {0, reduced_buffer(plan), slot.kept}));
  if (!slot.waits.empty()) parts.push_back("after " + waits_text(plan, slot.waits));
  if (std::string walk = steps_text(plan, slot); !walk.empty()) parts.push_back(std::move(walk));
  if (!slot.addends.empty() && sums_in_place(plan))
    parts.emplace_back("adds to the summand in place");
  else if (!slot.addends.empty())
    parts.push_back(fmt::format("adds {} summand{} before its own and {} behind", slot.own_place,
                                slot.own_place == 1 ? "" : "s",
                                slot.addends.size() - static_cast<std::size_t>(slot.own_place)));
  if (!slot.sum_waits.empty()) {
    if (slot.addends.empty()) parts.emplace_back("stores");
    parts.back() += ", after " + waits_text(plan, slot.sum_waits);
  }
  if (!slot.signals.empty()) parts.push_back("signals " + signals_text(plan, slot.signals));
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// What workers add up when they have taken their tiles, a line for each addition; or "".
std::string additions_text(const Plan& plan, const RankProgram& program) {
  if (program.additions.empty()) return "";
  std::string text = "  sums, after the tiles\n";
  const int result = added_up_buffer(plan);
  for (std::size_t a = 0; a < program.additions.size(); ++a) {
    const Addition& addition = program.additions[a];
    text += fmt::format("    {:>5} {}, worker {}", a, chunk_text(plan, {0, result, addition.region}),
                        a % static_cast<std::size_t>(plan.workers));
    text += addition.waits.empty() ? "\n" : fmt::format(": after {}\n", waits_text(plan, addition.waits));
  }
  return text;
}

char phase_symbol(int phase) {
  constexpr std::string_view kSymbols = ".123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return phase < static_cast<int>(kSymbols.size()) ? kSymbols[static_cast<std::size_t>(phase)] : '#';
}

}  // namespace

std::string summary(const Plan& plan) {
  std::string text = fmt::format("{} on {} rank{}: {} of {}\n", plan.operator_name, plan.ranks,
                                 plan.ranks == 1 ? "" : "s", plan.kernel.function, plan.kernel.file);
  std::size_t begin = 0;
  while (begin < plan.communication.size()) {
    const std::size_t end = std::min(plan.communication.find('\n', begin), plan.communication.size());
    text += line("communicates", plan.communication.substr(begin, end - begin));
    begin = end + 1;
  }
  if (plan.communication.empty()) text += line("communicates", "nothing");
  text += line("chunks", chunks_line(plan));
  text += line("tiles", tiles_line(plan));
  if (!plan.kernel.rank_arguments.empty()) text += line("arguments", arguments_line(plan));
  text += line("tile order", order_line(plan));
  text += line("waits", waits_line(plan));
  text += line("extra memory", memory_line(plan));
  return text;
}

std::string tile_picture(const Plan& plan, int rank) {
  constexpr std::int64_t kMostRows = 32;
  constexpr std::int64_t kMostColumns = 24;
  std::vector<std::string> names;
  const std::vector<int> phases = slot_phases(plan, rank, names);
  const std::vector<Slot>& slots = program(plan, rank).slots;
  std::string text;
  if (plan.kernel.axes.size() > 2) {
    for (const int phase : phases) text += phase_symbol(phase);
    text += '\n';
  } else {
    const std::int64_t rows = plan.kernel.extents.empty() ? 1 : plan.kernel.extents[0];
    const std::int64_t columns = plan.kernel.extents.size() < 2 ? 1 : plan.kernel.extents[1];
    const std::int64_t row_step = (rows + kMostRows - 1) / kMostRows;
    const std::int64_t column_step = (columns + kMostColumns - 1) / kMostColumns;
    std::map<std::pair<std::int64_t, std::int64_t>, std::pair<std::size_t, int>> cells;  // place -> slot, phase
    for (std::size_t s = 0; s < slots.size(); ++s) {
      const std::vector<std::int64_t>& index = plan.tiles[static_cast<std::size_t>(slots[s].tile)].index;
      cells[{index.empty() ? 0 : index[0], index.size() < 2 ? 0 : index[1]}] = {s, phases[s]};
    }
    const auto width = static_cast<int>(fmt::formatted_size("{}", slots.size()));
    if (row_step > 1 || column_step > 1)
      text += fmt::format("    (every {} row, every {} column)\n", row_step, column_step);
    for (std::int64_t r = 0; r < rows; r += row_step) {
      text += "    ";
      for (std::int64_t c = 0; c < columns; c += column_step) {
        const auto cell = cells.find({r, c});
        if (cell == cells.end())
          text += std::string(static_cast<std::size_t>(width) + 3, ' ');
        else
          text += fmt::format(" {:>{}}:{}", cell->second.first, width, phase_symbol(cell->second.second));
      }
      text += '\n';
    }
  }
  text += "    . waits for nothing";
  for (std::size_t n = 0; n < names.size(); ++n)
    text += fmt::format("{}{} {}", n % 3 == 2 ? "\n    " : "; ", phase_symbol(static_cast<int>(n) + 1), names[n]);
  return text + '\n';
}

std::string show(const Plan& plan) {
  std::string text = summary(plan);
  text += "\nbuffers\n";
  std::size_t width = 0;
  for (const Buffer& buffer : plan.buffers) width = std::max(width, buffer.name.size());
  for (const Buffer& buffer : plan.buffers)
    text +=
        fmt::format("  {:<{}}   {} {}{}, {}: {}\n", buffer.name, width, to_string(buffer.shape), name_of(buffer.dtype),
                    buffer.fold ? fmt::format(" ({} in memory)", to_string(memory_shape(buffer))) : "",
                    buffer.symmetric ? "symmetric" : "local", buffer.purpose);
  if (!plan.sums.empty()) text += "\nsums, rounded where a bracket closes\n";
  for (const Sum& sum : plan.sums)
    text += fmt::format("  {} at rank {}: {}\n", chunk_text(plan, {sum.rank, sum.buffer, sum.region}), sum.rank,
                        order_text(sum.order));
  for (int rank = 0; rank < plan.ranks; ++rank) {
    text += fmt::format("\nrank {}\n", rank);
    const RankProgram& p = program(plan, rank);
    if (!p.start_signals.empty()) text += "  at the start signals " + signals_text(plan, p.start_signals) + '\n';
    text += queues_text(plan, rank);
    text += "  tile order (number: position in the order; mark: the chunk it waits for last)\n";
    text += tile_picture(plan, rank);
    text += "  waits, sums and signals of tiles\n";
    bool any = false;
    for (std::size_t s = 0; s < p.slots.size(); ++s) {
      const std::string about = slot_text(plan, p.slots[s]);
      if (about.empty()) continue;
      any = true;
      const std::string worker =
          is_dynamic(plan) ? "" : fmt::format(", worker {}", s % static_cast<std::size_t>(plan.workers));
      text += fmt::format("    {:>5} tile ({}){}: {}\n", s,
                          fmt::join(plan.tiles[static_cast<std::size_t>(p.slots[s].tile)].index, ", "), worker, about);
    }
    if (!any) text += "    none\n";
    text += additions_text(plan, p);
    if (!p.completion_waits.empty()) text += "  completes after " + waits_text(plan, p.completion_waits) + '\n';
    if (!p.completion_signals.empty()) text += "  then signals " + signals_text(plan, p.completion_signals) + '\n';
  }
  return text;
}

}  // namespace syncopate
