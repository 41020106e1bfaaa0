#include "syncopate/verify/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "syncopate/core/text.h"
#include "syncopate/verify/boxes.h"
#include "syncopate/verify/claim.h"
#include "syncopate/verify/contributions.h"
#include "syncopate/verify/describe.h"
#include "syncopate/verify/placed.h"

namespace syncopate {

namespace {

/// One who fills a part of a buffer in every launch.
struct Filler {
  enum class Kind : std::uint8_t { caller, transfer, tile, slot, addition };
  Kind kind = Kind::caller;
  int number = 0;  ///< of the transfer, tile, slot or addition
};

class CoverageCheck {
 public:
  CoverageCheck(const PlanIndex& index, const Summands* summands, std::span<const Step> steps)
      : index_(index), plan_(index.plan()), summands_(summands), steps_(steps) {}

  Theorem run() {
    const auto buffers = static_cast<int>(plan_.buffers.size());
    const int filled = index_.staging() < 0 ? buffers : buffers - 1;
    collect_written();
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      for (int b = 0; b < buffers; ++b)
        if (b != index_.staging()) check_buffer(rank, b);
      for (const int read : index_.reads_on(rank)) check_read(rank, read);
      for (const int t : index_.from(rank)) check_source(rank, t);
    }
    std::string evidence =
        fmt::format("{} on {} filled without hole or overlap by callers, {} and {}; {}", count_of(filled, "buffer"),
                    count_of(plan_.ranks, "rank"), count_of(index_.transfers(), "transfer"),
                    count_of(plan_.tiles.size(), "tile"), count_of(index_.reads().size(), "different tile read"));
    if (summands_ != nullptr) evidence += check_sums();
    return claim_.conclude(std::move(evidence));
  }

 private:
  void collect_written() {
    written_.assign(plan_.buffers.size(), false);
    for (const Tile& tile : plan_.tiles)
      for (const TileAccess& write : tile.writes)
        if (!write.region.empty()) written_[static_cast<std::size_t>(write.buffer)] = true;
  }

  std::vector<Box<Filler>> tile_writes(int rank, int buffer) const {
    std::vector<Box<Filler>> writes;
    for (const int t : index_.tiles_on(rank))
      for (const TileAccess& write : index_.tile(t).writes)
        if (write.buffer == buffer && !write.region.empty()) writes.push_back({write.region, {Filler::Kind::tile, t}});
    return writes;
  }

  /// What tiles fill of a buffer. Of the reduced one each slot fills what it keeps, of the others each tile all that it
  /// writes, as often as it stands in the order.
  std::vector<Box<Filler>> tile_fillers(int rank, int buffer) const {
    std::vector<Box<Filler>> fillers;
    const std::vector<Slot>& slots = index_.program(rank).slots;
    if (buffer == index_.reduced()) {
      for (std::size_t s = 0; s < slots.size(); ++s)
        for (const Region& region : stored_by(index_, slots[s]))
          fillers.push_back({region, {Filler::Kind::slot, static_cast<int>(s)}});
      return fillers;
    }
    if (!written_[static_cast<std::size_t>(buffer)]) return fillers;
    fillers = tile_writes(rank, buffer);
    if (slots.size() == index_.tiles_on(rank).size()) return fillers;
    std::vector<bool> seen(plan_.tiles.size(), false);
    for (const Slot& slot : slots) {
      const auto tile = static_cast<std::size_t>(slot.tile);
      if (seen[tile])
        for (const TileAccess& write : plan_.tiles[tile].writes)
          if (write.buffer == buffer && !write.region.empty())
            fillers.push_back({write.region, {Filler::Kind::tile, slot.tile}});
      seen[tile] = true;
    }
    return fillers;
  }

  std::string name(int rank, const Filler& filler) const {
    switch (filler.kind) {
      case Filler::Kind::caller:
        return "the caller";
      case Filler::Kind::transfer:
        return describe_transfer(index_, filler.number);
      case Filler::Kind::tile:
        return describe_tile(plan_, filler.number);
      case Filler::Kind::slot:
        return describe_event(index_, {Event::Kind::slot, rank, filler.number});
      case Filler::Kind::addition:
        return describe_addition(index_, rank, filler.number);
    }
    throw InternalError("filler without a kind");
  }

  std::string where(int buffer, const Region& region) const { return describe_region(plan_, buffer, region); }

  void check_buffer(int rank, int b) {
    const Buffer& buffer = plan_.buffer(b);
    std::vector<Box<Filler>> fillers = tile_fillers(rank, b);
    for (const Region& box : held_boxes(buffer, rank)) fillers.push_back({box, {Filler::Kind::caller, 0}});
    if (b == index_.added_up()) {
      const std::vector<Addition>& additions = index_.additions(rank);
      for (std::size_t a = 0; a < additions.size(); ++a)
        fillers.push_back({additions[a].region, {Filler::Kind::addition, static_cast<int>(a)}});
    }
    std::vector<Box<Filler>> arriving;
    for (const int t : index_.into(rank)) {
      const View& destination = index_.transfer(t).destination;
      if (destination.buffer == b && !destination.region.empty())
        arriving.push_back({destination.region, {Filler::Kind::transfer, t}});
    }
    if (b == index_.reduced()) {
      check_arriving_once(rank, b, std::move(arriving));
    } else {
      fillers.insert(fillers.end(), arriving.begin(), arriving.end());
    }
    const bool disjoint = check_disjoint(rank, b, fillers);
    // Of the kernel's inputs what tiles read must be there, which check_read shows, and nothing else.
    if (is_input(b)) return;
    const Region demanded = needed_region(buffer, rank);
    std::vector<Region> parts;
    for (const Box<Filler>& filler : fillers) parts.push_back(filler.region);
    check_filled(demanded, parts, disjoint, [&](const Region& hole) {
      return fmt::format("{} needs {} to be {} on rank {}, but nobody fills {}",
                         buffer.role == BufferRole::kernel ? "the kernel"
                         : b == index_.stack()             ? "the sum"
                                                           : "the caller",
                         buffer.name, demanded.to_string(), rank, where(b, hole));
    });
  }

