#include "syncopate/plan/work.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "syncopate/plan/inputs.h"

namespace syncopate {

namespace {

constexpr int kNoLevel = 0;
constexpr int kAllLevels = std::numeric_limits<int>::max();

/// Rows of the reduced tensor that no border of a chunk cuts, as one rank sees them.
struct Strip {
  Range rows;
  std::vector<int> sums;   ///< nodes whose summands are added here
  std::vector<int> feeds;  ///< nodes that send what is stored here
  int last_sum = kNoLevel;
  int first_feed = kAllLevels;
  bool arrived = false;  ///< the whole sum has been brought by a peer; what is sent from then on is that
};

class WorkMaker {
 public:
  WorkMaker(const BoundOperator& bound, const DependenceGraph& graph, int rank)
      : plan_(bound.plan),
        tiles_(bound.tiles[static_cast<std::size_t>(rank)]),
        graph_(graph),
        rank_(rank),
        reduced_(reduced_buffer(bound.plan)) {
    const std::vector<bool> written = written_by_tiles(plan_);
    for (int n = 0; n < static_cast<int>(graph.transfers.size()); ++n) {
      if (!node(n).reduces && node(n).destination == rank) gathering_.push_back(n);
      if (node(n).source == rank && node(n).source_buffer != reduced_ &&
          written[static_cast<std::size_t>(node(n).source_buffer)])
        leaving_.push_back(n);
    }
    if (reduced_ < 0) return;
    const CommunicatedTensor& communicated =
        *std::find_if(bound.communicated.begin(), bound.communicated.end(),
                      [&](const CommunicatedTensor& c) { return c.buffer == reduced_; });
    where_ = communicated.where;
    places_ = communicated.places;
    make_strips();
  }

  std::vector<Work> run() const {
    std::vector<Work> list;
    for (const int tile : tiles_) add_tile(tile, list);
    return list;
  }

 private:
  const TransferNode& node(int n) const { return graph_.transfers[static_cast<std::size_t>(n)]; }

  void make_strips() {
    std::vector<int> touching;
    std::vector<std::int64_t> borders = {0, plan_.buffer(reduced_).shape[0]};
    for (int n = 0; n < static_cast<int>(graph_.transfers.size()); ++n)
      if (node(n).buffer == reduced_ && (node(n).source == rank_ || node(n).destination == rank_)) {
        touching.push_back(n);
        borders.insert(borders.end(), {node(n).chunk[0].begin, node(n).chunk[0].end});
      }
    std::sort(borders.begin(), borders.end());
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
    for (std::size_t b = 0; b + 1 < borders.size(); ++b) strips_.push_back({{borders[b], borders[b + 1]}, {}, {}});
    for (const int n : touching)
      for (std::size_t s = strip_at(node(n).chunk[0].begin);
           s < strips_.size() && strips_[s].rows.begin < node(n).chunk[0].end; ++s) {
        Strip& strip = strips_[s];
        if (strip.arrived && (node(n).destination == rank_ || node(n).reduces)) refuse_use(strip, n);
        if (node(n).destination == rank_ && node(n).reduces) {
          strip.sums.push_back(n);
          strip.last_sum = std::max(strip.last_sum, node(n).level);
        } else if (node(n).destination == rank_) {
          strip.arrived = true;
        } else if (!strip.arrived) {
          strip.feeds.push_back(n);
          strip.first_feed = std::min(strip.first_feed, node(n).level);
        }
      }
    for (const Strip& strip : strips_) check_complete(strip);
  }

  [[noreturn]] void refuse_use(const Strip& strip, int use) const {
    throw UserError(
        where_,
        fmt::format("rank {} is given rows {} to {} of '{}' in place of its own, and then {} rank {}, which "
                    "is not fused yet",
                    rank_, strip.rows.begin, strip.rows.end, plan_.buffer(reduced_).name,
                    node(use).destination == rank_ ? "receives more from" : "sends them as a summand to",
                    node(use).destination == rank_ ? node(use).source : node(use).destination),
        "let one rank add all summands, then send the sum to the others, once");
  }

