#include "syncopate/verify/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "syncopate/verify/claim.h"
#include "syncopate/verify/describe.h"
#include "syncopate/verify/placed.h"

namespace syncopate {

namespace {

/// One who fills a part of a buffer in every launch.
struct Filler {
  enum class Kind : std::uint8_t { caller, transfer, tile };
  Kind kind = Kind::caller;
  int number = 0;  ///< of the transfer or tile
  Region region;
};

/// Two fillers that share an element, if there are any. Sorts the fillers.
std::optional<std::pair<Filler, Filler>> find_overlap(std::vector<Filler>& fillers) {
  std::stable_sort(fillers.begin(), fillers.end(),
                   [](const Filler& a, const Filler& b) { return a.region < b.region; });
  if (fillers.size() < 2) return std::nullopt;
  if (fillers.front().region.dimensions() == 0) return std::pair(fillers[0], fillers[1]);
  // A sweep along the first dimension: `open` are those that reach the present place.
  std::vector<const Filler*> open;
  for (const Filler& filler : fillers) {
    std::erase_if(open, [&](const Filler* other) { return other->region[0].end <= filler.region[0].begin; });
    for (const Filler* other : open)
      if (other->region.overlaps(filler.region)) return std::pair(*other, filler);
    open.push_back(&filler);
  }
  return std::nullopt;
}

class CoverageCheck {
 public:
  explicit CoverageCheck(const PlanIndex& index) : index_(index), plan_(index.plan()) {}

  Theorem run() {
    const auto buffers = static_cast<int>(plan_.buffers.size());
    for (int b = 0; b < buffers; ++b) collect_tile_writes(b);
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      for (int b = 0; b < buffers; ++b) check_buffer(rank, b);
      for (std::size_t r = 0; r < index_.reads().size(); ++r) check_read(rank, static_cast<int>(r));
      for (const int t : index_.from(rank)) check_source(rank, t);
    }
    return claim_.conclude(
        fmt::format("{} buffers on {} ranks filled without hole or overlap by callers, {} transfers "
                    "and {} tiles; {} different tile reads",
                    buffers, plan_.ranks, index_.transfers(), plan_.tiles.size(), index_.reads().size()));
  }

 private:
  void collect_tile_writes(int buffer) {
    std::vector<Filler>& writes = tile_writes_.emplace_back();
    for (std::size_t t = 0; t < plan_.tiles.size(); ++t)
      for (const TileAccess& write : plan_.tiles[t].writes)
        if (write.buffer == buffer && !write.region.empty())
          writes.push_back({Filler::Kind::tile, static_cast<int>(t), write.region});
  }

  std::string name(const Filler& filler) const {
    switch (filler.kind) {
      case Filler::Kind::caller:
        return "the caller";
      case Filler::Kind::transfer:
        return describe_transfer(index_, filler.number);
      case Filler::Kind::tile:
        return describe_tile(plan_, filler.number);
    }
    throw InternalError("filler without a kind");
  }

  std::string where(int buffer, const Region& region) const { return describe_region(plan_, buffer, region); }

  void check_buffer(int rank, int b) {
    const Buffer& buffer = plan_.buffer(b);
    std::vector<Filler> fillers = tile_writes_[static_cast<std::size_t>(b)];
    const Region& held = buffer.held[static_cast<std::size_t>(rank)];
    if (!held.empty()) fillers.push_back({Filler::Kind::caller, 0, held});
    for (const int t : index_.into(rank)) {
      const View& destination = index_.transfer(t).destination;
      if (destination.buffer == b && !destination.region.empty())
        fillers.push_back({Filler::Kind::transfer, t, destination.region});
    }
    const auto overlap = find_overlap(fillers);
    claim_.check(!overlap.has_value(), [&] {
      const auto& [one, other] = *overlap;
      return fmt::format("{} on rank {} is filled twice in a launch: by {} and by {}",
                         where(b, intersect(one.region, other.region)), rank, name(one), name(other));
    });
    const Region demanded = placed_region(buffer.inside, buffer.shape, plan_.ranks, rank);
    std::vector<Region> parts;
    for (const Filler& filler : fillers) parts.push_back(filler.region);
    check_filled(demanded, parts, !overlap.has_value(), [&](const Region& hole) {
      return fmt::format("the kernel needs {} to be {} on rank {}, but nobody fills {}", buffer.name,
                         demanded.to_string(), rank, where(b, hole));
    });
  }

  /// Whether `parts` fill `demanded`. Parts known to be disjoint are only measured.
  template <typename Describe>
  void check_filled(const Region& demanded, const std::vector<Region>& parts, bool disjoint, Describe&& describe) {
    std::int64_t filled = 0;
    for (const Region& part : parts) filled += intersect(part, demanded).volume();
    if (disjoint && filled == demanded.volume()) return;
    const std::vector<Region> holes = uncovered(demanded, parts);
    claim_.check(holes.empty(), [&] { return describe(holes.front()); });
  }

  /// Checks that callers and transfers, not tiles, fill what is read: the order of tiles is nowhere promised.
  template <typename Describe>
  void check_arrives(int rank, int buffer, const Region& region, Describe&& describe) {
    std::vector<Region> parts;
    for (const Source& source : sources_of(index_, rank, buffer, region)) parts.push_back(source.region);
    check_filled(region, parts, false, std::forward<Describe>(describe));
  }

  void check_read(int rank, int read) {
    const TileAccess& access = index_.reads()[static_cast<std::size_t>(read)];
    check_arrives(rank, access.buffer, access.region, [&](const Region& hole) {
      int tile = 0;
      const auto reads_it = [&](int t) {
        const std::vector<int>& ids = index_.reads_of(t);
        return std::find(ids.begin(), ids.end(), read) != ids.end();
      };
      while (!reads_it(tile)) ++tile;
      return fmt::format("{} on rank {} reads {}, but {} is neither put there by the caller nor brought by a transfer",
                         describe_tile(plan_, tile), rank, where(access.buffer, access.region),
                         where(access.buffer, hole));
    });
  }

  void check_source(int rank, int transfer) {
    const View& source = index_.transfer(transfer).source;
    check_arrives(rank, source.buffer, source.region, [&](const Region& hole) {
      return fmt::format("{} sends {} from rank {}, where it is neither put by the caller nor brought by a transfer",
                         describe_transfer(index_, transfer), where(source.buffer, hole), rank);
    });
  }

  const PlanIndex& index_;
  const Plan& plan_;
  std::vector<std::vector<Filler>> tile_writes_;  // [buffer]
  Claim claim_{"coverage",
               "in every launch each element that a rank needs is filled exactly once: inputs by the caller or by one "
               "transfer, outputs by one tile; and nothing is read or sent that is not filled."};
};

}  // namespace

Theorem prove_coverage(const PlanIndex& index) { return CoverageCheck(index).run(); }

}  // namespace syncopate
