// Writes plans; parse_plan.cpp reads them.
#include "syncopate/plan/plan_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "syncopate/core/json.h"
#include "syncopate/core/text.h"

namespace syncopate {

namespace {

template <typename T, typename Function>
Json list_of(const std::vector<T>& values, Function&& to_value) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(to_value(value));
  return list;
}

Json integers(const std::vector<std::int64_t>& values) {
  return list_of(values, [](std::int64_t value) { return Json(value); });
}
Json integers(const std::vector<int>& values) {
  return list_of(values, [](int value) { return Json(value); });
}

Json range_json(const Range& range) { return Json::array({range.begin, range.end}); }

Json region_json(const Region& region) {
  Json list = Json::array();
  for (int d = 0; d < region.dimensions(); ++d) list.push_back(range_json(region[d]));
  return list;
}

/// A wait is [signal, threshold].
Json waits_json(const std::vector<Wait>& waits) {
  return list_of(waits, [](const Wait& wait) { return Json::array({wait.signal, wait.threshold}); });
}

Json view_json(const View& view) {
  return Json::object({{"rank", view.rank}, {"buffer", view.buffer}, {"region", region_json(view.region)}});
}

Json transfer_json(const Transfer& transfer) {
  return Json::object({{"operator", Json::array({transfer.operator_rank, transfer.operator_index})},
                       {"source", view_json(transfer.source)},
                       {"destination", view_json(transfer.destination)},
                       {"waits", waits_json(transfer.waits)},
                       {"signals", integers(transfer.signals)}});
}

Json queue_json(const Queue& queue) {
  return Json::object({{"name", queue.name},
                       {"engine", std::string(name_of(queue.engine))},
                       {"transfers", list_of(queue.transfers, transfer_json)}});
}

/// An addend is [target, source].
Json addend_json(const Addend& addend) { return Json::array({region_json(addend.target), region_json(addend.source)}); }

/// A step is [piece, [waits]].
Json step_json(const LoopStep& step) { return Json::array({step.piece, waits_json(step.waits)}); }

/// A slot is [tile, [waits]]; then [steps] if the kernel has streamed loops, and a last part if the slot stores to a
/// reduced buffer or raises signals.
Json slot_json(const Slot& slot, bool with_steps) {
  Json json = Json::array({slot.tile, waits_json(slot.waits)});
  if (with_steps) json.push_back(list_of(slot.steps, step_json));
  Slot plain;
  plain.tile = slot.tile;
  plain.waits = slot.waits;
  plain.steps = slot.steps;
  if (slot == plain) return json;
  plain.signals = slot.signals;
  if (slot == plain) {
    json.push_back(Json::object({{"signals", integers(slot.signals)}}));
    return json;
  }
  json.push_back(Json::object({{"kept", region_json(slot.kept)},
                               {"sum_waits", waits_json(slot.sum_waits)},
                               {"addends", list_of(slot.addends, addend_json)},
                               {"own_place", slot.own_place},
                               {"signals", integers(slot.signals)}}));
  return json;
}

/// A leaf is a rank, a node the list of its terms.
Json sum_order_json(const SumOrder& order) {
  return order.terms.empty() ? Json(order.rank) : list_of(order.terms, sum_order_json);
}

Json sum_json(const Sum& sum) {
  return Json::object({{"rank", sum.rank},
                       {"buffer", sum.buffer},
                       {"region", region_json(sum.region)},
                       {"order", sum_order_json(sum.order)}});
}

/// An addition is [region, [waits]].
Json addition_json(const Addition& addition) {
  return Json::array({region_json(addition.region), waits_json(addition.waits)});
}

Json program_json(const RankProgram& program, bool with_steps) {
  Json json =
      Json::object({{"start_signals", integers(program.start_signals)},
                    {"queues", list_of(program.queues, queue_json)},
                    {"slots", list_of(program.slots, [&](const Slot& slot) { return slot_json(slot, with_steps); })},
                    {"completion_waits", waits_json(program.completion_waits)},
                    {"completion_signals", integers(program.completion_signals)}});
  if (!program.additions.empty()) json.set("additions", list_of(program.additions, addition_json));
  return json;
}

/// Accesses are [buffer, region].
Json accesses_json(const std::vector<TileAccess>& accesses) {
  return list_of(accesses, [](const TileAccess& a) { return Json::array({a.buffer, region_json(a.region)}); });
}

/// A piece is [loop, begin, end, reads].
Json piece_json(const LoopPiece& piece) {
  return Json::array({piece.loop, piece.begin, piece.end, accesses_json(piece.reads)});
}

Json tile_json(const Tile& tile) {
  return Json::object({{"index", integers(tile.index)},
                       {"reads", accesses_json(tile.reads)},
                       {"writes", accesses_json(tile.writes)},
                       {"pieces", list_of(tile.pieces, piece_json)}});
}

/// Per rank its box, or the list of its boxes if any rank has two.
Json held_json(const Buffer& buffer) {
  const bool single = std::all_of(buffer.held.begin(), buffer.held.end(),
                                  [](const std::vector<Region>& boxes) { return boxes.size() == 1; });
  return list_of(buffer.held, [&](const std::vector<Region>& boxes) {
    return single ? region_json(boxes.front()) : list_of(boxes, region_json);
  });
}

Json buffer_json(const Buffer& buffer) {
  Json json = Json::object({{"name", buffer.name},
                            {"parameter", buffer.parameter},
                            {"shape", integers(buffer.shape)},
                            {"dtype", std::string(name_of(buffer.dtype))},
                            {"symmetric", buffer.symmetric},
                            {"sums_in_place", buffer.sums_in_place},
                            {"shared", buffer.shared},
                            {"purpose", buffer.purpose},
                            {"before", buffer.before.to_string()},
                            {"inside", buffer.inside.to_string()},
                            {"after", buffer.after.to_string()},
                            {"held", held_json(buffer)},
                            {"values", list_of(buffer.values, range_json)},
                            {"role", std::string(name_of(buffer.role))},
                            {"partner", buffer.partner},
                            {"window", list_of(buffer.window, region_json)}});
  if (buffer.stacked) json.set("stacked", true);
  if (buffer.fold) json.set("fold", Json::array({buffer.fold->dimension, buffer.fold->extent}));
  if (buffer.summed_apart) json.set("summed_apart", true);
  return json;
}

Json signal_json(const Signal& signal) {
  return Json::object({{"name", signal.name},
                       {"home", signal.home},
                       {"slot", signal.slot},
                       {"per_launch", signal.per_launch},
                       {"counts", signal.counts}});
}

Json scalar_json(const Scalar& scalar) {
  return std::visit([](auto value) { return Json(value); }, scalar);
}

Json arguments_json(const ScalarArguments& arguments) {
  Json json = Json::object();
  for (const auto& [name, value] : arguments) json.set(name, scalar_json(value));
  return json;
}

Json kernel_json(const KernelPart& kernel) {
  Json json = Json::object(
      {{"file", kernel.file},
       {"function", kernel.function},
       {"fused_function", kernel.fused_function},
       {"fused_hash", content_hash(kernel.fused_source)},
       {"arguments", arguments_json(kernel.arguments)},
       {"axes", list_of(kernel.axes, [](const std::string& axis) { return Json(axis); })},
       {"extents", integers(kernel.extents)},
       {"streamed_loops", list_of(kernel.streamed_loops, [](const std::string& axis) { return Json(axis); })},
       {"persistent", kernel.persistent},
       {"grid", integers(kernel.grid)},
       {"warps", kernel.warps},
       {"stages", kernel.stages},
       {"local_source", kernel.local_source},
       {"fused_source", kernel.fused_source}});
  if (!kernel.rank_arguments.empty()) json.set("rank_arguments", list_of(kernel.rank_arguments, arguments_json));
  return json;
}

Json fields_of_all(const Plan& plan) {
  return Json::object({{"syncopate_plan", kPlanVersion},
                       {"operator", plan.operator_name},
                       {"ranks", plan.ranks},
                       {"workers", plan.workers},
                       {"communication", plan.communication},
                       {"kernel", kernel_json(plan.kernel)},
                       {"buffers", list_of(plan.buffers, buffer_json)},
                       {"signals", list_of(plan.signals, signal_json)},
                       {"tiles", list_of(plan.tiles, tile_json)},
                       {"sums", list_of(plan.sums, sum_json)},
                       {"programs", list_of(plan.programs, [&](const RankProgram& program) {
                          return program_json(program, !plan.kernel.streamed_loops.empty());
                        })}});
}

Json plan_json(const Plan& plan) {
  Json json = fields_of_all(plan);
  if (is_dynamic(plan)) json.set("lookahead", plan.lookahead);
  return json;
}

}  // namespace

std::string plan_hash(const Plan& plan) { return content_hash(plan_json(plan).dump()); }

std::string to_json(const Plan& plan) {
  Json json = plan_json(plan);
  json.set("hash", content_hash(json.dump()));
  return json.dump();
}

}  // namespace syncopate
