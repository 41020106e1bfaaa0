#include "syncopate/emit/sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "syncopate/emit/loop_walk.h"
#include "syncopate/emit/references.h"
#include "syncopate/emit/store_sites.h"
#include "syncopate/kernel/runtime_names.h"

namespace syncopate {
namespace {

/// Whether an expression has the same value wherever the names in it have the same: names, numbers, operators, and
/// conversions `x.to(...)`.
bool is_arithmetic(const Expression& expression) {
  bool result = true;
  visit(expression, [&](const Expression& each) {
    switch (each.kind) {
      case ExpressionKind::name:
      case ExpressionKind::integer:
      case ExpressionKind::tuple:
      case ExpressionKind::attribute:
      case ExpressionKind::subscript:
      case ExpressionKind::unary:
      case ExpressionKind::binary:
        return;
      case ExpressionKind::call: {
        const Expression& callee = *each.children.front();
        result = result && callee.kind == ExpressionKind::attribute && callee.text == "to";
        return;
      }
      default:
        result = false;
    }
  });
  return result;
}

bool uses_any(const Expression& expression, const std::set<std::string>& names) {
  bool found = false;
  visit(expression, [&](const Expression& each) {
    found = found || (each.kind == ExpressionKind::name && names.contains(each.text));
  });
  return found;
}

}  // namespace

class SumEditor::Impl {
 public:
  Impl(LineEditor& editor, const TileKernel& kernel, std::string parameter, const std::vector<std::string>& sent,
       bool in_place, std::string extra)
      : editor_(editor),
        module_(kernel.module()),
        function_(kernel.function()),
        scheduler_(kernel.scheduler()),
        parameter_(std::move(parameter)),
        in_place_(in_place),
        extra_(std::move(extra)),
        sites_(editor, kernel, parameter_, sent) {
    if (scheduler_.advance != nullptr && scheduler_.advance->range.begin < sites_.begin()) slot_ = kKeptSlot;
  }

  std::string loop_start(const std::string& indentation) const {
    namespace parameter = runtime_parameter;
    std::string lines =
        fmt::format("{}{} = syncopate_row + {}\n", indentation, kEntry, scheduler_.index_variables.size());
    lines += call_line(indentation, fmt::format("{} = syncopate_load_work(", kWork),
                       {kEntry, parameter::kWaits, parameter::kFlags, "syncopate_launch"});
    if (slot_ != kSlot) lines += fmt::format("{}{} = {}\n", indentation, slot_, kSlot);
    return lines;
  }

  bool copies(ByteRange range) const {
    return editor_.line_of(range.begin) <= sites_.end_line() && editor_.line_of(range.end - 1) >= sites_.begin_line();
  }

  void edit_stores() {
    for (const Site& site : sites_.all()) editor_.replace(site.statement->range, edited(site));
    const std::string space = indentation(sites_.first());
    std::string lines = space + "else:\n" + without_adding();
    lines += call_line(space, "syncopate_raise_early(",
                       {kWork, fmt::format("{} + {}", kEntry, kLateColumn + 2), runtime_parameter::kSignals,
                        runtime_parameter::kPeers});
    editor_.indent_lines(sites_.begin_line(), sites_.end_line(), unit(), {});
    editor_.insert_before(sites_.end_line() + 1, lines);
  }

  void insert_waits() {
    namespace parameter = runtime_parameter;
    const std::string space = indentation(sites_.first());
    const std::string inner = space + unit();
    std::string lines =
        call_line(space, "syncopate_raise_late(",
                  {kWork, fmt::format("{} + {}", kEntry, kLateColumn), parameter::kSignals, parameter::kPeers});
    lines += fmt::format("{}if syncopate_adds({}):\n", space, kWork);
    lines += call_line(
        inner, fmt::format("{} = {}(", kArrived, in_place_ ? "syncopate_wait_in_place" : "syncopate_wait_to_add"),
        {kWork, kEntry, parameter::kWaits, parameter::kFlags, "syncopate_launch", slot_, parameter::kRecord,
         parameter::kTimeLimit});
    const auto is_block = [](const Site& site) { return site.descriptor; };
    if (!in_place_ && std::any_of(sites_.all().begin(), sites_.all().end(), is_block))
      lines +=
          call_line(inner, fmt::format("{} = syncopate_first_addend(", kAddend), {kWork, kEntry, parameter::kAddends});
    editor_.insert_before(sites_.begin_line(), lines);
  }