  /// Whether it is a buffer of the kernel that callers fill, here or in its source.
  bool is_input(int b) const {
    if (plan_.buffer(b).role != BufferRole::kernel) return false;
    for (const Buffer& other : plan_.buffers)
      if (other.role == BufferRole::source && other.partner == b) return true;
    for (int rank = 0; rank < plan_.ranks; ++rank)
      if (!held_boxes(plan_.buffer(b), rank).empty()) return true;
    return false;
  }

  /// Sums that arrive take the place of summands, once each; and where sums are in place, summands arrive once each.
  /// Which is which, the order tells.
  void check_arriving_once(int rank, int b, std::vector<Box<Filler>> arriving) {
    const auto first_summand = std::stable_partition(arriving.begin(), arriving.end(), [&](const Box<Filler>& box) {
      return summands_->distributes(box.owner.number);
    });
    std::vector<Box<Filler>> summands(first_summand, arriving.end());
    arriving.erase(first_summand, arriving.end());
    check_disjoint(rank, b, arriving);
    if (!steps_.empty()) check_disjoint(rank, b, summands);
  }

  /// What must be filled of a buffer.
  Region needed_region(const Buffer& buffer, int rank) const {
    if (buffer.window.empty()) return placed_region(buffer.inside, buffer.shape, plan_.ranks, rank);
    return in_buffer(buffer, rank, shown_region(buffer, rank));
  }

  bool check_disjoint(int rank, int b, std::vector<Box<Filler>>& fillers) {
    const auto overlap = find_overlap(fillers);
    claim_.check(!overlap.has_value(), [&] {
      const auto& [one, other] = *overlap;
      return fmt::format("{} on rank {} is filled twice in a launch: by {} and by {}",
                         where(b, intersect(one.region, other.region)), rank, name(rank, one.owner),
                         name(rank, other.owner));
    });
    return !overlap.has_value();
  }

  /// Whether `parts` fill `demanded`. Parts known to be disjoint are only measured.
  template <typename Describe>
  void check_filled(const Region& demanded, const std::vector<Region>& parts, bool disjoint, Describe&& describe) {
    if (parts.size() == 1 && parts.front() == demanded) return;
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
      while (!index_.is_read_by(read, tile)) ++tile;
      return fmt::format("{} on rank {} reads {}, but {} is neither put there by the caller nor brought by a transfer",
                         describe_tile(plan_, tile), rank, where(access.buffer, access.region),
                         where(access.buffer, hole));
    });
  }

  void check_source(int rank, int transfer) {
    const View& source = index_.transfer(transfer).source;
    // All that tiles store is filled, which check_buffer shows.
    if (written_[static_cast<std::size_t>(source.buffer)]) return;
    check_arrives(rank, source.buffer, source.region, [&](const Region& hole) {
      return fmt::format("{} sends {} from rank {}, where it is neither put by the caller nor brought by a transfer",
                         describe_transfer(index_, transfer), where(source.buffer, hole), rank);
    });
  }

  /// Every addend is brought by a transfer, and outputs are the sums that they are said to be. Evidence.
  std::string check_sums() {
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      for (const Reading& reading : summands_->readings(rank)) {
        std::vector<Region> parts;
        for (const Arrival& arrival : reading.arrivals) parts.push_back(arrival.part);
        check_filled(reading.source, parts, false, [&](const Region& hole) {
          return fmt::format("{} adds {} to {}, but no transfer brings {}",
                             describe_event(index_, {Event::Kind::slot, rank, reading.slot}),
                             where(index_.landing(), reading.source), where(index_.reduced(), reading.target),
                             where(index_.landing(), hole));
        });
      }
    }
    if (steps_.empty()) return "";
    const ContributionCount count = check_contributions(index_, *summands_, steps_, claim_);
    return fmt::format("; {} boxes of summands are added, {} boxes of outputs are the sums that they are said to be",
                       count.summands, count.sums);
  }

  const PlanIndex& index_;
  const Plan& plan_;
  const Summands* summands_;
  std::span<const Step> steps_;
  std::vector<bool> written_;  // [buffer]: by tiles
  Claim claim_{
      "coverage",
      "in every launch each element that a rank needs is filled exactly once: what tiles read of inputs by the "
      "caller or by one transfer, outputs by one tile or, where they are distributed, by one transfer in its place; "
      "nothing is "
      "read or sent that is not filled; and a reduced output is the "
      "sum of one summand of each rank, in the order that the plan says."};
};

}  // namespace

Theorem prove_coverage(const PlanIndex& index, const Summands* summands, std::span<const Step> steps) {
  return CoverageCheck(index, summands, steps).run();
}

}  // namespace syncopate
