#include "syncopate/schedule/templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace syncopate {

namespace {
constexpr std::array<std::string_view, 3> kAlgorithmNames = {"direct", "ring", "bidirectional_ring"};

/// Builds an all-gather: which chunks each rank owns, and the three ways they travel.
class AllGather {
 public:
  AllGather(const LogicalTensor& tensor, int ranks, const TemplateOptions& options)
      : ranks_(ranks), push_(options.initiator == Initiator::push), builder_(ranks) {
    const int id = builder_.tensor(tensor);
    const int dimension = tensor.before.dimension;
    for (int rank = 0; rank < ranks; ++rank) {
      const Region shard = held_region(tensor.before, tensor.shape, ranks, rank);
      std::vector<int> chunks;
      for (std::int64_t part = 0; part < options.split; ++part) {
        Region region = shard;
        region[dimension] = chunk_of(shard[dimension], options.split, part);
        if (!region.empty()) chunks.push_back(builder_.chunk(id, region));
      }
      chunks_.push_back(std::move(chunks));
    }
  }

  /// In round s a push goes to rank + s and a pull comes from rank - s: in every round each rank sends once and
  /// receives once.
  Schedule direct() && {
    for (int rank = 0; rank < ranks_; ++rank)
      for (int round = 1; round < ranks_; ++round) {
        const int peer = push_ ? (rank + round) % ranks_ : (rank + ranks_ - round) % ranks_;
        for (const int chunk : chunks_of(push_ ? rank : peer))
          move(push_ ? rank : peer, push_ ? peer : rank, chunk, {}, 0);
      }
    return std::move(builder_).build();
  }

  /// Every chunk goes all the way round in one direction.
  Schedule ring() && {
    Flow flow(*this, 1, 0);
    for (int hop = 1; hop < ranks_; ++hop)
      for (int owner = 0; owner < ranks_; ++owner) flow.advance(hop, owner, whole(owner));
    return std::move(builder_).build();
  }

  /// Each chunk goes the shorter way round. With an even number of ranks the opposite rank is equally far both ways:
  /// half of the chunks go each way, so that both links carry the same.
  Schedule bidirectional_ring() && {
    Flow clockwise(*this, 1, 0);
    Flow counterclockwise(*this, -1, 1);
    for (int hop = 1; 2 * hop <= ranks_; ++hop)
      for (int owner = 0; owner < ranks_; ++owner) {
        const Part all = whole(owner);
        const bool opposite = 2 * hop == ranks_;
        // Of an odd number the one left over goes clockwise from even owners and the other way from odd ones.
        const int half = (all.end + (owner % 2 == 0 ? 1 : 0)) / 2;
        clockwise.advance(hop, owner, opposite ? Part{0, half} : all);
        counterclockwise.advance(hop, owner, opposite ? Part{half, all.end} : all);
      }
    return std::move(builder_).build();
  }

 private:
  /// Chunks [begin, end) of a shard.
  struct Part {
    int begin;
    int end;
  };

  const std::vector<int>& chunks_of(int rank) const { return chunks_[static_cast<std::size_t>(rank)]; }
  Part whole(int owner) const { return {0, static_cast<int>(chunks_of(owner).size())}; }

  Dependency move(int source, int destination, int chunk, std::vector<Dependency> dependencies, int port) {
    return push_ ? builder_.push(source, destination, chunk, chunk, std::move(dependencies), port)
                 : builder_.pull(source, destination, chunk, chunk, std::move(dependencies), port);
  }

  /// Shards that hop along the ring in one direction, on one port; each chunk after its own previous hop.
  class Flow {
   public:
    Flow(AllGather& gather, int step, int port) : gather_(gather), step_(step), port_(port) {
      for (const auto& chunks : gather.chunks_) delivered_.emplace_back(chunks.size());
    }
    /// The hop that takes these chunks of `owner` from owner + (hop-1) step to owner + hop step.
    void advance(int hop, int owner, Part part) {
      for (int c = part.begin; c < part.end; ++c) {
        Dependency& last = delivered_[static_cast<std::size_t>(owner)][static_cast<std::size_t>(c)];
        std::vector<Dependency> dependencies;
        if (hop > 1) dependencies.push_back(last);
        last = gather_.move(rank_at(owner, hop - 1), rank_at(owner, hop),
                            gather_.chunks_of(owner)[static_cast<std::size_t>(c)], std::move(dependencies), port_);
      }
    }

   private:
    int rank_at(int owner, int hop) const {
      return (owner + hop * step_ + gather_.ranks_) % gather_.ranks_;  // |hop * step| < ranks
    }

    AllGather& gather_;
    int step_;
    int port_;
    std::vector<std::vector<Dependency>> delivered_;  ///< [owner][chunk]: the operator of the previous hop
  };

  int ranks_;
  bool push_;
  ScheduleBuilder builder_;
  std::vector<std::vector<int>> chunks_;
};

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
  if (options.split < 1) throw UserError(where, fmt::format("split is {}", options.split), "at least 1");
  check_internal(tensor.before.kind == Placement::Kind::shard && tensor.after == Placement::replicate(),
                 "an all-gather turns shard into replicate");
  const std::int64_t largest = held_region(tensor.before, tensor.shape, ranks, 0)[tensor.before.dimension].size();
  if (options.split > largest)
    throw UserError(
        where,
        fmt::format("split is {}, but the largest shard of '{}' has {} {} along dimension {}", options.split,
                    tensor.name, largest, largest == 1 ? "index" : "indices", tensor.before.dimension),
        fmt::format("at most {}", largest));
  AllGather builder(tensor, ranks, options);
  switch (options.algorithm) {
    case Algorithm::direct:
      return std::move(builder).direct();
    case Algorithm::ring:
      return std::move(builder).ring();
    case Algorithm::bidirectional_ring:
      return std::move(builder).bidirectional_ring();
  }
  throw InternalError("algorithm without a template");
}

}  // namespace syncopate