 private:
  static constexpr std::size_t kLateColumn = 7;  ///< behind the index variables: the rows of signals to raise late
  static constexpr const char* kSlot = "syncopate_slot";
  static constexpr const char* kEntry = "syncopate_entry";
  static constexpr const char* kWork = "syncopate_work";
  static constexpr const char* kAddend = "syncopate_addend";
  static constexpr const char* kFirst = "syncopate_first";
  static constexpr const char* kArrived = "syncopate_arrived";
  static constexpr const char* kValue = "syncopate_value";
  static constexpr const char* kPointers = "syncopate_pointers";
  static constexpr const char* kKept = "syncopate_kept_here";

  std::string text(ByteRange range) const { return std::string(module_.source->slice(range)); }

  /// One step of the user's indentation.
  std::string unit() const { return editor_.indentation(editor_.line_of(function_.body.front()->range.begin)); }
  std::string indentation(const Statement& statement) const {
    return editor_.indentation(editor_.line_of(statement.range.begin)) + extra_;
  }

  // ---- What is there twice ----
  // Slots that add nothing have the user's statements as they were, in a branch of their own: so they pay for nothing.
  // With the stores go the statements that make their values, back to the tile's last loop: Triton waits for tensor
  // cores to be done with an accumulator at the beginning of the block that uses it, and until there signals can be
  // raised at no cost.

  /// Those lines for slots that add nothing: as they were, except that slots may keep only a part of a block.
  std::string without_adding() const {
    std::string lines;
    std::size_t site = 0;
    const std::vector<Site>& sites = sites_.all();
    for (int number = sites_.begin_line(); number <= sites_.end_line(); ++number) {
      if (editor_.removed(number)) continue;
      if (site < sites.size() && editor_.line_of(sites[site].statement->range.begin) == number) {
        const Statement& statement = *sites[site].statement;
        const std::string space = indentation(statement) + unit();
        const std::string_view text = module_.source->text();
        const std::size_t end = text.find('\n', statement.range.end);
        const std::string_view rest = text.substr(statement.range.end, end - statement.range.end);
        lines += fmt::format("{}{}\n", stored_part(sites[site], space), rest);
        number = editor_.line_of(statement.range.end - 1);
        ++site;
      } else if (editor_.line(number).empty()) {
        lines += '\n';
      } else {
        lines += fmt::format("{}{}{}\n", extra_, unit(), editor_.line(number));
      }
    }
    return lines;
  }

  std::string stored_part(const Site& site, const std::string& space) const {
    if (in_place_) return space + text(site.statement->range);
    const Call call = sites_.read_call(site);
    const std::string value = text(call.value);
    return site.descriptor ? store_block(site, call, value, space) : store_elements(site, call, {}, space);
  }

  // ---- How they are edited ----

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

  /// A call as a line, or as several if it became too long for one.
  static std::string call_in_lines(const std::string& space, const std::string& call) {
    constexpr std::size_t kColumns = 120;
    if (space.size() + call.size() <= kColumns || call.find_first_of("\n\"'") != std::string::npos) return space + call;
    const std::size_t open = call.find('(') + 1;
    std::vector<std::string> arguments(1);
    int depth = 0;
    for (const char c : call.substr(open, call.size() - open - 1)) {
      depth += (c == '(' || c == '[') - (c == ')' || c == ']');
      if (c == ',' && depth == 0) {
        arguments.emplace_back();
      } else if (c != ' ' || !arguments.back().empty()) {
        arguments.back() += c;
      }
    }
    return call_line(space, call.substr(0, open), arguments, ")");
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
    const std::string space = indentation(*site.statement) + unit();
    const std::string result = in_place_         ? added_in_place(site, space)
                               : site.descriptor ? edited_block(site, space)
                                                 : edited_pointers(site, space);
    return result.substr(space.size());  // the first line has it already
  }

