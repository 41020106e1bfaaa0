#include "syncopate/emit/sends.h"

#include <fmt/format.h>

#include <algorithm>

#include "syncopate/emit/sums.h"
#include "syncopate/kernel/runtime_names.h"
#include "syncopate/kernel/stores.h"

namespace syncopate {
namespace {

/// The tile's own statement that holds a store.
const Statement* tile_statement(const TileKernel& kernel, const Store& store, const std::string& parameter) {
  const Function& function = kernel.function();
  if (!function.range.contains(store.range))
    throw UserError(kernel.module().locate(store.range),
                    fmt::format("a helper stores to '{}', which is sent to other ranks", parameter),
                    fmt::format("let the helper return the value, and store it in {} itself", function.name));
  const TileScheduler& scheduler = kernel.scheduler();
  for (const auto& statement : scheduler.loop == nullptr ? function.body : scheduler.loop->body)
    if (statement->range.contains(store.range)) return statement.get();
  throw UserError(kernel.module().locate(store.range),
                  fmt::format("this store to '{}' is outside the loop over tiles", parameter),
                  "every element must be written by the tile that it belongs to");
}

}  // namespace

SentStores find_sent(const TileKernel& kernel, const std::vector<std::string>& parameters) {
  SentStores found;
  for (const std::string& parameter : parameters) {
    const std::vector<Store> stores = find_stores(kernel.shared_module(), kernel.function(), parameter);
    if (stores.empty())
      throw UserError(kernel.module().locate(kernel.function().name_range),
                      fmt::format("kernel {} stores nothing to '{}'", kernel.function().name, parameter),
                      "the kernel must store its output there");
    for (const Store& store : stores) {
      const Statement* statement = tile_statement(kernel, store, parameter);
      if (found.first == nullptr || statement->range.begin < found.first->range.begin) found.first = statement;
      if (found.last == nullptr || statement->range.begin > found.last->range.begin) found.last = statement;
    }
  }
  return found;
}

std::string send_start(const std::string& indentation, std::size_t axes) {
  return fmt::format("{0}syncopate_entry = syncopate_row + {1}\n{0}syncopate_work = tl.load(syncopate_entry + {2})\n",
                     indentation, axes, kWaitColumns + kSendColumns - 1);
}

void edit_sends(LineEditor& editor, const TileKernel& kernel, const std::vector<std::string>& sent,
                const std::string& extra) {
  namespace parameter = runtime_parameter;
  const SentStores stores = find_sent(kernel, sent);
  const auto raise = [&](const Statement& at, std::string_view helper, std::size_t column) {
    const std::string start = fmt::format("{}{}{}(", editor.indentation(editor.line_of(at.range.begin)), extra, helper);
    return wrap_items(
        start, {"syncopate_work", fmt::format("syncopate_entry + {}", column), parameter::kSignals, parameter::kPeers},
        start.size(), ")\n");
  };
  editor.insert_before(editor.with_comment(editor.line_of(stores.first->range.begin)),
                       raise(*stores.first, "syncopate_raise_late", kWaitColumns));
  editor.insert_before(editor.line_of(stores.last->range.end - 1) + 1,
                       raise(*stores.last, "syncopate_raise_early", kWaitColumns + 2));
}

}  // namespace syncopate
