// analyse_tiles: runs a kernel over index ranges, for as many programs as its launch has, and checks that its tiles
// partition what it writes.
#include "syncopate/kernel/footprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "syncopate/core/text.h"
#include "syncopate/kernel/footprint_cover.h"
#include "syncopate/kernel/footprint_domain.h"
#include "syncopate/kernel/machine.h"
#include "syncopate/kernel/streamed_loops.h"

namespace syncopate {
namespace {

/// More tiles than this are no launch that anyone means.
constexpr std::int64_t kMostPrograms = std::int64_t{1} << 20;
/// So many programs in a row (more in large launches) that write nothing are the end of hope for an output.
constexpr std::int64_t kIdlePrograms = 1024;

/// The argument that says by how many tiles a persistent kernel advances (NUM_SMS), or "" if it is tl.num_programs.
std::string step_parameter(const TileKernel& kernel) {
  const TileScheduler& scheduler = kernel.scheduler();
  const Expression* step = nullptr;
  if (scheduler.kind == SchedulerKind::persistent_for && scheduler.loop->value->kind == ExpressionKind::call) {
    const Expression& range = *scheduler.loop->value;
    if (range.children.size() > 3) step = range.children[3].get();
    for (const Keyword& keyword : range.keywords)
      if (keyword.name == "step") step = keyword.value.get();
  }
  if (scheduler.kind == SchedulerKind::persistent_while && scheduler.advance != nullptr) {
    step = scheduler.advance->value.get();
    if (scheduler.advance->kind == StatementKind::assign && step->kind == ExpressionKind::binary)
      step = step->children[1].get();  // tile = tile + NUM_SMS
  }
  // Follow `step = NUM_SMS`, but not in circles.
  const Function& function = kernel.function();
  for (std::size_t hops = 0; step != nullptr && step->kind == ExpressionKind::name && hops < 8; ++hops) {
    for (const Parameter& parameter : function.parameters)
      if (parameter.name == step->text) return parameter.name;
    const Expression* value = nullptr;
    for (const auto& statement : function.body)
      if (statement->kind == StatementKind::assign && statement->targets.size() == 1 &&
          statement->targets[0]->kind == ExpressionKind::name && statement->targets[0]->text == step->text)
        value = statement->value.get();
    step = value;
  }
  return {};
}

FootprintValue argument_value(const Scalar& scalar, bool constexpr_) {
  if (const auto* truth = std::get_if<bool>(&scalar)) return boolean_value(*truth);
  if (const auto* number = std::get_if<double>(&scalar)) return floating_value(*number);
  const std::int64_t integer = std::get<std::int64_t>(scalar);
  const bool narrow = integer >= INT32_MIN && integer <= INT32_MAX;
  return scalar_value(integer, narrow ? Dtype::int32 : Dtype::int64, constexpr_);
}

class Analysis {
 public:
  Analysis(const TileKernel& kernel, const ScalarArguments& arguments, const TensorBindings& tensors, std::int64_t grid,
           bool streams)
      : kernel_(kernel),
        persistent_(kernel.scheduler().kind != SchedulerKind::program_per_tile),
        grid_(grid),
        program_(lower(kernel.shared_module(), kernel.function(), kernel.scheduler().index_variables,
                       kernel.scheduler().last_assignment)) {
    if (streams) {
      check_streamed_loops(kernel);
      loops_ = find_streamed_loops(*program_, kernel.streamed_loops());
    }
    bind(arguments, tensors);
    restart();
  }

  TileSpace run() {
    if (persistent_) {
      run_program({}, {1, 1, 1});
      found_ = {1};
    } else {
      run_program({}, {grid_, 1, 1});
      if (domain_->last_axis() == 0)
        run_line();
      else
        run_grid();
    }
    check();
    return collect();
  }