  std::string added_in_place(const Site& site, const std::string& space) const {
    const Call call = sites_.read_call(site);
    return call_line(space, "syncopate_add_in_place(",
                     {call.place, call.offsets[0], call.offsets[1], text(call.value), kArrived}, ")");
  }

  // ---- What happens ahead of the first of several stores ----
  // The summands of the first addend are loaded for all of them, so that the loads are under way together. Before that,
  // their values are converted to the output's type, to have the registers.

  /// Names that the statements from `first` up to `last`, its sibling, assign.
  static std::set<std::string> assigned_between(const Site& first, const Site& last) {
    std::set<std::string> names;
    bool between = false;
    for (const auto& statement : *first.siblings) {
      if (statement.get() == first.statement) between = true;
      if (statement.get() == last.statement) break;
      if (!between) continue;
      visit_statements(*statement, [&](const Statement& each) {
        for (const Expression* variable : assigned_variables(each)) names.insert(variable->text);
      });
    }
    return names;
  }

  /// Whether it is known at the store `first` already which elements `later`, its sibling, stores.
  bool place_known(const Site& first, const Site& later) const {
    const Call call = sites_.read_call(later);
    const std::set<std::string> assigned = assigned_between(first, later);
    return is_arithmetic(*call.offsets_written) && !uses_any(*call.offsets_written, assigned) &&
           !assigned.contains(call.place);
  }

  /// Whether it is known at the store `first` already what `later`, its sibling, stores.
  bool value_known(const Site& first, const Site& later) const {
    const Expression& value = *sites_.read_call(later).value_written;
    return &first == &later || (is_arithmetic(value) && !uses_any(value, assigned_between(first, later)));
  }

  /// Those of the siblings of `site` before the first of which first summands are loaded for all. Perhaps not `site`.
  std::vector<const Site*> loaded_together(const Site& site) const {
    std::vector<const Site*> group;
    for (const Site& each : sites_.all()) {
      if (!each.descriptor || each.siblings != site.siblings) continue;
      if (group.empty() || place_known(*group.front(), each)) group.push_back(&each);
    }
    return group;
  }

  /// The lines before `sites`, which are stored from there on, and the names that they make for the own values, as
  /// far as these are known, and the first summands.
  struct Ahead {
    std::string lines;
    std::vector<std::string> values;  ///< or the user's expression
    std::vector<std::string> summands;
  };
  Ahead ahead_of(const std::vector<const Site*>& sites, const std::string& space) const {
    Ahead ahead;
    const auto name = [&](const char* base, std::size_t i) {
      return sites.size() == 1 ? std::string(base) : fmt::format("{}_{}", base, i);
    };
    for (std::size_t i = 0; i < sites.size(); ++i) {
      const std::string value = text(sites_.read_call(*sites[i]).value);
      const bool known = value_known(*sites.front(), *sites[i]);
      ahead.values.push_back(known ? name(kValue, i) : value);
      if (!known) continue;
      const bool long_line = value.find('\n') != std::string::npos;
      ahead.lines +=
          fmt::format(fmt::runtime(long_line ? "{}{} = ({})\n" : "{}{} = {}\n"), space, ahead.values.back(), value);
    }
    for (std::size_t i = 0; i < sites.size(); ++i) {
      const Call call = sites_.read_call(*sites[i]);
      ahead.summands.push_back(name(kFirst, i));
      ahead.lines +=
          call_line(space, fmt::format("{} = syncopate_first_summands(", ahead.summands.back()),
                    {call.place, call.offsets[0], call.offsets[1], kAddend, kArrived, runtime_parameter::kStaging});
    }
    return ahead;
  }

