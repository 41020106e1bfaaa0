// Reads plans. Consumers follow every index of a plan and index memory by every box of it, so all of them are checked
// here, each with its place; whether a plan that is well formed is right, verify/ says.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "syncopate/core/text.h"
#include "syncopate/plan/inputs.h"
#include "syncopate/plan/limits.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/plan/plan_values.h"

namespace syncopate {

namespace {

/// No element of a tensor is farther from 0.
constexpr std::int64_t kFarthest = std::int64_t{1} << 48;
/// Of a streamed loop: more are no loop that anyone means.
constexpr std::int64_t kMostIterations = std::int64_t{1} << 24;
/// That runs make up.
constexpr std::int64_t kFarthestValue = std::int64_t{1} << 62;

class PlanParser {
 public:
  explicit PlanParser(const SourceFile& file) : file_(file), values_(file), root_(parse_json(file)) {}

  Plan parse() {
    JsonReader reader(file_, root_, "the plan");
    const Json& version = reader.required("syncopate_plan");
    if (expect_integer(file_, version, "'syncopate_plan'") != kPlanVersion)
      throw reader.error(version, fmt::format("this plan is of version {}", version.integer()),
                         fmt::format("this Syncopate reads version {}: compile the operator again", kPlanVersion));
    plan_.operator_name = reader.string("operator");
    plan_.ranks = values_.small(reader.required("ranks"), "'ranks'", 1, kMostRanks);
    const Json& workers = reader.required("workers");
    plan_.workers = values_.small(workers, "'workers'", 1, kMostWorkers);
    if (const Json* lookahead = reader.optional("lookahead"))
      plan_.lookahead = values_.small(*lookahead, "'lookahead'", 1, kMostLookahead);
    plan_.communication = reader.string("communication");
    kernel(reader.required("kernel"));
    for (const Json& item : reader.array("buffers")) buffer(item);
    check_partners(reader.array("buffers"));
    for (const Json& item : reader.array("signals")) signal(item);
    check_flags(reader.array("signals"));
    for (const Json& item : reader.array("tiles")) tile(item);
    for (const Json& item : reader.array("sums")) sum(item);
    const Json& programs = reader.required("programs");
    for (const Json& item : expect_array(file_, programs, "'programs'")) program(item, programs);
    if (static_cast<int>(plan_.programs.size()) != plan_.ranks) throw wrong_number_of_programs(programs);
    check_workers(workers);
    hash_ = reader.string("hash");
    hash_where_ = reader.where(reader.required("hash"));
    reader.finish();
    return std::move(plan_);
  }

  const std::string& hash() const { return hash_; }
  const SourceLocation& hash_where() const { return hash_where_; }

 private:
  // -------------------------------------------------------------------------------------------------- the kernel

  void kernel(const Json& value) {
    JsonReader reader(file_, value, "the kernel");
    KernelPart& part = plan_.kernel;
    part.file = reader.string("file");
    part.function = reader.string("function");
    part.fused_function = reader.string("fused_function");
    const Json& hash = reader.required("fused_hash");
    part.arguments = arguments(reader.required("arguments"));
    if (const Json* differing = reader.optional("rank_arguments")) rank_arguments(*differing);
    for (const Json& axis : reader.array("axes")) part.axes.push_back(expect_string(file_, axis, "axis"));
    const Json& extents = reader.required("extents");
    part.extents = values_.integers(extents, "an extent", 1, kMostAlongAxis);
    if (part.extents.size() != part.axes.size())
      throw values_.error(extents, fmt::format("{} extents of {} axes", part.extents.size(), part.axes.size()),
                          "one extent per axis");
    for (const Json& axis : reader.array("streamed_loops"))
      part.streamed_loops.push_back(expect_string(file_, axis, "the axis of a streamed loop"));
    part.persistent = values_.boolean(reader.required("persistent"), "'persistent'");
    part.grid = grid(reader.required("grid"), part.persistent);
    part.warps = values_.small(reader.required("warps"), "'warps'", 1, 32);
    part.stages = values_.small(reader.required("stages"), "'stages'", 1, 16);
    part.local_source = reader.string("local_source");
    part.fused_source = reader.string("fused_source");
    if (expect_string(file_, hash, "'fused_hash'") != content_hash(part.fused_source))
      throw reader.error(hash, "the fused kernel's text does not have this hash", "compile the operator again");
    reader.finish();
  }

  ScalarArguments arguments(const Json& value) const {
    const JsonReader reader(file_, value, "the kernel's arguments");
    ScalarArguments arguments;
    for (const auto& [name, argument] : value.members()) {
      switch (argument.kind()) {
        case Json::Kind::integer:
          arguments[name] = argument.integer();
          break;
        case Json::Kind::number:
          arguments[name] = argument.number();
          break;
        case Json::Kind::boolean:
          arguments[name] = argument.boolean();
          break;
        default:
          throw reader.error(argument, fmt::format("argument '{}' is not a number", name), "a number");
      }
    }
    return arguments;
  }

