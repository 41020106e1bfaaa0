#include "syncopate/schedule/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace syncopate {

namespace {

std::optional<int> integer(std::string_view text) {
  int value = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The k of "+k" or "-k"; 0 of nothing.
std::optional<int> shift_of(std::string_view text) {
  if (text.empty()) return 0;
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') return integer(text.substr(1));
  return text.starts_with('-') ? integer(text) : std::nullopt;
}

}  // namespace

std::string Placement::to_string() const {
  switch (kind) {
    case Kind::replicate:
      return "replicate";
    case Kind::shard:
      return shift == 0 ? fmt::format("shard({})", dimension) : fmt::format("shard({}){:+}", dimension, shift);
    case Kind::zigzag:
      return fmt::format("zigzag({})", dimension);
    case Kind::partial_sum:
      return "partial(sum)";
    case Kind::only:
      return fmt::format("only({})", rank);
  }
  throw InternalError("placement without a name");
}

std::optional<Placement> Placement::parse(std::string_view text) {
  const std::optional<Placement> placement = parse_in_schedule(text);
  const bool known = placement && placement->kind != Kind::only && placement->shift == 0;
  return known ? placement : std::nullopt;
}

std::optional<Placement> Placement::parse_in_schedule(std::string_view text) {
  std::string compact;
  std::copy_if(text.begin(), text.end(), std::back_inserter(compact), [](char c) { return c != ' '; });
  if (compact == "replicate") return replicate();
  if (compact == "partial(sum)") return partial_sum();
  const std::size_t open = compact.find('(');
  const std::size_t close = compact.find(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  const std::string_view all = compact;
  const std::string_view name = all.substr(0, open);
  const std::optional<int> number = integer(all.substr(open + 1, close - open - 1));
  const std::optional<int> shift = shift_of(all.substr(close + 1));
  if (!number || *number < 0 || !shift) return std::nullopt;
  if (name == "shard") return shard(*number, *shift);
  if (name == "zigzag" && close + 1 == all.size()) return zigzag(*number);
  if (name == "only" && close + 1 == all.size()) return only(*number);
  return std::nullopt;
}

std::vector<Region> held_regions(const Placement& placement, const Shape& shape, int ranks, int rank) {
  if (placement.kind != Placement::Kind::zigzag) return {held_region(placement, shape, ranks, rank)};
  std::vector<Region> stretches(2, Region::whole(shape));
  const Range all = stretches[0][placement.dimension];
  stretches[0][placement.dimension] = chunk_of(all, std::int64_t{2} * ranks, rank);
  stretches[1][placement.dimension] = chunk_of(all, std::int64_t{2} * ranks, std::int64_t{2} * ranks - 1 - rank);
  return stretches;
}

Region held_region(const Placement& placement, const Shape& shape, int ranks, int rank) {
  check_internal(placement.kind != Placement::Kind::zigzag, "the one box of zigzag, which has two");
  Region region = Region::whole(shape);
  if (placement.kind == Placement::Kind::shard) {
    const std::int64_t part = (std::int64_t{rank} - placement.shift) % ranks;
    region[placement.dimension] = chunk_of(region[placement.dimension], ranks, part < 0 ? part + ranks : part);
  }
  if (placement.kind == Placement::Kind::only && placement.rank != rank)
    for (int d = 0; d < region.dimensions(); ++d) region[d] = {0, 0};
  return region;
}

}  // namespace syncopate
