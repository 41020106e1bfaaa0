#include "syncopate/host/memory.h"

#include <fmt/format.h>

#include "syncopate/host/failure.h"
#include "syncopate/plan/inputs.h"

namespace syncopate::host {
namespace {

constexpr const char* kNotOrdered = "and nothing orders the two";

Rewrite rewrite_of(const Buffer& buffer) {
  if (buffer.role == BufferRole::staging || buffer.fold) return Rewrite::transfers;
  const bool distributed = buffer.is_reduced() && buffer.after.kind == Placement::Kind::replicate;
  return (distributed ? Rewrite::over_tiles : Rewrite::nobody) |
         (buffer.sums_in_place ? Rewrite::adding : Rewrite::nobody);
}

}  // namespace

Memory::Memory(const Plan& plan, const AgentLayout& layout, const History& history, const Describer& describer)
    : plan_(plan), history_(history), describer_(describer), folded_(plan, layout) {
  for (int rank = 0; rank < plan.ranks; ++rank) {
    RankMemory memory;
    for (const Buffer& buffer : plan.buffers) {
      const std::int64_t elements = volume(memory_shape(buffer));
      memory.buffers.push_back(poison(buffer.dtype, elements));
      memory.shadows.emplace_back(elements, rewrite_of(buffer));
    }
    memory.tables = kernel_tables(plan, rank);
    memory.flags.assign(static_cast<std::size_t>(signal_count(plan, rank)), 0);
    ranks_.push_back(std::move(memory));
  }
}

std::span<std::byte> Memory::read(int rank, int buffer, std::span<const Run> runs, EventId event,
                                  const SourceLocation& where) {
  check_not_completed(rank, buffer, runs, event, "reads");
  RankMemory& memory = at(rank);
  const auto index = static_cast<std::size_t>(buffer);
  if (const auto conflict = memory.shadows[index].read(history_, event, runs))
    fail_read(rank, buffer, *conflict, event, where);
  if (plan_.buffer(buffer).fold) {
    const auto is_meant = [&](EventId writer) {
      return folded_.is_meant(buffer, history_.event(event), history_.event(writer));
    };
    if (const auto conflict = memory.shadows[index].find_other(runs, is_meant))
      fail_read(rank, buffer, *conflict, event, where);
  }
  return memory.buffers[index];
}

std::span<std::byte> Memory::write(int rank, int buffer, std::span<const Run> runs, EventId event,
                                   const SourceLocation& where) {
  check_not_completed(rank, buffer, runs, event, "writes");
  RankMemory& memory = at(rank);
  const auto index = static_cast<std::size_t>(buffer);
  if (plan_.buffer(buffer).fold) {
    const auto is_new = [&](EventId before) {
      return before == 0 || before == event || !folded_.comes_again(history_.event(event), history_.event(before));
    };
    if (auto conflict = memory.shadows[index].find_other(runs, is_new)) {
      conflict->kind = ConflictKind::second_write;
      fail_write(rank, buffer, *conflict, event, where);
    }
  }
  if (const auto conflict = memory.shadows[index].write(history_, event, runs))
    fail_write(rank, buffer, *conflict, event, where);
  return memory.buffers[index];
}

void Memory::complete(int rank, std::int64_t launch, int agent) {
  RankMemory& memory = at(rank);
  for (std::size_t buffer = 0; buffer < memory.shadows.size(); ++buffer) {
    const auto conflict = memory.shadows[buffer].complete(history_, agent, launch);
    if (!conflict) continue;
    const char* verb = conflict->kind == ConflictKind::unordered_read ? "reads" : "writes";
    throw Failure(Outcome::race,
                  fmt::format("{}; rank {}'s caller completes launch {}, {}",
                              sentence(conflict->partner, verb, rank, static_cast<int>(buffer), *conflict, {}), rank,
                              launch, kNotOrdered));
  }
  memory.completed = launch;
}

void Memory::check_not_completed(int rank, int buffer, std::span<const Run> runs, EventId event,
                                 const char* verb) const {
  const std::int64_t completed = ranks_[static_cast<std::size_t>(rank)].completed;
  const Event& about = history_.event(event);
  // Its caller takes a launch's outputs when it is complete.
  if (runs.empty() || about.launch > completed || about.kind == EventKind::outputs) return;
  const Conflict conflict{ConflictKind::unordered_read, runs.front(), 0};
  throw Failure(Outcome::race,
                fmt::format("{}; rank {}'s caller has completed launch {} already, {}",
                            sentence(event, verb, rank, buffer, conflict, {}), rank, completed, kNotOrdered));
}

std::span<std::byte> Memory::runtime_bytes(int rank, RuntimeBuffer buffer) {
  RankMemory& memory = at(rank);
  switch (buffer) {
    case RuntimeBuffer::tiles:
      return std::as_writable_bytes(std::span(memory.tables.tiles));
    case RuntimeBuffer::steps:
      return std::as_writable_bytes(std::span(memory.tables.steps));
    case RuntimeBuffer::waits:
      return std::as_writable_bytes(std::span(memory.tables.waits));
    case RuntimeBuffer::flags:
      return std::as_writable_bytes(std::span(memory.flags));
    case RuntimeBuffer::epoch:
      return std::as_writable_bytes(std::span(&memory.epoch, 1));
    case RuntimeBuffer::record:
      return std::as_writable_bytes(std::span(memory.record));
    case RuntimeBuffer::addends:
      return std::as_writable_bytes(std::span(memory.tables.addends));
    case RuntimeBuffer::signals:
      return std::as_writable_bytes(std::span(memory.tables.signals));
    case RuntimeBuffer::additions:
      return std::as_writable_bytes(std::span(memory.tables.additions));
    case RuntimeBuffer::peers:
    case RuntimeBuffer::claims:
      return {};
  }
  return {};
}

void Memory::forget(const Clock& known) {
  for (RankMemory& memory : ranks_)
    for (Shadow& shadow : memory.shadows) shadow.forget(history_, known);
}

std::string Memory::sentence(EventId event, const char* verb, int rank, int buffer, const Conflict& conflict,
                             const SourceLocation& where) const {
  const Buffer& about = plan_.buffer(buffer);
  const Run& run = conflict.run;
  const std::string object =
      conflict.kind == ConflictKind::outside
          ? fmt::format("elements {} to {} of rank {}'s {}, which has {} ({})", run.offset, run.offset + run.count,
                        rank, about.name, volume(memory_shape(about)), to_string(memory_shape(about)))
          : describer_.elements(rank, buffer, run);
  const std::string place = where.to_string();
  return fmt::format("{} {} {}{}{}", describer_.event(history_.event(event)), verb, object,
                     place.empty() ? "" : ", at ", place);
}

void Memory::fail_read(int rank, int buffer, const Conflict& conflict, EventId event,
                       const SourceLocation& where) const {
  const std::string reads = sentence(event, "reads", rank, buffer, conflict, where);
  if (conflict.kind == ConflictKind::outside) throw Failure(Outcome::bad_access, reads);
  if (conflict.kind == ConflictKind::not_filled) {
    const auto filler = describer_.filler(rank, buffer, conflict.run.offset, history_.event(event));
    if (filler)
      throw Failure(Outcome::race, fmt::format("{}; {} writes it in every launch, {}: it had not come yet", reads,
                                               *filler, kNotOrdered));
    throw Failure(Outcome::bad_access, fmt::format("{}, which nothing in the plan writes", reads));
  }
  const std::string writer = describer_.event(history_.event(conflict.partner));
  if (conflict.kind == ConflictKind::other_part)
    throw Failure(Outcome::race,
                  fmt::format("{}; {} has put another part there, which is not what it means to read", reads, writer));
  if (conflict.kind == ConflictKind::overwritten)
    throw Failure(Outcome::race, fmt::format("{}; {} has overwritten it already, {}", reads, writer, kNotOrdered));
  throw Failure(Outcome::race, fmt::format("{}; {} wrote it, {}", reads, writer, kNotOrdered));
}

void Memory::fail_write(int rank, int buffer, const Conflict& conflict, EventId event,
                        const SourceLocation& where) const {
  const std::string writes = sentence(event, "writes", rank, buffer, conflict, where);
  if (conflict.kind == ConflictKind::outside) throw Failure(Outcome::bad_access, writes);
  const std::string partner = describer_.event(history_.event(conflict.partner));
  if (conflict.kind == ConflictKind::second_write)
    throw Failure(Outcome::bad_access, fmt::format("{}, which {} wrote in the same launch", writes, partner));
  const char* what = conflict.kind == ConflictKind::unordered_read ? "read" : "wrote";
  throw Failure(Outcome::race, fmt::format("{}; {} {} it, {}", writes, partner, what, kNotOrdered));
}

}  // namespace syncopate::host