  /// Of each rank the same ones, and none of those that all ranks share.
  void rank_arguments(const Json& value) {
    KernelPart& part = plan_.kernel;
    for (const Json& item : values_.tuple(value, "'rank_arguments'", static_cast<std::size_t>(plan_.ranks))) {
      const ScalarArguments own = arguments(item);
      const ScalarArguments& first = part.rank_arguments.empty() ? own : part.rank_arguments.front();
      const auto alike = [&](const auto& mine, const auto& other) {
        return mine.first == other.first && mine.second.index() == other.second.index();
      };
      if (own.empty() || !std::equal(own.begin(), own.end(), first.begin(), first.end(), alike))
        throw values_.error(item, "ranks have different arguments of their own",
                            "the same names, with numbers of a kind");
      for (const auto& [name, number] : own)
        if (part.arguments.contains(name))
          throw values_.error(item, fmt::format("argument '{}' is one of all ranks, too", name), "one of the two");
      part.rank_arguments.push_back(own);
    }
  }

  std::vector<std::int64_t> grid(const Json& value, bool persistent) const {
    const std::vector<std::int64_t> grid = values_.integers(value, "a number of programs", 1, kMostPrograms);
    if (grid.empty() || grid.size() > 3)
      throw values_.error(value, fmt::format("a grid of {} axes", grid.size()), "it has 1 to 3");
    std::int64_t programs = 1;
    for (const std::int64_t along : grid) programs *= along;
    if (programs > (persistent ? 1 : kMostPrograms))
      throw values_.error(value, fmt::format("a grid of {} programs", programs),
                          persistent ? "one program of a persistent kernel walks all tiles"
                                     : fmt::format("it has {} at most", kMostPrograms));
    return grid;
  }

  // ------------------------------------------------------------------------------------------- buffers and signals

  void buffer(const Json& value) {
    JsonReader reader(file_, value, "buffer");
    Buffer buffer;
    buffer.name = reader.string("name");
    if (buffer.name.empty() || !buffer_names_.insert(buffer.name).second)
      throw values_.error(reader.required("name"), fmt::format("a buffer called '{}'", buffer.name),
                          "every buffer has a name of its own");
    buffer.parameter = reader.string("parameter");
    buffer.shape = values_.shape(reader.required("shape"));
    buffer.dtype = values_.dtype(reader.required("dtype"));
    buffer.symmetric = values_.boolean(reader.required("symmetric"), "'symmetric'");
    buffer.sums_in_place = values_.boolean(reader.required("sums_in_place"), "'sums_in_place'");
    buffer.shared = values_.boolean(reader.required("shared"), "'shared'");
    buffer.purpose = reader.string("purpose");
    const std::size_t dimensions = buffer.shape.size();
    buffer.before = values_.placement(reader.required("before"), "'before'", dimensions);
    buffer.inside = values_.placement(reader.required("inside"), "'inside'", dimensions);
    buffer.after = values_.placement(reader.required("after"), "'after'", dimensions);
    const Json& held = reader.required("held");
    for (const Json& item : values_.tuple(held, "held", static_cast<std::size_t>(plan_.ranks)))
      buffer.held.push_back(boxes_of(item, buffer));
    buffer.values = values_of(reader.required("values"), buffer.dtype);
    const std::string role = reader.string("role");
    const std::optional<BufferRole> known_role = buffer_role_from_name(role);
    if (!known_role)
      throw values_.error(reader.required("role"), fmt::format("unknown role '{}'", role),
                          "kernel, staging, source, result or summands");
    buffer.role = *known_role;
    buffer.partner = values_.small(reader.required("partner"), "'partner'", -1, 1 << 16);
    window(reader.required("window"), buffer);
    if (const Json* stacked = reader.optional("stacked")) {
      buffer.stacked = values_.boolean(*stacked, "'stacked'");
      if (buffer.stacked) check_stack(buffer, *stacked);
    }
    check_zigzag(buffer, reader.required("before"));
    if (const Json* folded = reader.optional("fold")) fold(*folded, buffer);
    if (const Json* apart = reader.optional("summed_apart"))
      buffer.summed_apart = values_.boolean(*apart, "'summed_apart'");
    const bool of_kernel = buffer.role == BufferRole::kernel;
    if (of_kernel == buffer.parameter.empty() || (of_kernel && !parameters_.insert(buffer.parameter).second))
      throw values_.error(reader.required("parameter"), fmt::format("the parameter '{}'", buffer.parameter),
                          "each buffer of the kernel has one of its own, and others have none");
    reader.finish();
    plan_.buffers.push_back(std::move(buffer));
  }

