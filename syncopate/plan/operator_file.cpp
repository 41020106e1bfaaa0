// Reads an operator file: what each key means, its type, and its default.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include "syncopate/core/expression.h"
#include "syncopate/core/text.h"
#include "syncopate/plan/limits.h"
#include "syncopate/plan/operator.h"
#include "syncopate/plan/settings.h"

namespace syncopate {

namespace {

int bounded(const Setting& setting, std::string_view what, std::int64_t least, std::int64_t most) {
  const std::int64_t value = integer_of(setting, what);
  if (value < least || value > most)
    throw UserError(setting.where, fmt::format("{} is {}", what, value),
                    fmt::format("it must be from {} to {}", least, most));
  return static_cast<int>(value);
}

/// The place of a character inside a basic string: one column right of its opening quote.
SourceLocation inside_quotes(SourceLocation where) {
  if (where.line > 0) ++where.column;
  return where;
}

Scalar scalar_of(const Setting& setting, const std::string& name) {
  switch (setting.kind) {
    case Setting::Kind::integer:
      return setting.integer;
    case Setting::Kind::number:
      if (!std::isfinite(setting.number))
        throw UserError(setting.where, fmt::format("argument '{}' is {}", name, setting.number),
                        "plans hold finite numbers");
      return setting.number;
    case Setting::Kind::boolean:
      return setting.boolean;
    default:
      throw UserError(setting.where, fmt::format("argument '{}' is not a number", name),
                      "arguments are integers, floating-point numbers, booleans, or integer expressions in quotes");
  }
}

/// What sizes may be made of.
struct KnownNames {
  Names integers;
  std::map<std::string, std::string> others;        ///< with their values
  std::map<std::string, SourceLocation> overrides;  ///< of the names whose value is from the command line
  std::set<std::string> by_rank;                    ///< names that have no value of all ranks

  void add_place(const std::string& name, const SourceLocation& where) {
    if (where.line == 0) overrides[name] = where;
  }
};

KnownNames known_names(const ScalarArguments& arguments, const std::map<std::string, SourceLocation>& places) {
  KnownNames known;
  for (const auto& [name, where] : places) known.add_place(name, where);
  for (const auto& [name, value] : arguments) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) known.integers[name] = *integer;
    if (const auto* number = std::get_if<double>(&value)) known.others[name] = fmt::format("{}", *number);
    if (const auto* truth = std::get_if<bool>(&value)) known.others[name] = *truth ? "true" : "false";
  }
  return known;
}

/// The override that a size from the file depends on, if any: the file was right before it.
SourceLocation override_behind(const Setting& setting, const KnownNames& names) {
  if (setting.kind != Setting::Kind::string || setting.where.line == 0) return {};
  for (const std::string& name : names_in(setting.string))
    if (const auto found = names.overrides.find(name); found != names.overrides.end()) return found->second;
  return {};
}

/// Where to mend the value of a size.
SourceLocation cause_of(const Setting& setting, const KnownNames& names) {
  const SourceLocation behind = override_behind(setting, names);
  return behind.file.empty() ? setting.where : behind;
}

/// An integer, or an expression in quotes.
std::int64_t size_of(const Setting& setting, std::string_view what, const KnownNames& names) {
  if (setting.kind != Setting::Kind::string) return integer_of(setting, what);
  for (const std::string& name : names_in(setting.string))
    if (names.by_rank.contains(name))
      throw UserError(setting.where, fmt::format("{} is \"{}\", and '{}' differs by rank", what, setting.string, name),
                      "an expression that is the same on all ranks");
  return evaluate(setting.string, names.integers, inside_quotes(setting.where), names.others,
                  override_behind(setting, names));
}

/// An argument that is an expression, of sizes, other arguments, `ranks` and `rank`: its value on each rank.
class ArgumentExpressions {
 public:
  ArgumentExpressions(const Setting& arguments, OperatorStatement& statement, const SourceLocation& ranks_where)
      : arguments_(arguments), statement_(statement) {
    for (int rank = 0; rank < statement.ranks; ++rank) {
      KnownNames names = known_names(statement.arguments, statement.argument_where);
      names.integers["ranks"] = statement.ranks;
      names.add_place("ranks", ranks_where);
      names.integers["rank"] = rank;
      names_.push_back(std::move(names));
    }
  }

  void run() {
    for (const auto& [name, value] : arguments_.members)
      if (value.kind == Setting::Kind::string) evaluate_argument(name, value);
  }

