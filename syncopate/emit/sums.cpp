#include "syncopate/emit/sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "syncopate/emit/references.h"
#include "syncopate/kernel/runtime_names.h"
#include "syncopate/kernel/stores.h"

namespace syncopate {
namespace {

using Body = std::vector<std::unique_ptr<Statement>>;

bool contains(ByteRange outer, ByteRange inner) { return outer.begin <= inner.begin && inner.end <= outer.end; }

/// A store and the statement that it is.
struct Site {
  const Statement* statement = nullptr;
  bool descriptor = false;
};

/// A call that stores, as the user wrote it.
struct Call {
  std::string place;                 ///< the descriptor or the pointers
  std::vector<std::string> offsets;  ///< of a descriptor
  ByteRange place_range;
  ByteRange value;
  const Expression* mask = nullptr;
  std::uint32_t end = 0;  ///< past the last argument
};

const Expression* argument(const Expression& call, std::size_t position, std::string_view name) {
  for (const Keyword& keyword : call.keywords)
    if (keyword.name == name) return keyword.value.get();
  return position + 1 < call.children.size() ? call.children[position + 1].get() : nullptr;
}

std::uint32_t arguments_end(const Expression& call) {
  std::uint32_t end = 0;
  for (const auto& child : call.children) end = std::max(end, child->range.end);
  for (const Keyword& keyword : call.keywords) end = std::max(end, keyword.value->range.end);
  return end;
}

}  // namespace

class SumEditor::Impl {
 public:
  Impl(LineEditor& editor, const TileKernel& kernel, std::string parameter, std::string extra)
      : editor_(editor),
        module_(kernel.module()),
        function_(kernel.function()),
        scheduler_(kernel.scheduler()),
        parameter_(std::move(parameter)),
        extra_(std::move(extra)) {
    const std::vector<Store> stores = find_stores(kernel.shared_module(), function_, parameter_);
    if (stores.empty())
      reject(function_.name_range, fmt::format("kernel {} stores nothing to '{}'", function_.name, parameter_),
             "the kernel must store its summands there");
    for (const Store& store : stores) add_site(store);
    if (scheduler_.advance != nullptr && scheduler_.advance->range.begin < sites_.back().statement->range.begin)
      slot_ = "syncopate_current";
  }

  std::string loop_start(const std::string& indentation) const {
    return slot_ == kSlot ? "" : fmt::format("{}{} = {}\n", indentation, slot_, kSlot);
  }

  void edit_stores() {
    for (const Site& site : sites_) editor_.replace(site.statement->range, edited(site));
    namespace parameter = runtime_parameter;
    const int line = editor_.line_of(last_->range.end - 1) + 1;
    editor_.insert_before(line, call_line(indentation(*last_), "syncopate_raise_early(",
                                          {kEntry, slot_, std::to_string(columns()), parameter::kTileCount,
                                           parameter::kSignals, parameter::kPeers}));
  }

  void insert_waits() {
    namespace parameter = runtime_parameter;
    const std::string space = indentation(*first_);
    std::string lines = fmt::format("{}{} = syncopate_row + {}\n", space, kEntry, scheduler_.index_variables.size());
    lines += call_line(space, "syncopate_raise_late(",
                       {kEntry, slot_, std::to_string(columns()), parameter::kSignals, parameter::kPeers});
    lines += call_line(space, fmt::format("{} = syncopate_wait_for_tile(", kArrived),
                       {fmt::format("{} + {}", kEntry, kWaitColumns), parameter::kWaits, parameter::kFlags,
                        "syncopate_launch", slot_, parameter::kRecord, parameter::kTimeLimit});
    editor_.insert_before(with_comment(editor_.line_of(first_->range.begin)), lines);
  }

 private:
  static constexpr const char* kSlot = "syncopate_slot";
  static constexpr const char* kEntry = "syncopate_entry";
  static constexpr const char* kArrived = "syncopate_arrived";
  static constexpr const char* kValue = "syncopate_value";
  static constexpr const char* kPointers = "syncopate_pointers";
  static constexpr const char* kKept = "syncopate_kept_here";

  [[noreturn]] void reject(ByteRange range, std::string problem, std::string remedy) const {
    throw UserError(module_.locate(range), std::move(problem), std::move(remedy));
  }

  std::string text(ByteRange range) const { return std::string(module_.source->slice(range)); }

  std::size_t columns() const { return scheduler_.index_variables.size() + kWaitColumns + kSumColumns; }

