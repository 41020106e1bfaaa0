#include "syncopate/emit/store_sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "syncopate/emit/references.h"
#include "syncopate/emit/sends.h"

namespace syncopate {
namespace {

/// The statement that is the call at `range`, among `body` or inside it.
Site find_call(const Body& body, ByteRange range) {
  for (const auto& each : body) {
    if (each->kind == StatementKind::expression && each->value->range == range) return {each.get(), &body};
    if (!each->range.contains(range)) continue;
    const Site inner = find_call(each->body, range);
    return inner.statement != nullptr ? inner : find_call(each->orelse, range);
  }
  return {};
}

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

/// A descriptor takes memory for each time that it is made.
bool makes_descriptor(const Statement& statement) {
  bool found = false;
  visit(*statement.value,
        [&](const Expression& each) { found = found || each.dotted_name().ends_with("make_tensor_descriptor"); });
  return found;
}

}  // namespace

StoreSites::StoreSites(const LineEditor& editor, const TileKernel& kernel, std::string parameter,
                       const std::vector<std::string>& sent)
    : editor_(editor),
      module_(kernel.module()),
      function_(kernel.function()),
      scheduler_(kernel.scheduler()),
      parameter_(std::move(parameter)) {
  const std::vector<Store> stores = find_stores(kernel.shared_module(), function_, parameter_);
  if (stores.empty())
    reject(function_.name_range, fmt::format("kernel {} stores nothing to '{}'", function_.name, parameter_),
           "the kernel must store its summands there");
  for (const Store& store : stores) add_site(store);
  if (const Statement* last = find_sent(kernel, sent).last; last != nullptr)
    if (last->range.begin > last_->range.begin) last_ = last;
  start_ = find_start();
}

void StoreSites::reject(ByteRange range, std::string problem, std::string remedy) const {
  throw UserError(module_.locate(range), std::move(problem), std::move(remedy));
}

void StoreSites::add_site(const Store& store) {
  if (!function_.range.contains(store.range))
    reject(store.range, fmt::format("a helper stores to '{}', which is a sum over ranks", parameter_),
           fmt::format("let the helper return the value, and store it in {} itself", function_.name));
  for (const auto& statement : tile_body()) {
    if (!statement->range.contains(store.range)) continue;
    Site found = find_call(tile_body(), store.range);
    if (found.statement == nullptr)
      reject(store.range, fmt::format("this store to '{}' is part of a larger expression", parameter_),
             "make it a statement of its own");
    check_own_lines(*found.statement);
    if (store.descriptor && store.dimensions != 2)
      reject(store.range,
             fmt::format("this stores to '{}', which is a sum over ranks, through a descriptor of {} dimensions",
                         parameter_, store.dimensions),
             "use a descriptor of 2 dimensions, or pointers");
    if (store.block_pointer)
      reject(store.range,
             fmt::format("this stores to '{}', which is a sum over ranks, through a block pointer", parameter_),
             "use a descriptor (tl.make_tensor_descriptor), or pointers with a mask");
    if (first_ == nullptr) first_ = statement.get();
    last_ = statement.get();
    found.descriptor = store.descriptor;
    sites_.push_back(found);
    return;
  }
  reject(store.range, fmt::format("this store to '{}' is outside the loop over tiles", parameter_),
         "every element must be written by the tile that it belongs to");
}

void StoreSites::check_own_lines(const Statement& statement) const {
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

bool StoreSites::is_scheduling(const Statement& statement) const {
  const auto& all = scheduler_.statements;
  return std::find(all.begin(), all.end(), &statement) != all.end();
}

bool StoreSites::begins_line(const Statement& statement) const {
  const auto column = static_cast<std::size_t>(module_.locate(statement.range).column - 1);
  return column == editor_.indentation(editor_.line_of(statement.range.begin)).size();
}

const Statement* StoreSites::find_start() const {
  const Body& body = tile_body();
  const auto is = [](const Statement* wanted) { return [=](const auto& each) { return each.get() == wanted; }; };
  auto start = std::find_if(body.begin(), body.end(), is(first_));
  const auto last = std::find_if(body.begin(), body.end(), is(last_));
  for (auto each = start; each != last; ++each)
    if (is_scheduling(**each))
      reject((*each)->range, fmt::format("this stands between stores to '{}', which is a sum over ranks", parameter_),
             "put it after the last of them");
  while (start != body.begin()) {
    const Statement& before = **(start - 1);
    const bool simple = before.kind == StatementKind::assign || before.kind == StatementKind::augmented_assign;
    if (!simple || is_scheduling(before) || !begins_line(before) || makes_descriptor(before)) break;
    --start;
  }
  return start->get();
}

Call StoreSites::read_call(const Site& site) const {
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
    result.offsets_written = offsets;
    value = argument(call, shift + 1, "value");
    for (std::size_t i = 0; i < 2; ++i)
      result.offsets.push_back(offsets->kind == ExpressionKind::tuple ? text(offsets->children[i]->range)
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
  result.value_written = value;
  return result;
}

}  // namespace syncopate
