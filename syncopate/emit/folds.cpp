#include "syncopate/emit/folds.h"

#include <fmt/format.h>

#include <algorithm>

#include "syncopate/emit/references.h"
#include "syncopate/emit/sends.h"
#include "syncopate/kernel/stores.h"

namespace syncopate {
namespace {

class FoldEditor {
 public:
  FoldEditor(LineEditor& editor, const TileKernel& kernel, const FoldedInput& input, std::uint32_t end,
             const std::function<bool(ByteRange)>& is_copied)
      : editor_(editor), kernel_(kernel), input_(input), end_(end), is_copied_(is_copied) {}

  void run() {
    for (const MadeDescriptor& made : find_descriptors(kernel_.shared_module(), kernel_.function(), input_.parameter))
      edit(made);
    for (const Load& load : find_loads(kernel_.shared_module(), kernel_.function(), input_.parameter)) edit(load);
  }

 private:
  [[noreturn]] void reject(ByteRange range, const std::string& what, std::string remedy) const {
    throw UserError(
        kernel_.module().locate(range),
        fmt::format("{} '{}', which is kept in less memory than it has (memory_budget)", what, input_.parameter),
        std::move(remedy));
  }

  void check_place(ByteRange range, const std::string& what) const {
    if (!kernel_.function().range.contains(range))
      reject(range, "a helper " + what,
             fmt::format("do it in {} itself, and pass the helper the value", kernel_.function().name));
    if (is_copied_(range))
      reject(range, "among what makes the values of an output that is a sum this " + what,
             "do it before a loop of the tile");
  }

  const Expression& call_at(ByteRange range) const {
    const Expression* found = nullptr;
    for (const auto& statement : kernel_.function().body)
      visit(*statement, [&](const Expression& expression) {
        if (expression.kind == ExpressionKind::call && expression.range == range) found = &expression;
      });
    check_internal(found != nullptr, "a use of a descriptor that is no call of the kernel");
    return *found;
  }

  /// An argument by its name, or by its place among those of the call.
  static const Expression* argument(const Expression& call, std::string_view name, std::size_t place) {
    for (const Keyword& keyword : call.keywords)
      if (keyword.name == name) return keyword.value.get();
    return place + 1 < call.children.size() ? call.children[place + 1].get() : nullptr;
  }

  /// An argument that is written as a list with one entry for each dimension.
  const Expression& list(const Expression& call, std::string_view name, std::size_t place) const {
    const Expression* found = argument(call, name, place);
    if (found == nullptr || found->kind != ExpressionKind::tuple || found->children.size() != input_.strides.size())
      reject(call.range, fmt::format("the {} are not written where this uses", name),
             fmt::format("write them there, as a list of {} entries", input_.strides.size()));
    return *found;
  }

  void edit(const MadeDescriptor& made) const {
    check_place(made.range, "makes a descriptor of");
    if (!made.whole || made.dimensions != static_cast<int>(input_.strides.size()))
      reject(made.range, "this makes a descriptor of a part or a view of",
             "make one of the whole tensor, with its own dimensions");
    const Expression& call = call_at(made.range);
    const Expression& shape = list(call, "shape", 1);
    const Expression& strides = list(call, "strides", 2);
    const auto dimension = static_cast<std::size_t>(input_.dimension);
    editor_.replace(shape.children[dimension]->range, fmt::format("{}", input_.extent));
    for (std::size_t d = 0; d < dimension; ++d)
      editor_.replace(strides.children[d]->range, fmt::format("{}", input_.strides[d]));
  }

  void edit(const Load& load) const {
    check_place(load.range, "loads");
    if (!load.descriptor)
      reject(load.range, "this loads, through pointers,", "load it through a descriptor: tl.make_tensor_descriptor");
    if (load.range.begin > end_)
      reject(load.range, "this loads, after the tile's last store,",
             "load it before: once a tile has stored, other ranks may put something else there");
    const Expression& call = call_at(load.range);
    const bool method = call.children.front()->dotted_name().ends_with(".load");
    const Expression& offsets = list(call, "offsets", method ? 0 : 1);
    const ByteRange range = offsets.children[static_cast<std::size_t>(input_.dimension)]->range;
    editor_.replace(range, fmt::format("({}) % {}", kernel_.module().source->slice(range), input_.extent));
  }

  LineEditor& editor_;
  const TileKernel& kernel_;
  const FoldedInput& input_;
  std::uint32_t end_;
  const std::function<bool(ByteRange)>& is_copied_;
};

}  // namespace

void edit_folded(LineEditor& editor, const TileKernel& kernel, const std::vector<FoldedInput>& inputs,
                 const std::vector<std::string>& ends, const std::function<bool(ByteRange)>& is_copied) {
  if (inputs.empty()) return;
  const SentStores stores = find_sent(kernel, ends);
  check_internal(stores.last != nullptr, "tiles that read a folded input say nowhere that they have");
  for (const FoldedInput& input : inputs) FoldEditor(editor, kernel, input, stores.last->range.end, is_copied).run();
}

}  // namespace syncopate