  /// One step of the user's indentation.
  std::string unit() const { return editor_.indentation(editor_.line_of(function_.body.front()->range.begin)); }
  std::string indentation(const Statement& statement) const {
    return editor_.indentation(editor_.line_of(statement.range.begin)) + extra_;
  }

  const Body& tile_body() const { return scheduler_.loop == nullptr ? function_.body : scheduler_.loop->body; }

  /// The first of the comment lines that stand directly above a line, or that line.
  int with_comment(int line) const {
    const auto is_comment = [&](int number) {
      const std::string space = editor_.indentation(number);
      return editor_.line(number).substr(space.size()).starts_with('#') && space == editor_.indentation(line);
    };
    while (line - 1 > editor_.first_line() && !editor_.removed(line - 1) && is_comment(line - 1)) --line;
    return line;
  }

  // ---- Where the stores are ----

  void add_site(const Store& store) {
    if (!contains(function_.range, store.range))
      reject(store.range, fmt::format("a helper stores to '{}', which is a sum over ranks", parameter_),
             fmt::format("let the helper return the value, and store it in {} itself", function_.name));
    for (const auto& statement : tile_body()) {
      if (!contains(statement->range, store.range)) continue;
      const Statement* found = nullptr;
      visit_statements(*statement, [&](const Statement& each) {
        const bool is_store = each.kind == StatementKind::expression && each.value->range == store.range;
        if (is_store) found = &each;
      });
      if (found == nullptr)
        reject(store.range, fmt::format("this store to '{}' is part of a larger expression", parameter_),
               "make it a statement of its own");
      check_own_lines(*found);
      if (store.descriptor && store.dimensions != 2)
        reject(store.range,
               fmt::format("this stores to '{}', which is a sum over ranks, through a descriptor of {} dimensions",
                           parameter_, store.dimensions),
               "use a descriptor of 2 dimensions, or pointers");
      if (first_ == nullptr) first_ = statement.get();
      last_ = statement.get();
      sites_.push_back({found, store.descriptor});
      return;
    }
    reject(store.range, fmt::format("this store to '{}' is outside the loop over tiles", parameter_),
           "every element must be written by the tile that it belongs to");
  }

  void check_own_lines(const Statement& statement) const {
    const std::string& source = module_.source->text();
    std::string_view after = std::string_view(source).substr(statement.range.end);
    after = after.substr(0, after.find('\n'));
    after.remove_prefix(std::min(after.find_first_not_of(" \t\r"), after.size()));
    const auto column = static_cast<std::size_t>(module_.locate(statement.range).column - 1);
    const std::size_t space = editor_.indentation(editor_.line_of(statement.range.begin)).size();
    if (column == space && (after.empty() || after.front() == '#')) return;
    reject(statement.range, fmt::format("this store to '{}' shares its line with other code", parameter_),
           "put it on a line of its own");
  }

  // ---- How they are edited ----

  Call read_call(const Site& site) const {
    const Expression& call = *site.statement->value;
    Call result;
    result.end = arguments_end(call);
    const Expression* place = nullptr;
    const Expression* value = nullptr;
    if (site.descriptor) {
      const bool method = call.children.front()->dotted_name().find("store_tensor_descriptor") == std::string::npos;
      const std::size_t shift = method ? 0 : 1;
      place = method ? call.children.front()->children.front().get() : argument(call, 0, "desc");
      const Expression* const offsets = argument(call, shift, "offsets");
      value = argument(call, shift + 1, "value");
      for (std::size_t i = 0; i < 2; ++i)
        result.offsets.push_back(offsets->kind == ExpressionKind::tuple
                                     ? text(offsets->children[i]->range)
                                     : fmt::format("{}[{}]", text(offsets->range), i));
      if (place->kind != ExpressionKind::name)
        reject(place->range, "a descriptor without a name stores to what is a sum over ranks",
               "give the descriptor a name of its own");
    } else {
      place = argument(call, 0, "pointer");
      value = argument(call, 1, "value");
      result.mask = argument(call, 2, "mask");
    }
    result.place = text(place->range);
    result.place_range = place->range;
    result.value = value->range;
    return result;
  }

  /// The user's statement with parts replaced: pairs of a range and its new text.
  std::string with_parts(const Statement& statement, std::vector<std::pair<ByteRange, std::string>> parts) const {
    std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
    std::string result;
    std::uint32_t position = statement.range.begin;
    for (const auto& [range, replacement] : parts) {
      result += text({position, range.begin}) + replacement;
      position = range.end;
    }
    return result + text({position, statement.range.end});
  }