 private:
  void bind(const ScalarArguments& arguments, const TensorBindings& tensors) {
    std::vector<std::string> names;
    for (const ProgramParameter& parameter : program_->parameters) names.push_back(parameter.name);
    const auto check_name = [&](const std::string& name) {
      if (program_->find_parameter(name) != nullptr) return;
      throw UserError(kernel_.module().locate(kernel_.function().name_range),
                      fmt::format("kernel {} has no parameter '{}'", program_->name, name), suggest(name, names));
    };
    for (const auto& [name, value] : arguments) check_name(name);
    for (const auto& [name, value] : tensors) check_name(name);
    for (const auto& [name, value] : arguments)
      if (value == Scalar(std::int64_t{0})) zeros_.push_back(name);
    const std::string step = step_parameter(kernel_);
    for (std::size_t i = 0; i < program_->parameters.size(); ++i) {
      const ProgramParameter& parameter = program_->parameters[i];
      const auto tensor = tensors.find(parameter.name);
      const auto argument = arguments.find(parameter.name);
      if (tensor != tensors.end()) {
        bind_tensor(i, tensor->second);
      } else if (parameter.name == step) {
        // One program that advances by one tile walks them all.
        values_.emplace_back(parameter.value, argument_value(std::int64_t{1}, parameter.constexpr_));
      } else if (argument != arguments.end()) {
        values_.emplace_back(parameter.value, argument_value(argument->second, parameter.constexpr_));
      } else if (parameter.default_value == kNoRegister) {
        throw UserError(kernel_.module().locate(kernel_.function().parameters[i].range),
                        fmt::format("kernel {} needs a value for its parameter '{}'", program_->name, parameter.name),
                        "add it to the kernel's arguments, or bind a tensor to it");
      }
    }
  }

  void bind_tensor(std::size_t index, const TensorBinding& binding) {
    const ProgramParameter& parameter = program_->parameters[index];
    const bool legal = binding.shape.size() <= kMaxDimensions &&
                       std::all_of(binding.shape.begin(), binding.shape.end(), [](std::int64_t e) { return e >= 0; });
    if (!legal)
      throw UserError(kernel_.module().locate(kernel_.function().parameters[index].range),
                      fmt::format("tensor {} cannot have the shape {}", binding.name, to_string(binding.shape)),
                      fmt::format("at most {} dimensions, none of them negative", kMaxDimensions));
    FootprintValue pointer;
    pointer.kind = ValueKind::pointer;
    pointer.dtype = binding.dtype;
    pointer.parameter = static_cast<std::int16_t>(layouts_.size());
    values_.emplace_back(parameter.value, pointer);
    layouts_.emplace_back(binding.name, binding.shape);
    tensor_parameters_.push_back(parameter.name);
  }

  void restart() {
    domain_.emplace(program_, layouts_, persistent_, zeros_, loops_);
    written_.assign(layouts_.size(), 0);
  }

  /// Returns whether the program wrote anything.
  bool run_program(const GridPosition& position, const GridPosition& counts) {
    Machine<FootprintDomain> machine(program_, *domain_);
    for (const ProgramParameter& parameter : program_->parameters)
      if (parameter.default_value != kNoRegister) machine[parameter.value] = machine[parameter.default_value];
    for (const auto& [target, value] : values_) machine[target] = value;
    const std::size_t before = domain_->tiles().size();
    domain_->begin_program(position, counts);
    machine.run<false>(*domain_);
    domain_->end_program();
    bool wrote = false;
    for (std::size_t tile = before; tile < domain_->tiles().size(); ++tile)
      for (std::size_t t = 0; t < layouts_.size(); ++t) {
        std::vector<Region>& writes = domain_->tiles()[tile].writes[t];
        if (writes.size() > 1) writes = make_disjoint(writes);
        for (const Region& region : writes) written_[t] += region.volume();
        wrote = wrote || !writes.empty();
      }
    return wrote;
  }

  bool complete() const {
    bool any = false;
    for (std::size_t t = 0; t < layouts_.size(); ++t) {
      if (domain_->first_write(t) == nullptr) continue;
      any = true;
      if (written_[t] < layouts_[t].volume) return false;
    }
    return any;
  }

