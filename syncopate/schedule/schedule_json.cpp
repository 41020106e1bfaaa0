#include "syncopate/schedule/schedule_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "syncopate/core/json.h"
#include "syncopate/core/text.h"

namespace syncopate {

namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::array kCollectives = {CollectiveType::all_gather, CollectiveType::reduce_scatter,
                                     CollectiveType::all_reduce, CollectiveType::all_to_all, CollectiveType::broadcast};

/// Reads "a[0:128, :]": a tensor's name and a range per dimension; an empty bound is the tensor's own.
class ScheduleParser {
 public:
  explicit ScheduleParser(const SourceFile& file) : file_(file), root_(parse_json(file)) {}

  Schedule parse() {
    JsonReader reader(file_, root_, "the schedule");
    const Json& version = reader.required("syncopate_schedule");
    if (expect_integer(file_, version, "'syncopate_schedule'") != kVersion)
      throw reader.error(version, fmt::format("this schedule is of version {}", version.integer()),
                         fmt::format("this Syncopate reads version {}", kVersion));
    const Json& ranks = reader.required("ranks");
    const std::int64_t count = expect_integer(file_, ranks, "'ranks'");
    if (count < 1 || count > 1 << 20) throw reader.error(ranks, fmt::format("{} ranks", count), "at least 1");
    schedule_.operators.resize(static_cast<std::size_t>(count));
    for (const Json& item : reader.array("tensors")) tensor(item);
    const Json& operators = reader.required("operators");
    const std::vector<Json>& lists = expect_array(file_, operators, "'operators'");
    if (static_cast<std::int64_t>(lists.size()) != count)
      throw reader.error(operators, fmt::format("lists of operators for {} ranks", lists.size()),
                         fmt::format("one list for each of {} ranks", count));
    for (std::size_t rank = 0; rank < lists.size(); ++rank)
      for (const Json& item : expect_array(file_, lists[rank], "the list of a rank"))
        schedule_.operators[rank].push_back(operation(item, static_cast<int>(rank)));
    reader.finish();
    validate(schedule_, &file_);
    return std::move(schedule_);
  }

 private:
  void tensor(const Json& value) {
    JsonReader reader(file_, value, "tensor");
    LogicalTensor tensor;
    tensor.name = reader.string("name");
    if (tensor.name.empty() || tensor.name.find('[') != std::string::npos)
      throw reader.error(reader.required("name"), fmt::format("a tensor named '{}'", tensor.name),
                         "a name that is not empty and has no bracket, so that chunks can be written name[begin:end]");
    const Json& shape = reader.required("shape");
    for (const Json& extent : expect_array(file_, shape, "'shape'")) {
      tensor.shape.push_back(expect_integer(file_, extent, "a size"));
      if (tensor.shape.back() < 1)
        throw reader.error(extent, fmt::format("a size of {}", tensor.shape.back()), "sizes are at least 1");
    }
    if (tensor.shape.empty() || tensor.shape.size() > kMaxDimensions)
      throw reader.error(shape, fmt::format("a tensor of {} dimensions", tensor.shape.size()),
                         fmt::format("from 1 to {}", kMaxDimensions));
    const std::string dtype = reader.string("dtype");
    const std::optional<Dtype> known = dtype_from_name(dtype);
    if (!known)
      throw reader.error(reader.required("dtype"), fmt::format("unknown dtype '{}'", dtype),
                         fmt::format("known: {}", all_dtype_names()));
    tensor.dtype = *known;
    tensor.before = placement(reader, "before", tensor.shape.size());
    tensor.after = placement(reader, "after", tensor.shape.size());
    reader.finish();
    if (std::any_of(schedule_.tensors.begin(), schedule_.tensors.end(),
                    [&](const LogicalTensor& other) { return other.name == tensor.name; }))
      throw reader.error(value, fmt::format("a second tensor '{}'", tensor.name), "names are unique");
    schedule_.tensors.push_back(std::move(tensor));
  }

  Placement placement(JsonReader& reader, std::string_view key, std::size_t dimensions) const {
    const std::string text = reader.string(key);
    const std::optional<Placement> parsed = Placement::parse_in_schedule(text);
    if (!parsed)
      throw reader.error(
          reader.required(key), fmt::format("'{}' is not a placement", text),
          "shard(dimension), zigzag(dimension), replicate, partial(sum), shard(dimension)+steps or only(rank)");
    if (parsed->cuts() && parsed->dimension >= static_cast<int>(dimensions))
      throw reader.error(reader.required(key), fmt::format("{} of a tensor of {} dimensions", text, dimensions),
                         fmt::format("dimensions count from 0 to {}", dimensions - 1));
    return *parsed;
  }

