#include "syncopate/plan/bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "syncopate/core/text.h"
#include "syncopate/kernel/footprint.h"
#include "syncopate/schedule/meaning.h"
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
    if (parameter.default_value || statement.arguments.contains(parameter.name) ||
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

/// Whether the tensor is communicated; an error for changes that this version cannot fuse.
bool is_communicated(const TensorStatement& tensor) {
  const std::string change = fmt::format("{} -> {}", tensor.before.to_string(), tensor.inside.to_string());
  const std::string supported = "an all-gather is supported: before = \"shard(d)\", inside = \"replicate\"";
  if (tensor.before == tensor.inside) {
    if (tensor.before == Placement::replicate()) return false;
    throw UserError(tensor.placement_where,
                    fmt::format("tensor '{}' is {} before the operator and inside it", tensor.name, change),
                    "leave before and inside out for a tensor that each rank has for itself, with its local shape");
  }
  const std::optional<CollectiveType> type = collective_between(tensor.before, tensor.inside, tensor.placement_where);
  if (type == CollectiveType::all_gather) return true;
  if (!type)
    throw UserError(tensor.placement_where, fmt::format("tensor '{}': {} needs no communication", tensor.name, change),
                    "give the kernel the local shape and leave before and inside out");
  throw UserError(tensor.placement_where,
                  fmt::format("tensor '{}': {} is a collective of type {}, which is not fused yet", tensor.name, change,
                              name_of(*type)),
                  supported);
}

Buffer make_buffer(const TensorStatement& tensor, bool communicated, bool written, int ranks) {
  Buffer buffer;
  buffer.name = tensor.name;
  buffer.parameter = tensor.parameter;
  buffer.shape = tensor.shape;
  buffer.dtype = tensor.dtype;
  buffer.symmetric = communicated;
  buffer.before = tensor.before;
  buffer.inside = tensor.inside;
  buffer.after = tensor.inside;
  const Region empty = [&] {
    Region region = Region::whole(tensor.shape);
    for (int d = 0; d < region.dimensions(); ++d) region[d] = {0, 0};
    return region;
  }();
  for (int rank = 0; rank < ranks; ++rank)
    buffer.held.push_back(written ? empty : held_region(tensor.before, tensor.shape, ranks, rank));
  buffer.purpose = communicated
                       ? "gathered input: the caller puts its shard in place, peers' shards arrive by transfers"
                   : written ? "output of the rank"
                             : "input of the rank";
  return buffer;
}

std::string describe(const TensorStatement& tensor, const CommunicationStatement& communication) {
  const std::string change =
      fmt::format("{}: {} -> {}", tensor.name, tensor.before.to_string(), tensor.inside.to_string());
  if (!communication.schedule_file.empty())
    return fmt::format("{}, all-gather by the schedule {}", change,
                       std::filesystem::path(communication.schedule_file).filename().string());
  return fmt::format("{}, all-gather, {}, {}, split {}", change, syncopate::name_of(communication.options.algorithm),
                     communication.options.initiator == Initiator::push ? "push" : "pull", communication.options.split);
}

/// A schedule from a file must be about this tensor on these ranks.
void check_file_schedule(const Schedule& schedule, const LogicalTensor& tensor, int ranks, const SourceFile& file) {
  const SourceLocation where{file.name(), 1, 1};
  if (schedule.ranks() != ranks)
    throw UserError(where, fmt::format("a schedule for {} ranks", schedule.ranks()),
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

Schedule make_schedule(const OperatorStatement& statement, const TensorStatement& tensor,
                       const CommunicationStatement& communication) {
  const LogicalTensor logical{tensor.name, tensor.shape, tensor.dtype, tensor.before, tensor.inside};
  if (communication.schedule_file.empty()) {
    Schedule schedule = all_gather(logical, statement.ranks, communication.options, communication.split_where);
    check_meaning(schedule);
    return schedule;
  }
  const auto file = SourceFile::read(communication.schedule_file);
  Schedule schedule = parse_schedule(*file);
  check_file_schedule(schedule, logical, statement.ranks, *file);
  check_meaning(schedule, file.get());
  return expand_collectives(schedule, {}, file.get());
}

std::vector<Tile> make_tiles(const TileSpace& space, const std::vector<Buffer>& buffers) {
  const auto buffer_index = [&](const std::string& parameter) {
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i].parameter == parameter) return static_cast<int>(i);
    throw InternalError("access through a parameter that is no tensor");
  };
  std::vector<Tile> tiles;
  tiles.reserve(space.tiles.size());
  for (const TileFootprint& footprint : space.tiles) {
    Tile tile;
    tile.index = footprint.index;
    for (const ParameterAccess& access : footprint.accesses) {
      const int buffer = buffer_index(access.parameter);
      for (const Region& region : access.reads) tile.reads.push_back({buffer, region});
      for (const Region& region : access.writes) tile.writes.push_back({buffer, region});
    }
    tiles.push_back(std::move(tile));
  }
  return tiles;
}

/// Whether every tile reads the same of a tensor although every axis has several tiles: then its addresses depend on no
/// tile index, and so not on the wait, which reaches addresses through the indices.
bool ignores_tile_indices(const TileSpace& space, const std::string& parameter) {
  for (const std::int64_t extent : space.extents)
    if (extent < 2) return false;
  const auto reads = [&](const TileFootprint& tile) {
    for (const ParameterAccess& access : tile.accesses)
      if (access.parameter == parameter) return access.reads;
    return std::vector<Region>{};
  };
  const std::vector<Region> first = reads(space.tiles.front());
  return std::all_of(space.tiles.begin(), space.tiles.end(),
                     [&](const TileFootprint& tile) { return reads(tile) == first; });
}

/// Whether any tile accesses the parameter in the way `regions` selects: &ParameterAccess::reads or ::writes.
bool is_accessed(const TileSpace& space, const std::string& parameter, std::vector<Region> ParameterAccess::* regions) {
  for (const TileFootprint& tile : space.tiles)
    for (const ParameterAccess& access : tile.accesses)
      if (access.parameter == parameter && !(access.*regions).empty()) return true;
  return false;
}

}  // namespace