  /// A grid of one axis, of which program 0 has run: on until everything is written, or to the end of the grid.
  void run_line() {
    std::int64_t last_writer = 0;
    found_ = {1};
    for (std::int64_t id = 1; grid_ > 0 ? id < grid_ : !complete(); ++id) {
      found_ = {id + 1};
      if (run_program({id, 0, 0}, {grid_, 1, 1})) last_writer = id;
      if (grid_ == 0 && (id - last_writer > kIdlePrograms + last_writer || id >= kMostPrograms)) return;
    }
  }

  /// A grid of several axes. Axis by axis, from program (0, 0, 0): the grid ends where a program writes nothing, or
  /// what its predecessor wrote already, or leaves a tensor.
  void run_grid() {
    GridPosition extents{1, 1, 1};
    const int axes = domain_->last_axis() + 1;
    for (int axis = 0; axis < axes; ++axis) extents[static_cast<std::size_t>(axis)] = infer_extent(axis);
    const std::int64_t programs = extents[0] * extents[1] * extents[2];
    if (grid_ > 0 && programs != grid_)
      throw UserError(kernel_.module().locate(kernel_.function().name_range),
                      fmt::format("a grid of {}, but {} x {} x {} programs write the outputs of {}",
                                  count_of(grid_, "program"), extents[0], extents[1], extents[2], program_->name),
                      fmt::format("launch {} programs", programs));
    restart();
    found_.assign(extents.begin(), extents.begin() + axes);
    for (std::int64_t z = 0; z < extents[2]; ++z)
      for (std::int64_t y = 0; y < extents[1]; ++y)
        for (std::int64_t x = 0; x < extents[0]; ++x) run_program({x, y, z}, extents);
  }

  std::int64_t infer_extent(int axis) {
    restart();
    run_program({}, {});
    std::vector<RecordedAccesses>& tiles = domain_->tiles();
    for (std::int64_t id = 1; id < kMostPrograms; ++id) {
      const std::size_t before = tiles.size();
      GridPosition position{};
      position[static_cast<std::size_t>(axis)] = id;
      try {
        if (!run_program(position, {})) return id;
      } catch (const UserError& error) {
        if (!edge_) edge_ = error;
        return id;
      }
      if (before > 0 && tiles.back().writes == tiles[before - 1].writes) return id;
      // Columns without a mask go on in the rows below, which are those of other programs.
      if (overlap(tiles.front().writes, tiles.back().writes)) return id;
    }
    return kMostPrograms;
  }

  using Writes = std::vector<std::vector<Region>>;
  static bool overlap(const Writes& a, const Writes& b) {
    for (std::size_t t = 0; t < a.size(); ++t)
      for (const Region& one : a[t])
        for (const Region& other : b[t])
          if (!intersect(one, other).empty()) return true;
    return false;
  }

  void check() const {
    if (domain_->tile_indices().empty())
      throw UserError(kernel_.module().locate(kernel_.function().name_range),
                      fmt::format("kernel {} has no tile with these arguments", program_->name),
                      "check the sizes and tile sizes that it is given");
    bool any = false;
    for (std::size_t t = 0; t < layouts_.size(); ++t) {
      if (domain_->first_write(t) == nullptr) continue;
      any = true;
      check_output(t);
    }
    if (!any)
      throw UserError(kernel_.module().locate(kernel_.function().name_range),
                      fmt::format("kernel {} writes no tensor", program_->name), "it must store its result");
  }

