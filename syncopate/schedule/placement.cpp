#include "syncopate/schedule/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace syncopate {

std::string Placement::to_string() const {
  switch (kind) {
    case Kind::replicate:
      return "replicate";
    case Kind::shard:
      return fmt::format("shard({})", dimension);
    case Kind::partial_sum:
      return "partial(sum)";
  }
  throw InternalError("placement without a name");
}

std::optional<Placement> Placement::parse(std::string_view text) {
  std::string compact;
  std::copy_if(text.begin(), text.end(), std::back_inserter(compact), [](char c) { return c != ' '; });
  if (compact == "replicate") return replicate();
  if (compact == "partial(sum)") return partial_sum();
  const std::string_view prefix = "shard(";
  if (!compact.starts_with(prefix) || !compact.ends_with(')')) return std::nullopt;
  int dimension = 0;
  const char* begin = compact.data() + prefix.size();
  const char* end = compact.data() + compact.size() - 1;
  const auto [stop, code] = std::from_chars(begin, end, dimension);
  if (code != std::errc() || stop != end || begin == end || dimension < 0) return std::nullopt;
  return shard(dimension);
}

Region held_region(const Placement& placement, const Shape& shape, int ranks, int rank) {
  Region region = Region::whole(shape);
  if (placement.kind == Placement::Kind::shard)
    region[placement.dimension] = chunk_of(region[placement.dimension], ranks, rank);
  return region;
}

}  // namespace syncopate
