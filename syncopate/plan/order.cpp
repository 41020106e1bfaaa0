#include "syncopate/plan/order.h"

#include <algorithm>
#include <compare>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>

namespace syncopate {

namespace {

/// Sorts work that becomes ready together: bands along the fast axis, and inside a band all other axes before it.
void sort_in_bands(std::span<int> group, const std::vector<Work>& work, const std::vector<Tile>& tiles,
                   const LocalOrder& local) {
  const auto axis = static_cast<std::size_t>(local.fast_axis);
  const auto index = [&](int w) -> const std::vector<std::int64_t>& {
    return tiles[static_cast<std::size_t>(work[static_cast<std::size_t>(w)].tile)].index;
  };
  // Bands count the rows that are present, so that a chunk's own rows make full bands wherever it starts.
  std::vector<std::int64_t> rows;
  for (const int w : group) rows.push_back(index(w)[axis]);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  struct Place {
    std::int64_t band;
    const std::vector<std::int64_t>* index;
    int work;
  };
  std::vector<Place> places;
  for (const int w : group) {
    const auto row = std::lower_bound(rows.begin(), rows.end(), index(w)[axis]) - rows.begin();
    places.push_back({row / local.band, &index(w), w});
  }
  std::sort(places.begin(), places.end(), [&](const Place& a, const Place& b) {
    if (a.band != b.band) return a.band < b.band;
    for (std::size_t d = 0; d < a.index->size(); ++d)
      if (d != axis && (*a.index)[d] != (*b.index)[d]) return (*a.index)[d] < (*b.index)[d];
    if ((*a.index)[axis] != (*b.index)[axis]) return (*a.index)[axis] < (*b.index)[axis];
    return a.work < b.work;
  });
  std::transform(places.begin(), places.end(), group.begin(), [](const Place& place) { return place.work; });
}

/// When a piece of work is wanted, in estimated time.
struct Moment {
  /// Of two that are wanted at the same time, what frees memory comes before what leaves.
  enum class Purpose : std::uint8_t { frees, leaves, stays };
  std::int64_t time = 0;
  Purpose purpose = Purpose::stays;
  std::int64_t leaves = 0;  ///< of two that come at the same time and leave, what leaves first comes first
  friend bool operator==(const Moment&, const Moment&) = default;
  friend auto operator<=>(const Moment&, const Moment&) = default;
};

class Orderer {
 public:
  Orderer(const DependenceGraph& graph, const std::vector<Tile>& tiles) : graph_(graph), tiles_(tiles) {
    wanted_back_.assign(graph.transfers.size(), kNever);
    for (const TransferNode& node : graph.transfers) {
      end_ = std::max(end_, node.arrival);
      if (node.reuses < 0) continue;
      std::int64_t& wanted = wanted_back_[static_cast<std::size_t>(node.reuses)];
      wanted = std::min(wanted, node.start);
    }
    for (const std::vector<int>& work : graph.stored_by) any_leaves_ = any_leaves_ || !work.empty();
    for (const std::vector<int>& work : graph.freed_by) any_frees_ = any_frees_ || !work.empty();
  }

  WorkOrder run() {
    std::vector<std::vector<int>> wanted;
    for (const std::vector<Work>& work : graph_.work) wanted.push_back(wanted_order(work));
    // Where transfers wait for no work, every order of work is possible.
    if (!any_leaves_ && !any_frees_) return {std::move(wanted), graph_.order};
    return possible_order(wanted);
  }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  const TransferNode& node(int n) const { return graph_.transfers[static_cast<std::size_t>(n)]; }

  Moment moment_of(const Work& work) const {
    std::int64_t ready = 0;
    for (const int n : work.needs) ready = std::max(ready, node(n).arrival);
    if (!work.feeds.empty()) {
      std::int64_t leaves = kNever;
      bool awaited = false;
      for (const int n : work.feeds) {
        leaves = std::min(leaves, node(n).start);
        awaited = awaited || node(n).reduces || node(n).destination_buffer == node(n).buffer;
      }
      // No peer's kernel waits for what goes into a result, so workers first do what has become possible.
      if (!awaited) return {ready, Moment::Purpose::leaves, leaves};
      return {std::max(leaves, ready), Moment::Purpose::leaves, 0};
    }
    std::int64_t wanted = kNever;
    for (const int n : work.sums) wanted = std::min(wanted, wanted_back_[static_cast<std::size_t>(n)]);
    if (wanted != kNever) return {wanted, Moment::Purpose::frees, 0};
    for (const int n : work.sums) ready = std::max(ready, node(n).arrival);
    return {any_leaves_ ? end_ + ready : ready, Moment::Purpose::stays, 0};
  }

  std::size_t tiles_of_rank_0() const {
    int last = -1;
    for (const Work& work : graph_.work.front()) last = std::max(last, work.tile);
    return static_cast<std::size_t>(last) + 1;
  }

  /// The order of one rank by moments alone.
  std::vector<int> wanted_order(const std::vector<Work>& work) const {
    std::vector<Moment> moments;
    for (const Work& w : work) moments.push_back(moment_of(w));
    const auto moment = [&](int w) { return moments[static_cast<std::size_t>(w)]; };
    std::vector<int> order(work.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return moment(a) < moment(b); });
    // Rank 0's tiles come first; other ranks walk theirs alike.
    const LocalOrder local = local_order(std::span(tiles_).first(tiles_of_rank_0()));
    for (std::size_t begin = 0; begin < order.size();) {
      std::size_t end = begin + 1;
      while (end < order.size() && moment(order[end]) == moment(order[begin])) ++end;
      sort_in_bands(std::span(order).subspan(begin, end - begin), work, tiles_, local);
      begin = end;
    }
    return order;
  }