  /// A box, or a list of boxes.
  std::vector<Region> boxes_of(const Json& value, const Buffer& buffer) const {
    const std::vector<Json>& items = expect_array(file_, value, "'held'");
    const bool is_box = !items.empty() && items[0].kind() == Json::Kind::array && !items[0].items().empty() &&
                        items[0].items()[0].kind() != Json::Kind::array;
    if (is_box || items.empty()) return {values_.region(value, buffer.shape, buffer.name)};
    std::vector<Region> boxes;
    for (const Json& item : items) boxes.push_back(values_.region(item, buffer.shape, buffer.name));
    return boxes;
  }

  /// zigzag is how a gathered tensor is held before.
  void check_zigzag(const Buffer& buffer, const Json& at) const {
    using Kind = Placement::Kind;
    const bool gathered = buffer.role == BufferRole::kernel && buffer.inside.kind == Kind::replicate && !buffer.stacked;
    if (buffer.inside.kind == Kind::zigzag || buffer.after.kind == Kind::zigzag ||
        (buffer.before.kind == Kind::zigzag && !gathered))
      throw values_.error(at,
                          fmt::format("buffer '{}' goes from {} to {} to {}", buffer.name, buffer.before.to_string(),
                                      buffer.inside.to_string(), buffer.after.to_string()),
                          "zigzag is how ranks hold what is gathered: before = zigzag(d), inside = replicate");
  }

  std::vector<Range> values_of(const Json& value, Dtype dtype) const {
    std::vector<Range> list;
    for (const Json& item : expect_array(file_, value, "'values'")) {
      const std::vector<Json>& pair = values_.tuple(item, "a range of values", 2);
      const std::int64_t from = values_.integer(pair[0], "a value", -kFarthestValue, kFarthestValue);
      list.push_back({from, values_.integer(pair[1], "the end of a range of values", from + 1, kFarthestValue + 1)});
    }
    if (!list.empty() && (list.size() != static_cast<std::size_t>(plan_.ranks) || is_floating(dtype)))
      throw values_.error(value, "'values' does not fit the buffer", "of integers, a range for each rank; or nothing");
    return list;
  }

  /// Boxes of the tensor, none larger than the buffer, and together no smaller than the tensor.
  void window(const Json& value, Buffer& buffer) const {
    if (expect_array(file_, value, "'window'").empty()) return;
    Shape tensor(buffer.shape.size(), 0);
    for (const Json& item : values_.tuple(value, "'window'", static_cast<std::size_t>(plan_.ranks))) {
      const Region box = values_.region(item, Shape(buffer.shape.size(), kFarthest), buffer.name);
      for (std::size_t d = 0; d < tensor.size(); ++d) {
        const Range& range = box[static_cast<int>(d)];
        if (range.size() > buffer.shape[d])
          throw values_.error(item, fmt::format("buffer '{}' shows {} of its tensor", buffer.name, box.to_string()),
                              fmt::format("no more than its own size, {}", to_string(buffer.shape)));
        if (!box.empty()) tensor[d] = std::max(tensor[d], range.end);
      }
      buffer.window.push_back(box);
    }
    std::int64_t most = volume(buffer.shape) * plan_.ranks;
    for (const std::int64_t extent : tensor) most = extent == 0 ? 0 : most / extent;
    if (volume(tensor) > 0 && most == 0)
      throw values_.error(
          value,
          fmt::format("the windows of buffer '{}' leave parts of a tensor {} out", buffer.name, to_string(tensor)),
          "together they show all of it");
  }

  /// Its partner, which is behind it, is looked for by check_partners().
  void fold(const Json& value, Buffer& buffer) const {
    const std::vector<Json>& pair = values_.tuple(value, "a fold", 2);
    const int dimension = values_.index(pair[0], "the fold's dimension", buffer.shape.size());
    const std::int64_t size = buffer.shape[static_cast<std::size_t>(dimension)];
    buffer.fold = Fold{dimension, values_.integer(pair[1], "the fold's extent", 1, size)};
    if (buffer.role != BufferRole::kernel || buffer.is_reduced() || buffer.stacked)
      throw values_.error(value, fmt::format("buffer '{}' is folded", buffer.name),
                          "what is folded is an input of the kernel, and no sum");
  }

  void check_stack(const Buffer& buffer, const Json& at) const {
    const bool of_kernel = buffer.role == BufferRole::kernel;
    if (buffer.shape.size() < 2 || (!of_kernel && buffer.role != BufferRole::source) ||
        buffer.shape[0] != (of_kernel ? plan_.ranks : 1))
      throw values_.error(at, fmt::format("buffer '{}' is no stack of summands", buffer.name),
                          "a stack is a buffer of the kernel whose first dimension is the ranks, or a source with one "
                          "summand");
    if (!is_floating(buffer.dtype) || buffer.dtype == Dtype::fp64)
      throw values_.error(at, fmt::format("buffer '{}' is summed and {}", buffer.name, name_of(buffer.dtype)),
                          "sums are taken in fp32, of floating-point types of at most 32 bits");
  }

