#include "syncopate/schedule/meaning.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "syncopate/schedule/chains.h"

namespace syncopate {

namespace {

/// The most pairs of a rank and an atom of one tensor that are kept track of.
constexpr std::size_t kMostCells = std::size_t{1} << 30;

/// The boxes of one tensor that no chunk border and no shard border cuts: cells of the grid of all borders.
class Atoms {
 public:
  Atoms(const Schedule& schedule, int tensor, const SourceFile* file) {
    const LogicalTensor& t = schedule.tensors[static_cast<std::size_t>(tensor)];
    dimensions_ = static_cast<int>(t.shape.size());
    std::vector<std::set<std::int64_t>> borders(t.shape.size());
    const auto add = [&](const Region& region) {
      for (int d = 0; d < dimensions_; ++d)
        if (!region.empty()) borders[static_cast<std::size_t>(d)].insert({region[d].begin, region[d].end});
    };
    add(Region::whole(t.shape));
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      for (const Placement* placement : {&t.before, &t.after})
        for (const Region& box : held_regions(*placement, t.shape, schedule.ranks(), rank)) add(box);
    }
    for (const Chunk& chunk : schedule.chunks)
      if (chunk.tensor == tensor) add(chunk.region);
    for (const auto& list : borders) borders_.emplace_back(list.begin(), list.end());
    for (const auto& list : borders_) {
      count_ *= list.size() - 1;
      if (count_ * static_cast<std::size_t>(schedule.ranks()) > kMostCells)
        throw UserError(file == nullptr ? SourceLocation{} : SourceLocation{file->name()},
                        fmt::format("the chunks of '{}' cut it into more than {} boxes", t.name, count_ - 1),
                        "make the chunks larger, or their borders the same");
    }
  }

  std::size_t count() const { return count_; }

  /// Numbers of the atoms that a rank has under a placement whose borders are among those given.
  std::vector<int> of(const Placement& placement, const Shape& shape, int ranks, int rank) const {
    std::vector<int> numbers;
    for (const Region& box : held_regions(placement, shape, ranks, rank)) {
      const std::vector<int> more = of(box);
      numbers.insert(numbers.end(), more.begin(), more.end());
    }
    return numbers;
  }

  /// Numbers of the atoms of a region whose borders are among those given.
  std::vector<int> of(const Region& region) const {
    std::vector<int> numbers;
    if (region.empty()) return numbers;
    numbers.push_back(0);
    for (int d = 0; d < dimensions_; ++d) {
      const auto& list = borders_[static_cast<std::size_t>(d)];
      const auto begin = std::lower_bound(list.begin(), list.end(), region[d].begin) - list.begin();
      const auto end = std::lower_bound(list.begin(), list.end(), region[d].end) - list.begin();
      std::vector<int> next;
      for (const int prefix : numbers)
        for (auto i = begin; i < end; ++i)
          next.push_back(prefix * static_cast<int>(list.size() - 1) + static_cast<int>(i));
      numbers = std::move(next);
    }
    return numbers;
  }

  Region region(int number) const {
    Region region = Region::whole(Shape(static_cast<std::size_t>(dimensions_), 1));
    for (int d = dimensions_ - 1; d >= 0; --d) {
      const auto& list = borders_[static_cast<std::size_t>(d)];
      const auto cells = static_cast<int>(list.size() - 1);
      const auto i = static_cast<std::size_t>(number % cells);
      region[d] = {list[i], list[i + 1]};
      number /= cells;
    }
    return region;
  }

