#include "syncopate/schedule/check_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace syncopate {

namespace {

constexpr std::array<std::string_view, 8> kAlgorithmNames = {
    "direct", "ring", "bidirectional_ring", "double_ring", "recursive", "hierarchical", "interleaved", "one_shot"};

constexpr std::array<int, 2> kNoShares = {0, 0};

bool has_nodes(Algorithm algorithm) {
  return algorithm == Algorithm::hierarchical || algorithm == Algorithm::double_ring;
}

bool has_template(CollectiveType type, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::double_ring:
    case Algorithm::recursive:
      return type != CollectiveType::all_to_all;
    case Algorithm::one_shot:
      return type == CollectiveType::all_reduce;
    default:
      return true;
  }
}

std::string divisors_of(int number) {
  std::vector<int> divisors;
  for (int d = 1; d <= number; ++d)
    if (number % d == 0) divisors.push_back(d);
  return fmt::format("{}", fmt::join(divisors, ", "));
}

void check_nodes(int ranks, const TemplateOptions& options, const SourceLocation& where) {
  const std::string_view algorithm = name_of(options.algorithm);
  const std::string remedy = fmt::format("a divisor of the number of ranks: {}", divisors_of(ranks));
  if (!has_nodes(options.algorithm) && options.ranks_per_node != 0)
    throw UserError(where, fmt::format("ranks_per_node is {}, but {} has no nodes", options.ranks_per_node, algorithm),
                    "leave it out, or use hierarchical or double_ring");
  if (!has_nodes(options.algorithm)) return;
  if (options.ranks_per_node == 0)
    throw UserError(where, fmt::format("{} needs to know how many ranks a node has", algorithm),
                    "give ranks_per_node, " + remedy);
  if (options.ranks_per_node < 0 || ranks % options.ranks_per_node != 0)
    throw UserError(where, fmt::format("{} ranks do not make nodes of {}", ranks, options.ranks_per_node), remedy);
}

void check_shares(const TemplateOptions& options, const SourceLocation& where) {
  if (options.shares == kNoShares) return;
  if (options.algorithm != Algorithm::interleaved)
    throw UserError(
        where, fmt::format("shares are given, but {} does not divide chunks over ports", name_of(options.algorithm)),
        "leave them out, or use interleaved");
  if (options.shares[0] < 0 || options.shares[1] < 0)
    throw UserError(where, fmt::format("shares are {}:{}", options.shares[0], options.shares[1]),
                    "numbers of chunks, not both zero");
}

}  // namespace

std::string_view name_of(Algorithm algorithm) { return kAlgorithmNames[static_cast<std::size_t>(algorithm)]; }

std::optional<Algorithm> algorithm_from_name(std::string_view name) {
  if (name == "recursive_doubling" || name == "recursive_halving") return Algorithm::recursive;
  const auto* const found = std::find(kAlgorithmNames.begin(), kAlgorithmNames.end(), name);
  if (found == kAlgorithmNames.end()) return std::nullopt;
  return static_cast<Algorithm>(found - kAlgorithmNames.begin());
}

std::vector<std::string> algorithm_names() { return {kAlgorithmNames.begin(), kAlgorithmNames.end()}; }

std::string describe(const TemplateOptions& options) {
  std::string text = fmt::format("{}, {}, split {}", name_of(options.algorithm),
                                 options.initiator == Initiator::push ? "push" : "pull", options.split);
  if (options.ranks_per_node != 0)
    text += fmt::format(", {} rank{} per node", options.ranks_per_node, options.ranks_per_node == 1 ? "" : "s");
  if (options.shares != kNoShares) text += fmt::format(", shares {}:{}", options.shares[0], options.shares[1]);
  return text;
}

std::vector<Algorithm> algorithms_for(CollectiveType type) {
  std::vector<Algorithm> list;
  for (std::size_t i = 0; i < kAlgorithmNames.size(); ++i)
    if (has_template(type, static_cast<Algorithm>(i))) list.push_back(static_cast<Algorithm>(i));
  return list;
}

std::optional<std::array<int, 2>> parse_shares(std::string_view text) {
  constexpr int kMost = 1'000'000;
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto number = [](std::string_view digits) {
    int value = -1;
    const auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return code == std::errc() && stop == digits.data() + digits.size() && value <= kMost ? value : -1;
  };
  const std::array<int, 2> shares = {number(text.substr(0, colon)), number(text.substr(colon + 1))};
  if (shares[0] < 0 || shares[1] < 0 || shares == kNoShares) return std::nullopt;
  return shares;
}

std::optional<CollectiveType> collective_between(const Placement& before, const Placement& after,
                                                 const SourceLocation& where) {
  using Kind = Placement::Kind;
  if (before == after || (before.kind == Kind::replicate && after.kind == Kind::shard)) return std::nullopt;
  if (before.cuts() && after.kind == Kind::replicate) return CollectiveType::all_gather;
  if (before.kind == Kind::shard && after.kind == Kind::shard) return CollectiveType::all_to_all;
  if (before.kind == Kind::partial_sum && after.kind == Kind::shard) return CollectiveType::reduce_scatter;
  if (before.kind == Kind::partial_sum && after.kind == Kind::replicate) return CollectiveType::all_reduce;
  if (before.kind == Kind::only && after.kind == Kind::replicate) return CollectiveType::broadcast;
  const std::string problem = fmt::format("no collective turns {} into {}", before.to_string(), after.to_string());
  if (before.kind == Kind::zigzag || after.kind == Kind::zigzag)
    throw UserError(where, problem, "zigzag(d) is how ranks hold what is gathered: zigzag(d) -> replicate");
  throw UserError(where, problem,
                  "data can be gathered, scattered, reduced, exchanged or broadcast, but not made partial again");
}

void check_options(CollectiveType type, int ranks, const TemplateOptions& options, const SourceLocation& where) {
  if (!has_template(type, options.algorithm)) {
    std::vector<std::string_view> names;
    for (const Algorithm algorithm : algorithms_for(type)) names.push_back(name_of(algorithm));
    throw UserError(where, fmt::format("there is no {} by {}", collective_name(type), name_of(options.algorithm)),
                    fmt::format("one of {}", fmt::join(names, ", ")));
  }
  check_nodes(ranks, options, where);
  check_shares(options, where);
}

void check_split(const TemplateOptions& options, std::int64_t most, const std::string& because,
                 const SourceLocation& where) {
  if (options.split < 1) throw UserError(where, fmt::format("split is {}", options.split), "at least 1");
  if (options.split > most)
    throw UserError(where, fmt::format("split is {}, but {}", options.split, because), fmt::format("at most {}", most));
}

void check_whole_split(const LogicalTensor& tensor, const TemplateOptions& options, const SourceLocation& where) {
  const std::int64_t longest = *std::max_element(tensor.shape.begin(), tensor.shape.end());
  check_split(options, longest,
              fmt::format("'{}' is {}: no dimension has so many indices", tensor.name, to_string(tensor.shape)), where);
}

std::array<int, 2> shares_of(const TemplateOptions& options) {
  return options.shares == kNoShares ? std::array<int, 2>{1, 1} : options.shares;
}

}  // namespace syncopate
