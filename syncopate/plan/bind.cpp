#include "syncopate/plan/bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "syncopate/core/text.h"
#include "syncopate/kernel/footprint.h"
#include "syncopate/plan/depend.h"
#include "syncopate/plan/one_shot.h"
#include "syncopate/plan/pieces.h"
#include "syncopate/plan/rank_tiles.h"
#include "syncopate/plan/sum_place.h"
#include "syncopate/plan/unread.h"
#include "syncopate/schedule/meaning.h"
#include "syncopate/schedule/routes.h"
#include "syncopate/schedule/schedule_json.h"
#include "syncopate/schedule/templates.h"

namespace syncopate {

namespace {

std::vector<std::string> parameter_names(const Function& function) {
  std::vector<std::string> names;
  for (const Parameter& parameter : function.parameters) names.push_back(parameter.name);
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const TensorStatement* tensor_of_parameter(const OperatorStatement& statement, const std::string& parameter) {
  const auto found = std::find_if(statement.tensors.begin(), statement.tensors.end(),
                                  [&](const TensorStatement& t) { return t.parameter == parameter; });
  return found == statement.tensors.end() ? nullptr : &*found;
}

bool has_argument(const OperatorStatement& statement, const std::string& name) {
  return statement.arguments.contains(name) ||
         (!statement.rank_arguments.empty() && statement.rank_arguments.front().contains(name));
}

/// Every parameter has exactly one source of its value, and every value a parameter.
void check_parameters(const OperatorStatement& statement, const TileKernel& kernel) {
  const std::vector<std::string> names = parameter_names(kernel.function());
  for (const auto& [name, where] : statement.argument_where) {
    if (!contains(names, name))
      throw UserError(where, fmt::format("kernel '{}' has no parameter '{}'", statement.kernel_function, name),
                      suggest(name, names));
    if (tensor_of_parameter(statement, name) != nullptr)
      throw UserError(where, fmt::format("parameter '{}' has a value here and a tensor", name), "keep one of them");
  }
  for (const TensorStatement& tensor : statement.tensors) {
    if (!contains(names, tensor.parameter))
      throw UserError(tensor.parameter_where,
                      fmt::format("kernel '{}' has no parameter '{}'", statement.kernel_function, tensor.parameter),
                      suggest(tensor.parameter, names));
    if (tensor_of_parameter(statement, tensor.parameter) != &tensor)
      throw UserError(tensor.parameter_where, fmt::format("parameter '{}' has two tensors", tensor.parameter),
                      "keep one of them");
  }
  for (const Parameter& parameter : kernel.function().parameters) {
    if (parameter.default_value || has_argument(statement, parameter.name) ||
        tensor_of_parameter(statement, parameter.name) != nullptr)
      continue;
    throw UserError(
        statement.kernel_where,
        fmt::format("parameter '{}' of kernel '{}' has no value", parameter.name, statement.kernel_function),
        fmt::format("add it to args, or write a tensor with parameter = \"{}\"", parameter.name));
  }
}

std::string_view name_of(CollectiveType type) {
  switch (type) {
    case CollectiveType::all_gather:
      return "all-gather";
    case CollectiveType::reduce_scatter:
      return "reduce-scatter";
    case CollectiveType::all_reduce:
      return "all-reduce";
    case CollectiveType::all_to_all:
      return "all-to-all";
    case CollectiveType::broadcast:
      return "broadcast";
  }
  throw InternalError("collective without a name");
}

[[noreturn]] void not_fused(const TensorStatement& tensor, const SourceLocation& where, const std::string& change,
                            CollectiveType type) {
  throw UserError(where,
                  fmt::format("tensor '{}': {} is a collective of type {}, which is not fused yet", tensor.name, change,
                              name_of(type)),
                  "inputs can be gathered (before = \"shard(d)\", inside = \"replicate\"), exchanged (\"shard(i)\", "
                  "\"shard(j)\") and summed (\"partial(sum)\", \"replicate\" or \"shard(d)\"); outputs reduced (inside "
                  "= \"partial(sum)\", after = \"shard(0)\" or \"replicate\"), "
                  "exchanged and gathered");
}

/// What happens to a tensor between the two placements, the way into the kernel or out of it, if anything.
std::optional<CollectiveType> change_of(const TensorStatement& tensor, const Placement& from, const Placement& to) {
  const std::string change = fmt::format("{} -> {}", from.to_string(), to.to_string());
  if (from == to) {
    if (from == Placement::replicate()) return std::nullopt;
    throw UserError(tensor.placement_where, fmt::format("tensor '{}' is {}: nothing changes", tensor.name, change),
                    "state another placement 'before' or 'after', or leave its placements out for a tensor that each "
                    "rank has for itself, with its local shape");
  }
  const std::optional<CollectiveType> type = collective_between(from, to, tensor.placement_where);
  if (!type)
    throw UserError(tensor.placement_where, fmt::format("tensor '{}': {} needs no communication", tensor.name, change),
                    "give the kernel the local shape and leave the placements out");
  return type;
}

bool is_reduction(std::optional<CollectiveType> type) {
  return type == CollectiveType::reduce_scatter || type == CollectiveType::all_reduce;
}

void check_can_be_summed(const TensorStatement& tensor) {
  if (!is_floating(tensor.dtype) || tensor.dtype == Dtype::fp64)
    throw UserError(
        tensor.placement_where,
        fmt::format("tensor '{}' is {}, and sums are taken in fp32", tensor.name, syncopate::name_of(tensor.dtype)),
        "a floating-point type of at most 32 bits");
}

/// The collective that brings an input to the kernel, if any; an error for those that this version cannot fuse.
std::optional<CollectiveType> input_collective(const TensorStatement& tensor) {
  if (tensor.states_after)
    throw UserError(tensor.after_where,
                    fmt::format("tensor '{}' has a placement after the kernel, which only reads it", tensor.name),
                    "an input has 'before' and 'inside'");
  const std::optional<CollectiveType> type = change_of(tensor, tensor.before, tensor.inside);
  if (is_reduction(type)) {
    check_can_be_summed(tensor);
    if (tensor.shape.size() >= kMaxDimensions)
      throw UserError(tensor.shape_where,
                      fmt::format("tensor '{}' is summed, and has {} dimensions", tensor.name, tensor.shape.size()),
                      fmt::format("at most {}: its summands take one more", kMaxDimensions - 1));
    return type;
  }
  if (type && *type != CollectiveType::all_gather && *type != CollectiveType::all_to_all)
    not_fused(tensor, tensor.placement_where,
              fmt::format("{} -> {}", tensor.before.to_string(), tensor.inside.to_string()), *type);
  return type;
}

/// The collective that an output goes through after the kernel, if any.
std::optional<CollectiveType> output_collective(const TensorStatement& tensor) {
  if (tensor.states_before)
    throw UserError(tensor.before_where,
                    fmt::format("tensor '{}' has a placement before the kernel, which writes it", tensor.name),
                    "an output has 'inside' and 'after'");
  const std::optional<CollectiveType> type = change_of(tensor, tensor.inside, tensor.after);
  if (!type) return type;
  const std::string change = fmt::format("{} -> {}", tensor.inside.to_string(), tensor.after.to_string());
  if (*type == CollectiveType::all_to_all || *type == CollectiveType::all_gather) return type;
  if (*type != CollectiveType::reduce_scatter && *type != CollectiveType::all_reduce)
    not_fused(tensor, tensor.after_where, change, *type);
  if (*type == CollectiveType::reduce_scatter && tensor.after != Placement::shard(0))
    throw UserError(tensor.after_where, fmt::format("tensor '{}': {} is not fused yet", tensor.name, change),
                    "after = \"shard(0)\": only whole rows are contiguous in memory");
  check_can_be_summed(tensor);
  return type;
}

/// How a tensor takes part in the operator.
struct Role {
  std::optional<CollectiveType> collective;
  bool written = false;
  /// An input that tiles add up as they load it; then the collective is that of its stack of summands.
  bool summed = false;
  /// Of a gathered input: memory holds only a few pages of it at a time.
  std::optional<Pages> pages;
  std::optional<Fold> fold;

  bool gathered() const { return collective == CollectiveType::all_gather && !written; }
  bool reduced() const { return is_reduction(collective); }
  /// Whether the caller's side of the tensor is a buffer of its own.
  bool exchanged() const {
    return collective == CollectiveType::all_to_all || (collective == CollectiveType::all_gather && (written || fold));
  }
};

std::string_view purpose_of(const Role& role) {
  if (role.summed)
    return role.gathered()
               ? "summands of an input: the caller puts its own in place, peers' arrive by transfers; tiles "
                 "add them as they load"
               : "summands of an input: arrive from peers; tiles add them as they load";
  if (role.fold) return "gathered input, of which memory holds a part at a time: arrives from all ranks";
  if (role.gathered()) return "gathered input: the caller puts its shard in place, peers' shards arrive by transfers";
  if (role.collective == CollectiveType::reduce_scatter)
    return "output: the rank's own rows end up as its result, the others are summands for peers";
  if (role.reduced())
    return "output: sums of the rank's own rows go to all peers, and take there the place of summands for it";
  if (role.exchanged())
    return role.written ? "output as the kernel writes it: sent on to peers"
                        : "input as the kernel reads it: arrives from peers";
  return role.written ? "output of the rank" : "input of the rank";
}

/// The shape of a tensor as the kernel has it: a part of it, if that is what its placement says. Throws UserError if
/// that is not the same on every rank, or if nothing is to be done for the tensor.
Shape inside_shape(const TensorStatement& tensor, int ranks) {
  if (tensor.inside.kind != Placement::Kind::shard) return tensor.shape;
  if (tensor.before == tensor.inside)
    change_of(tensor, tensor.inside, tensor.after);
  else
    change_of(tensor, tensor.before, tensor.inside);
  Shape shape = tensor.shape;
  std::int64_t& extent = shape[static_cast<std::size_t>(tensor.inside.dimension)];
  if (extent % ranks != 0)
    throw UserError(tensor.shape_where,
                    fmt::format("dimension {} of tensor '{}' is {}, which {} ranks cannot share evenly",
                                tensor.inside.dimension, tensor.name, extent, ranks),
                    fmt::format("the kernel has {} of it, of one shape on all ranks: make it a multiple of {}",
                                tensor.inside.to_string(), ranks));
  extent /= ranks;
  return shape;
}

/// One for each rank.
std::vector<std::vector<Region>> empty_boxes(const Shape& shape, int ranks) {
  Region empty = Region::whole(shape);
  for (int d = 0; d < empty.dimensions(); ++d) empty[d] = {0, 0};
  return std::vector<std::vector<Region>>(static_cast<std::size_t>(ranks), {empty});
}

/// The tensor of all summands of an input that is summed.
TensorStatement stack_of(TensorStatement tensor, int ranks) {
  tensor.shape.insert(tensor.shape.begin(), ranks);
  tensor.before = Placement::shard(0);
  if (tensor.inside.kind == Placement::Kind::shard) ++tensor.inside.dimension;
  tensor.after = tensor.inside;
  return tensor;
}

Buffer make_buffer(const TensorStatement& tensor, const Role& role, int ranks) {
  Buffer buffer;
  buffer.name = tensor.name + (role.exchanged() ? "_inside" : "");
  buffer.parameter = tensor.parameter;
  buffer.shape = inside_shape(tensor, ranks);
  buffer.dtype = tensor.dtype;
  buffer.symmetric = role.gathered();
  buffer.shared = (role.gathered() && !role.fold) || (tensor.states_before && tensor.before == Placement::replicate());
  buffer.before = tensor.before;
  buffer.inside = tensor.inside;
  buffer.after = tensor.after;
  buffer.purpose = purpose_of(role);
  buffer.values = tensor.values;
  buffer.stacked = role.summed;
  buffer.fold = role.fold;
  buffer.held = empty_boxes(buffer.shape, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (role.exchanged()) buffer.window.push_back(held_region(tensor.inside, tensor.shape, ranks, rank));
    if (!role.written && !role.exchanged()) buffer.held[r] = held_regions(tensor.before, tensor.shape, ranks, rank);
  }
  return buffer;
}

/// The buffer on the caller's side of an exchanged tensor whose other buffer is number `kernel`.
Buffer make_caller_buffer(const TensorStatement& tensor, const Role& role, int ranks, int kernel) {
  const Placement& outside = role.written ? tensor.after : tensor.before;
  Buffer buffer;
  buffer.name = tensor.name;
  buffer.shape.assign(tensor.shape.size(), 1);  // a buffer needs an address, even where a rank has nothing
  buffer.dtype = tensor.dtype;
  buffer.before = tensor.before;
  buffer.inside = tensor.inside;
  buffer.after = tensor.after;
  buffer.purpose = role.written  ? "output as the caller takes it: arrives from peers"
                   : role.summed ? "the rank's summand of an input, as the caller supplies it"
                                 : "input as the caller supplies it";
  buffer.stacked = role.summed;
  buffer.role = role.written ? BufferRole::result : BufferRole::source;
  buffer.partner = kernel;
  buffer.values = tensor.values;
  for (int rank = 0; rank < ranks; ++rank) {
    buffer.window.push_back(held_region(outside, tensor.shape, ranks, rank));
    for (std::size_t d = 0; d < buffer.shape.size(); ++d)
      buffer.shape[d] = std::max(buffer.shape[d], buffer.window.back()[static_cast<int>(d)].size());
  }
  buffer.held = empty_boxes(buffer.shape, ranks);
  for (int rank = 0; rank < ranks && !role.written; ++rank)
    if (const Region& window = buffer.window[static_cast<std::size_t>(rank)]; !window.empty())
      buffer.held[static_cast<std::size_t>(rank)] = {in_buffer(buffer, rank, window)};
  return buffer;
}

std::string describe(const TensorStatement& tensor, const Role& role, const CommunicationStatement& communication) {
  const Placement& from = role.written ? tensor.inside : tensor.before;
  const Placement& to = role.written ? tensor.after : tensor.inside;
  std::string text =
      fmt::format("{}: {} -> {}, {}{}", tensor.name, from.to_string(), to.to_string(), name_of(*role.collective),
                  role.summed ? " of summands, which tiles add as they load" : "");
  if (!communication.schedule_file.empty())
    text += fmt::format(" by the schedule {}", std::filesystem::path(communication.schedule_file).filename().string());
  else
    text += ", " + syncopate::describe(communication.options);
  return text;
}

/// A schedule from a file must be about this tensor on these ranks.
void check_file_schedule(const Schedule& schedule, const LogicalTensor& tensor, int ranks, const SourceFile& file) {
  const SourceLocation where{file.name(), 1, 1};
  if (schedule.ranks() != ranks)
    throw UserError(where, fmt::format("a schedule for {}", count_of(schedule.ranks(), "rank")),
                    fmt::format("the operator has {}", ranks));
  if (schedule.tensors.size() != 1 || schedule.tensors[0].name != tensor.name)
    throw UserError(where, fmt::format("the schedule is not about the tensor '{}'", tensor.name),
                    "list that tensor, and no other, under 'tensors'");
  const LogicalTensor& other = schedule.tensors[0];
  if (other.shape != tensor.shape || other.dtype != tensor.dtype || !(other.before == tensor.before) ||
      !(other.after == tensor.after))
    throw UserError(where,
                    fmt::format("the schedule is about {} {}, {} -> {}", to_string(other.shape),
                                syncopate::name_of(other.dtype), other.before.to_string(), other.after.to_string()),
                    fmt::format("the operator's tensor '{}' is {} {}, {} -> {}", tensor.name, to_string(tensor.shape),
                                syncopate::name_of(tensor.dtype), tensor.before.to_string(), tensor.after.to_string()));
}

/// Only additions can be carried out by tiles; where every rank is to have the sum (`distributes`), it is moved on
/// without being added. Without the word a summand takes the place of another: said before the schedule's meaning is
/// computed, which would tell of the consequences.
void check_reductions_stated(const Schedule& schedule, bool distributes, const SourceFile& file) {
  if (distributes) return;
  for (const auto& list : schedule.operators)
    for (const Operator& op : list) {
      const auto* p2p = std::get_if<P2P>(&op.action);
      if (p2p == nullptr || p2p->reduction == Reduction::sum) continue;
      const Chunk& chunk = schedule.chunks[static_cast<std::size_t>(p2p->source_chunk)];
      throw UserError(file.locate(op.offset),
                      fmt::format("it moves a summand of '{}' without adding it, which is not fused yet",
                                  schedule.tensors[static_cast<std::size_t>(chunk.tensor)].name),
                      "give it \"reduce\": \"sum\"");
    }
}

/// Chunks that are added are whole rows, so that they are contiguous.
void check_whole_rows(const Schedule& schedule, const SourceFile& file) {
  for (const auto& list : schedule.operators)
    for (const Operator& op : list) {
      const auto& p2p = std::get<P2P>(op.action);
      const Chunk& chunk = schedule.chunks[static_cast<std::size_t>(p2p.source_chunk)];
      const LogicalTensor& tensor = schedule.tensors[static_cast<std::size_t>(chunk.tensor)];
      Region rows = Region::whole(tensor.shape);
      rows[0] = chunk.region[0];
      if (!(chunk.region == rows))
        throw UserError(file.locate(op.offset),
                        fmt::format("the chunk {}{} is not made of whole rows", tensor.name, chunk.region.to_string()),
                        fmt::format("for example {}{}", tensor.name, rows.to_string()));
    }
}

/// Tiles store once, so what a rank sends of its rows is what it ends up with, or a summand that it does not keep; or
/// else all ranks send nothing but summands, and add when their tiles are done.
void check_sends_what_it_keeps(const Schedule& schedule, const std::string& tensor, const SourceLocation& where) {
  if (is_one_shot(schedule)) return;
  for (const auto& list : schedule.operators)
    for (const Operator& op : list)
      if (std::get<P2P>(op.action).own)
        throw UserError(where,
                        fmt::format("the schedule sends summands of '{}' of which their rank keeps the sum, and other "
                                    "things too, which is not fused yet",
                                    tensor),
                        "let one rank add up each element, as by \"direct\", or all of them, as by \"one_shot\"");
}

/// A schedule from a file says what each page's does; so its chunks are whole along the dimension that has the pages.
Schedule file_in_pages(const Schedule& schedule, const Pages& pages, const SourceFile& file) {
  const LogicalTensor& tensor = schedule.tensors.front();
  const Range whole{0, tensor.shape[static_cast<std::size_t>(pages.dimension)]};
  for (const auto& list : schedule.operators)
    for (const Operator& op : list)
      if (const Chunk& chunk = schedule.chunks[static_cast<std::size_t>(std::get<P2P>(op.action).source_chunk)];
          !(chunk.region[pages.dimension] == whole))
        throw UserError(file.locate(op.offset),
                        fmt::format("the chunk {}{} is a part of dimension {}, along which a memory budget cuts it",
                                    tensor.name, chunk.region.to_string(), pages.dimension),
                        fmt::format("chunks that have {} to {} of it, or no budget", whole.begin, whole.end));
  return in_pages(tensor, pages, [&](const LogicalTensor& page) {
    Schedule part = schedule;
    part.tensors = {page};
    for (Chunk& chunk : part.chunks)
      chunk.region[pages.dimension].end = page.shape[static_cast<std::size_t>(pages.dimension)];
    return part;
  });
}

Schedule make_schedule(const OperatorStatement& statement, const TensorStatement& tensor, const Role& role,
                       const CommunicationStatement& communication) {
  const LogicalTensor logical{tensor.name, tensor.shape, tensor.dtype, role.written ? tensor.inside : tensor.before,
                              role.written ? tensor.after : tensor.inside};
  if (communication.schedule_file.empty()) {
    TemplateOptions options = communication.options;
    options.chunk_major = (communication.memory_budget.has_value() && role.reduced()) || role.summed;
    const auto make = [&](const LogicalTensor& part) {
      return make_collective(part, statement.ranks, options, communication.split_where);
    };
    Schedule schedule = role.fold ? in_pages(logical, *role.pages, make) : make(logical);
    check_sends_what_it_keeps(schedule, tensor.name, communication.split_where);
    check_transfer_count(operator_count(schedule), communication.split_where);
    check_meaning(schedule);
    return schedule;
  }
  const auto file = SourceFile::read(communication.schedule_file);
  Schedule schedule = parse_schedule(*file);
  check_file_schedule(schedule, logical, statement.ranks, *file);
  const bool distributes = role.collective == CollectiveType::all_reduce;
  if (role.reduced()) check_reductions_stated(schedule, distributes, *file);
  check_meaning(schedule, file.get());
  Schedule opened = expand_collectives(schedule, {}, file.get());
  check_sends_what_it_keeps(opened, tensor.name, {file->name(), 1, 1});
  if (role.reduced()) {
    check_reductions_stated(opened, distributes, *file);
    if (!is_one_shot(opened)) check_whole_rows(opened, *file);
  }
  return role.fold ? file_in_pages(opened, *role.pages, *file) : opened;
}

/// Whether a peer writes to the tensor itself, where another rank made it.
bool is_distributed(const Schedule& schedule) {
  for (const auto& list : schedule.operators)
    for (const Operator& op : list)
      if (std::get<P2P>(op.action).reduction == Reduction::none) return true;
  return false;
}

/// Whether a peer reads the tensor on the rank that made it.
bool is_pulled(const Schedule& schedule) {
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (const Operator& op : schedule.operators[static_cast<std::size_t>(rank)])
      if (std::get<P2P>(op.action).source_rank != rank) return true;
  return false;
}

/// Whether streamed loops read the parameter, at addresses that depend on their variables.
bool is_streamed(std::span<const TileSpace> spaces, const std::string& parameter) {
  std::set<const LoopReads*> seen;
  for (const TileSpace& space : spaces)
    for (const TileFootprint& tile : space.tiles)
      for (const LoopFootprint& loop : tile.loops)
        if (loop.reads && seen.insert(loop.reads.get()).second)
          for (const auto& iteration : loop.reads->iterations)
            for (const LoopRead& read : iteration)
              if (space.parameters[static_cast<std::size_t>(read.parameter)] == parameter) return true;
  return false;
}

/// Whether any tile accesses the parameter in the way `regions` selects: &ParameterAccess::reads or ::writes.
bool is_accessed(std::span<const TileSpace> spaces, const std::string& parameter,
                 std::vector<Region> ParameterAccess::* regions) {
  for (const TileSpace& space : spaces)
    for (const TileFootprint& tile : space.tiles)
      for (const ParameterAccess& access : tile.accesses)
        if (access.parameter == parameter && !(access.*regions).empty()) return true;
  return false;
}

/// Where `what` has a place for the parameter, on whichever rank.
const SourceLocation* place_of(std::span<const TileSpace> spaces,
                               std::map<std::string, SourceLocation> TileSpace::* what, const std::string& parameter) {
  for (const TileSpace& space : spaces)
    if (const auto found = (space.*what).find(parameter); found != (space.*what).end()) return &found->second;
  return nullptr;
}

Role role_of(const TensorStatement& tensor, std::span<const TileSpace> spaces) {
  Role role;
  role.written = is_accessed(spaces, tensor.parameter, &ParameterAccess::writes);
  const bool read =
      is_accessed(spaces, tensor.parameter, &ParameterAccess::reads) || is_streamed(spaces, tensor.parameter);
  if (role.written && read)
    throw UserError(*place_of(spaces, &TileSpace::first_reads, tensor.parameter),
                    fmt::format("the kernel both reads and writes tensor '{}'", tensor.name),
                    "an output may only be stored to: no loads from it and no atomics on it");
  role.collective = role.written ? output_collective(tensor) : input_collective(tensor);
  role.summed = !role.written && role.reduced();
  if (role.summed)
    role.collective =
        tensor.inside.kind == Placement::Kind::shard ? CollectiveType::all_to_all : CollectiveType::all_gather;
  return role;
}

/// Of an input that arrives while the kernel runs. `arrives`: "is gathered".
void check_arriving(const TensorStatement& tensor, std::span<const TileSpace> spaces, std::string_view arrives) {
  if (const SourceLocation* by_data = place_of(spaces, &TileSpace::reads_by_data, tensor.parameter))
    throw UserError(*by_data,
                    fmt::format("tensor '{}' {} while the kernel runs, but data decide what this reads of it",
                                tensor.name, arrives),
                    "which elements of a communicated tensor a tile reads must follow from its indices and the "
                    "arguments; give every rank all of this one beforehand");
  if (const SourceLocation* early = place_of(spaces, &TileSpace::unguarded_reads, tensor.parameter))
    throw UserError(*early,
                    fmt::format("tensor '{}' {} while the kernel runs, but this reads it outside the work of a tile",
                                tensor.name, arrives),
                    "read it in the loop over tiles, after the tile indices");
  if (const SourceLocation* unreached = place_of(spaces, &TileSpace::reads_past_indices, tensor.parameter))
    throw UserError(
        *unreached,
        fmt::format("tensor '{}' {}, but which part of it this reads depends on no tile index", tensor.name, arrives),
        "a tile's wait guards only addresses that follow from its indices: do this for the tensor beforehand");
}

/// How a tensor is communicated: as stated, or by default.
CommunicationStatement communication_of(const OperatorStatement& statement, const TensorStatement& tensor,
                                        const Role& role) {
  const auto stated = std::find_if(statement.communications.begin(), statement.communications.end(),
                                   [&](const CommunicationStatement& c) { return c.tensor == tensor.name; });
  if (stated == statement.communications.end()) {
    CommunicationStatement defaults;
    defaults.where = tensor.where;
    defaults.split_where = tensor.where;
    return defaults;
  }
  if (!role.collective)
    throw UserError(stated->where, fmt::format("tensor '{}' is not communicated", tensor.name),
                    "give an input before = \"shard(d)\" and inside = \"replicate\", an output inside = "
                    "\"partial(sum)\" and after = \"shard(0)\", or remove this table");
  if (stated->memory_budget && !role.reduced() && (role.summed || !role.gathered()))
    throw UserError(
        stated->budget_where,
        role.summed ? fmt::format("summands of '{}' stay until the tiles that add them have read", tensor.name)
                    : fmt::format("tensor '{}' is {} and needs no staging", tensor.name,
                                  role.collective == CollectiveType::all_gather ? "gathered by callers" : "exchanged"),
        "a memory budget is for outputs that are reduced and for inputs that are gathered: remove it");
  if (stated->sum != SumPlace::automatic && !role.reduced())
    throw UserError(stated->sum_where,
                    fmt::format("tensor '{}' is {}", tensor.name,
                                role.summed        ? "summed as tiles load it"
                                : role.exchanged() ? "exchanged, not summed"
                                                   : "gathered, not summed"),
                    "'sum' is for outputs that are reduced: remove it");
  return *stated;
}

/// The boxes of an exchanged tensor that a rank has on both sides, cut as finely as what moves.
std::vector<Region> own_parts(const TensorStatement& tensor, const Role& role, int ranks, int rank,
                              std::int64_t split) {
  const Placement& outside = role.written ? tensor.after : tensor.before;
  const Region part =
      intersect(held_region(tensor.inside, tensor.shape, ranks, rank), held_region(outside, tensor.shape, ranks, rank));
  std::vector<Region> boxes;
  if (!part.empty()) boxes = cut(part, dimension_to_split(part, split), split);
  return role.fold ? in_pages(boxes, *role.pages) : boxes;
}

/// Appends the other buffer of an exchanged tensor. Peers reach for the one that is not on their own rank.
void add_caller_buffer(const OperatorStatement& statement, const TensorStatement& tensor, const Role& role,
                       std::int64_t split, CommunicatedTensor& communicated, Plan& plan) {
  communicated.caller_buffer = static_cast<int>(plan.buffers.size());
  Buffer caller = make_caller_buffer(tensor, role, statement.ranks, communicated.buffer);
  Buffer& kernel = plan.buffers[static_cast<std::size_t>(communicated.buffer)];
  Buffer& origin = role.written ? kernel : caller;
  Buffer& end = role.written ? caller : kernel;
  origin.symmetric = is_pulled(communicated.schedule);
  end.symmetric = true;
  plan.buffers.push_back(std::move(caller));
  for (int rank = 0; rank < statement.ranks; ++rank)
    communicated.own_parts.push_back(own_parts(tensor, role, statement.ranks, rank, split));
}

/// Whether memory is to hold only a part of a gathered input at a time, and which.
void bound_memory(const TensorStatement& tensor, const CommunicationStatement& communication,
                  std::span<const TileSpace> spaces, Role& role) {
  if (!role.gathered() || role.summed || !communication.memory_budget) return;
  if (tensor.before.kind == Placement::Kind::zigzag)
    throw UserError(communication.budget_where,
                    fmt::format("tensor '{}' is {} before, and its memory cannot be bounded", tensor.name,
                                tensor.before.to_string()),
                    fmt::format("remove the budget, or place it by shard({})", tensor.before.dimension));
  role.pages = find_pages(spaces, tensor.parameter, tensor.shape, tensor.before.dimension);
  role.fold = fold_within(
      {tensor.name, tensor.shape, tensor.dtype, *communication.memory_budget, communication.budget_where}, role.pages);
}

/// Makes the buffer of one tensor, and its schedule if it is communicated.
void bind_tensor(const OperatorStatement& statement, const TensorStatement& stated, std::span<const TileSpace> spaces,
                 BoundOperator& bound) {
  Plan& plan = bound.plan;
  Role role = role_of(stated, spaces);
  const TensorStatement tensor = role.summed ? stack_of(stated, statement.ranks) : stated;
  if (role.gathered() || (role.exchanged() && !role.written))
    check_arriving(stated, spaces, role.summed ? "is summed" : role.gathered() ? "is gathered" : "arrives from peers");
  if (const int other = std::max(reduced_buffer(plan), added_up_buffer(plan)); role.reduced() && other >= 0)
    throw UserError(tensor.placement_where,
                    fmt::format("tensors '{}' and '{}' are both reduced", plan.buffer(other).name, tensor.name),
                    "at most one output of an operator can be");
  const CommunicationStatement communication = communication_of(statement, tensor, role);
  bound_memory(tensor, communication, spaces, role);
  plan.buffers.push_back(make_buffer(tensor, role, statement.ranks));
  if (!role.collective) return;
  CommunicatedTensor communicated;
  communicated.buffer = static_cast<int>(plan.buffers.size()) - 1;
  communicated.schedule = make_schedule(statement, tensor, role, communication);
  communicated.where = tensor.placement_where;
  communicated.in_words = describe(stated, role, communication);
  communicated.communication = communication;
  communicated.memory_budget = communication.memory_budget;
  communicated.budget_where = communication.budget_where;
  communicated.sum = communication.sum;
  if (role.fold) communicated.pages = role.pages;
  communicated.sum_where = communication.sum_where;
  if (role.reduced() && is_one_shot(communicated.schedule)) {
    place_one_shot(communicated, plan);
  } else if (role.reduced()) {
    communicated.symmetric = is_pulled(communicated.schedule) || is_distributed(communicated.schedule);
    plan.buffers.back().symmetric = communicated.symmetric;
  }
  if (role.exchanged()) add_caller_buffer(statement, tensor, role, communication.options.split, communicated, plan);
  bound.communicated.push_back(std::move(communicated));
}

/// Parameters of inputs that arrive while the kernel runs, but of sums, whose summands a tile adds as a whole.
std::set<std::string> arriving_parameters(const OperatorStatement& statement) {
  std::set<std::string> parameters;
  for (const TensorStatement& tensor : statement.tensors)
    if (tensor.before.cuts() && tensor.inside != tensor.before) parameters.insert(tensor.parameter);
  return parameters;
}

}  // namespace

BoundOperator bind(const OperatorStatement& statement, const TileKernel& kernel) {
  check_parameters(statement, kernel);
  TensorBindings bindings;
  for (const TensorStatement& tensor : statement.tensors)
    bindings[tensor.parameter] = {tensor.inside.kind == Placement::Kind::shard
                                      ? fmt::format("{} of {}", tensor.inside.to_string(), tensor.name)
                                      : tensor.name,
                                  inside_shape(tensor, statement.ranks), tensor.dtype};
  const bool persistent = kernel.scheduler().kind != SchedulerKind::program_per_tile;
  if (persistent && statement.grid > 0)
    throw UserError(statement.grid_where,
                    fmt::format("kernel '{}' is persistent, and needs no grid", statement.kernel_function),
                    "remove it: [launch] workers says how many programs of it run");
  const std::set<std::string> arriving = arriving_parameters(statement);
  const bool streams = !arriving.empty() && !kernel.streamed_loops().empty();
  std::vector<TileSpace> spaces = analyse_ranks(statement, kernel, bindings, streams);
  keep_streamed_reads(spaces, arriving);
  const TileSpace& space = spaces.front();

  BoundOperator bound;
  Plan& plan = bound.plan;
  plan.operator_name = statement.name;
  plan.ranks = statement.ranks;
  plan.workers =
      static_cast<int>(std::min<std::int64_t>(statement.workers, static_cast<std::int64_t>(space.tiles.size())));
  plan.lookahead = statement.lookahead;
  plan.kernel.file = std::filesystem::path(kernel.module().source->name()).filename().string();
  plan.kernel.function = kernel.function().name;
  plan.kernel.local_source = kernel.module().source->text();
  plan.kernel.arguments = statement.arguments;
  plan.kernel.rank_arguments = statement.rank_arguments;
  // The fused kernel's walk ignores it, and the unfused reference is one program that walks all tiles.
  if (!space.step_parameter.empty()) plan.kernel.arguments[space.step_parameter] = std::int64_t{1};
  plan.kernel.axes = space.axes;
  plan.kernel.extents = space.extents;
  plan.kernel.grid = space.grid;
  plan.kernel.warps = statement.warps;
  plan.kernel.stages = statement.stages;
  plan.kernel.persistent = persistent;

  for (const Parameter& parameter : kernel.function().parameters)
    if (const TensorStatement* tensor = tensor_of_parameter(statement, parameter.name))
      bind_tensor(statement, *tensor, spaces, bound);
  for (CommunicatedTensor& communicated : bound.communicated)
    if (plan.buffer(communicated.buffer).is_reduced()) place_sums(communicated, kernel, spaces, plan);
  make_tiles(spaces, kernel, bound);
  leave_out_unread(bound);
  return bound;
}

std::string communication_in_words(const BoundOperator& bound) {
  std::string text;
  for (const CommunicatedTensor& communicated : bound.communicated) {
    if (!text.empty()) text += '\n';
    text += communicated.in_words;
    if (communicated.memory_budget && !sums_in_place(bound.plan))
      text += fmt::format(", memory budget {}", format_bytes(*communicated.memory_budget));
  }
  return text;
}

}  // namespace syncopate
