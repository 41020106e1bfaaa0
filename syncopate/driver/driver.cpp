#include "syncopate/driver/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <utility>

#include "syncopate/core/files.h"
#include "syncopate/core/source.h"
#include "syncopate/emit/emit.h"
#include "syncopate/kernel/tile_kernel.h"
#include "syncopate/plan/compile.h"
#include "syncopate/plan/inputs.h"
#include "syncopate/plan/plan_json.h"

namespace syncopate {

namespace {

/// Whether any tile waits, before it has read everything, for what happens in its own launch.
bool tiles_wait(const Plan& plan) {
  const auto any = [](const std::vector<Wait>& waits) {
    return std::any_of(waits.begin(), waits.end(), [](const Wait& wait) { return wait.threshold > 0; });
  };
  for (const RankProgram& program : plan.programs)
    for (const Slot& slot : program.slots) {
      if (any(slot.waits)) return true;
      for (const LoopStep& step : slot.steps)
        if (any(step.waits)) return true;
    }
  return false;
}

/// Parameters of the outputs that leave as they are.
std::vector<std::string> sent_parameters(const Plan& plan) {
  std::vector<std::string> parameters;
  for (const Buffer& buffer : plan.buffers)
    if (buffer.role == BufferRole::result) parameters.push_back(plan.buffer(buffer.partner).parameter);
  return parameters;
}

std::vector<SummedInput> summed_inputs(const Plan& plan) {
  std::vector<SummedInput> inputs;
  for (const Buffer& buffer : plan.buffers)
    if (buffer.stacked && buffer.role == BufferRole::kernel)
      inputs.push_back({buffer.parameter, buffer.shape[0], volume(shape_without_stack(buffer))});
  return inputs;
}

std::vector<FoldedInput> folded_inputs(const Plan& plan) {
  std::vector<FoldedInput> inputs;
  for (const Buffer& buffer : plan.buffers) {
    if (!buffer.fold) continue;
    const Shape memory = memory_shape(buffer);
    std::vector<std::int64_t> strides(memory.size(), 1);
    for (std::size_t d = memory.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * memory[d];
    inputs.push_back({buffer.parameter, buffer.fold->dimension, buffer.fold->extent, strides});
  }
  return inputs;
}

/// Where tiles make room in folded inputs: parameters of the outputs that neither leave nor are reduced.
std::vector<std::string> kept_parameters(const Plan& plan) {
  std::vector<std::string> parameters;
  if (folded_inputs(plan).empty()) return parameters;
  const std::vector<bool> written = written_by_tiles(plan);
  for (std::size_t b = 0; b < written.size(); ++b)
    if (written[b] && !plan.buffers[b].is_reduced() && caller_side(plan, static_cast<int>(b)) < 0)
      parameters.push_back(plan.buffers[b].parameter);
  return parameters;
}

/// What is known, before it runs, of how the one-shot sum lies in memory, if there is one.
std::optional<AddedOutput> added_output(const Plan& plan) {
  const int result = added_up_buffer(plan);
  if (result < 0) return std::nullopt;
  constexpr std::int64_t kVectorBytes = 16;
  const Buffer& about = plan.buffer(result);
  AddedOutput added{plan.buffer(about.partner).parameter, plan.ranks,
                    std::gcd(kVectorBytes / size_in_bytes(about.dtype), volume(about.shape))};
  for (const RankProgram& program : plan.programs)
    for (const Addition& addition : program.additions)
      added.multiple =
          std::gcd(added.multiple, std::gcd(linear_offset(addition.region, about.shape), addition.region.volume()));
  return added;
}

void check_nothing_overridden(const std::string& path, const std::vector<Override>& overrides) {
  if (!overrides.empty())
    throw UserError({path}, "a plan is complete: --set has nothing to change in it",
                    "compile the operator file again with --set");
}

}  // namespace

Plan compile_operator(const std::string& operator_file, const std::vector<Override>& overrides) {
  const OperatorStatement statement = read_operator(operator_file, overrides);
  const TileKernel kernel = TileKernel::read(statement.kernel_file, statement.kernel_function);
  Plan plan = compile_plan(statement, kernel);
  const int reduced = reduced_buffer(plan);
  FusedSource fused = emit_fused(
      kernel, reduced < 0 ? "" : plan.buffer(reduced).parameter,
      {tiles_wait(plan), !plan.kernel.streamed_loops.empty(), sent_parameters(plan), sums_in_place(plan),
       summed_inputs(plan), folded_inputs(plan), kept_parameters(plan), is_dynamic(plan), added_output(plan)});
  plan.kernel.fused_function = std::move(fused.function);
  plan.kernel.fused_source = std::move(fused.text);
  return plan;
}

Plan load_plan(const std::string& path, const std::vector<Override>& overrides) {
  if (!path.ends_with(".json")) return compile_operator(path, overrides);
  check_nothing_overridden(path, overrides);
  return parse_plan(*SourceFile::read(path));
}

UncheckedPlan load_unchecked_plan(const std::string& path, const std::vector<Override>& overrides) {
  if (!path.ends_with(".json")) return {compile_operator(path, overrides), {}};
  check_nothing_overridden(path, overrides);
  const std::shared_ptr<const SourceFile> file = SourceFile::read(path);
  Plan plan = parse_plan(*file, false);
  try {
    return {parse_plan(*file), {}};
  } catch (const UserError& error) {  // the hash: the rest is right
    return {std::move(plan), fmt::format("{}: {}", error.where().to_string(), error.problem())};
  }
}

void write_plan(const Plan& plan, const std::string& folder) {
  const std::filesystem::path out(folder);
  FileTransaction files;
  files.write((out / "plan.json").string(), to_json(plan));
  files.write((out / "fused.py").string(), plan.kernel.fused_source);
  files.commit();
}

}  // namespace syncopate