 private:
  int dimensions_ = 0;
  std::vector<std::vector<std::int64_t>> borders_;
  std::size_t count_ = 1;
};

/// Who wrote an atom last: an operator by number, or one of these.
constexpr int kNobody = -1;
constexpr int kCaller = -2;

/// State of one tensor on all ranks. Cells are numbered rank * atoms + atom.
struct TensorState {
  explicit TensorState(Atoms a) : atoms(std::move(a)) {}
  Atoms atoms;
  bool partial = false;
  std::vector<int> writer;  ///< of each cell: who put a value there last
  /// Only for partial tensors: whose summands are in the cell, ascending; the operators that have added to it since
  /// `writer` wrote it; and those that have read it since then.
  std::vector<std::vector<int>> contributors;
  std::vector<std::vector<int>> adders;
  std::vector<std::vector<int>> readers;
  std::vector<std::vector<int>> own_readers;  ///< those that have read what `writer` wrote, whatever was added
  std::vector<std::vector<int>> own;          ///< whose summands `writer` wrote; empty while nothing has been added
};

std::string name_of(Dependency d) { return fmt::format("rank {} operator {}", d.rank, d.index); }

/// Runs a schedule symbolically, operators in one topological order; every use is checked against all orders.
class SymbolicRun {
 public:
  SymbolicRun(const Schedule& schedule, const SourceFile* file) : schedule_(schedule), file_(file) {
    std::size_t total = 0;
    for (const auto& list : schedule.operators) {
      first_.push_back(total);
      total += list.size();
    }
    for (int t = 0; t < static_cast<int>(schedule.tensors.size()); ++t) start(t);
    for (const Chunk& chunk : schedule.chunks) chunk_atoms_.push_back(state(chunk.tensor).atoms.of(chunk.region));
    visited_.assign(total, 0);
    position_.assign(total, 0);
    chains_ = Chains(total);
  }

  void run() {
    order_ = topological_order(schedule_);
    for (std::size_t i = 0; i < order_.size(); ++i)
      position_[static_cast<std::size_t>(number(order_[i]))] = static_cast<std::uint32_t>(i);
    for (const Dependency& which : order_) {
      std::vector<std::size_t> before;
      for (const Dependency& d : schedule_.at(which).dependencies)
        before.push_back(static_cast<std::size_t>(number(d)));
      chains_.add(static_cast<std::size_t>(number(which)), before);
    }
    for (const Dependency& which : order_) {
      at_ = which;
      const Operator& op = schedule_.at(which);
      if (const auto* p2p = std::get_if<P2P>(&op.action))
        transfer(*p2p);
      else
        collective(std::get<Collective>(op.action));
    }
  }

  TensorState& state(int tensor) { return states_[static_cast<std::size_t>(tensor)]; }
  std::size_t place(const TensorState& s, int rank, int atom) const {
    return static_cast<std::size_t>(rank) * s.atoms.count() + static_cast<std::size_t>(atom);
  }

 private:
  void start(int tensor) {
    const LogicalTensor& t = schedule_.tensors[static_cast<std::size_t>(tensor)];
    TensorState s{Atoms(schedule_, tensor, file_)};
    const std::size_t cells = s.atoms.count() * static_cast<std::size_t>(schedule_.ranks());
    s.partial = t.before.kind == Placement::Kind::partial_sum;
    s.writer.assign(cells, kNobody);
    if (s.partial) {
      s.contributors.resize(cells);
      s.adders.resize(cells);
      s.readers.resize(cells);
      s.own_readers.resize(cells);
      s.own.resize(cells);
    }
    for (int rank = 0; rank < schedule_.ranks(); ++rank)
      for (const int atom : s.atoms.of(t.before, t.shape, schedule_.ranks(), rank)) {
        s.writer[place(s, rank, atom)] = kCaller;
        if (s.partial) s.contributors[place(s, rank, atom)] = {rank};
      }
    states_.push_back(std::move(s));
  }

  int number(Dependency d) const { return static_cast<int>(first_[static_cast<std::size_t>(d.rank)]) + d.index; }
  Dependency named(int n) const {
    const auto next = std::upper_bound(first_.begin(), first_.end(), static_cast<std::size_t>(n));
    // Ranks without operators share their first number with the next rank: upper_bound is past all of them.
    const auto rank = static_cast<int>(next - first_.begin()) - 1;
    return {rank, n - static_cast<int>(first_[static_cast<std::size_t>(rank)])};
  }