  /// Every buffer but the kernel's is for one of those, with as many dimensions and of its type. At most one is
  /// reduced, and at most one is a staging buffer, which is for it.
  void check_partners(const std::vector<Json>& places) {
    for (std::size_t b = 0; b < places.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      if (buffer.before.kind == Placement::Kind::partial_sum && !buffer.is_reduced() &&
          buffer.role == BufferRole::kernel)
        throw values_.error(places[b], fmt::format("buffer '{}' holds summands before the kernel only", buffer.name),
                            "what is reduced is an output: inside = partial(sum)");
      if (buffer.is_reduced() || buffer.summed_apart) check_reduced(buffer, places[b]);
      if (buffer.summed_apart) check_summed_apart(static_cast<int>(b), places[b]);
      check_in_place(buffer, places[b]);
      if (buffer.fold) check_folded(static_cast<int>(b), places[b]);
      if (buffer.role == BufferRole::kernel) continue;
      if (buffer.role == BufferRole::summands) {
        check_summands(buffer, places[b]);
        continue;
      }
      const bool receives = buffer.role == BufferRole::staging;
      const auto partner = static_cast<std::size_t>(buffer.partner);
      if (partner >= plan_.buffers.size() || plan_.buffers[partner].role != BufferRole::kernel ||
          plan_.buffers[partner].is_reduced() != receives ||
          plan_.buffers[partner].shape.size() != buffer.shape.size() || plan_.buffers[partner].dtype != buffer.dtype)
        throw values_.error(places[b],
                            fmt::format("buffer '{}' cannot be the {} buffer of buffer {}", buffer.name,
                                        name_of(buffer.role), buffer.partner),
                            "its partner is a buffer of the kernel with as many dimensions and of the same dtype, "
                            "reduced if and only if it is a staging buffer");
      if (buffer.role != BufferRole::source) check_holds_nothing(buffer, places[b]);
      if (buffer.stacked != plan_.buffers[partner].stacked)
        throw values_.error(places[b],
                            fmt::format("of buffers '{}' and '{}' one is a stack of summands", buffer.name,
                                        plan_.buffers[partner].name),
                            "both are, or neither");
      const bool both_show = !buffer.window.empty() && !plan_.buffers[partner].window.empty();
      if (!receives && (!both_show || tensor_shape(buffer) != tensor_shape(plan_.buffers[partner])))
        throw values_.error(
            places[b],
            fmt::format("buffers '{}' and '{}' show different tensors", buffer.name, plan_.buffers[partner].name),
            "both show parts of one");
    }
    const auto count = [&](const auto& property) {
      return std::count_if(plan_.buffers.begin(), plan_.buffers.end(), property);
    };
    const auto reduced = count([](const Buffer& buffer) { return buffer.is_reduced(); });
    const auto staging = count([](const Buffer& buffer) { return buffer.role == BufferRole::staging; });
    if (reduced > 1 || staging > 1)
      throw values_.error(places.front(), fmt::format("{} reduced and {} staging buffers", reduced, staging),
                          "at most one of each");
    const auto stacks = count([](const Buffer& buffer) { return buffer.role == BufferRole::summands; });
    const auto apart = count([](const Buffer& buffer) { return buffer.summed_apart; });
    if (stacks != apart || stacks > 1 || (stacks > 0 && reduced > 0))
      throw values_.error(
          places.front(),
          fmt::format("{} one-shot sums, {} stacks for such and {} reduced buffers", apart, stacks, reduced),
          "one stack for one such sum, which is then the only sum over ranks");
    reduced_ = reduced_buffer(plan_);
    landing_ = landing_buffer(plan_);
  }

  void check_folded(int buffer, const Json& at) const {
    const int source = caller_side(plan_, buffer);
    if (source < 0 || plan_.buffer(source).role != BufferRole::source)
      throw values_.error(at, fmt::format("buffer '{}' is folded and has no source", plan_.buffer(buffer).name),
                          "what the caller has of it is in a buffer of its own");
  }

  /// A one-shot sum is of whole tensors, and its caller has it in a result.
  void check_summed_apart(int number, const Json& at) const {
    const Buffer& buffer = plan_.buffer(number);
    const bool whole = std::all_of(buffer.window.begin(), buffer.window.end(),
                                   [&](const Region& shown) { return shown == Region::whole(buffer.shape); });
    const int caller = caller_side(plan_, number);
    if (buffer.role != BufferRole::kernel || buffer.inside != Placement::partial_sum() ||
        buffer.after != Placement::replicate() || buffer.window.empty() || !whole || caller < 0 ||
        plan_.buffer(caller).role != BufferRole::result || plan_.buffer(caller).shape != buffer.shape)
      throw values_.error(at, fmt::format("buffer '{}' holds summands of no one-shot sum", buffer.name),
                          "partial(sum) in the kernel, replicate after it, and a result; all of whole tensors");
  }