  /// Something to be put in order: a transfer (rank -1), or the work at a position of a rank's wanted order. The
  /// smallest comes first.
  struct Item {
    Moment moment;
    bool is_transfer = false;
    int rank = 0;
    int index = 0;
    friend auto operator<=>(const Item&, const Item&) = default;
  };

  /// Takes everything in the order of moments, except that nothing is taken before what it waits for.
  WorkOrder possible_order(const std::vector<std::vector<int>>& wanted) {
    start_counting(wanted);
    WorkOrder order;
    order.work.resize(wanted.size());
    std::size_t taken = 0;
    while (!ready_.empty()) {
      const Item item = ready_.top();
      ready_.pop();
      ++taken;
      const auto index = static_cast<std::size_t>(item.index);
      if (item.is_transfer) {
        order.transfers.push_back(item.index);
        take_transfer(item.index);
        continue;
      }
      const auto rank = static_cast<std::size_t>(item.rank);
      const int w = wanted[rank][index];
      order.work[rank].push_back(w);
      const Work& work = graph_.work[rank][static_cast<std::size_t>(w)];
      for (const int n : work.feeds) release_transfer(n);
      for (const int n : work.frees) release_transfer(n);
    }
    std::size_t total = graph_.transfers.size();
    for (const std::vector<Work>& work : graph_.work) total += work.size();
    check_internal(taken == total, "work and transfers wait for each other in a circle");
    return order;
  }

  void start_counting(const std::vector<std::vector<int>>& wanted) {
    const std::size_t count = graph_.transfers.size();
    followers_.resize(count);
    users_.resize(count);
    missing_.assign(count, 0);
    for (std::size_t n = 0; n < count; ++n) {
      const TransferNode& transfer = graph_.transfers[n];
      std::size_t missing = graph_.stored_by[n].size() + transfer.dependencies.size();
      for (const int before : transfer.dependencies)
        followers_[static_cast<std::size_t>(before)].push_back(static_cast<int>(n));
      if (transfer.previous >= 0) {
        followers_[static_cast<std::size_t>(transfer.previous)].push_back(static_cast<int>(n));
        ++missing;
      }
      missing_[n] = missing + graph_.freed_by[n].size() + 1;
      release_transfer(static_cast<int>(n));
    }
    missing_work_.resize(wanted.size());
    for (std::size_t rank = 0; rank < wanted.size(); ++rank)
      for (std::size_t position = 0; position < wanted[rank].size(); ++position) {
        const Work& work = graph_.work[rank][static_cast<std::size_t>(wanted[rank][position])];
        const Item item{moment_of(work), false, static_cast<int>(rank), static_cast<int>(position)};
        for (const std::vector<int>* nodes : {&work.needs, &work.sums})
          for (const int n : *nodes) users_[static_cast<std::size_t>(n)].push_back(item);
        missing_work_[rank].push_back(work.needs.size() + work.sums.size() + 1);
        release_work(item);
      }
  }

  void take_transfer(int n) {
    for (const int follower : followers_[static_cast<std::size_t>(n)]) release_transfer(follower);
    for (const Item& user : users_[static_cast<std::size_t>(n)]) release_work(user);
  }

  void release_transfer(int n) {
    if (--missing_[static_cast<std::size_t>(n)] == 0)
      ready_.push({{node(n).start, Moment::Purpose::leaves, 0}, true, -1, n});
  }
  void release_work(const Item& item) {
    if (--missing_work_[static_cast<std::size_t>(item.rank)][static_cast<std::size_t>(item.index)] == 0)
      ready_.push(item);
  }

  const DependenceGraph& graph_;
  const std::vector<Tile>& tiles_;
  std::int64_t end_ = 0;                   ///< when the last transfer arrives
  bool any_leaves_ = false;                ///< whether transfers send what tiles make
  bool any_frees_ = false;                 ///< whether transfers wait for room that tiles make
  std::vector<std::int64_t> wanted_back_;  ///< per node: when the memory that it lands in is used again

  std::priority_queue<Item, std::vector<Item>, std::greater<>> ready_;
  std::vector<std::vector<int>> followers_;  ///< per node: nodes that wait for it
  std::vector<std::vector<Item>> users_;     ///< per node: work that waits for it
  /// How much each transfer, and the work at each position of each rank, still waits for.
  std::vector<std::size_t> missing_;
  std::vector<std::vector<std::size_t>> missing_work_;
};

}  // namespace

LocalOrder local_order(std::span<const Tile> tiles) {
  LocalOrder order;
  if (tiles.size() < 2) return order;
  const auto differing_axis = [&](std::size_t a, std::size_t b) {
    int axis = -1;
    for (std::size_t d = 0; d < tiles[a].index.size(); ++d) {
      if (tiles[a].index[d] == tiles[b].index[d]) continue;
      if (axis >= 0) return -1;
      axis = static_cast<int>(d);
    }
    return axis;
  };
  const int fast = differing_axis(0, 1);
  if (fast < 0) return order;
  order.fast_axis = fast;
  order.band = 2;
  while (static_cast<std::size_t>(order.band) < tiles.size() &&
         differing_axis(static_cast<std::size_t>(order.band) - 1, static_cast<std::size_t>(order.band)) == fast)
    ++order.band;
  return order;
}

WorkOrder order_work(const DependenceGraph& graph, const std::vector<Tile>& tiles) {
  return Orderer(graph, tiles).run();
}

}  // namespace syncopate