 private:
  void evaluate_argument(const std::string& name, const Setting& value) {
    if (done_.contains(name)) return;
    if (!begun_.insert(name).second)
      throw UserError(value.where, fmt::format("argument '{}' depends on itself: \"{}\"", name, value.string),
                      "an expression of other arguments, ranks and rank");
    for (const std::string& other : names_in(value.string)) {
      const auto setting = std::find_if(arguments_.members.begin(), arguments_.members.end(),
                                        [&](const auto& member) { return member.first == other; });
      const bool is_expression = setting != arguments_.members.end() && setting->second.kind == Setting::Kind::string;
      if (is_expression && other != "rank" && other != "ranks") evaluate_argument(other, setting->second);
    }
    std::vector<std::int64_t> values;
    for (const KnownNames& names : names_) values.push_back(size_of(value, fmt::format("argument '{}'", name), names));
    keep(name, values);
    done_.insert(name);
  }

  void keep(const std::string& name, const std::vector<std::int64_t>& values) {
    const bool differ = std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end();
    if (!differ) statement_.arguments[name] = values.front();
    if (differ) statement_.rank_arguments.resize(values.size());
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      if (differ) statement_.rank_arguments[rank][name] = values[rank];
      if (name != "rank" && name != "ranks") names_[rank].integers[name] = values[rank];
    }
  }

  const Setting& arguments_;
  OperatorStatement& statement_;
  std::vector<KnownNames> names_;  ///< per rank
  std::set<std::string> begun_;
  std::set<std::string> done_;
};

/// What sizes that are the same on all ranks may be made of.
KnownNames known_names(const OperatorStatement& statement) {
  KnownNames names = known_names(statement.arguments, statement.argument_where);
  if (!names.integers.contains("rank")) names.by_rank.insert("rank");
  if (!statement.rank_arguments.empty())
    for (const auto& own : statement.rank_arguments.front()) names.by_rank.insert(own.first);
  return names;
}

void read_kernel(const Setting& table, const std::string& folder, const SourceLocation& ranks_where,
                 OperatorStatement& statement) {
  SettingsReader reader(table, "[kernel]");
  statement.kernel_where = reader.where();
  const std::string file = reader.string("file", "file = \"kernel.py\"");
  statement.kernel_file = (std::filesystem::path(folder) / file).lexically_normal().string();
  statement.kernel_function = reader.string("function", "function = \"name of the @triton.jit function\"");
  const Setting& arguments = reader.required("args", "args = { M = 1024, ... }");
  if (arguments.kind != Setting::Kind::table)
    throw UserError(arguments.where, "'args' of [kernel] is not a table", "args = { M = 1024, ... }");
  for (const auto& [name, value] : arguments.members) {
    if (value.kind != Setting::Kind::string) statement.arguments[name] = scalar_of(value, name);
    statement.argument_where[name] = value.where;
  }
  ArgumentExpressions(arguments, statement, ranks_where).run();
  if (const Setting* grid = reader.optional("grid")) {
    const KnownNames names = known_names(statement);
    statement.grid = size_of(*grid, "'grid' of [kernel]", names);
    statement.grid_where = grid->where;
    if (statement.grid < 1 || statement.grid > kMostPrograms)
      throw UserError(cause_of(*grid, names), fmt::format("'grid' of [kernel] is {}", statement.grid),
                      fmt::format("from 1 to {} programs", kMostPrograms));
  }
  reader.finish();
}

Placement placement_of(const Setting& setting, std::string_view what) {
  const std::string text = string_of(setting, what);
  const std::optional<Placement> placement = Placement::parse(text);
  if (!placement)
    throw UserError(setting.where, fmt::format("{} is '{}'", what, text),
                    "a placement is \"shard(dimension)\", \"zigzag(dimension)\", \"replicate\" or \"partial(sum)\"");
  return *placement;
}

Shape shape_of(const Setting& setting, const std::string& what, const KnownNames& names) {
  if (setting.kind != Setting::Kind::array || setting.items.empty() || setting.items.size() > kMaxDimensions)
    throw UserError(setting.where, fmt::format("{} is not a list of 1 to {} sizes", what, kMaxDimensions),
                    "for example shape = [\"M\", \"K\"]");
  Shape shape;
  for (const Setting& item : setting.items) {
    const std::int64_t extent = size_of(item, what, names);
    if (extent < 1)
      throw UserError(cause_of(item, names), fmt::format("{} has a size of {}", what, extent), "sizes are at least 1");
    shape.push_back(extent);
    if (extent > kMostElements || volume(shape) > kMostElements)
      throw UserError(cause_of(item, names), fmt::format("{} makes a tensor of more than 2^48 elements", what),
                      "sizes that fit in memory");
  }
  return shape;
}