  Operator operation(const Json& value, int rank) {
    JsonReader reader(file_, value, "operator");
    Operator op;
    op.offset = value.offset();
    const Json* push = reader.optional("push");
    const Json* pull = reader.optional("pull");
    const Json* collective = reader.optional("collective");
    if ((push != nullptr) + (pull != nullptr) + (collective != nullptr) != 1)
      throw reader.error(value, "an operator is one of push, pull and collective",
                         R"(for example {"push": "a[0:128, :]", "to": 1})");
    if (collective != nullptr) {
      op.action = collective_of(reader, *collective);
    } else {
      P2P p2p;
      const Json& peer = reader.required(push != nullptr ? "to" : "from");
      const int other = small_integer(peer, "the peer");
      p2p.source_rank = push != nullptr ? rank : other;
      p2p.destination_rank = push != nullptr ? other : rank;
      p2p.source_chunk = chunk(push != nullptr ? *push : *pull);
      const Json* into = reader.optional("into");
      p2p.destination_chunk = into == nullptr ? p2p.source_chunk : chunk(*into);
      if (const Json* reduce = reader.optional("reduce")) {
        if (expect_string(file_, *reduce, "'reduce'") != "sum")
          throw reader.error(*reduce, fmt::format("unknown reduction '{}'", reduce->string()), "known: sum");
        p2p.reduction = Reduction::sum;
      }
      if (const Json* own = reader.optional("own")) {
        if (own->kind() != Json::Kind::boolean) throw reader.error(*own, "'own' is not true or false");
        p2p.own = own->boolean();
      }
      op.action = p2p;
    }
    if (const Json* after = reader.optional("after"))
      for (const Json& item : expect_array(file_, *after, "'after'")) {
        const std::vector<Json>& pair = expect_array(file_, item, "a dependency");
        if (pair.size() != 2) throw reader.error(item, "a dependency is not a pair", "[rank, index of the operator]");
        op.dependencies.push_back(
            {small_integer(pair[0], "the rank of a dependency"), small_integer(pair[1], "the index of a dependency")});
      }
    if (const Json* port = reader.optional("port")) op.port = small_integer(*port, "'port'");
    reader.finish();
    return op;
  }

  /// validate() checks ranks, indices and ports against the schedule; here only that they are not cut off on the way.
  int small_integer(const Json& value, std::string_view what) const {
    const std::int64_t number = expect_integer(file_, value, what);
    if (number < 0 || number > std::numeric_limits<int>::max())
      throw UserError(file_.locate(value.offset()), fmt::format("{} is {}", what, number),
                      number < 0 ? "it counts from 0" : "that is far too large");
    return static_cast<int>(number);
  }

  Collective collective_of(JsonReader& reader, const Json& type) {
    const std::string& name = expect_string(file_, type, "'collective'");
    const auto* const known = std::find_if(kCollectives.begin(), kCollectives.end(),
                                           [&](CollectiveType t) { return collective_name(t) == name; });
    if (known == kCollectives.end()) {
      std::vector<std::string> names;
      for (const CollectiveType t : kCollectives) names.emplace_back(collective_name(t));
      throw reader.error(type, fmt::format("unknown collective '{}'", name), suggest(name, names));
    }
    Collective collective;
    collective.type = *known;
    for (const Json& item : reader.array("ranks")) collective.ranks.push_back(small_integer(item, "a rank"));
    for (const Json& item : reader.array("sources")) collective.source_chunks.push_back(chunk(item));
    for (const Json& item : reader.array("destinations")) collective.destination_chunks.push_back(chunk(item));
    return collective;
  }

  /// "a[0:128, :]".
  int chunk(const Json& value) {
    const std::string& text = expect_string(file_, value, "a chunk");
    const std::size_t bracket = text.find('[');
    const std::string name = text.substr(0, bracket);
    const auto tensor = std::find_if(schedule_.tensors.begin(), schedule_.tensors.end(),
                                     [&](const LogicalTensor& t) { return t.name == name; });
    if (tensor == schedule_.tensors.end()) {
      std::vector<std::string> names;
      for (const LogicalTensor& t : schedule_.tensors) names.push_back(t.name);
      throw chunk_error(value, fmt::format("names no tensor '{}'", name), suggest(name, names));
    }
    if (bracket == std::string::npos || text.back() != ']')
      throw chunk_error(value, "has no ranges",
                        fmt::format("write {}[begin:end, ...], a range for each dimension", name));
    std::vector<Range> ranges;
    std::string_view rest = std::string_view(text).substr(bracket + 1, text.size() - bracket - 2);
    for (;;) {
      const std::size_t comma = rest.find(',');
      const auto dimension = ranges.size();
      if (dimension >= tensor->shape.size()) break;
      ranges.push_back(range(value, rest.substr(0, comma), tensor->shape[dimension]));
      if (comma == std::string_view::npos) {
        rest = {};
        break;
      }
      rest = rest.substr(comma + 1);
    }
    if (!rest.empty() || ranges.size() != tensor->shape.size())
      throw chunk_error(value, fmt::format("does not have {} ranges", tensor->shape.size()),
                        fmt::format("'{}' is {}", name, to_string(tensor->shape)));
    const Chunk made{static_cast<int>(tensor - schedule_.tensors.begin()), Region(std::span<const Range>(ranges))};
    const auto [found, is_new] =
        chunk_index_.try_emplace({made.tensor, made.region}, static_cast<int>(schedule_.chunks.size()));
    if (is_new) schedule_.chunks.push_back(made);
    return found->second;
  }