  void check_summands(const Buffer& buffer, const Json& at) const {
    const auto partner = static_cast<std::size_t>(buffer.partner);
    Shape shape = partner < plan_.buffers.size() ? plan_.buffers[partner].shape : Shape{};
    if (!shape.empty()) shape[0] *= plan_.ranks - 1;
    if (partner >= plan_.buffers.size() || !plan_.buffers[partner].summed_apart || buffer.shape != shape ||
        buffer.dtype != plan_.buffers[partner].dtype || !buffer.window.empty() || buffer.stacked)
      throw values_.error(
          at, fmt::format("buffer '{}' cannot have other ranks' summands of buffer {}", buffer.name, buffer.partner),
          "a stack has one whole tensor for each other rank");
    check_holds_nothing(buffer, at);
  }

  void check_in_place(const Buffer& buffer, const Json& at) const {
    if (buffer.sums_in_place && (!buffer.is_reduced() || staging_buffer(plan_) >= 0))
      throw values_.error(at, fmt::format("buffer '{}' has sums in place", buffer.name),
                          "of a reduced buffer only, and without a staging buffer");
  }

  void check_reduced(const Buffer& buffer, const Json& at) const {
    if (buffer.after.kind == Placement::Kind::partial_sum)
      throw values_.error(at, fmt::format("buffer '{}' holds summands after the operator too", buffer.name),
                          "after = shard(d) or replicate");
    if (!is_floating(buffer.dtype) || buffer.dtype == Dtype::fp64)
      throw values_.error(at, fmt::format("buffer '{}' is reduced and {}", buffer.name, name_of(buffer.dtype)),
                          "sums are taken in fp32, of floating-point types of at most 32 bits");
    check_holds_nothing(buffer, at);
  }

  void check_holds_nothing(const Buffer& buffer, const Json& at) const {
    for (int rank = 0; rank < plan_.ranks; ++rank)
      if (!held_boxes(buffer, rank).empty())
        throw values_.error(at, fmt::format("the caller puts something into buffer '{}'", buffer.name),
                            "the operator fills it: held is empty");
  }

  void signal(const Json& value) {
    JsonReader reader(file_, value, "signal");
    Signal signal;
    signal.name = reader.string("name");
    signal.home = values_.small(reader.required("home"), "the signal's home", 0, plan_.ranks - 1);
    signal.slot = values_.small(reader.required("slot"), "the signal's slot", 0, 1 << 30);
    signal.per_launch = values_.integer(reader.required("per_launch"), "'per_launch'", 1, 1 << 30);
    signal.counts = reader.string("counts");
    reader.finish();
    plan_.signals.push_back(std::move(signal));
  }

  /// The flags of a rank are numbered from 0 without gaps, and each is one signal's.
  void check_flags(const std::vector<Json>& places) const {
    std::vector<std::vector<bool>> taken(static_cast<std::size_t>(plan_.ranks));
    for (const Signal& signal : plan_.signals) taken[static_cast<std::size_t>(signal.home)].push_back(false);
    for (std::size_t s = 0; s < places.size(); ++s) {
      const Signal& signal = plan_.signals[s];
      std::vector<bool>& flags = taken[static_cast<std::size_t>(signal.home)];
      const auto slot = static_cast<std::size_t>(signal.slot);
      if (slot >= flags.size() || flags[slot])
        throw values_.error(
            places[s],
            fmt::format("signal '{}' is in slot {} of rank {}, which has {} signal{}{}", signal.name, slot, signal.home,
                        flags.size(), flags.size() == 1 ? "" : "s", slot < flags.size() ? ", one there already" : ""),
            "slots count from 0, one for each signal of a rank");
      flags[slot] = true;
    }
  }

  // ------------------------------------------------------------------------------------------------ tiles and sums

  std::vector<TileAccess> accesses(const Json& value) const {
    std::vector<TileAccess> list;
    for (const Json& item : expect_array(file_, value, "accesses")) {
      const std::vector<Json>& pair = values_.tuple(item, "an access", 2);
      const int buffer = values_.index(pair[0], "the access's buffer", plan_.buffers.size());
      if (plan_.buffer(buffer).role == BufferRole::staging)
        throw values_.error(pair[0], "a tile's access to the staging buffer", "tiles reach it by addends");
      if (plan_.buffer(buffer).role == BufferRole::summands)
        throw values_.error(pair[0], "a tile's access to other ranks' summands", "additions read them");
      list.push_back({buffer, region_of(pair[1], buffer)});
    }
    return list;
  }

