#include "syncopate/schedule/compose.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "syncopate/schedule/chains.h"

namespace syncopate {

namespace {

/// What an operator does with a chunk as a rank holds it.
enum class Use : std::uint8_t { read, read_own, copy, add };

struct Access {
  int rank;
  int chunk;
  Use use;
};

std::vector<Access> accesses_of(const Operator& op) {
  if (const auto* p2p = std::get_if<P2P>(&op.action))
    return {{p2p->source_rank, p2p->source_chunk, p2p->own ? Use::read_own : Use::read},
            {p2p->destination_rank, p2p->destination_chunk, p2p->reduction == Reduction::sum ? Use::add : Use::copy}};
  const auto& collective = std::get<Collective>(op.action);
  const std::size_t sources = collective.type == CollectiveType::broadcast ? 1 : collective.ranks.size();
  std::vector<Access> list;
  for (std::size_t i = 0; i < collective.ranks.size(); ++i) {
    if (i < sources) list.push_back({collective.ranks[i], collective.source_chunks[i], Use::read});
    list.push_back({collective.ranks[i], collective.destination_chunks[i], Use::copy});
  }
  return list;
}

/// Whether the later of two uses of one place must wait for the earlier. Additions may come in any order, and leave the
/// rank's own summand alone.
bool must_wait(Use earlier, Use later) {
  switch (later) {
    case Use::read:
      return earlier == Use::copy || earlier == Use::add;
    case Use::read_own:
      return earlier == Use::copy;
    case Use::copy:
      return true;
    case Use::add:
      return earlier == Use::copy || earlier == Use::read;
  }
  throw InternalError("use without a rule");
}

void check_fit(const Schedule& first, const Schedule& second) {
  if (first.ranks() != second.ranks())
    throw UserError({},
                    fmt::format("a schedule over {} ranks cannot follow one over {}", second.ranks(), first.ranks()),
                    "make both for the same ranks");
  if (first.tensors.size() != second.tensors.size())
    throw UserError(
        {},
        fmt::format("a schedule of {} tensors cannot follow one of {}", second.tensors.size(), first.tensors.size()),
        "list the same tensors in both");
  for (std::size_t t = 0; t < first.tensors.size(); ++t) {
    const LogicalTensor& a = first.tensors[t];
    const LogicalTensor& b = second.tensors[t];
    if (a.name != b.name || a.shape != b.shape || a.dtype != b.dtype)
      throw UserError({},
                      fmt::format("the first schedule is about '{}' {} {}, the second about '{}' {} {}", a.name,
                                  to_string(a.shape), name_of(a.dtype), b.name, to_string(b.shape), name_of(b.dtype)),
                      "list the same tensors in both");
    if (!(a.after == b.before))
      throw UserError({},
                      fmt::format("after the first schedule '{}' is {}, before the second {}", a.name,
                                  a.after.to_string(), b.before.to_string()),
                      "the second starts with what the first leaves");
  }
}

class Composer {
 public:
  Composer(const Schedule& first, const Schedule& second, int port_offset)
      : first_(first), second_(second), port_offset_(port_offset), made_(first) {
    for (std::size_t t = 0; t < made_.tensors.size(); ++t) made_.tensors[t].after = second.tensors[t].after;
    std::size_t total = 0;
    for (std::size_t rank = 0; rank < first.operators.size(); ++rank) {
      number_.push_back(total);
      total += first.operators[rank].size() + second.operators[rank].size();
    }
    position_.assign(total, 0);
    visited_.assign(total, 0);
    chains_ = Chains(total);
    uses_.resize(first.operators.size());
  }

  Schedule run() && {
    map_chunks();
    std::uint32_t position = 0;
    for (const Dependency& which : topological_order(first_)) {
      position_[number(which)] = position++;
      add_to_chains(which);
      for (const Access& access : accesses_of(first_.at(which)))
        uses_[static_cast<std::size_t>(access.rank)][access.chunk].push_back({which, access.use});
    }
    for (std::size_t rank = 0; rank < made_.operators.size(); ++rank)
      made_.operators[rank].resize(first_.operators[rank].size() + second_.operators[rank].size());
    for (const Dependency& which : topological_order(second_)) {
      position_[number(moved(which))] = position++;
      append(which);
      add_to_chains(moved(which));
    }
    validate(made_);
    return std::move(made_);
  }

 private:
  struct Used {
    Dependency by;
    Use use;
  };

  std::size_t number(Dependency d) const {
    return number_[static_cast<std::size_t>(d.rank)] + static_cast<std::size_t>(d.index);
  }
  Dependency moved(Dependency d) const {
    return {d.rank, d.index + static_cast<int>(first_.operators[static_cast<std::size_t>(d.rank)].size())};
  }

  void add_to_chains(Dependency which) {
    std::vector<std::size_t> before;
    for (const Dependency& d : made_.at(which).dependencies) before.push_back(number(d));
    chains_.add(number(which), before);
  }