  void check_output(std::size_t t) const {
    std::vector<WrittenBox> boxes;
    for (std::size_t tile = 0; tile < domain_->tile_indices().size(); ++tile)
      for (const Region& region : domain_->recorded(tile).writes[t]) boxes.push_back({region, tile});
    const auto problem = check_partition(layouts_[t].shape, boxes);
    if (!problem) return;
    const SourceLocation where = program_->locate(*domain_->first_write(t));
    const std::string& name = layouts_[t].name;
    if (const Instruction* atomic = domain_->first_atomic(t); atomic != nullptr && problem->overlap)
      throw UserError(program_->locate(*atomic),
                      fmt::format("{} changes {} at {} by an atomic operation, which {} changes too",
                                  domain_->tile_name(problem->first_tile), name, problem->region.to_string(),
                                  domain_->tile_name(problem->second_tile)),
                      "let each tile store what it adds in a place of its own, in an output with one axis more, and "
                      "combine these after the kernel");
    if (problem->overlap)
      throw UserError(where,
                      fmt::format("{} and {} both write {} at {}", domain_->tile_name(problem->first_tile),
                                  domain_->tile_name(problem->second_tile), name, problem->region.to_string()),
                      "every element of an output must be written by exactly one tile");
    // What looked like the edge of the grid was perhaps the mistake.
    if (edge_) throw UserError(*edge_);
    throw UserError(
        where, fmt::format("no tile writes {} at {}", name, problem->region.to_string()),
        fmt::format("the kernel's tiles must cover {}, whose shape is {}", name, to_string(layouts_[t].shape)));
  }

  TileSpace collect() {
    TileSpace space;
    space.axes = kernel_.scheduler().index_variables;
    space.extents.assign(space.axes.size(), 0);
    space.grid = found_;
    space.parameters = tensor_parameters_;
    const std::vector<std::vector<std::int64_t>>& indices = domain_->tile_indices();
    space.tiles.reserve(indices.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      RecordedAccesses& recorded = domain_->tiles()[i];
      TileFootprint& tile = space.tiles.emplace_back();
      tile.index = indices[i];
      tile.loops = std::move(domain_->tile_loops()[i]);
      for (std::size_t axis = 0; axis < space.axes.size(); ++axis)
        space.extents[axis] = std::max(space.extents[axis], tile.index[axis] + 1);
      for (std::size_t t = 0; t < layouts_.size(); ++t) {
        for (const Region& region : domain_->shared_reads().reads[t]) add_region(recorded.reads[t], region);
        if (recorded.reads[t].empty() && recorded.writes[t].empty()) continue;
        tile.accesses.push_back({tensor_parameters_[t], std::move(recorded.reads[t]), std::move(recorded.writes[t])});
      }
    }
    space.step_parameter = step_parameter(kernel_);
    for (std::size_t t = 0; t < layouts_.size(); ++t) {
      if (const Instruction* read = domain_->unguarded_read(t))
        space.unguarded_reads.emplace(tensor_parameters_[t], program_->locate(*read));
      if (const Instruction* read = domain_->read_past_indices(t))
        space.reads_past_indices.emplace(tensor_parameters_[t], program_->locate(*read));
      if (const Instruction* read = domain_->read_by_data(t))
        space.reads_by_data.emplace(tensor_parameters_[t], program_->locate(*read));
      if (const Instruction* store = domain_->stored_again(t))
        space.stored_again.emplace(tensor_parameters_[t], program_->locate(*store));
      if (const Instruction* read = domain_->first_read(t))
        space.first_reads.emplace(tensor_parameters_[t], program_->locate(*read));
    }
    return space;
  }

  const TileKernel& kernel_;
  bool persistent_;
  std::int64_t grid_;                ///< programs that the launch is said to have, or 0
  std::vector<std::int64_t> found_;  ///< programs per axis of the grid
  std::shared_ptr<const Program> program_;
  std::vector<LoweredLoop> loops_;  ///< that are kept apart
  std::vector<TensorLayout> layouts_;
  std::vector<std::string> tensor_parameters_;
  std::vector<std::string> zeros_;  ///< arguments that are 0
  std::vector<std::pair<Register, FootprintValue>> values_;
  std::optional<FootprintDomain> domain_;
  std::vector<std::int64_t> written_;  ///< elements of each tensor
  std::optional<UserError> edge_;      ///< what ended an axis of the grid
};

}  // namespace

TileSpace analyse_tiles(const TileKernel& kernel, const ScalarArguments& arguments, const TensorBindings& tensors,
                        std::int64_t grid, bool streams) {
  return Analysis(kernel, arguments, tensors, grid, streams).run();
}

}  // namespace syncopate