  /// Whether operator n must have completed before the current one starts.
  bool is_before(int n) {
    const auto leads_to = [&](Dependency d) {
      return number(d) == n || chains_.in_order(static_cast<std::size_t>(n), static_cast<std::size_t>(number(d)));
    };
    for (const Dependency& d : schedule_.at(at_).dependencies)
      if (leads_to(d)) return true;
    ++round_;
    std::vector<Dependency> stack = {at_};
    while (!stack.empty()) {
      const Dependency top = stack.back();
      stack.pop_back();
      for (const Dependency& d : schedule_.at(top).dependencies) {
        const int m = number(d);
        if (leads_to(d)) return true;
        // What stands before n in the order cannot come after it.
        if (position_[static_cast<std::size_t>(m)] < position_[static_cast<std::size_t>(n)]) continue;
        if (visited_[static_cast<std::size_t>(m)] == round_) continue;
        visited_[static_cast<std::size_t>(m)] = round_;
        stack.push_back(d);
      }
    }
    return false;
  }

  [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const {
    const SourceLocation where = file_ == nullptr ? SourceLocation{} : file_->locate(schedule_.at(at_).offset);
    throw UserError(where, fmt::format("{}: {}", name_of(at_), problem), remedy);
  }

  std::string atom_name(int tensor, int atom) {
    return schedule_.tensors[static_cast<std::size_t>(tensor)].name + state(tensor).atoms.region(atom).to_string();
  }

  void check_read(int tensor, int rank, int atom, bool own = false) {
    TensorState& s = state(tensor);
    const std::size_t cell = place(s, rank, atom);
    const int writer = s.writer[cell];
    if (writer == kNobody)
      fail(fmt::format("it reads {}, which rank {} does not hold by then", atom_name(tensor, atom), rank),
           "send it there first, and depend on that operator");
    const auto arrived = [&](int other) {
      if (other < 0 || is_before(other)) return;
      const Dependency d = named(other);
      fail(fmt::format("it reads {} on rank {} without waiting for its arrival", atom_name(tensor, atom), rank),
           fmt::format("add the dependency [{}, {}]", d.rank, d.index));
    };
    arrived(writer);
    if (!s.partial) return;
    if (!own)
      for (const int adder : s.adders[cell]) arrived(adder);
    (own ? s.own_readers : s.readers)[cell].push_back(number(at_));
  }

  /// Puts a value that nobody may have put there before.
  void write_once(int tensor, int rank, int atom) {
    int& writer = state(tensor).writer[place(state(tensor), rank, atom)];
    if (writer != kNobody)
      fail(fmt::format("it sends {} to rank {}, {}", atom_name(tensor, atom), rank,
                       writer == kCaller ? "which holds it from the start"
                                         : fmt::format("where {} puts it too", name_of(named(writer)))),
           "send every element once");
    writer = number(at_);
  }

  /// Puts a partial sum in place of another, or adds it. Everyone who read the old one must have finished, and who
  /// wrote it; sums that are added may come in any order, for the order of addition is that of the ranks.
  void write_sum(int tensor, int rank, int atom, std::vector<int> contribution, bool add) {
    TensorState& s = state(tensor);
    const std::size_t cell = place(s, rank, atom);
    const auto finished = [&](int other) {
      if (other >= 0 && other != number(at_) && !is_before(other))
        fail(fmt::format("it writes {} on rank {} while {} may be using it", atom_name(tensor, atom), rank,
                         name_of(named(other))),
             "add a dependency between the two");
    };
    finished(s.writer[cell]);
    for (const int reader : s.readers[cell]) finished(reader);
    if (add) {
      std::vector<int> sum;
      std::set_union(contribution.begin(), contribution.end(), s.contributors[cell].begin(), s.contributors[cell].end(),
                     std::back_inserter(sum));
      if (sum.size() < contribution.size() + s.contributors[cell].size())
        fail(fmt::format("it adds to {} on rank {} summands that are in it already", atom_name(tensor, atom), rank),
             "add every summand once");
      if (s.adders[cell].empty()) s.own[cell] = std::move(s.contributors[cell]);
      s.contributors[cell] = std::move(sum);
      s.adders[cell].push_back(number(at_));
      return;
    }
    for (const int adder : s.adders[cell]) finished(adder);
    for (const int reader : s.own_readers[cell]) finished(reader);
    s.contributors[cell] = std::move(contribution);
    s.adders[cell].clear();
    s.readers[cell].clear();
    s.own_readers[cell].clear();
    s.writer[cell] = number(at_);
  }

  std::string chunk_name(int index) const {
    const Chunk& chunk = schedule_.chunks[static_cast<std::size_t>(index)];
    return schedule_.tensors[static_cast<std::size_t>(chunk.tensor)].name + chunk.region.to_string();
  }

  void transfer(const P2P& p2p) {
    const Chunk& source = schedule_.chunks[static_cast<std::size_t>(p2p.source_chunk)];
    const Chunk& destination = schedule_.chunks[static_cast<std::size_t>(p2p.destination_chunk)];
    if (!(source == destination))
      fail(fmt::format("it moves {} to another place, {}", chunk_name(p2p.source_chunk),
                       chunk_name(p2p.destination_chunk)),
           "a chunk is a block of the global tensor: source and destination name the same block");
    TensorState& s = state(source.tensor);
    const bool reduce = p2p.reduction == Reduction::sum;
    if (reduce && !s.partial)
      fail("it reduces a tensor that is not partial", "drop the reduction, or place the tensor as partial(sum)");
    for (const int atom : chunk_atoms_[static_cast<std::size_t>(p2p.source_chunk)]) {
      check_read(source.tensor, p2p.source_rank, atom, p2p.own);
      const std::size_t cell = place(s, p2p.source_rank, atom);
      if (s.partial)
        write_sum(source.tensor, p2p.destination_rank, atom,
                  p2p.own && !s.adders[cell].empty() ? s.own[cell] : s.contributors[cell], reduce);
      else
        write_once(source.tensor, p2p.destination_rank, atom);
    }
  }

  void collective(const Collective& c) {
    const int tensor = schedule_.chunks[static_cast<std::size_t>(c.source_chunks.front())].tensor;
    TensorState& s = state(tensor);
    const bool reduces = c.type == CollectiveType::reduce_scatter || c.type == CollectiveType::all_reduce;
    if (reduces && !s.partial)
      fail("it reduces a tensor that is not partial", "gather it, or place the tensor as partial(sum)");
    const std::map<int, std::vector<int>> values = collective_values(c, tensor, reduces);
    for (std::size_t i = 0; i < c.ranks.size(); ++i) {
      const std::vector<int>& own = chunk_atoms_[static_cast<std::size_t>(c.source_chunks[i])];
      for (const int atom : chunk_atoms_[static_cast<std::size_t>(c.destination_chunks[i])]) {
        const auto value = values.find(atom);
        if (value == values.end())
          fail(fmt::format("no source chunk of the collective holds {}", atom_name(tensor, atom)),
               "list one that does");
        // Without a reduction, what a rank contributes itself is in place already.
        const bool in_place = !reduces && std::binary_search(own.begin(), own.end(), atom) &&
                              (c.type != CollectiveType::broadcast || i == 0);
        if (in_place) continue;
        if (s.partial)
          write_sum(tensor, c.ranks[i], atom, value->second, false);
        else
          write_once(tensor, c.ranks[i], atom);
      }
    }
  }

  /// For every atom of the collective's source chunks, the contributors of the value it hands out: the sum over all
  /// sources, or the one source that has it.
  std::map<int, std::vector<int>> collective_values(const Collective& c, int tensor, bool reduces) {
    TensorState& s = state(tensor);
    std::map<int, std::vector<int>> values;
    const std::size_t sources = c.type == CollectiveType::broadcast ? 1 : c.ranks.size();
    for (std::size_t j = 0; j < sources; ++j)
      for (const int atom : chunk_atoms_[static_cast<std::size_t>(c.source_chunks[j])]) {
        const auto [value, is_new] = values.try_emplace(atom);
        if (!is_new && !reduces)
          fail(fmt::format("two of its source chunks hold {}", atom_name(tensor, atom)),
               "without a reduction the source chunks are disjoint");
        check_read(tensor, c.ranks[j], atom);
        if (!s.partial) continue;
        const std::vector<int>& more = s.contributors[place(s, c.ranks[j], atom)];
        std::vector<int> sum;
        std::set_union(value->second.begin(), value->second.end(), more.begin(), more.end(), std::back_inserter(sum));
        if (sum.size() < value->second.size() + more.size())
          fail(fmt::format("it counts a summand of {} twice", atom_name(tensor, atom)), "add every summand once");
        value->second = std::move(sum);
      }
    return values;
  }

  const Schedule& schedule_;
  const SourceFile* file_;
  std::vector<std::size_t> first_;
  std::vector<TensorState> states_;
  std::vector<std::vector<int>> chunk_atoms_;
  std::vector<Dependency> order_;
  Dependency at_;
  std::vector<std::uint32_t> position_;  ///< of each operator in order_
  std::vector<std::uint32_t> visited_;   ///< the search that saw an operator last
  std::uint32_t round_ = 0;
  Chains chains_{0};
};

}  // namespace

namespace {

bool agree(const Holding& a, const Holding& b) { return a.held == b.held && a.contributors == b.contributors; }

/// Joins the last holdings of a list while they say the same and make a box.
void merge_last(std::vector<Holding>& list) {
  while (list.size() > 1 && agree(list[list.size() - 2], list.back())) {
    std::vector<Region> both = {list[list.size() - 2].region};
    append_merged(both, list.back().region);
    if (both.size() > 1) return;
    list.pop_back();
    list.back().region = both.front();
  }
}

}  // namespace

Meaning meaning(const Schedule& schedule, const SourceFile* file) {
  SymbolicRun run(schedule, file);
  run.run();
  Meaning result;
  for (int t = 0; t < static_cast<int>(schedule.tensors.size()); ++t) {
    const TensorState& s = run.state(t);
    auto& per_rank = result.holdings.emplace_back(static_cast<std::size_t>(schedule.ranks()));
    for (int rank = 0; rank < schedule.ranks(); ++rank)
      for (int atom = 0; atom < static_cast<int>(s.atoms.count()); ++atom) {
        const std::size_t cell = run.place(s, rank, atom);
        auto& list = per_rank[static_cast<std::size_t>(rank)];
        list.push_back(
            {s.atoms.region(atom), s.writer[cell] != kNobody, s.partial ? s.contributors[cell] : std::vector<int>{}});
        merge_last(list);
      }
  }
  return result;
}

void check_meaning(const Schedule& schedule, const SourceFile* file) {
  SymbolicRun run(schedule, file);
  run.run();
  for (int t = 0; t < static_cast<int>(schedule.tensors.size()); ++t) {
    const LogicalTensor& tensor = schedule.tensors[static_cast<std::size_t>(t)];
    const TensorState& s = run.state(t);
    const bool whole_sum = s.partial && tensor.after.kind != Placement::Kind::partial_sum;
    const auto fail = [&](const std::string& problem) {
      throw UserError(file == nullptr ? SourceLocation{} : SourceLocation{file->name()}, problem,
                      fmt::format("after the schedule '{}' must be {}", tensor.name, tensor.after.to_string()));
    };
    for (int rank = 0; rank < schedule.ranks(); ++rank)
      for (const int atom : s.atoms.of(tensor.after, tensor.shape, schedule.ranks(), rank)) {
        const std::size_t cell = run.place(s, rank, atom);
        if (s.writer[cell] == kNobody)
          fail(fmt::format("rank {} never receives {}{}", rank, tensor.name, s.atoms.region(atom).to_string()));
        if (whole_sum && s.contributors[cell].size() != static_cast<std::size_t>(schedule.ranks()))
          fail(fmt::format("rank {} holds {}{} with the summands of ranks {} only", rank, tensor.name,
                           s.atoms.region(atom).to_string(), fmt::join(s.contributors[cell], ", ")));
      }
  }
}

}  // namespace syncopate