  /// A schedule orders additions and reads of one place, one way or the other; the node numbers show which.
  void check_complete(const Strip& strip) const {
    for (const int sum : strip.sums)
      for (const int feed : strip.feeds)
        if (feed < sum)
          throw UserError(where_,
                          fmt::format("rank {} sends its rows {} to {} of '{}' to rank {} before it adds those of rank "
                                      "{}, which is not fused yet",
                                      rank_, strip.rows.begin, strip.rows.end, plan_.buffer(reduced_).name,
                                      node(feed).destination, node(sum).source),
                          "let every rank add all that it receives before it sends");
  }

  /// The strip that holds a row.
  std::size_t strip_at(std::int64_t row) const {
    const auto after = std::upper_bound(strips_.begin(), strips_.end(), row,
                                        [](std::int64_t r, const Strip& strip) { return r < strip.rows.begin; });
    return static_cast<std::size_t>(after - strips_.begin()) - 1;
  }

  /// The strips that a tile stores to, ascending.
  std::vector<std::size_t> strips_of(const Tile& tile) const {
    std::vector<std::size_t> list;
    for (const TileAccess& access : tile.writes) {
      if (access.buffer != reduced_ || access.region.empty()) continue;
      for (std::size_t s = strip_at(access.region[0].begin);
           s < strips_.size() && strips_[s].rows.begin < access.region[0].end; ++s)
        list.push_back(s);
    }
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  }

  Range stored_rows(const Tile& tile) const {
    Range rows;
    for (const TileAccess& access : tile.writes) {
      if (access.buffer != reduced_ || access.region.empty()) continue;
      const Range& more = access.region[0];
      rows = rows.empty() ? more : Range{std::min(rows.begin, more.begin), std::max(rows.end, more.end)};
    }
    return rows;
  }

  std::vector<int> needs_of(const std::vector<TileAccess>& reads) const {
    std::vector<int> needs;
    for (const int n : gathering_) {
      const bool needed = std::any_of(reads.begin(), reads.end(), [&](const TileAccess& read) {
        return read.buffer == node(n).destination_buffer && read.region.overlaps(node(n).destination_region);
      });
      if (needed) needs.push_back(n);
    }
    return needs;
  }

  /// What a tile stores of outputs that leave as they are.
  std::vector<int> feeds_of(const Tile& tile) const {
    std::vector<int> feeds;
    for (const int n : leaving_) {
      const bool fed = std::any_of(tile.writes.begin(), tile.writes.end(), [&](const TileAccess& write) {
        return write.buffer == node(n).source_buffer && write.region.overlaps(node(n).source_region);
      });
      if (fed) feeds.push_back(n);
    }
    return feeds;
  }

  void add_needs(const Tile& tile, const std::vector<Work>& list, Work& work) const {
    // Tiles that follow each other need much the same in their loops, as those of one head of an attention do.
    const Work* const last = list.empty() ? nullptr : &list.back();
    const Tile* const before = last == nullptr ? nullptr : &plan_.tiles[static_cast<std::size_t>(last->tile)];
    work.first_needs = needs_of(tile.reads);
    if (before != nullptr && before->pieces == tile.pieces && last->first_needs == work.first_needs) {
      work.needs = last->needs;
      work.piece_needs = last->piece_needs;
      return;
    }
    auto pieces = std::make_shared<std::vector<std::vector<int>>>();
    work.needs = work.first_needs;
    for (std::size_t p = 0; p < tile.pieces.size(); ++p) {
      const std::vector<TileAccess>& reads = tile.pieces[p].reads;
      const bool same = before != nullptr && p < before->pieces.size() && before->pieces[p].reads == reads;
      pieces->push_back(same ? (*last->piece_needs)[p] : needs_of(reads));
      work.needs.insert(work.needs.end(), pieces->back().begin(), pieces->back().end());
    }
    if (!pieces->empty()) make_unique(work.needs, [](int n) { return n; });
    work.piece_needs = std::move(pieces);
  }

