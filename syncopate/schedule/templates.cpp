#include "syncopate/schedule/templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace syncopate {

namespace {
constexpr std::array<std::string_view, 3> kAlgorithmNames = {"direct", "ring", "bidirectional_ring"};

/// Chunks [begin, end) of a shard.
struct Part {
  int begin;
  int end;
};

/// What all templates share: the chunks that each rank owns, and how one of them is moved.
class Template {
 public:
  Template(const LogicalTensor& tensor, const Placement& sharded, Reduction reduction, int ranks,
           const TemplateOptions& options)
      : ranks_(ranks), push_(options.initiator == Initiator::push), reduction_(reduction), builder_(ranks) {
    const int id = builder_.tensor(tensor);
    for (int rank = 0; rank < ranks; ++rank) {
      const Region shard = held_region(sharded, tensor.shape, ranks, rank);
      std::vector<int> chunks;
      for (std::int64_t part = 0; part < options.split; ++part) {
        Region region = shard;
        region[sharded.dimension] = chunk_of(shard[sharded.dimension], options.split, part);
        if (!region.empty()) chunks.push_back(builder_.chunk(id, region));
      }
      chunks_.push_back(std::move(chunks));
    }
  }

  int ranks() const { return ranks_; }
  bool push() const { return push_; }
  const std::vector<int>& chunks_of(int rank) const { return chunks_[static_cast<std::size_t>(rank)]; }
  Part whole(int owner) const { return {0, static_cast<int>(chunks_of(owner).size())}; }
  /// The half of an owner's chunks that goes up. Of an odd number the one left over goes up from even owners and down
  /// from odd ones.
  int half(int owner) const { return (whole(owner).end + (owner % 2 == 0 ? 1 : 0)) / 2; }

  Dependency move(int source, int destination, int chunk, std::vector<Dependency> dependencies, int port) {
    return push_ ? builder_.push(source, destination, chunk, chunk, std::move(dependencies), port, reduction_)
                 : builder_.pull(source, destination, chunk, chunk, std::move(dependencies), port, reduction_);
  }

  Schedule build() && { return std::move(builder_).build(); }

 private:
  int ranks_;
  bool push_;
  Reduction reduction_;
  ScheduleBuilder builder_;
  std::vector<std::vector<int>> chunks_;
};

/// Chunks that hop along the ring in one direction, on one port; each hop of a chunk after the one before it.
class Flow {
 public:
  Flow(Template& made, int step, int port) : made_(made), step_(step), port_(port) {
    for (int rank = 0; rank < made.ranks(); ++rank) last_.emplace_back(made.chunks_of(rank).size());
  }
  /// The hop that takes these chunks of `owner` from owner + from * step to owner + (from + 1) * step;
  /// |from| < ranks.
  void advance(int from, int owner, Part part) {
    for (int c = part.begin; c < part.end; ++c) {
      std::optional<Dependency>& last = last_[static_cast<std::size_t>(owner)][static_cast<std::size_t>(c)];
      std::vector<Dependency> dependencies;
      if (last) dependencies.push_back(*last);
      last = made_.move(rank_at(owner, from), rank_at(owner, from + 1),
                        made_.chunks_of(owner)[static_cast<std::size_t>(c)], std::move(dependencies), port_);
    }
  }

 private:
  int rank_at(int owner, int hops) const { return (owner + hops * step_ + made_.ranks()) % made_.ranks(); }