  /// A call in lines of its own. `start` ends with its parenthesis.
  static std::string call_line(const std::string& space, const std::string& start,
                               const std::vector<std::string>& arguments, const std::string& tail = ")\n") {
    return wrap_items(space + start, arguments, space.size() + start.size(), tail);
  }

  /// An expression that is to stand before a `&`.
  std::string as_operand(const Expression& expression) const {
    const bool binds = expression.kind == ExpressionKind::name || expression.kind == ExpressionKind::call ||
                       (expression.kind == ExpressionKind::binary && expression.text == "&");
    return fmt::format(fmt::runtime(binds ? "{}" : "({})"), text(expression.range));
  }

  std::string edited(const Site& site) const {
    const std::string space = indentation(*site.statement);
    const std::string result = site.descriptor ? edited_block(site, space) : edited_pointers(site, space);
    return result.substr(space.size());  // the first line's stays
  }

  std::string edited_block(const Site& site, const std::string& space) const {
    const Call call = read_call(site);
    const std::string& row = call.offsets[0];
    const std::string& column = call.offsets[1];
    std::string lines = call_line(space, fmt::format("{} = syncopate_sum_block(", kValue),
                                  {text(call.value), call.place, row, column, kEntry, kArrived,
                                   runtime_parameter::kStaging, runtime_parameter::kAddends});
    lines += call_line(space, "if syncopate_cuts_block(", {kValue, call.place, row, kEntry, runtime_parameter::kCut},
                       "):\n");
    lines += call_line(space + unit(), "syncopate_store_kept(", {parameter_, kValue, call.place, row, column, kEntry});
    lines += fmt::format("{}else:\n", space);
    return lines + space + unit() + with_parts(*site.statement, {{call.value, kValue}});
  }

  std::string edited_pointers(const Site& site, const std::string& space) const {
    Call call = read_call(site);
    std::string lines;
    std::vector<std::pair<ByteRange, std::string>> parts = {{call.value, kValue}};
    if (call.place.find_first_of(" \n([.") != std::string::npos) {
      lines = call_line(space, fmt::format("{} = (", kPointers), {call.place});
      call.place = kPointers;
      parts.emplace_back(call.place_range, kPointers);
    }
    const bool masked = call.mask != nullptr && call.mask->kind != ExpressionKind::none;
    const std::string mask = masked ? text(call.mask->range) : "True";
    lines += call_line(space, fmt::format("{} = syncopate_sum_at(", kValue),
                       {text(call.value), call.place, parameter_, mask, kEntry, kArrived, runtime_parameter::kStaging,
                        runtime_parameter::kAddends});
    const std::string uncut = with_parts(*site.statement, parts);
    if (masked) {
      parts.emplace_back(call.mask->range, fmt::format("{} & {}", as_operand(*call.mask), kKept));
    } else if (call.mask != nullptr) {
      parts.emplace_back(call.mask->range, kKept);
    } else {
      parts.emplace_back(ByteRange{call.end, call.end}, fmt::format(", mask={}", kKept));
    }
    lines += fmt::format("{}if {}:\n", space, runtime_parameter::kCut);
    lines += call_line(space + unit(), fmt::format("{} = syncopate_kept(", kKept), {call.place, parameter_, kEntry});
    lines += fmt::format("{0}{1}{2}\n{0}else:\n", space, unit(), with_parts(*site.statement, parts));
    return lines + space + unit() + uncut;
  }

  LineEditor& editor_;
  const Module& module_;
  const Function& function_;
  const TileScheduler& scheduler_;
  std::string parameter_;
  std::string extra_;
  std::string slot_ = kSlot;  ///< the variable that holds the number of the tile's slot where the stores are
  std::vector<Site> sites_;
  const Statement* first_ = nullptr;  ///< of the tile's own statements, the first that is or holds a store
  const Statement* last_ = nullptr;
};

SumEditor::SumEditor(LineEditor& editor, const TileKernel& kernel, const std::string& parameter, std::string extra)
    : impl_(std::make_unique<Impl>(editor, kernel, parameter, std::move(extra))) {}
SumEditor::~SumEditor() = default;
std::string SumEditor::loop_start(const std::string& indentation) const { return impl_->loop_start(indentation); }
void SumEditor::edit_stores() { impl_->edit_stores(); }
void SumEditor::insert_waits() { impl_->insert_waits(); }

}  // namespace syncopate