  /// Gives the second's chunks their numbers, and finds the chunks of the first that each of them meets.
  void map_chunks() {
    std::map<std::pair<int, Region>, int> known;
    for (std::size_t c = 0; c < first_.chunks.size(); ++c)
      known.try_emplace({first_.chunks[c].tensor, first_.chunks[c].region}, static_cast<int>(c));
    for (const Chunk& chunk : second_.chunks) {
      const auto [found, is_new] =
          known.try_emplace({chunk.tensor, chunk.region}, static_cast<int>(made_.chunks.size()));
      if (is_new) made_.chunks.push_back(chunk);
      chunk_.push_back(found->second);
      std::vector<int>& meets = meets_.emplace_back();
      for (std::size_t c = 0; c < first_.chunks.size(); ++c)
        if (first_.chunks[c].tensor == chunk.tensor && first_.chunks[c].region.overlaps(chunk.region))
          meets.push_back(static_cast<int>(c));
    }
  }

  void append(Dependency which) {
    Operator op = second_.at(which);
    op.port += port_offset_;
    op.offset = 0;
    for (Dependency& d : op.dependencies) d = moved(d);
    std::vector<Dependency> needed;
    for (const Access& access : accesses_of(op)) find_needed(access, needed);
    keep_last_of_chains(op.dependencies, needed);
    ++round_;
    if (needed.size() + op.dependencies.size() > 1) mark_implied(op.dependencies, needed);
    for (const Dependency& d : needed)
      if (visited_[number(d)] != round_) op.dependencies.push_back(d);
    rename_chunks(op);
    const Dependency place = moved(which);
    made_.operators[static_cast<std::size_t>(place.rank)][static_cast<std::size_t>(place.index)] = std::move(op);
  }

  void find_needed(const Access& access, std::vector<Dependency>& needed) const {
    const auto& uses = uses_[static_cast<std::size_t>(access.rank)];
    for (const int chunk : meets_[static_cast<std::size_t>(access.chunk)]) {
      const auto found = uses.find(chunk);
      if (found == uses.end()) continue;
      for (const Used& used : found->second)
        if (must_wait(used.use, access.use)) needed.push_back(used.by);
    }
  }

  /// Of the operators of one chain the last implies the others, and so does one that is given.
  void keep_last_of_chains(const std::vector<Dependency>& given, std::vector<Dependency>& needed) const {
    const auto chain = [&](Dependency d) { return chains_.chain(number(d)); };
    std::sort(needed.begin(), needed.end(), [&](Dependency a, Dependency b) {
      return std::pair(chain(a), position_[number(b)]) < std::pair(chain(b), position_[number(a)]);
    });
    needed.erase(
        std::unique(needed.begin(), needed.end(), [&](Dependency a, Dependency b) { return chain(a) == chain(b); }),
        needed.end());
    std::erase_if(needed, [&](Dependency d) {
      return std::any_of(given.begin(), given.end(),
                         [&](Dependency other) { return chains_.in_order(number(d), number(other)); });
    });
    std::sort(needed.begin(), needed.end(),
              [](Dependency a, Dependency b) { return std::pair(a.rank, a.index) < std::pair(b.rank, b.index); });
  }

  /// Marks as visited all that must have completed before any of the given operators starts, as far back as the
  /// earliest of those needed.
  void mark_implied(const std::vector<Dependency>& given, const std::vector<Dependency>& needed) {
    std::uint32_t earliest = std::numeric_limits<std::uint32_t>::max();
    for (const Dependency& d : needed) earliest = std::min(earliest, position_[number(d)]);
    std::vector<Dependency> stack = given;
    stack.insert(stack.end(), needed.begin(), needed.end());
    while (!stack.empty()) {
      const Dependency top = stack.back();
      stack.pop_back();
      for (const Dependency& d : made_.at(top).dependencies) {
        if (position_[number(d)] < earliest || visited_[number(d)] == round_) continue;
        visited_[number(d)] = round_;
        stack.push_back(d);
      }
    }
  }

  void rename_chunks(Operator& op) const {
    const auto rename = [&](int& chunk) { chunk = chunk_[static_cast<std::size_t>(chunk)]; };
    if (auto* p2p = std::get_if<P2P>(&op.action)) {
      rename(p2p->source_chunk);
      rename(p2p->destination_chunk);
      return;
    }
    auto& collective = std::get<Collective>(op.action);
    for (int& chunk : collective.source_chunks) rename(chunk);
    for (int& chunk : collective.destination_chunks) rename(chunk);
  }

  const Schedule& first_;
  const Schedule& second_;
  int port_offset_;
  Schedule made_;
  std::vector<int> chunk_;               ///< of the second's chunks: their numbers in made_
  std::vector<std::vector<int>> meets_;  ///< of the second's chunks: those of the first that overlap them
  std::vector<std::unordered_map<int, std::vector<Used>>> uses_;  ///< [rank][chunk of the first]
  std::vector<std::size_t> number_;                               ///< of each rank's first operator in made_
  std::vector<std::uint32_t> position_;                           ///< of operators, in an order that dependencies allow
  std::vector<std::uint32_t> visited_;                            ///< the search that saw an operator last
  std::uint32_t round_ = 0;
  Chains chains_{0};
};

}  // namespace

Schedule compose(const Schedule& first, const Schedule& second, int port_offset) {
  check_fit(first, second);
  if (port_offset < 0) throw UserError({}, fmt::format("a port offset of {}", port_offset), "at least 0");
  return Composer(first, second, port_offset).run();
}

}  // namespace syncopate
