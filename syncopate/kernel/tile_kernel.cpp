#include "syncopate/kernel/tile_kernel.h"

#include <fmt/core.h>

#include <algorithm>

#include "syncopate/core/text.h"
#include "syncopate/kernel/annotations.h"
#include "syncopate/kernel/scheduler.h"

namespace syncopate {
namespace {

const Function& find_kernel(const Module& module, const std::string& name) {
  const Function* function = module.find(name);
  if (function != nullptr && function->jit) return *function;
  if (function != nullptr)
    throw UserError(module.locate(function->name_range), fmt::format("'{}' is not a kernel", name),
                    "put @triton.jit before it, or name a function that has it");
  std::vector<std::string> kernels;
  for (const auto& each : module.functions)
    if (each->jit) kernels.push_back(each->name);
  throw UserError({module.source->name(), 0, 0}, fmt::format("there is no kernel '{}' in this file", name),
                  kernels.empty() ? "it has no @triton.jit function" : suggest(name, kernels));
}

std::vector<std::string> parameter_names(const Function& function) {
  std::vector<std::string> names;
  for (const Parameter& parameter : function.parameters) names.push_back(parameter.name);
  return names;
}

void check_known(const Module& module, ByteRange range, const std::string& name, std::string_view what,
                 const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  throw UserError(module.locate(range), fmt::format("'{}' is not {}", name, what), suggest(name, known));
}

}  // namespace

TileKernel::TileKernel(std::shared_ptr<const Module> module, const std::string& function)
    : module_(std::move(module)), function_(&find_kernel(*module_, function)) {
  const Annotations annotations = read_annotations(*module_, *function_);
  scheduler_ = find_scheduler(*module_, *function_, annotations);
  const std::vector<std::string> parameters = parameter_names(*function_);
  for (const Annotations::Size& size : annotations.tile_sizes) {
    check_known(*module_, size.range, size.index_variable, "an index variable of this kernel",
                scheduler_.index_variables);
    check_known(*module_, size.range, size.parameter, "a parameter of this kernel", parameters);
    for (const auto& [other, parameter] : tile_sizes_)
      if (other == size.index_variable)
        throw UserError(module_->locate(size.range), fmt::format("'{}' has two tile sizes", other), "keep one of them");
    tile_sizes_.emplace_back(size.index_variable, size.parameter);
  }
  for (const Annotations::Stream& stream : annotations.streamed_loops) {
    if (stream.loop == scheduler_.loop)
      throw UserError(module_->locate(stream.range), "this is the loop over tiles, not a loop inside a tile",
                      "put 'streamed_loop' at the loop inside it that walks the axis");
    streamed_loops_.push_back({stream.loop, stream.axis});
  }
}

TileKernel TileKernel::read(const std::string& path, const std::string& function) {
  return TileKernel(parse_module(SourceFile::read(path)), function);
}

}  // namespace syncopate
