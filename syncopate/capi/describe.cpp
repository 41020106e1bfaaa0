#include "syncopate/capi/describe.h"

#include "syncopate/capi/tensors.h"
#include "syncopate/core/json.h"
#include "syncopate/cuda/arena.h"
#include "syncopate/plan/inputs.h"
#include "syncopate/plan/plan_json.h"

namespace syncopate::capi {
namespace {

Json shape_json(const Shape& shape) {
  Json json = Json::array();
  for (const std::int64_t extent : shape) json.push_back(extent);
  return json;
}

/// [[begin, end], ...], or null for an empty box.
Json region_json(const Region& region) {
  if (region.empty()) return {};
  Json json = Json::array();
  for (int d = 0; d < region.dimensions(); ++d) json.push_back(Json::array({region[d].begin, region[d].end}));
  return json;
}

/// A box of a buffer as one of the shape in which callers know it.
Region for_callers(const Buffer& buffer, const Region& region) {
  if (!buffer.stacked || buffer.role != BufferRole::source) return region;
  Region inner = Region::whole(shape_for_callers(buffer));
  for (int d = 0; d < inner.dimensions(); ++d) inner[d] = region[d + 1];
  return inner;
}

/// Its box, or the list of its two stretches.
Json held_json(const Buffer& buffer, int rank) {
  const std::vector<Region>& boxes = buffer.held[static_cast<std::size_t>(rank)];
  if (buffer.before.kind != Placement::Kind::zigzag)
    return boxes.empty() ? Json() : region_json(for_callers(buffer, boxes.front()));
  Json stretches = Json::array();
  for (const Region& box : boxes) stretches.push_back(region_json(for_callers(buffer, box)));
  return stretches;
}

Json buffer_json(const Plan& plan, int index) {
  const Buffer& buffer = plan.buffer(index);
  Json held = Json::array();
  Json output = Json::array();
  bool is_output = false;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const Region region = buffer.role == BufferRole::staging ? Region{{0, 0}} : output_region(plan, index, rank);
    is_output = is_output || !region.empty();
    output.push_back(region_json(for_callers(buffer, region)));
    held.push_back(held_json(buffer, rank));
  }
  return Json::object({{"name", buffer.name},
                       {"shape", shape_json(shape_for_callers(buffer))},
                       {"stacked", buffer.stacked && buffer.role == BufferRole::kernel},
                       {"dtype", std::string(name_of(buffer.dtype))},
                       {"symmetric", buffer.symmetric},
                       {"bindable", cuda::can_bind(plan, index)},
                       {"input", is_input(buffer)},
                       {"output", is_output},
                       {"staging", is_the_operators_own(plan, index)},
                       {"purpose", buffer.purpose},
                       {"before", buffer.before.to_string()},
                       {"inside", buffer.inside.to_string()},
                       {"after", buffer.after.to_string()},
                       {"held", std::move(held)},
                       {"outputs", std::move(output)}});
}

}  // namespace

std::string describe(const Plan& plan) {
  Json buffers = Json::array();
  for (int i = 0; i < static_cast<int>(plan.buffers.size()); ++i) buffers.push_back(buffer_json(plan, i));
  const ExtraMemory memory = extra_memory(plan);
  return Json::object(
             {{"operator", plan.operator_name},
              {"hash", plan_hash(plan)},
              {"ranks", plan.ranks},
              {"workers", plan.workers},
              {"tiles", static_cast<std::int64_t>(tiles_of(plan, 0).size())},
              {"communication", plan.communication},
              {"extra_bytes",
               Json::object({{"staging", memory.staging}, {"signals", memory.signals}, {"tables", memory.tables}})},
              {"buffers", std::move(buffers)}})
      .dump();
}

std::string describe(const Proof& proof) {
  Json theorems = Json::array();
  for (const Theorem& theorem : proof.theorems)
    theorems.push_back(Json::object({{"name", theorem.name},
                                     {"statement", theorem.statement},
                                     {"holds", theorem.holds},
                                     {"evidence", theorem.evidence},
                                     {"counterexample", theorem.counterexample}}));
  return Json::object({{"holds", proof.holds()}, {"text", proof.to_string()}, {"theorems", std::move(theorems)}})
      .dump();
}

std::string describe(const RunReport& report) {
  return Json::object({{"right", report.outcome == Outcome::right},
                       {"outcome", std::string(name_of(report.outcome))},
                       {"message", report.message},
                       {"tiles", report.tiles},
                       {"transfers", report.transfers},
                       {"bytes_moved", report.bytes_moved},
                       {"steps", report.steps}})
      .dump();
}

}  // namespace syncopate::capi