  Range range(const Json& value, std::string_view text, std::int64_t extent) const {
    const auto trim = [](std::string_view t) {
      const std::size_t begin = t.find_first_not_of(' ');
      return begin == std::string_view::npos ? std::string_view{}
                                             : t.substr(begin, t.find_last_not_of(' ') - begin + 1);
    };
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos)
      throw chunk_error(value, fmt::format("has the range '{}'", trim(text)), "a range is begin:end, or : for all");
    const auto bound = [&](std::string_view t, std::int64_t otherwise) {
      if (t.empty()) return otherwise;
      std::int64_t number = 0;
      const auto [stop, code] = std::from_chars(t.data(), t.data() + t.size(), number);
      if (code != std::errc() || stop != t.data() + t.size())
        throw chunk_error(value, fmt::format("has the bound '{}'", t), "bounds are integers");
      return number;
    };
    const Range result{bound(trim(text.substr(0, colon)), 0), bound(trim(text.substr(colon + 1)), extent)};
    if (result.begin < 0 || result.end > extent || result.end < result.begin)
      throw chunk_error(value, fmt::format("has the range {}:{}", result.begin, result.end),
                        fmt::format("a part of 0:{}", extent));
    return result;
  }

  UserError chunk_error(const Json& value, const std::string& problem, const std::string& remedy) const {
    return UserError(file_.locate(value.offset()), fmt::format("chunk '{}' {}", value.string(), problem), remedy);
  }

  const SourceFile& file_;
  Json root_;
  Schedule schedule_;
  std::map<std::pair<int, Region>, int> chunk_index_;
};

std::string chunk_text(const Schedule& schedule, int index) {
  const Chunk& chunk = schedule.chunks[static_cast<std::size_t>(index)];
  return schedule.tensors[static_cast<std::size_t>(chunk.tensor)].name + chunk.region.to_string();
}

Json chunk_list(const Schedule& schedule, const std::vector<int>& chunks) {
  Json list = Json::array();
  for (const int chunk : chunks) list.push_back(chunk_text(schedule, chunk));
  return list;
}

Json operator_json(const Schedule& schedule, const Operator& op, int rank) {
  Json json = Json::object();
  if (const auto* p2p = std::get_if<P2P>(&op.action)) {
    const bool push = p2p->source_rank == rank;
    json.set(push ? "push" : "pull", chunk_text(schedule, p2p->source_chunk));
    json.set(push ? "to" : "from", push ? p2p->destination_rank : p2p->source_rank);
    if (p2p->destination_chunk != p2p->source_chunk) json.set("into", chunk_text(schedule, p2p->destination_chunk));
    if (p2p->reduction == Reduction::sum) json.set("reduce", "sum");
    if (p2p->own) json.set("own", true);
  } else {
    const auto& collective = std::get<Collective>(op.action);
    json.set("collective", std::string(collective_name(collective.type)));
    Json ranks = Json::array();
    for (const int r : collective.ranks) ranks.push_back(r);
    json.set("ranks", std::move(ranks));
    json.set("sources", chunk_list(schedule, collective.source_chunks));
    json.set("destinations", chunk_list(schedule, collective.destination_chunks));
  }
  if (!op.dependencies.empty()) {
    Json after = Json::array();
    for (const Dependency& d : op.dependencies) after.push_back(Json::array({d.rank, d.index}));
    json.set("after", std::move(after));
  }
  if (op.port != 0) json.set("port", op.port);
  return json;
}

}  // namespace

Schedule parse_schedule(const SourceFile& file) { return ScheduleParser(file).parse(); }

std::string to_json(const Schedule& schedule) {
  Json tensors = Json::array();
  for (const LogicalTensor& t : schedule.tensors) {
    Json shape = Json::array();
    for (const std::int64_t extent : t.shape) shape.push_back(extent);
    tensors.push_back(Json::object({{"name", t.name},
                                    {"shape", std::move(shape)},
                                    {"dtype", std::string(name_of(t.dtype))},
                                    {"before", t.before.to_string()},
                                    {"after", t.after.to_string()}}));
  }
  Json operators = Json::array();
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    Json list = Json::array();
    for (const Operator& op : schedule.operators[static_cast<std::size_t>(rank)])
      list.push_back(operator_json(schedule, op, rank));
    operators.push_back(std::move(list));
  }
  return Json::object({{"syncopate_schedule", kVersion},
                       {"ranks", schedule.ranks()},
                       {"tensors", std::move(tensors)},
                       {"operators", std::move(operators)}})
      .dump();
}

}  // namespace syncopate
