#include "syncopate/plan/plan_json.h"

#include <fmt/format.h>

#include "syncopate/core/json.h"
#include "syncopate/core/text.h"

namespace syncopate {

namespace {

/// Of a launch: more are no launch that anyone means.
constexpr std::int64_t kMostPrograms = std::int64_t{1} << 20;
/// Of a loop; its variable has 32 bits.
constexpr std::int64_t kMostIterations = std::int64_t{1} << 32;

// ---------------------------------------------------------------------------------------------------- writing

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

Json program_json(const RankProgram& program, bool with_steps) {
  return Json::object({{"start_signals", integers(program.start_signals)},
                       {"queues", list_of(program.queues, queue_json)},
                       {"slots", list_of(program.slots, [&](const Slot& slot) { return slot_json(slot, with_steps); })},
                       {"completion_waits", waits_json(program.completion_waits)},
                       {"completion_signals", integers(program.completion_signals)}});
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

Json buffer_json(const Buffer& buffer) {
  return Json::object({{"name", buffer.name},
                       {"parameter", buffer.parameter},
                       {"shape", integers(buffer.shape)},
                       {"dtype", std::string(name_of(buffer.dtype))},
                       {"symmetric", buffer.symmetric},
                       {"shared", buffer.shared},
                       {"purpose", buffer.purpose},
                       {"before", buffer.before.to_string()},
                       {"inside", buffer.inside.to_string()},
                       {"after", buffer.after.to_string()},
                       {"held", list_of(buffer.held, region_json)},
                       {"values", list_of(buffer.values, range_json)},
                       {"role", std::string(name_of(buffer.role))},
                       {"partner", buffer.partner},
                       {"window", list_of(buffer.window, region_json)}});
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

Json kernel_json(const KernelPart& kernel) {
  Json arguments = Json::object();
  for (const auto& [name, value] : kernel.arguments) arguments.set(name, scalar_json(value));
  return Json::object(
      {{"file", kernel.file},
       {"function", kernel.function},
       {"fused_function", kernel.fused_function},
       {"fused_hash", content_hash(kernel.fused_source)},
       {"arguments", std::move(arguments)},
       {"axes", list_of(kernel.axes, [](const std::string& axis) { return Json(axis); })},
       {"extents", integers(kernel.extents)},
       {"streamed_loops", list_of(kernel.streamed_loops, [](const std::string& axis) { return Json(axis); })},
       {"persistent", kernel.persistent},
       {"grid", integers(kernel.grid)},
       {"warps", kernel.warps},
       {"stages", kernel.stages},
       {"local_source", kernel.local_source},
       {"fused_source", kernel.fused_source}});
}

Json plan_json(const Plan& plan) {
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

// ---------------------------------------------------------------------------------------------------- reading

/// Reads a plan, checking every index against what it refers to, so that no consumer has to.
class PlanParser {
 public:
  explicit PlanParser(const SourceFile& file) : file_(file), root_(parse_json(file)) {}

  Plan parse() {
    JsonReader reader(file_, root_, "the plan");
    const Json& version = reader.required("syncopate_plan");
    if (expect_integer(file_, version, "'syncopate_plan'") != kPlanVersion)
      throw reader.error(version, fmt::format("this plan is of version {}", version.integer()),
                         fmt::format("this Syncopate reads version {}: compile the operator again", kPlanVersion));
    plan_.operator_name = reader.string("operator");
    plan_.ranks = in_range(reader.required("ranks"), "'ranks'", 1, 1 << 16);
    plan_.workers = in_range(reader.required("workers"), "'workers'", 1, 1 << 20);
    plan_.communication = reader.string("communication");
    kernel(reader.required("kernel"));
    for (const Json& item : reader.array("buffers")) buffer(item);
    for (const Json& item : reader.array("signals")) signal(item);
    check_partners(reader.required("buffers"));
    for (const Json& item : reader.array("tiles")) tile(item);
    for (const Json& item : reader.array("sums")) sum(item);
    const Json& programs = reader.required("programs");
    for (const Json& item : expect_array(file_, programs, "'programs'")) program(item);
    if (static_cast<int>(plan_.programs.size()) != plan_.ranks)
      throw reader.error(programs, fmt::format("{} programs for {} ranks", plan_.programs.size(), plan_.ranks),
                         "one program per rank");
    hash_ = reader.string("hash");
    hash_where_ = reader.where(reader.required("hash"));
    reader.finish();
    return std::move(plan_);
  }

  const std::string& hash() const { return hash_; }
  const SourceLocation& hash_where() const { return hash_where_; }

 private:
  std::int64_t in_range64(const Json& value, std::string_view what, std::int64_t least, std::int64_t most) const {
    const std::int64_t number = expect_integer(file_, value, what);
    if (number < least || number > most)
      throw UserError(file_.locate(value.offset()), fmt::format("{} is {}", what, number),
                      fmt::format("it must be from {} to {}", least, most));
    return number;
  }
  int in_range(const Json& value, std::string_view what, std::int64_t least, std::int64_t most) const {
    return static_cast<int>(in_range64(value, what, least, most));
  }
  /// An index into a list of `size` things.
  int index(const Json& value, std::string_view what, std::size_t size) const {
    if (size == 0)
      throw UserError(file_.locate(value.offset()), fmt::format("{} refers to an empty list", what), "remove it");
    return in_range(value, what, 0, static_cast<std::int64_t>(size) - 1);
  }
  const std::vector<Json>& tuple(const Json& value, std::string_view what, std::size_t size) const {
    const std::vector<Json>& items = expect_array(file_, value, what);
    if (items.size() != size)
      throw UserError(file_.locate(value.offset()), fmt::format("{} has {} parts", what, items.size()),
                      fmt::format("it must have {}", size));
    return items;
  }
  std::vector<std::int64_t> integers(const Json& value, std::string_view what) const {
    std::vector<std::int64_t> list;
    for (const Json& item : expect_array(file_, value, what)) list.push_back(expect_integer(file_, item, what));
    return list;
  }
  bool boolean(JsonReader& reader, std::string_view key) const {
    const Json& value = reader.required(key);
    if (value.kind() != Json::Kind::boolean)
      throw reader.error(value, fmt::format("'{}' is not a boolean", key), "true or false");
    return value.boolean();
  }

  Range range(const Json& value) const {
    const std::vector<Json>& pair = tuple(value, "range", 2);
    return {expect_integer(file_, pair[0], "range"), expect_integer(file_, pair[1], "range")};
  }

  Region region(const Json& value, std::size_t dimensions) const {
    std::vector<Range> ranges;
    for (const Json& item : tuple(value, "region", dimensions)) ranges.push_back(range(item));
    return Region(std::span<const Range>(ranges));
  }

  Placement placement(JsonReader& reader, std::string_view key) const {
    const std::string text = reader.string(key);
    const std::optional<Placement> parsed = Placement::parse(text);
    if (!parsed)
      throw reader.error(reader.required(key), fmt::format("'{}' is not a placement", text),
                         "shard(dimension), replicate or partial(sum)");
    return *parsed;
  }

  std::vector<std::int64_t> grid(const Json& value, bool persistent) const {
    std::vector<std::int64_t> grid;
    for (const Json& item : expect_array(file_, value, "'grid'"))
      grid.push_back(in_range64(item, "a number of programs", 1, kMostPrograms));
    if (grid.empty() || grid.size() > 3)
      throw UserError(file_.locate(value.offset()), fmt::format("a grid of {} axes", grid.size()), "it has 1 to 3");
    std::int64_t programs = 1;
    for (const std::int64_t along : grid) programs *= along;
    if (programs > (persistent ? 1 : kMostPrograms))
      throw UserError(file_.locate(value.offset()), fmt::format("a grid of {} programs", programs),
                      persistent ? "one program of a persistent kernel walks all tiles"
                                 : fmt::format("it has {} at most", kMostPrograms));
    return grid;
  }

  void kernel(const Json& value) {
    JsonReader reader(file_, value, "the kernel");
    KernelPart& part = plan_.kernel;
    part.file = reader.string("file");
    part.function = reader.string("function");
    part.fused_function = reader.string("fused_function");
    const Json& hash = reader.required("fused_hash");
    const Json& arguments = reader.required("arguments");
    JsonReader(file_, arguments, "the kernel's arguments");
    for (const auto& [name, argument] : arguments.members()) {
      switch (argument.kind()) {
        case Json::Kind::integer:
          part.arguments[name] = argument.integer();
          break;
        case Json::Kind::number:
          part.arguments[name] = argument.number();
          break;
        case Json::Kind::boolean:
          part.arguments[name] = argument.boolean();
          break;
        default:
          throw reader.error(argument, fmt::format("argument '{}' is not a number", name), "a number");
      }
    }
    for (const Json& axis : reader.array("axes")) part.axes.push_back(expect_string(file_, axis, "axis"));
    part.extents = integers(reader.required("extents"), "extents");
    for (const Json& axis : reader.array("streamed_loops"))
      part.streamed_loops.push_back(expect_string(file_, axis, "the axis of a streamed loop"));
    part.persistent = boolean(reader, "persistent");
    part.grid = grid(reader.required("grid"), part.persistent);
    part.warps = in_range(reader.required("warps"), "'warps'", 1, 32);
    part.stages = in_range(reader.required("stages"), "'stages'", 1, 16);
    part.local_source = reader.string("local_source");
    part.fused_source = reader.string("fused_source");
    if (expect_string(file_, hash, "'fused_hash'") != content_hash(part.fused_source))
      throw reader.error(hash, "the fused kernel's text does not have this hash", "compile the operator again");
    reader.finish();
  }

  void buffer(const Json& value) {
    JsonReader reader(file_, value, "buffer");
    Buffer buffer;
    buffer.name = reader.string("name");
    buffer.parameter = reader.string("parameter");
    const Json& shape = reader.required("shape");
    buffer.shape = integers(shape, "shape");
    if (buffer.shape.size() > kMaxDimensions)
      throw reader.error(shape, "a tensor of too many dimensions", fmt::format("at most {}", kMaxDimensions));
    for (const std::int64_t extent : buffer.shape)
      if (extent < 1) throw reader.error(shape, fmt::format("a size of {}", extent), "sizes are at least 1");
    const std::string dtype = reader.string("dtype");
    const std::optional<Dtype> known = dtype_from_name(dtype);
    if (!known)
      throw reader.error(reader.required("dtype"), fmt::format("unknown dtype '{}'", dtype),
                         fmt::format("known: {}", all_dtype_names()));
    buffer.dtype = *known;
    buffer.symmetric = boolean(reader, "symmetric");
    buffer.shared = boolean(reader, "shared");
    buffer.purpose = reader.string("purpose");
    buffer.before = placement(reader, "before");
    buffer.inside = placement(reader, "inside");
    buffer.after = placement(reader, "after");
    const Json& held = reader.required("held");
    for (const Json& item : tuple(held, "held", static_cast<std::size_t>(plan_.ranks)))
      buffer.held.push_back(region(item, buffer.shape.size()));
    buffer.values = values_of(reader, buffer.dtype);
    const std::string role = reader.string("role");
    const std::optional<BufferRole> known_role = buffer_role_from_name(role);
    if (!known_role)
      throw reader.error(reader.required("role"), fmt::format("unknown role '{}'", role),
                         "kernel, staging, source or result");
    buffer.role = *known_role;
    buffer.partner = in_range(reader.required("partner"), "'partner'", -1, 1 << 16);
    const Json& window = reader.required("window");
    if (!expect_array(file_, window, "'window'").empty())
      for (const Json& item : tuple(window, "window", static_cast<std::size_t>(plan_.ranks)))
        buffer.window.push_back(region(item, buffer.shape.size()));
    reader.finish();
    plan_.buffers.push_back(std::move(buffer));
  }

  std::vector<Range> values_of(JsonReader& reader, Dtype dtype) const {
    const Json& json = reader.required("values");
    std::vector<Range> values;
    for (const Json& item : expect_array(file_, json, "values")) {
      values.push_back(range(item));
      if (values.back().empty()) throw reader.error(item, "a range of no values", "at least one");
    }
    if (!values.empty() && (values.size() != static_cast<std::size_t>(plan_.ranks) || is_floating(dtype)))
      throw reader.error(json, "'values' does not fit the buffer", "of integers, a range for each rank; or nothing");
    return values;
  }

  /// Every buffer but the kernel's is for one of those, with as many dimensions and of its type. At most one is
  /// reduced, and at most one is a staging buffer, which is for it.
  void check_partners(const Json& where) const {
    int reduced = 0;
    int staging = 0;
    for (const Buffer& buffer : plan_.buffers) {
      reduced += buffer.is_reduced() ? 1 : 0;
      if (buffer.role == BufferRole::kernel) continue;
      const bool receives = buffer.role == BufferRole::staging;
      staging += receives ? 1 : 0;
      const auto partner = static_cast<std::size_t>(buffer.partner);
      if (partner >= plan_.buffers.size() || plan_.buffers[partner].role != BufferRole::kernel ||
          plan_.buffers[partner].is_reduced() != receives ||
          plan_.buffers[partner].shape.size() != buffer.shape.size() || plan_.buffers[partner].dtype != buffer.dtype)
        throw UserError(file_.locate(where.offset()),
                        fmt::format("buffer '{}' cannot be the {} buffer of buffer {}", buffer.name,
                                    name_of(buffer.role), buffer.partner),
                        "its partner is a buffer of the kernel with as many dimensions and of the same dtype, reduced "
                        "if and only if it is a staging buffer");
    }
    if (reduced > 1 || staging > 1)
      throw UserError(file_.locate(where.offset()), fmt::format("{} reduced and {} staging buffers", reduced, staging),
                      "at most one of each");
  }

  SumOrder sum_order(const Json& value, int depth = 0) const {
    if (value.kind() == Json::Kind::integer) return {in_range(value, "the summand's rank", 0, plan_.ranks - 1), {}};
    const std::vector<Json>& terms = expect_array(file_, value, "the order of a sum");
    if (terms.empty() || depth > plan_.ranks)
      throw UserError(file_.locate(value.offset()), "a sum without terms, or nested too deeply", "list its summands");
    SumOrder order;
    for (const Json& term : terms) order.terms.push_back(sum_order(term, depth + 1));
    return order;
  }

  void sum(const Json& value) {
    JsonReader reader(file_, value, "sum");
    Sum sum;
    sum.rank = in_range(reader.required("rank"), "the sum's rank", 0, plan_.ranks - 1);
    sum.buffer = index(reader.required("buffer"), "the sum's buffer", plan_.buffers.size());
    sum.region = region(reader.required("region"), plan_.buffer(sum.buffer).shape.size());
    sum.order = sum_order(reader.required("order"));
    reader.finish();
    plan_.sums.push_back(std::move(sum));
  }

  std::vector<LoopStep> steps(const Json& value, std::size_t pieces) const {
    std::vector<LoopStep> list;
    for (const Json& item : expect_array(file_, value, "steps")) {
      const std::vector<Json>& pair = tuple(item, "step", 2);
      list.push_back({index(pair[0], "the step's piece", pieces), waits(pair[1])});
    }
    return list;
  }

  LoopPiece piece(const Json& value) const {
    const std::vector<Json>& parts = tuple(value, "piece", 4);
    LoopPiece piece;
    piece.loop = index(parts[0], "the piece's loop", plan_.kernel.streamed_loops.size());
    piece.begin = in_range64(parts[1], "the piece's first iteration", 0, kMostIterations);
    piece.end = in_range64(parts[2], "the piece's past-the-last iteration", piece.begin + 1, kMostIterations);
    piece.reads = accesses(parts[3]);
    return piece;
  }

  Slot slot(const Json& value) const {
    const std::vector<Json>& parts = expect_array(file_, value, "slot");
    const std::size_t plain = plan_.kernel.streamed_loops.empty() ? 2 : 3;
    if (parts.size() != plain + 1) tuple(value, "slot", plain);
    Slot slot;
    slot.tile = index(parts[0], "the slot's tile", plan_.tiles.size());
    slot.waits = waits(parts[1]);
    if (plain == 3) slot.steps = steps(parts[2], plan_.tiles[static_cast<std::size_t>(slot.tile)].pieces.size());
    if (parts.size() == plain) return slot;
    if (!slots_raise(plan_))
      throw UserError(file_.locate(parts.back().offset()), "a slot with sums or signals, but no output leaves its rank",
                      "remove them");
    JsonReader reader(file_, parts.back(), "slot");
    slot.signals = signals(reader.required("signals"));
    const int reduced = reduced_buffer(plan_);
    if (reduced < 0 || reader.optional("kept") == nullptr) {  // nothing to do with a sum
      reader.finish();
      return slot;
    }
    const std::size_t dimensions = plan_.buffer(reduced).shape.size();
    const Json& kept = reader.required("kept");
    if (!expect_array(file_, kept, "'kept'").empty()) slot.kept = region(kept, dimensions);
    slot.sum_waits = waits(reader.required("sum_waits"));
    for (const Json& item : reader.array("addends")) {
      const std::vector<Json>& pair = tuple(item, "addend", 2);
      slot.addends.push_back({region(pair[0], dimensions), region(pair[1], dimensions)});
    }
    slot.own_place =
        in_range(reader.required("own_place"), "'own_place'", 0, static_cast<std::int64_t>(slot.addends.size()));
    reader.finish();
    return slot;
  }

  void signal(const Json& value) {
    JsonReader reader(file_, value, "signal");
    Signal signal;
    signal.name = reader.string("name");
    signal.home = in_range(reader.required("home"), "the signal's home", 0, plan_.ranks - 1);
    signal.slot = in_range(reader.required("slot"), "the signal's slot", 0, 1 << 30);
    signal.per_launch = in_range64(reader.required("per_launch"), "'per_launch'", 1, 1 << 30);
    signal.counts = reader.string("counts");
    reader.finish();
    plan_.signals.push_back(std::move(signal));
  }

  std::vector<TileAccess> accesses(const Json& value) const {
    std::vector<TileAccess> list;
    for (const Json& item : expect_array(file_, value, "accesses")) {
      const std::vector<Json>& pair = tuple(item, "access", 2);
      const int buffer = index(pair[0], "the access's buffer", plan_.buffers.size());
      list.push_back({buffer, region(pair[1], plan_.buffer(buffer).shape.size())});
    }
    return list;
  }

  void tile(const Json& value) {
    JsonReader reader(file_, value, "tile");
    Tile tile;
    const Json& index_value = reader.required("index");
    tile.index = integers(index_value, "index");
    if (tile.index.size() != plan_.kernel.axes.size())
      throw reader.error(index_value, fmt::format("a tile index of {} parts", tile.index.size()),
                         fmt::format("the kernel has {} axes", plan_.kernel.axes.size()));
    tile.reads = accesses(reader.required("reads"));
    tile.writes = accesses(reader.required("writes"));
    for (const Json& item : reader.array("pieces")) tile.pieces.push_back(piece(item));
    reader.finish();
    plan_.tiles.push_back(std::move(tile));
  }

  std::vector<Wait> waits(const Json& value) const {
    std::vector<Wait> list;
    for (const Json& item : expect_array(file_, value, "waits")) {
      const std::vector<Json>& pair = tuple(item, "wait", 2);
      list.push_back({index(pair[0], "the wait's signal", plan_.signals.size()),
                      expect_integer(file_, pair[1], "the wait's threshold")});
    }
    return list;
  }

  std::vector<int> signals(const Json& value) const {
    std::vector<int> list;
    for (const Json& item : expect_array(file_, value, "signals"))
      list.push_back(index(item, "signal", plan_.signals.size()));
    return list;
  }

  View view(const Json& value) const {
    JsonReader reader(file_, value, "view");
    View view;
    view.rank = in_range(reader.required("rank"), "the view's rank", 0, plan_.ranks - 1);
    view.buffer = index(reader.required("buffer"), "the view's buffer", plan_.buffers.size());
    view.region = region(reader.required("region"), plan_.buffer(view.buffer).shape.size());
    reader.finish();
    return view;
  }

  Queue queue(const Json& value) const {
    JsonReader reader(file_, value, "queue");
    Queue queue;
    queue.name = reader.string("name");
    const std::string engine = reader.string("engine");
    if (engine != name_of(Engine::copy_engine))
      throw reader.error(reader.required("engine"), fmt::format("unknown engine '{}'", engine),
                         fmt::format("known: {}", name_of(Engine::copy_engine)));
    for (const Json& item : reader.array("transfers")) {
      JsonReader transfer_reader(file_, item, "transfer");
      Transfer transfer;
      const std::vector<Json>& origin = tuple(transfer_reader.required("operator"), "operator", 2);
      transfer.operator_rank = in_range(origin[0], "the operator's rank", 0, plan_.ranks - 1);
      transfer.operator_index = in_range(origin[1], "the operator's index", -1, 1 << 30);
      transfer.source = view(transfer_reader.required("source"));
      transfer.destination = view(transfer_reader.required("destination"));
      transfer.waits = waits(transfer_reader.required("waits"));
      transfer.signals = signals(transfer_reader.required("signals"));
      transfer_reader.finish();
      queue.transfers.push_back(std::move(transfer));
    }
    reader.finish();
    return queue;
  }

  void program(const Json& value) {
    JsonReader reader(file_, value, "program");
    RankProgram program;
    program.start_signals = signals(reader.required("start_signals"));
    for (const Json& item : reader.array("queues")) program.queues.push_back(queue(item));
    for (const Json& item : reader.array("slots")) program.slots.push_back(slot(item));
    program.completion_waits = waits(reader.required("completion_waits"));
    program.completion_signals = signals(reader.required("completion_signals"));
    reader.finish();
    plan_.programs.push_back(std::move(program));
  }

  const SourceFile& file_;
  Json root_;
  Plan plan_;
  std::string hash_;
  SourceLocation hash_where_;
};

}  // namespace

std::string plan_hash(const Plan& plan) { return content_hash(plan_json(plan).dump()); }

std::string to_json(const Plan& plan) {
  Json json = plan_json(plan);
  json.set("hash", content_hash(json.dump()));
  return json.dump();
}

Plan parse_plan(const SourceFile& file, bool check_hash) {
  PlanParser parser(file);
  Plan plan = parser.parse();
  if (check_hash && parser.hash() != plan_hash(plan))
    throw UserError(parser.hash_where(), "the plan does not have this hash: it was edited or damaged",
                    "compile again; `syncopate verify` looks at it as it is");
  return plan;
}

}  // namespace syncopate
