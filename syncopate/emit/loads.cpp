#include "syncopate/emit/loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "syncopate/emit/references.h"
#include "syncopate/kernel/stores.h"

namespace syncopate {
namespace {

constexpr std::size_t kColumns = 120;

class LoadEditor {
 public:
  LoadEditor(LineEditor& editor, const TileKernel& kernel, const SummedInput& input, std::size_t extra,
             const std::function<bool(ByteRange)>& is_copied)
      : editor_(editor), kernel_(kernel), input_(input), extra_(extra), is_copied_(is_copied) {}

  void run() {
    for (const Load& load : find_loads(kernel_.shared_module(), kernel_.function(), input_.parameter)) {
      check(load);
      edit(call_at(load.range));
    }
  }

 private:
  [[noreturn]] void reject(ByteRange range, std::string problem, std::string remedy) const {
    throw UserError(kernel_.module().locate(range), std::move(problem), std::move(remedy));
  }

  void check(const Load& load) const {
    const Function& function = kernel_.function();
    if (!function.range.contains(load.range))
      reject(load.range, fmt::format("a helper loads '{}', which is a sum over ranks", input_.parameter),
             fmt::format("load it in {} itself, and pass the helper the value", function.name));
    if (load.descriptor)
      reject(load.range,
             fmt::format("this loads '{}', which is a sum over ranks, through a descriptor", input_.parameter),
             "load it through pointers: tl.load adds the summands of other ranks");
    if (load.block_pointer)
      reject(load.range,
             fmt::format("this loads '{}', which is a sum over ranks, through a block pointer", input_.parameter),
             "load it through pointers with a mask: tl.load adds the summands of other ranks");
    if (is_copied_(load.range))
      reject(load.range,
             fmt::format("this loads '{}', a sum over ranks, among what makes the values of an output that is one, too",
                         input_.parameter),
             "load it before a loop of the tile, or leave one of the two sums to an operator of its own");
  }

  const Expression& call_at(ByteRange range) const {
    const Expression* found = nullptr;
    for (const auto& statement : kernel_.function().body)
      visit(*statement, [&](const Expression& expression) {
        if (expression.kind == ExpressionKind::call && expression.range == range) found = &expression;
      });
    check_internal(found != nullptr, "a load that is no call of the kernel");
    return *found;
  }

  /// The helper takes pointers, mask and the value elsewhere as tl.load does; how caches are used it knows better.
  void edit(const Expression& call) const {
    const std::vector<ByteRange> arguments = argument_ranges(call);
    bool masked = call.children.size() > 2;
    for (const Keyword& keyword : call.keywords) {
      if (keyword.name == "pointer" || keyword.name == "other") continue;
      if (keyword.name == "mask") {
        masked = true;
        continue;
      }
      const auto own = std::find_if(arguments.begin(), arguments.end(),
                                    [&](ByteRange range) { return range.end == keyword.value->range.end; });
      check_internal(own != arguments.begin(), "the pointers of a load come after an option");
      editor_.replace({(own - 1)->end, own->end}, "");
    }
    editor_.replace(call.children.front()->range, masked ? "syncopate_load_sum_where" : "syncopate_load_sum");
    editor_.replace({arguments.back().end, arguments.back().end}, constants(call, arguments.back().end));
  }

  /// In source order, the names of keywords included.
  static std::vector<ByteRange> argument_ranges(const Expression& call) {
    std::vector<ByteRange> ranges;
    for (std::size_t i = 1; i < call.children.size(); ++i) ranges.push_back(call.children[i]->range);
    for (const Keyword& keyword : call.keywords) ranges.push_back(keyword.value->range);
    std::sort(ranges.begin(), ranges.end(), [](ByteRange a, ByteRange b) { return a.begin < b.begin; });
    return ranges;
  }

  /// What the helper is told besides, on a line of its own if it would make the line too long.
  std::string constants(const Expression& call, std::uint32_t end) const {
    const std::string text = fmt::format("summands={}, distance={}", input_.summands, input_.distance);
    constexpr std::size_t kLongerName = std::string_view("syncopate_load_sum_where").size();
    const std::size_t line = editor_.line(editor_.line_of(end)).size();
    if (line + extra_ + kLongerName + text.size() < kColumns) return ", " + text;
    const auto column = static_cast<std::size_t>(kernel_.module().locate(call.range).column - 1);
    return fmt::format(",\n{}{}", std::string(column + extra_, ' '), text);
  }

  LineEditor& editor_;
  const TileKernel& kernel_;
  const SummedInput& input_;
  std::size_t extra_;
  const std::function<bool(ByteRange)>& is_copied_;
};

}  // namespace

void edit_loads(LineEditor& editor, const TileKernel& kernel, const std::vector<SummedInput>& inputs, std::size_t extra,
                const std::function<bool(ByteRange)>& is_copied) {
  for (const SummedInput& input : inputs) LoadEditor(editor, kernel, input, extra, is_copied).run();
}

}  // namespace syncopate