  void add_tile(int index, std::vector<Work>& list) const {
    const Tile& tile = plan_.tiles[static_cast<std::size_t>(index)];
    Work whole;
    whole.tile = index;
    add_needs(tile, list, whole);
    whole.feeds = feeds_of(tile);
    if (reduced_ >= 0) whole.rows = stored_rows(tile);
    const std::vector<std::vector<std::size_t>> groups =
        reduced_ < 0 ? std::vector<std::vector<std::size_t>>{} : groups_of(strips_of(tile));
    if (groups.size() > 1) check_only_output(tile);
    if (groups.empty()) list.push_back(std::move(whole));
    for (const std::vector<std::size_t>& group : groups) {
      Work part = whole;
      if (groups.size() > 1) {
        part.rows = {std::max(whole.rows.begin, strips_[group.front()].rows.begin),
                     std::min(whole.rows.end, strips_[group.back()].rows.end)};
        part.kept = Region::whole(plan_.buffer(reduced_).shape);
        part.kept[0] = part.rows;
      }
      for (const std::size_t s : group) {
        part.sums.insert(part.sums.end(), strips_[s].sums.begin(), strips_[s].sums.end());
        part.feeds.insert(part.feeds.end(), strips_[s].feeds.begin(), strips_[s].feeds.end());
      }
      make_unique(part.sums, [&](int n) { return std::tuple(node(n).source, node(n).chunk[0].begin, n); });
      make_unique(part.feeds, [](int n) { return n; });
      list.push_back(std::move(part));
    }
  }

  template <typename Key>
  static void make_unique(std::vector<int>& nodes, Key&& key) {
    std::sort(nodes.begin(), nodes.end(), [&](int a, int b) { return key(a) < key(b); });
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  }

  /// Neighbouring strips stay together if no sum that one waits for can wait for what the other sends (levels tell),
  /// and if all that is added at once can lie in the staging buffer at once.
  std::vector<std::vector<std::size_t>> groups_of(const std::vector<std::size_t>& strips) const {
    std::vector<std::vector<std::size_t>> groups;
    Strip group;
    for (const std::size_t s : strips) {
      Strip joined = group;
      const Strip& strip = strips_[s];
      joined.last_sum = std::max(group.last_sum, strip.last_sum);
      joined.first_feed = std::min(group.first_feed, strip.first_feed);
      joined.sums.insert(joined.sums.end(), strip.sums.begin(), strip.sums.end());
      const bool joins = !groups.empty() && joined.last_sum < joined.first_feed && have_places(joined.sums);
      if (!joins) groups.emplace_back();
      groups.back().push_back(s);
      group = joins ? joined : strip;
    }
    return groups;
  }

  /// Whether the chunks of every source among the nodes, each counted once, have a place each.
  bool have_places(std::vector<int> nodes) const {
    if (static_cast<std::int64_t>(nodes.size()) <= places_) return true;
    make_unique(nodes, [&](int n) { return std::pair(node(n).source, n); });
    std::int64_t run = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      run = i > 0 && node(nodes[i]).source == node(nodes[i - 1]).source ? run + 1 : 1;
      if (run > places_) return false;
    }
    return true;
  }

  void check_only_output(const Tile& tile) const {
    for (const TileAccess& access : tile.writes)
      if (access.buffer != reduced_ && !access.region.empty())
        throw UserError(where_,
                        fmt::format("a tile stores to rows of '{}' that leave and to rows that stay, so it must run "
                                    "twice, but it writes '{}' too",
                                    plan_.buffer(reduced_).name, plan_.buffer(access.buffer).name),
                        "make the shards multiples of the tile's rows, or write one output only");
  }

  const Plan& plan_;
  const std::vector<int>& tiles_;
  const DependenceGraph& graph_;
  int rank_;
  int reduced_;
  SourceLocation where_;
  std::int64_t places_ = 0;     ///< for chunks of one source
  std::vector<int> gathering_;  ///< nodes that bring what the rank's tiles may read
  std::vector<int> leaving_;    ///< nodes that send outputs of the rank that are not reduced
  std::vector<Strip> strips_;
};

}  // namespace

std::vector<Work> make_work(const BoundOperator& bound, const DependenceGraph& graph, int rank) {
  return WorkMaker(bound, graph, rank).run();
}

}  // namespace syncopate