  std::string edited_block(const Site& site, const std::string& space) const {
    const Call call = sites_.read_call(site);
    std::vector<const Site*> group = loaded_together(site);
    if (std::find(group.begin(), group.end(), &site) == group.end()) group = {&site};
    const Ahead ahead = ahead_of(group, space);
    const auto place = static_cast<std::size_t>(std::find(group.begin(), group.end(), &site) - group.begin());
    std::string lines = place == 0 ? ahead.lines : "";
    lines += call_line(space, fmt::format("{} = syncopate_sum_block(", kValue),
                       {ahead.values[place], ahead.summands[place], call.place, call.offsets[0], call.offsets[1],
                        kAddend, kWork, kEntry, kArrived, runtime_parameter::kStaging, runtime_parameter::kAddends});
    return lines + store_block(site, call, kValue, space);
  }

  /// The store of those rows of a block that the slot keeps.
  std::string store_block(const Site& site, const Call& call, const std::string& value,
                          const std::string& space) const {
    std::string lines = call_line(space, "if syncopate_cuts_block(",
                                  {call.place, call.offsets[0], kEntry, runtime_parameter::kCut}, "):\n");
    lines += call_line(space + unit(), "syncopate_store_kept(",
                       {parameter_, value, call.place, call.offsets[0], call.offsets[1], kEntry});
    const std::string stored = with_parts(*site.statement, {{call.value, value}});
    return lines + space + "else:\n" + call_in_lines(space + unit(), stored);
  }

  std::string edited_pointers(const Site& site, const std::string& space) const {
    Call call = sites_.read_call(site);
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
    return lines + store_elements(site, call, std::move(parts), space);
  }

  /// The store of those elements that the slot keeps. `parts` of the statement are replaced in any case.
  std::string store_elements(const Site& site, const Call& call, std::vector<std::pair<ByteRange, std::string>> parts,
                             const std::string& space) const {
    const std::string uncut = with_parts(*site.statement, parts);
    const bool masked = call.mask != nullptr && call.mask->kind != ExpressionKind::none;
    if (masked) {
      parts.emplace_back(call.mask->range, fmt::format("{} & {}", as_operand(*call.mask), kKept));
    } else if (call.mask != nullptr) {
      parts.emplace_back(call.mask->range, kKept);
    } else {
      parts.emplace_back(ByteRange{call.end, call.end}, fmt::format(", mask={}", kKept));
    }
    std::string lines = fmt::format("{}if {}:\n", space, runtime_parameter::kCut);
    lines += call_line(space + unit(), fmt::format("{} = syncopate_kept(", kKept), {call.place, parameter_, kEntry});
    lines += call_in_lines(space + unit(), with_parts(*site.statement, parts));
    return lines + "\n" + space + "else:\n" + call_in_lines(space + unit(), uncut);
  }

  LineEditor& editor_;
  const Module& module_;
  const Function& function_;
  const TileScheduler& scheduler_;
  std::string parameter_;
  bool in_place_;
  std::string extra_;
  StoreSites sites_;
  std::string slot_ = kSlot;  ///< the variable that holds the number of the tile's slot where the stores are
};

SumEditor::SumEditor(LineEditor& editor, const TileKernel& kernel, const std::string& parameter,
                     const std::vector<std::string>& sent, bool in_place, std::string extra)
    : impl_(std::make_unique<Impl>(editor, kernel, parameter, sent, in_place, std::move(extra))) {}
SumEditor::~SumEditor() = default;
std::string SumEditor::loop_start(const std::string& indentation) const { return impl_->loop_start(indentation); }
bool SumEditor::copies(ByteRange range) const { return impl_->copies(range); }
void SumEditor::edit_stores() { impl_->edit_stores(); }
void SumEditor::insert_waits() { impl_->insert_waits(); }

}  // namespace syncopate