  /// A piece of a tile that has those `before` it.
  LoopPiece piece(const Json& value, const std::vector<LoopPiece>& before) const {
    const std::vector<Json>& parts = values_.tuple(value, "a piece", 4);
    LoopPiece piece;
    piece.loop = values_.index(parts[0], "the piece's loop", plan_.kernel.streamed_loops.size());
    piece.begin = values_.integer(parts[1], "the piece's first iteration", 0, kMostIterations);
    piece.end = values_.integer(parts[2], "the piece's past-the-last iteration", piece.begin + 1, kMostIterations);
    piece.reads = accesses(parts[3]);
    const bool goes_on = !before.empty() && before.back().loop == piece.loop;
    if ((!before.empty() && before.back().loop > piece.loop) || piece.begin != (goes_on ? before.back().end : 0))
      throw values_.error(value, "a piece that does not follow the one before it",
                          "pieces are listed by loop, and those of a loop follow each other from iteration 0");
    return piece;
  }

  void tile(const Json& value) {
    JsonReader reader(file_, value, "tile");
    Tile tile;
    const Json& index = reader.required("index");
    tile.index = values_.integers(index, "a part of the tile's index", 0, kMostAlongAxis);
    const std::vector<std::int64_t>& extents = plan_.kernel.extents;
    if (tile.index.size() != extents.size())
      throw reader.error(index,
                         fmt::format("a tile index of {} part{}", tile.index.size(), tile.index.size() == 1 ? "" : "s"),
                         fmt::format("the kernel has {} {}", extents.size(), extents.size() == 1 ? "axis" : "axes"));
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      values_.integer(index.items()[axis], "a part of the tile's index", 0, extents[axis] - 1);
    tile.reads = accesses(reader.required("reads"));
    tile.writes = accesses(reader.required("writes"));
    for (const Json& item : reader.array("pieces")) tile.pieces.push_back(piece(item, tile.pieces));
    reader.finish();
    plan_.tiles.push_back(std::move(tile));
  }

  SumOrder sum_order(const Json& value, int depth = 0) const {
    if (value.kind() == Json::Kind::integer)
      return {values_.small(value, "the summand's rank", 0, plan_.ranks - 1), {}};
    const std::vector<Json>& terms = expect_array(file_, value, "the order of a sum");
    if (terms.empty() || depth > plan_.ranks)
      throw values_.error(value, "a sum without terms, or nested too deeply", "list its summands");
    SumOrder order;
    for (const Json& term : terms) order.terms.push_back(sum_order(term, depth + 1));
    return order;
  }

  void sum(const Json& value) {
    JsonReader reader(file_, value, "sum");
    Sum sum;
    sum.rank = values_.small(reader.required("rank"), "the sum's rank", 0, plan_.ranks - 1);
    const Json& buffer = reader.required("buffer");
    sum.buffer = values_.index(buffer, "the sum's buffer", plan_.buffers.size());
    if (sum.buffer != reduced_ && sum.buffer != added_up_buffer(plan_))
      throw values_.error(buffer, fmt::format("a sum of '{}', which is not reduced", plan_.buffer(sum.buffer).name),
                          reduced_ < 0 ? "nothing is: remove it" : fmt::format("only buffer {} is", reduced_));
    sum.region = region_of(reader.required("region"), sum.buffer);
    sum.order = sum_order(reader.required("order"));
    reader.finish();
    plan_.sums.push_back(std::move(sum));
  }

  // ------------------------------------------------------------------------------------------- programs of the ranks

  UserError wrong_number_of_programs(const Json& programs) const {
    return values_.error(
        programs,
        fmt::format("{} programs for {} rank{}", programs.items().size(), plan_.ranks, plan_.ranks == 1 ? "" : "s"),
        "one program per rank");
  }

  void program(const Json& value, const Json& programs) {
    const auto rank = static_cast<int>(plan_.programs.size());
    if (rank >= plan_.ranks) throw wrong_number_of_programs(programs);
    JsonReader reader(file_, value, "program");
    RankProgram program;
    program.start_signals = signals(reader.required("start_signals"));
    for (const Json& item : reader.array("queues")) program.queues.push_back(queue(item, rank));
    for (const Json& item : reader.array("slots")) program.slots.push_back(slot(item, rank));
    program.completion_waits = waits(reader.required("completion_waits"), rank);
    program.completion_signals = signals(reader.required("completion_signals"));
    if (reader.optional("additions") != nullptr)
      for (const Json& item : reader.array("additions")) program.additions.push_back(addition(item, rank));
    reader.finish();
    plan_.programs.push_back(std::move(program));
  }