  Template& made_;
  int step_;
  int port_;
  std::vector<std::vector<std::optional<Dependency>>> last_;  ///< [owner][chunk]: the operator of its last hop
};

/// In round s a push goes to rank + s and a pull comes from rank - s: in every round each rank sends once and receives
/// once.
int peer_in_round(const Template& made, int rank, int round) {
  return (rank + (made.push() ? round : made.ranks() - round)) % made.ranks();
}

Schedule direct_all_gather(Template made) {
  for (int rank = 0; rank < made.ranks(); ++rank)
    for (int round = 1; round < made.ranks(); ++round) {
      const int peer = peer_in_round(made, rank, round);
      const int source = made.push() ? rank : peer;
      for (const int chunk : made.chunks_of(source)) made.move(source, made.push() ? peer : rank, chunk, {}, 0);
    }
  return std::move(made).build();
}

/// Every chunk goes all the way round in one direction.
Schedule ring_all_gather(Template made) {
  Flow up(made, 1, 0);
  for (int hop = 0; hop + 1 < made.ranks(); ++hop)
    for (int owner = 0; owner < made.ranks(); ++owner) up.advance(hop, owner, made.whole(owner));
  return std::move(made).build();
}

/// Each chunk goes the shorter way round. With an even number of ranks the opposite rank is equally far both ways:
/// half of the chunks go each way, so that both links carry the same.
Schedule bidirectional_all_gather(Template made) {
  Flow up(made, 1, 0);
  Flow down(made, -1, 1);
  for (int hop = 1; 2 * hop <= made.ranks(); ++hop)
    for (int owner = 0; owner < made.ranks(); ++owner) {
      const Part all = made.whole(owner);
      const bool opposite = 2 * hop == made.ranks();
      up.advance(hop - 1, owner, opposite ? Part{0, made.half(owner)} : all);
      down.advance(hop - 1, owner, opposite ? Part{made.half(owner), all.end} : all);
    }
  return std::move(made).build();
}

Schedule direct_reduce_scatter(Template made, bool chunk_major) {
  const auto send = [&](int rank, int round, Part part) {
    const int peer = peer_in_round(made, rank, round);
    const int source = made.push() ? rank : peer;
    const int owner = made.push() ? peer : rank;
    for (int c = part.begin; c < std::min(part.end, made.whole(owner).end); ++c)
      made.move(source, owner, made.chunks_of(owner)[static_cast<std::size_t>(c)], {}, 0);
  };
  int most = 0;
  for (int owner = 0; owner < made.ranks(); ++owner) most = std::max(most, made.whole(owner).end);
  const int passes = chunk_major ? most : 1;
  for (int rank = 0; rank < made.ranks(); ++rank)
    for (int pass = 0; pass < passes; ++pass)
      for (int round = 1; round < made.ranks(); ++round)
        send(rank, round, chunk_major ? Part{pass, pass + 1} : Part{0, most});
  return std::move(made).build();
}

Schedule ring_reduce_scatter(Template made) {
  Flow up(made, 1, 0);
  for (int hop = 1; hop < made.ranks(); ++hop)
    for (int owner = 0; owner < made.ranks(); ++owner) up.advance(hop - made.ranks(), owner, made.whole(owner));
  return std::move(made).build();
}

/// The all-gather of the same name backwards: sums come to the owner from both sides.
Schedule bidirectional_reduce_scatter(Template made) {
  Flow up(made, 1, 0);
  Flow down(made, -1, 1);
  for (int distance = made.ranks() / 2; distance >= 1; --distance)
    for (int owner = 0; owner < made.ranks(); ++owner) {
      const Part all = made.whole(owner);
      const bool opposite = 2 * distance == made.ranks();
      up.advance(-distance, owner, opposite ? Part{0, made.half(owner)} : all);
      down.advance(-distance, owner, opposite ? Part{made.half(owner), all.end} : all);
    }
  return std::move(made).build();
}

void check_split(const LogicalTensor& tensor, const Placement& sharded, int ranks, const TemplateOptions& options,
                 const SourceLocation& where) {
  if (options.split < 1) throw UserError(where, fmt::format("split is {}", options.split), "at least 1");
  const std::int64_t largest = held_region(sharded, tensor.shape, ranks, 0)[sharded.dimension].size();
  if (options.split > largest)
    throw UserError(
        where,
        fmt::format("split is {}, but the largest shard of '{}' has {} {} along dimension {}", options.split,
                    tensor.name, largest, largest == 1 ? "index" : "indices", sharded.dimension),
        fmt::format("at most {}", largest));
}

}  // namespace

std::string_view name_of(Algorithm algorithm) { return kAlgorithmNames[static_cast<std::size_t>(algorithm)]; }

std::optional<Algorithm> algorithm_from_name(std::string_view name) {
  const auto found = std::find(kAlgorithmNames.begin(), kAlgorithmNames.end(), name);
  if (found == kAlgorithmNames.end()) return std::nullopt;
  return static_cast<Algorithm>(found - kAlgorithmNames.begin());
}

std::optional<CollectiveType> collective_between(const Placement& before, const Placement& after,
                                                 const SourceLocation& where) {
  using Kind = Placement::Kind;
  if (before == after || (before.kind == Kind::replicate && after.kind == Kind::shard)) return std::nullopt;
  if (before.kind == Kind::shard && after.kind == Kind::replicate) return CollectiveType::all_gather;
  if (before.kind == Kind::shard && after.kind == Kind::shard) return CollectiveType::all_to_all;
  if (before.kind == Kind::partial_sum && after.kind == Kind::shard) return CollectiveType::reduce_scatter;
  if (before.kind == Kind::partial_sum && after.kind == Kind::replicate) return CollectiveType::all_reduce;
  throw UserError(where, fmt::format("no collective turns {} into {}", before.to_string(), after.to_string()),
                  "data can be gathered, scattered, reduced or exchanged, but not made partial again");
}

Schedule all_gather(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                    const SourceLocation& where) {
  check_internal(tensor.before.kind == Placement::Kind::shard && tensor.after == Placement::replicate(),
                 "an all-gather turns shard into replicate");
  check_split(tensor, tensor.before, ranks, options, where);
  Template made(tensor, tensor.before, Reduction::none, ranks, options);
  switch (options.algorithm) {
    case Algorithm::direct:
      return direct_all_gather(std::move(made));
    case Algorithm::ring:
      return ring_all_gather(std::move(made));
    case Algorithm::bidirectional_ring:
      return bidirectional_all_gather(std::move(made));
  }
  throw InternalError("algorithm without a template");
}

Schedule reduce_scatter(const LogicalTensor& tensor, int ranks, const TemplateOptions& options,
                        const SourceLocation& where) {
  check_internal(tensor.before == Placement::partial_sum() && tensor.after.kind == Placement::Kind::shard,
                 "a reduce-scatter turns partial(sum) into shard");
  check_split(tensor, tensor.after, ranks, options, where);
  Template made(tensor, tensor.after, Reduction::sum, ranks, options);
  switch (options.algorithm) {
    case Algorithm::direct:
      return direct_reduce_scatter(std::move(made), options.chunk_major);
    case Algorithm::ring:
      return ring_reduce_scatter(std::move(made));
    case Algorithm::bidirectional_ring:
      return bidirectional_reduce_scatter(std::move(made));
  }
  throw InternalError("algorithm without a template");
}

}  // namespace syncopate
