// Calls: of triton.language, of methods of blocks and descriptors, and of the helpers that the emitted kernel has.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "syncopate/core/text.h"
#include "syncopate/kernel/lower_builtins.h"
#include "syncopate/kernel/runtime_names.h"

namespace syncopate::lowering {
namespace {

/// float("inf"), float("-inf") and float("nan").
Operand lower_float(Lowering& lowering, const Expression& call) {
  if (call.children.size() == 2) {
    const Expression& text = *call.children[1];
    if (text.kind == ExpressionKind::string && (text.text == "inf" || text.text == "+inf"))
      return Operand::single(lowering.constant(std::numeric_limits<double>::infinity()));
    if (text.kind == ExpressionKind::string && text.text == "-inf")
      return Operand::single(lowering.constant(-std::numeric_limits<double>::infinity()));
    if (text.kind == ExpressionKind::string && text.text == "nan")
      return Operand::single(lowering.constant(std::numeric_limits<double>::quiet_NaN()));
  }
  lowering.fail(call.range, "float() of this is not supported",
                "supported are float(\"inf\"), float(\"-inf\") and float(\"nan\")");
}

/// The arguments of a call of one of our helpers, whose parameters have these names.
template <std::size_t count>
std::array<Register, count> helper_arguments(Lowering& lowering, const Expression& call, const char* helper,
                                             const std::array<std::string_view, count>& names) {
  std::array<Register, count> values;
  values.fill(kNoRegister);
  for (std::size_t i = 1; i < call.children.size() && i <= count; ++i)
    values[i - 1] = lowering.evaluate_value(*call.children[i]);
  for (const Keyword& keyword : call.keywords)
    for (std::size_t i = 0; i < count; ++i)
      if (names[i] == keyword.name) values[i] = lowering.evaluate_value(*keyword.value);
  for (std::size_t i = 0; i < count; ++i)
    if (values[i] == kNoRegister) lowering.fail(call.range, fmt::format("{} without '{}'", helper, names[i]));
  return values;
}

/// The helpers of runtime_names.h, which are not inlined.
bool is_named_helper(std::string_view name) {
  return name == kWaitHelper || name == kElementsHelper || name == kElsewhereHelper || name == kPublishHelper ||
         name == kRaiseHelper || name == kMissingHelper || name == kTellTmaHelper || name == kAddBlockHelper;
}

Operand lower_named_helper(Lowering& lowering, const Expression& call, std::string_view name, Register into) {
  using Names = std::string_view;
  if (name == kWaitHelper) {
    static constexpr std::array<Names, 6> kNames = {"flags", "slot", "expected", "tile", "record", "time_limit"};
    const auto values = helper_arguments(lowering, call, kWaitHelper, kNames);
    return Operand::single(
        lowering.compute(Opcode::wait, 0, {values[0], values[1], values[2], values[3]}, call.range, into));
  }
  if (name == kElementsHelper) {
    static constexpr std::array<Names, 2> kNames = {"pointers", "base"};
    const auto values = helper_arguments(lowering, call, kElementsHelper, kNames);
    return Operand::single(lowering.compute(Opcode::elements, 0, values, call.range, into));
  }
  if (name == kElsewhereHelper) {
    static constexpr std::array<Names, 3> kNames = {"pointers", "base", "other"};
    const auto values = helper_arguments(lowering, call, kElsewhereHelper, kNames);
    return Operand::single(lowering.compute(Opcode::elsewhere, 0, values, call.range, into));
  }
  if (name == kRaiseHelper) {
    static constexpr std::array<Names, 3> kNames = {"peers", "home", "slot"};
    lowering.emit(Opcode::raise, 0, kNoRegister, helper_arguments(lowering, call, kRaiseHelper, kNames), call.range);
  }
  if (name == kAddBlockHelper) {
    static constexpr std::array<Names, 4> kNames = {"descriptor", "row", "column", "value"};
    const auto values = helper_arguments(lowering, call, kAddBlockHelper, kNames);
    lowering.emit(Opcode::descriptor_add, 0, kNoRegister,
                  std::array<Register, 4>{values[0], values[3], values[1], values[2]}, call.range);
    return Operand::single(lowering.constant(std::monostate{}));
  }
  // What syncopate_raise, syncopate_publish, syncopate_tell_tma and syncopate_is_missing return.
  return Operand::single(lowering.constant(std::int64_t{name == kMissingHelper ? 1 : 0}));
}

Operand lower_builtin(Lowering& lowering, const Builtin& builtin, std::string_view shown, const Expression& call,
                      const Expression* self, Register into) {
  const std::size_t count = builtin.parameters.size();
  Call bound{lowering, call, into, std::vector<Operand>(count), std::vector<bool>(count, false), {}};
  std::vector<const Expression*> positional;
  if (self) positional.push_back(self);
  for (std::size_t i = 1; i < call.children.size(); ++i) positional.push_back(call.children[i].get());
  for (std::size_t i = 0; i < positional.size(); ++i) {
    if (i < count) {
      bound.arguments[i] = lowering.evaluate(*positional[i]);
      bound.given[i] = true;
    } else if (builtin.takes_rest) {
      bound.rest.push_back(lowering.evaluate(*positional[i]));
    } else {
      lowering.fail(positional[i]->range, fmt::format("{} is given {}", shown, count_of(positional.size(), "argument")),
                    fmt::format("supported are ({})", fmt::join(builtin.parameters, ", ")));
    }
  }
  for (const Keyword& keyword : call.keywords) {
    const auto name = std::find(builtin.parameters.begin(), builtin.parameters.end(), keyword.name);
    if (name != builtin.parameters.end()) {
      const auto index = static_cast<std::size_t>(name - builtin.parameters.begin());
      if (bound.given[index]) lowering.fail(keyword.value->range, fmt::format("'{}' is given twice", keyword.name));
      bound.arguments[index] = lowering.evaluate(*keyword.value);
      bound.given[index] = true;
      continue;
    }
    if (std::find(builtin.ignored.begin(), builtin.ignored.end(), keyword.name) == builtin.ignored.end())
      lowering.fail(keyword.value->range, fmt::format("the argument '{}' of {} is not supported", keyword.name, shown),
                    fmt::format("supported are {}", fmt::join(builtin.parameters, ", ")));
  }
  for (std::size_t i = 0; i < builtin.required; ++i)
    if (!bound.given[i]) lowering.fail(call.range, fmt::format("{} without '{}'", shown, builtin.parameters[i]));
  return builtin.handler(bound);
}

}  // namespace

std::string Lowering::language_name(std::string_view dotted) const {
  const std::size_t first = dotted.find('.');
  const std::string_view outermost = dotted.substr(0, first);
  const auto import = imported_.find(outermost);
  if (import == imported_.end() || is_local(outermost)) return "";
  // A function of the file hides what is imported under its name.
  if (first == std::string_view::npos && module_.find(outermost) != nullptr) return "";
  const std::string path = import->second + std::string(first == std::string_view::npos ? "" : dotted.substr(first));
  if (path == "triton.cdiv") return "cdiv";
  constexpr std::string_view kLanguage = "triton.language.";
  if (!path.starts_with(kLanguage)) return "";
  const std::string_view name = std::string_view(path).substr(kLanguage.size());
  for (const std::string_view library : {"extra.libdevice.", "extra.cuda.libdevice.", "libdevice.", "math.libdevice."})
    if (name.starts_with(library)) return fmt::format("libdevice.{}", name.substr(library.size()));
  for (const std::string_view module : {"core.", "standard."})
    if (name.starts_with(module)) return std::string(name.substr(module.size()));
  return std::string(name);
}

Operand Lowering::lower_call(const Expression& call, Register into) {
  const Expression& callee = *call.children[0];
  const std::string dotted = callee.dotted_name();
  if (const std::string name = language_name(dotted); !name.empty()) {
    if (const Builtin* builtin = find_builtin(name))
      return lower_builtin(*this, *builtin, "tl." + name, call, nullptr, into);
    if (name == "range" || name == "static_range")
      fail(call.range, fmt::format("tl.{} outside the header of a loop", name), "write `for i in tl.range(...):`");
    const std::string_view remedy = remedy_for(name);
    fail(call.range, fmt::format("tl.{} is not supported", name),
         remedy.empty() ? fmt::format("supported are {}", supported_functions()) : std::string(remedy));
  }
  if (callee.kind == ExpressionKind::attribute) {
    const Builtin* builtin = find_method(callee.text);
    // A pointer's method of this name takes no list of offsets.
    if (callee.text.starts_with("atomic_") && call.children.size() > 1 &&
        call.children[1]->kind == ExpressionKind::tuple)
      fail(call.range, fmt::format("'.{}' of a tensor descriptor is not supported", callee.text),
           "store every element of an output once, with .store; tl.atomic_add takes pointers");
    if (builtin == nullptr)
      fail(call.range, fmt::format("the method '.{}' is not supported", callee.text),
           "supported are .load and .store of descriptors, and .to, .reshape, .permute, .trans, .sum, .min, .max, "
           ".expand_dims, .broadcast_to, .split of blocks");
    return lower_builtin(*this, *builtin, "." + callee.text, call, callee.children[0].get(), into);
  }
  if (callee.kind != ExpressionKind::name) fail(call.range, "a call of something that is not a function");
  if (is_named_helper(dotted)) return lower_named_helper(*this, call, dotted, into);
  if (const auto local = scope_->variables.find(dotted); local != scope_->variables.end()) {
    if (local->second.function == nullptr)
      fail(call.range, fmt::format("'{}' is a value, not a function", dotted),
           "give a @triton.jit function of this file");
    return inline_call(*local->second.function, call);
  }
  if (const Function* function = module_.find(dotted)) return inline_call(*function, call);
  if (dotted == "float") return lower_float(*this, call);
  if (const Builtin* builtin = find_python_function(dotted))
    return lower_builtin(*this, *builtin, dotted, call, nullptr, into);
  std::vector<std::string> known;
  for (const auto& function : module_.functions) known.push_back(function->name);
  fail(call.range, fmt::format("'{}' is not a function of this file", dotted), suggest(dotted, known));
}

}  // namespace syncopate::lowering