  std::vector<Wait> waits(const Json& value, int rank) const {
    std::vector<Wait> list;
    for (const Json& item : expect_array(file_, value, "waits")) {
      const std::vector<Json>& pair = values_.tuple(item, "a wait", 2);
      const int number = values_.index(pair[0], "the wait's signal", plan_.signals.size());
      const Signal& signal = plan_.signals[static_cast<std::size_t>(number)];
      if (signal.home != rank)
        throw values_.error(
            pair[0], fmt::format("rank {} waits for '{}', which lives on rank {}", rank, signal.name, signal.home),
            "a rank waits for signals of its own");
      list.push_back({number, values_.integer(pair[1], "the wait's threshold", 0, signal.per_launch)});
    }
    return list;
  }

  std::vector<int> signals(const Json& value) const {
    std::vector<int> list;
    for (const Json& item : expect_array(file_, value, "signals"))
      list.push_back(values_.index(item, "a signal", plan_.signals.size()));
    return list;
  }

  Region region_of(const Json& value, int buffer) const {
    const Buffer& about = plan_.buffer(buffer);
    const Region region = values_.region(value, about.shape, about.name);
    if (!keeps_to_one_fold(about, region))
      throw values_.error(
          value, fmt::format("{}{} is in several folds", about.name, region.to_string()),
          fmt::format("the buffer is folded every {} along dimension {}", about.fold->extent, about.fold->dimension));
    return region;
  }

  View view(const Json& value) const {
    JsonReader reader(file_, value, "view");
    View view;
    view.rank = values_.small(reader.required("rank"), "the view's rank", 0, plan_.ranks - 1);
    view.buffer = values_.index(reader.required("buffer"), "the view's buffer", plan_.buffers.size());
    view.region = region_of(reader.required("region"), view.buffer);
    reader.finish();
    return view;
  }

  Transfer transfer(const Json& value, int rank) const {
    JsonReader reader(file_, value, "transfer");
    Transfer transfer;
    const std::vector<Json>& origin = values_.tuple(reader.required("operator"), "operator", 2);
    transfer.operator_rank = values_.small(origin[0], "the operator's rank", 0, plan_.ranks - 1);
    transfer.operator_index = values_.small(origin[1], "the operator's index", -1, 1 << 30);
    transfer.source = view(reader.required("source"));
    transfer.destination = view(reader.required("destination"));
    transfer.waits = waits(reader.required("waits"), rank);
    transfer.signals = signals(reader.required("signals"));
    reader.finish();
    check_ends(transfer, rank, value);
    return transfer;
  }

  /// What is moved fits where it goes, and one end is the queue's own rank.
  void check_ends(const Transfer& transfer, int rank, const Json& at) const {
    const View& from = transfer.source;
    const View& to = transfer.destination;
    if (from.rank != rank && to.rank != rank)
      throw values_.error(at, fmt::format("a queue of rank {} moves from rank {} to rank {}", rank, from.rank, to.rank),
                          "one of them is the queue's rank");
    if (!equal_extents(from.region, to.region) || plan_.buffer(from.buffer).dtype != plan_.buffer(to.buffer).dtype)
      throw values_.error(at,
                          fmt::format("{}{} is moved to {}{}", plan_.buffer(from.buffer).name, from.region.to_string(),
                                      plan_.buffer(to.buffer).name, to.region.to_string()),
                          "both are of one size and dtype");
  }

  static bool equal_extents(const Region& a, const Region& b) {
    if (a.dimensions() != b.dimensions()) return false;
    for (int d = 0; d < a.dimensions(); ++d)
      if (a[d].size() != b[d].size()) return false;
    return true;
  }

  Queue queue(const Json& value, int rank) const {
    JsonReader reader(file_, value, "queue");
    Queue queue;
    queue.name = reader.string("name");
    const std::string engine = reader.string("engine");
    if (engine != name_of(Engine::copy_engine))
      throw reader.error(reader.required("engine"), fmt::format("unknown engine '{}'", engine),
                         fmt::format("known: {}", name_of(Engine::copy_engine)));
    for (const Json& item : reader.array("transfers")) queue.transfers.push_back(transfer(item, rank));
    reader.finish();
    return queue;
  }

  Slot slot(const Json& value, int rank) const {
    const std::vector<Json>& parts = expect_array(file_, value, "a slot");
    const std::size_t plain = plan_.kernel.streamed_loops.empty() ? 2 : 3;
    if (parts.size() != plain + 1) values_.tuple(value, "a slot", plain);
    Slot slot;
    slot.tile = values_.index(parts[0], "the slot's tile", plan_.tiles.size());
    slot.waits = waits(parts[1], rank);
    if (plain == 3) add_steps(parts[2], rank, slot);
    if (parts.size() > plain) add_sums(parts.back(), rank, slot);
    return slot;
  }