void read_placements(SettingsReader& reader, const std::string& what, TensorStatement& tensor) {
  const Setting* before = reader.optional("before");
  const Setting* inside = reader.optional("inside");
  const Setting* after = reader.optional("after");
  const Setting* most_telling = inside != nullptr ? inside : before != nullptr ? before : after;
  tensor.placement_where = most_telling != nullptr ? most_telling->where : tensor.where;
  tensor.states_before = before != nullptr;
  tensor.states_after = after != nullptr;
  if (before != nullptr) {
    tensor.before = placement_of(*before, fmt::format("'before' of {}", what));
    tensor.before_where = before->where;
  }
  if (after != nullptr) {
    tensor.after = placement_of(*after, fmt::format("'after' of {}", what));
    tensor.after_where = after->where;
  }
  tensor.inside = inside != nullptr   ? placement_of(*inside, fmt::format("'inside' of {}", what))
                  : before != nullptr ? tensor.before
                                      : tensor.after;
  if (before == nullptr) tensor.before = tensor.inside;
  if (after == nullptr) tensor.after = tensor.inside;
  for (const Placement& placement : {tensor.before, tensor.inside, tensor.after})
    if (placement.cuts() && placement.dimension >= static_cast<int>(tensor.shape.size()))
      throw UserError(tensor.placement_where,
                      fmt::format("{} shards dimension {} of a tensor of {}", what, placement.dimension,
                                  count_of(tensor.shape.size(), "dimension")),
                      fmt::format("dimensions count from 0 to {}", tensor.shape.size() - 1));
  for (const auto& [placement, when] : {std::pair(tensor.inside, "inside the kernel"), {tensor.after, "after it"}})
    if (placement.kind == Placement::Kind::zigzag)
      throw UserError(tensor.placement_where, fmt::format("{} is {} {}", what, placement.to_string(), when),
                      fmt::format("zigzag is how ranks hold what is gathered: before = \"{}\", inside = \"replicate\"",
                                  placement.to_string()));
}

/// Per rank, what runs fill an integer tensor with: values = [from, below], of sizes and `rank`.
std::vector<Range> values_of(const Setting& setting, const std::string& what, const KnownNames& names, Dtype dtype) {
  if (is_floating(dtype) || dtype == Dtype::boolean)
    throw UserError(setting.where, fmt::format("{} has values for {}", what, name_of(dtype)),
                    "only integers have a range; other tensors are filled with small numbers");
  if (setting.kind != Setting::Kind::array || setting.items.size() != 2)
    throw UserError(setting.where, fmt::format("'values' of {} is not a pair", what),
                    "the smallest value and the one above the largest: values = [0, \"ROWS\"]");
  const bool is_signed = is_signed_integer(dtype);
  const std::int64_t most = std::int64_t{1}
                            << std::min<std::int64_t>(62, 8 * size_in_bytes(dtype) - (is_signed ? 1 : 0));
  const std::int64_t least = is_signed ? -most : 0;
  std::vector<Range> values;
  for (std::int64_t rank = 0; rank < names.integers.at("ranks"); ++rank) {
    KnownNames of_rank = names;
    of_rank.integers["rank"] = rank;
    of_rank.by_rank.erase("rank");
    const std::string item = fmt::format("'values' of {}", what);
    const Range range{size_of(setting.items[0], item, of_rank), size_of(setting.items[1], item, of_rank)};
    if (range.empty() || range.begin < least || range.end > most)
      throw UserError(setting.where,
                      fmt::format("'values' of {} goes from {} to below {}", what, range.begin, range.end),
                      fmt::format("at least one value of {}", name_of(dtype)));
    values.push_back(range);
  }
  return values;
}

TensorStatement read_tensor(const std::string& name, const Setting& table, const KnownNames& names) {
  const std::string what = fmt::format("[tensors.{}]", name);
  SettingsReader reader(table, what);
  TensorStatement tensor;
  tensor.name = name;
  tensor.where = reader.where();
  tensor.parameter = reader.string("parameter", "parameter = \"name of the kernel's pointer parameter\"");
  tensor.parameter_where = reader.required("parameter", "").where;
  const Setting& shape = reader.required("shape", "shape = [\"M\", \"K\"]");
  tensor.shape = shape_of(shape, fmt::format("'shape' of {}", what), names);
  tensor.shape_where = shape.where;
  const Setting& dtype = reader.required("dtype", "dtype = \"bf16\"");
  const std::string dtype_name = string_of(dtype, fmt::format("'dtype' of {}", what));
  const std::optional<Dtype> known = dtype_from_name(dtype_name);
  if (!known)
    throw UserError(dtype.where, fmt::format("unknown dtype '{}'", dtype_name),
                    fmt::format("known: {}", all_dtype_names()));
  tensor.dtype = *known;
  if (const Setting* values = reader.optional("values")) tensor.values = values_of(*values, what, names, tensor.dtype);
  read_placements(reader, what, tensor);
  reader.finish();
  return tensor;
}