BoundOperator bind(const OperatorStatement& statement, const TileKernel& kernel) {
  check_parameters(statement, kernel);
  TensorBindings bindings;
  for (const TensorStatement& tensor : statement.tensors)
    bindings[tensor.parameter] = {tensor.name, tensor.shape, tensor.dtype};
  const TileSpace space = analyse_tiles(kernel, statement.arguments, bindings, statement.grid);

  BoundOperator bound;
  Plan& plan = bound.plan;
  plan.operator_name = statement.name;
  plan.ranks = statement.ranks;
  plan.workers =
      static_cast<int>(std::min<std::int64_t>(statement.workers, static_cast<std::int64_t>(space.tiles.size())));
  plan.kernel.file = std::filesystem::path(kernel.module().source->name()).filename().string();
  plan.kernel.function = kernel.function().name;
  plan.kernel.local_source = kernel.module().source->text();
  plan.kernel.arguments = statement.arguments;
  // The fused kernel's walk ignores it, and the unfused reference is one program that walks all tiles.
  if (!space.step_parameter.empty()) plan.kernel.arguments[space.step_parameter] = std::int64_t{1};
  plan.kernel.axes = space.axes;
  plan.kernel.extents = space.extents;
  plan.kernel.persistent = kernel.scheduler().kind != SchedulerKind::program_per_tile;

  for (const Parameter& parameter : kernel.function().parameters) {
    const TensorStatement* tensor = tensor_of_parameter(statement, parameter.name);
    if (tensor == nullptr) continue;
    const bool communicated = is_communicated(*tensor);
    const bool written = is_accessed(space, parameter.name, &ParameterAccess::writes);
    if (written && is_accessed(space, parameter.name, &ParameterAccess::reads))
      throw UserError(tensor->where, fmt::format("the kernel both reads and writes tensor '{}'", tensor->name),
                      "an output may only be stored to: no loads from it and no atomics on it");
    if (communicated && written)
      throw UserError(tensor->placement_where,
                      fmt::format("tensor '{}' is gathered, but the kernel writes it", tensor->name),
                      "only tensors that the kernel reads can be gathered");
    if (communicated && ignores_tile_indices(space, parameter.name))
      throw UserError(
          tensor->where,
          fmt::format("tensor '{}' is gathered, but which part of it a tile reads depends on no tile index",
                      tensor->name),
          "a tile's wait guards only addresses that follow from its indices: gather this tensor beforehand");
    const auto early = space.unguarded_reads.find(parameter.name);
    if (communicated && early != space.unguarded_reads.end())
      throw UserError(
          early->second,
          fmt::format("tensor '{}' is gathered while the kernel runs, but this reads it outside the work of a tile",
                      tensor->name),
          "read it in the loop over tiles, after the tile indices");
    const auto communication = std::find_if(statement.communications.begin(), statement.communications.end(),
                                            [&](const CommunicationStatement& c) { return c.tensor == tensor->name; });
    const bool stated = communication != statement.communications.end();
    if (stated && !communicated)
      throw UserError(communication->where, fmt::format("tensor '{}' is not communicated", tensor->name),
                      "give it before = \"shard(d)\" and inside = \"replicate\", or remove this table");
    plan.buffers.push_back(make_buffer(*tensor, communicated, written, statement.ranks));
    if (!communicated) continue;
    CommunicationStatement defaults;
    defaults.where = tensor->where;
    defaults.split_where = tensor->where;
    const CommunicationStatement& used = stated ? *communication : defaults;
    bound.communicated.push_back({static_cast<int>(plan.buffers.size()) - 1, make_schedule(statement, *tensor, used)});
    if (!plan.communication.empty()) plan.communication += '\n';
    plan.communication += describe(*tensor, used);
  }
  plan.tiles = make_tiles(space, plan.buffers);
  return bound;
}

}  // namespace syncopate