  void add_steps(const Json& value, int rank, Slot& slot) const {
    const std::vector<LoopPiece>& pieces = plan_.tiles[static_cast<std::size_t>(slot.tile)].pieces;
    std::vector<bool> walked(pieces.size(), false);
    int loop = 0;
    for (const Json& item : expect_array(file_, value, "steps")) {
      const std::vector<Json>& pair = values_.tuple(item, "a step", 2);
      const int number = values_.index(pair[0], "the step's piece", pieces.size());
      const LoopPiece& piece = pieces[static_cast<std::size_t>(number)];
      if (walked[static_cast<std::size_t>(number)] || piece.loop < loop)
        throw values_.error(item, "a step to a piece that has been walked, or of an earlier loop",
                            "each piece once, the first loop's first");
      walked[static_cast<std::size_t>(number)] = true;
      loop = piece.loop;
      slot.steps.push_back({number, waits(pair[1], rank)});
    }
    if (slot.steps.size() != pieces.size())
      throw values_.error(
          value,
          fmt::format("{} of a tile of {}", count_of(slot.steps.size(), "step"), count_of(pieces.size(), "piece")),
          "each piece once");
  }

  void add_sums(const Json& value, int rank, Slot& slot) const {
    if (!slots_raise(plan_))
      throw values_.error(value, "a slot with sums or signals, but no output leaves its rank", "remove them");
    JsonReader reader(file_, value, "slot");
    slot.signals = signals(reader.required("signals"));
    if (reduced_ >= 0 && reader.optional("kept") != nullptr) {
      const Buffer& reduced = plan_.buffer(reduced_);
      const Json& kept = reader.required("kept");
      if (!expect_array(file_, kept, "'kept'").empty())
        slot.kept = values_.contiguous(kept, reduced.shape, reduced.name);
      slot.sum_waits = waits(reader.required("sum_waits"), rank);
      for (const Json& item : reader.array("addends")) slot.addends.push_back(addend(item));
      slot.own_place =
          values_.small(reader.required("own_place"), "'own_place'", 0, static_cast<std::int64_t>(slot.addends.size()));
    }
    reader.finish();
  }

  Addend addend(const Json& value) const {
    if (landing_ < 0) throw values_.error(value, "an addend, but there is no staging buffer", "remove it");
    const Buffer& reduced = plan_.buffer(reduced_);
    const Buffer& landing = plan_.buffer(landing_);
    const std::vector<Json>& pair = values_.tuple(value, "an addend", 2);
    const Addend addend{values_.contiguous(pair[0], reduced.shape, reduced.name),
                        values_.contiguous(pair[1], landing.shape, landing.name)};
    if (!equal_extents(addend.target, addend.source))
      throw values_.error(value,
                          fmt::format("{}{} is added to {}{}", landing.name, addend.source.to_string(), reduced.name,
                                      addend.target.to_string()),
                          "both are of one size");
    return addend;
  }

  Addition addition(const Json& value, int rank) const {
    const int stack = summands_buffer(plan_);
    if (stack < 0) throw values_.error(value, "an addition, but there is no one-shot sum", "remove it");
    if (is_dynamic(plan_))
      throw values_.error(value, "an addition, which knows what its worker's slots have stored, in a dynamic order",
                          "remove 'lookahead': workers that add are dealt their slots");
    const Buffer& summed = plan_.buffer(plan_.buffer(stack).partner);
    const std::vector<Json>& pair = values_.tuple(value, "an addition", 2);
    return {values_.contiguous(pair[0], summed.shape, summed.name), waits(pair[1], rank)};
  }

  /// Workers without a slot would be in everyone's way.
  void check_workers(const Json& at) const {
    std::size_t most = 1;
    for (const RankProgram& program : plan_.programs) most = std::max(most, program.slots.size());
    if (static_cast<std::size_t>(plan_.workers) > most)
      throw values_.error(at,
                          fmt::format("{} workers for at most {} slot{}", plan_.workers, most, most == 1 ? "" : "s"),
                          "no more workers than slots");
  }

  const SourceFile& file_;
  PlanValues values_;
  Json root_;
  Plan plan_;
  int reduced_ = -1;
  int landing_ = -1;
  std::set<std::string> buffer_names_;
  std::set<std::string> parameters_;
  std::string hash_;
  SourceLocation hash_where_;
};

}  // namespace

Plan parse_plan(const SourceFile& file, bool check_hash) {
  PlanParser parser(file);
  Plan plan = parser.parse();
  if (check_hash && parser.hash() != plan_hash(plan))
    throw UserError(parser.hash_where(), "the plan does not have this hash: it was edited or damaged",
                    "compile again; `syncopate verify` looks at it as it is");
  return plan;
}

}  // namespace syncopate