/// A number of bytes: an integer, or text such as "64 MiB".
std::int64_t bytes_of(const Setting& setting, const std::string& what) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;
  std::int64_t count = setting.integer;
  std::int64_t unit = 1;
  bool readable = setting.kind == Setting::Kind::integer;
  if (setting.kind == Setting::Kind::string) {
    const std::string& text = setting.string;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    std::string_view name(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
    if (name.starts_with(' ')) name.remove_prefix(1);
    constexpr std::array<std::string_view, 4> kUnits = {"B", "KiB", "MiB", "GiB"};
    const auto* const known = std::find(kUnits.begin(), kUnits.end(), name);
    readable = error == std::errc() && known != kUnits.end();
    if (readable) unit = std::int64_t{1} << (10 * (known - kUnits.begin()));
  }
  if (!readable)
    throw UserError(setting.where, fmt::format("{} is not a number of bytes", what),
                    "an integer, or text with a unit, such as \"64 MiB\"; units are B, KiB, MiB and GiB");
  if (count < 1 || count > kMostBytes / unit)
    throw UserError(setting.where,
                    fmt::format("{} is {}", what,
                                setting.kind == Setting::Kind::string ? setting.string : fmt::format("{}", count)),
                    "from 1 byte to 2^48 bytes");
  return count * unit;
}

CommunicationStatement read_communication(const std::string& name, const Setting& table, const std::string& folder) {
  const std::string what = fmt::format("[communicate.{}]", name);
  SettingsReader reader(table, what);
  CommunicationStatement communication;
  communication.tensor = name;
  communication.where = reader.where();
  communication.split_where = reader.where();
  const Setting* schedule = reader.optional("schedule");
  const Setting* algorithm = reader.optional("algorithm");
  const Setting* initiator = reader.optional("initiator");
  const Setting* split = reader.optional("split");
  const Setting* per_node = reader.optional("ranks_per_node");
  const Setting* shares = reader.optional("shares");
  const Setting* budget = reader.optional("memory_budget");
  const Setting* sum = reader.optional("sum");
  if (schedule != nullptr) {
    const std::string file = string_of(*schedule, fmt::format("'schedule' of {}", what));
    // A file named on the command line is relative to the current folder, one named in the file to the file.
    const bool from_file = schedule->where.line > 0;
    communication.schedule_file = from_file ? (std::filesystem::path(folder) / file).lexically_normal().string() : file;
    for (const Setting* other : {algorithm, initiator, split, per_node, shares})
      if (other != nullptr)
        throw UserError(other->key_where, fmt::format("{} names a schedule file and a template's option", what),
                        "the schedule decides what moves when: remove one or the other");
  }
  if (algorithm != nullptr) {
    const std::string text = string_of(*algorithm, fmt::format("'algorithm' of {}", what));
    const std::optional<Algorithm> known = algorithm_from_name(text);
    if (!known)
      throw UserError(algorithm->where, fmt::format("unknown algorithm '{}'", text), suggest(text, algorithm_names()));
    communication.options.algorithm = *known;
  }
  if (per_node != nullptr)
    communication.options.ranks_per_node =
        bounded(*per_node, fmt::format("'ranks_per_node' of {}", what), 1, kMostRanks);
  if (shares != nullptr) {
    const std::string text = string_of(*shares, fmt::format("'shares' of {}", what));
    const std::optional<std::array<int, 2>> known = parse_shares(text);
    if (!known)
      throw UserError(shares->where, fmt::format("'shares' of {} is '{}'", what, text),
                      "chunks by port 0 and chunks by port 1, such as \"3:1\"");
    communication.options.shares = *known;
  }
  if (initiator != nullptr) {
    const std::string text = string_of(*initiator, fmt::format("'initiator' of {}", what));
    if (text != "push" && text != "pull")
      throw UserError(initiator->where, fmt::format("unknown initiator '{}'", text),
                      suggest(text, std::vector<std::string>{"push", "pull"}));
    communication.options.initiator = text == "push" ? Initiator::push : Initiator::pull;
  }
  if (split != nullptr) {
    communication.options.split = bounded(*split, fmt::format("'split' of {}", what), 1, 1 << 20);
    communication.split_where = split->where;
  }
  if (budget != nullptr) {
    communication.memory_budget = bytes_of(*budget, fmt::format("'memory_budget' of {}", what));
    communication.budget_where = budget->where;
  }
  if (sum != nullptr) {
    const std::string text = string_of(*sum, fmt::format("'sum' of {}", what));
    if (text != "in_place" && text != "staging")
      throw UserError(sum->where, fmt::format("unknown place of sums '{}'", text),
                      suggest(text, std::vector<std::string>{"in_place", "staging"}));
    communication.sum = text == "in_place" ? SumPlace::in_place : SumPlace::staging;
    communication.sum_where = sum->where;
  }
  reader.finish();
  return communication;
}

