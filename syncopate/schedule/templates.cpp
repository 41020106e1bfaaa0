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

  Schedule ring() && {
    travel(1, 0, [&](int hop, int owner) { return hop < ranks_ ? whole(owner) : Part{0, 0}; });
    return std::move(builder_).build();
  }

  /// Each chunk goes the shorter way round. With an even number of ranks the opposite rank is equally far both ways:
  /// half of the chunks go each way, so that both links carry the same.
  Schedule bidirectional_ring() && {
    const int far = ranks_ / 2;
    const bool even = ranks_ % 2 == 0;
    const auto part = [&](bool clockwise) {
      return [this, far, even, clockwise](int hop, int owner) {
        const int count = static_cast<int>(chunks_of(owner).size());
        if (hop < far || (hop == far && !even)) return Part{0, count};
        if (hop > far) return Part{0, 0};
        // A shard of one chunk cannot be halved: even owners send it one way, odd owners the other.
        const int half = count == 1 ? (owner % 2 == 0 ? 1 : 0) : (count + 1) / 2;
        return clockwise ? Part{0, half} : Part{half, count};
      };
    };
    travel(1, 0, part(true));
    travel(-1, 1, part(false));
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

  /// Every shard hops along the ring in one direction; at hop h it goes from owner + (h-1) step to owner + h step, as
  /// far as `part(h, owner)` says, each chunk after its own previous hop.
  template <typename PartOf>
  void travel(int step, int port, PartOf&& part) {
    const auto at = [&](int owner, int hop) { return ((owner + hop * step) % ranks_ + ranks_) % ranks_; };
    // delivered[owner][chunk]: the operator of the previous hop.
    std::vector<std::vector<Dependency>> delivered(static_cast<std::size_t>(ranks_));
    for (int owner = 0; owner < ranks_; ++owner)
      delivered[static_cast<std::size_t>(owner)].resize(chunks_of(owner).size());
    for (int hop = 1; hop < ranks_; ++hop)
      for (int owner = 0; owner < ranks_; ++owner) {
        const Part range = part(hop, owner);
        for (int c = range.begin; c < range.end; ++c) {
          Dependency& last = delivered[static_cast<std::size_t>(owner)][static_cast<std::size_t>(c)];
          std::vector<Dependency> dependencies;
          if (hop > 1) dependencies.push_back(last);
          last = move(at(owner, hop - 1), at(owner, hop), chunks_of(owner)[static_cast<std::size_t>(c)],
                      std::move(dependencies), port);
        }
      }
  }

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