/// How workers come to their tiles.
void read_order(SettingsReader& launch, OperatorStatement& statement) {
  const Setting* order = launch.optional("order");
  const Setting* lookahead = launch.optional("lookahead");
  const std::string text = order == nullptr ? "static" : string_of(*order, "'order' of [launch]");
  if (text != "static" && text != "dynamic")
    throw UserError(order->where, fmt::format("unknown order of tiles '{}'", text),
                    suggest(text, std::vector<std::string>{"static", "dynamic"}));
  if (text == "static") {
    if (lookahead != nullptr)
      throw UserError(lookahead->key_where, "[launch] has a 'lookahead', but workers do not choose among tiles",
                      "remove it, or add order = \"dynamic\"");
    return;
  }
  statement.order_where = order->where;
  statement.lookahead = lookahead == nullptr ? static_cast<int>(kMostLookahead)
                                             : bounded(*lookahead, "'lookahead' of [launch]", 1, kMostLookahead);
}

}  // namespace

OperatorStatement read_operator(const std::string& path, const std::vector<Override>& overrides) {
  const Setting root = read_settings(path, overrides);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  SettingsReader reader(root, "the operator file");
  OperatorStatement statement;
  statement.name = reader.string("operator", "operator = \"name\"");
  const Setting& ranks = reader.required("ranks", "ranks = 4");
  statement.ranks = bounded(ranks, "'ranks'", 1, kMostRanks);
  read_kernel(reader.required("kernel", "a [kernel] table with file, function and args"), folder, ranks.where,
              statement);
  if (const Setting* launch = reader.optional("launch")) {
    SettingsReader launch_reader(*launch, "[launch]");
    if (const Setting* workers = launch_reader.optional("workers"))
      statement.workers = bounded(*workers, "'workers' of [launch]", 1, kMostWorkers);
    read_order(launch_reader, statement);
    if (const Setting* warps = launch_reader.optional("warps")) {
      statement.warps = bounded(*warps, "'warps' of [launch]", 1, 32);
      if (!std::has_single_bit(static_cast<unsigned>(statement.warps)))
        throw UserError(warps->where, fmt::format("'warps' of [launch] is {}", statement.warps),
                        "a power of two up to 32");
    }
    if (const Setting* stages = launch_reader.optional("stages"))
      statement.stages = bounded(*stages, "'stages' of [launch]", 1, 16);
    launch_reader.finish();
  }

  KnownNames names = known_names(statement);
  names.integers.emplace("ranks", statement.ranks);
  names.add_place("ranks", ranks.where);
  const Setting& tensors = reader.required("tensors", "a [tensors.name] table for every tensor of the kernel");
  if (tensors.kind != Setting::Kind::table || tensors.members.empty())
    throw UserError(tensors.where, "'tensors' is not a table of tensors", "write [tensors.a] and so on");
  for (const auto& [name, table] : tensors.members) statement.tensors.push_back(read_tensor(name, table, names));
  if (const Setting* communicate = reader.optional("communicate")) {
    SettingsReader check(*communicate, "[communicate]");
    for (const auto& [name, table] : communicate->members) {
      check.optional(name);
      std::vector<std::string> known;
      for (const TensorStatement& tensor : statement.tensors) known.push_back(tensor.name);
      if (std::find(known.begin(), known.end(), name) == known.end())
        throw UserError(table.key_where.file.empty() ? table.where : table.key_where,
                        fmt::format("[communicate.{}] names no tensor", name), suggest(name, known));
      statement.communications.push_back(read_communication(name, table, folder));
    }
  }
  reader.finish();
  return statement;
}

}  // namespace syncopate
