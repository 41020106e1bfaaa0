#include "syncopate/schedule/meaning.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace syncopate {

namespace {

/// The boxes of one tensor that no chunk border and no shard border cuts: cells of the grid of all borders.
class Atoms {
 public:
  Atoms(const Schedule& schedule, int tensor) {
    const LogicalTensor& t = schedule.tensors[static_cast<std::size_t>(tensor)];
    dimensions_ = static_cast<int>(t.shape.size());
    std::vector<std::set<std::int64_t>> borders(t.shape.size());
    const auto add = [&](const Region& region) {
      for (int d = 0; d < dimensions_; ++d)
        if (!region.empty()) borders[static_cast<std::size_t>(d)].insert({region[d].begin, region[d].end});
    };
    add(Region::whole(t.shape));
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      add(held_region(t.before, t.shape, schedule.ranks(), rank));
      add(held_region(t.after, t.shape, schedule.ranks(), rank));
    }
    for (const Chunk& chunk : schedule.chunks)
      if (chunk.tensor == tensor) add(chunk.region);
    for (const auto& list : borders) borders_.emplace_back(list.begin(), list.end());
    for (const auto& list : borders_) count_ *= list.size() - 1;
  }

  std::size_t count() const { return count_; }

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

/// State of one tensor on all ranks.
struct TensorState {
  explicit TensorState(Atoms a) : atoms(std::move(a)) {}
  Atoms atoms;
  bool partial = false;
  std::vector<int> writer;  ///< [rank * atoms + atom]
  /// Only for partial tensors, at the same places: whose summands are in the atom, and every operator that touched it.
  std::vector<std::vector<int>> contributors;
  std::vector<std::vector<int>> touched;
};

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
  }

  void run() {
    order_ = topological_order(schedule_);
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
    TensorState s{Atoms(schedule_, tensor)};
    const std::size_t cells = s.atoms.count() * static_cast<std::size_t>(schedule_.ranks());
    s.partial = t.before.kind == Placement::Kind::partial_sum;
    s.writer.assign(cells, kNobody);
    if (s.partial) {
      s.contributors.resize(cells);
      s.touched.resize(cells);
    }
    for (int rank = 0; rank < schedule_.ranks(); ++rank)
      for (const int atom : s.atoms.of(held_region(t.before, t.shape, schedule_.ranks(), rank))) {
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
    for (const Dependency& d : schedule_.at(at_).dependencies)
      if (number(d) == n) return true;
    ++round_;
    std::vector<Dependency> stack = {at_};
    while (!stack.empty()) {
      const Dependency top = stack.back();
      stack.pop_back();
      for (const Dependency& d : schedule_.at(top).dependencies) {
        const int m = number(d);
        if (m == n) return true;
        if (visited_[static_cast<std::size_t>(m)] == round_) continue;
        visited_[static_cast<std::size_t>(m)] = round_;
        stack.push_back(d);
      }
    }
    return false;
  }

  [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const {
    const SourceLocation where = file_ == nullptr ? SourceLocation{} : file_->locate(schedule_.at(at_).offset);
    throw UserError(where, fmt::format("rank {} operator {}: {}", at_.rank, at_.index, problem), remedy);
  }

  std::string atom_name(int tensor, int atom) {
    return schedule_.tensors[static_cast<std::size_t>(tensor)].name + state(tensor).atoms.region(atom).to_string();
  }

  void check_read(int tensor, int rank, int atom) {
    TensorState& s = state(tensor);
    const std::size_t cell = place(s, rank, atom);
    const int writer = s.writer[cell];
    if (writer == kNobody)
      fail(fmt::format("it reads {}, which rank {} does not hold by then", atom_name(tensor, atom), rank),
           "send it there first, and depend on that operator");
    if (writer >= 0 && !is_before(writer)) {
      const Dependency d = named(writer);
      fail(fmt::format("it reads {} on rank {} without waiting for its arrival", atom_name(tensor, atom), rank),
           fmt::format("add the dependency [{}, {}]", d.rank, d.index));
    }
    if (s.partial) {
      for (const int other : s.touched[cell])
        if (other >= 0 && !is_before(other) && other != number(at_)) {
          const Dependency d = named(other);
          fail(fmt::format("it reads {} on rank {} while rank {} operator {} may be adding to it",
                           atom_name(tensor, atom), rank, d.rank, d.index),
               "add a dependency between the two");
        }
      s.touched[cell].push_back(number(at_));
    }
  }

  void write(int tensor, int rank, int atom, bool reduce, const std::vector<int>* contribution) {
    TensorState& s = state(tensor);
    const std::size_t cell = place(s, rank, atom);
    if (!s.partial) {
      if (s.writer[cell] != kNobody) {
        const std::string before = s.writer[cell] == kCaller
                                       ? "which holds it from the start"
                                       : fmt::format("where rank {} operator {} puts it too",
                                                     named(s.writer[cell]).rank, named(s.writer[cell]).index);
        fail(fmt::format("it sends {} to rank {}, {}", atom_name(tensor, atom), rank, before),
             "send every element once");
      }
    } else {
      for (const int other : s.touched[cell])
        if (other != number(at_) && !is_before(other)) {
          const Dependency d = named(other);
          fail(fmt::format("it writes {} on rank {} while rank {} operator {} may be using it", atom_name(tensor, atom),
                           rank, d.rank, d.index),
               "add a dependency between the two");
        }
      s.touched[cell].push_back(number(at_));
      std::vector<int> sum = *contribution;
      if (reduce) {
        for (const int c : s.contributors[cell])
          if (std::binary_search(sum.begin(), sum.end(), c))
            fail(
                fmt::format("it adds {} of rank {} to rank {}, which has it already", atom_name(tensor, atom), c, rank),
                "add every summand once");
        sum.insert(sum.end(), s.contributors[cell].begin(), s.contributors[cell].end());
        std::sort(sum.begin(), sum.end());
      }
      s.contributors[cell] = std::move(sum);
    }
    s.writer[cell] = number(at_);
  }

  void transfer(const P2P& p2p) {
    const Chunk& source = schedule_.chunks[static_cast<std::size_t>(p2p.source_chunk)];
    const Chunk& destination = schedule_.chunks[static_cast<std::size_t>(p2p.destination_chunk)];
    if (!(source == destination))
      fail(fmt::format("it moves {} to another place, {}", source.region.to_string(), destination.region.to_string()),
           "a chunk is a block of the global tensor: source and destination name the same block");
    const bool reduce = p2p.reduction == Reduction::sum;
    if (reduce && !state(source.tensor).partial)
      fail("it reduces a tensor that is not partial", "drop the reduction, or place the tensor as partial(sum)");
    for (const int atom : chunk_atoms_[static_cast<std::size_t>(p2p.source_chunk)]) {
      check_read(source.tensor, p2p.source_rank, atom);
      TensorState& s = state(source.tensor);
      const std::vector<int>* contribution = s.partial ? &s.contributors[place(s, p2p.source_rank, atom)] : nullptr;
      const std::vector<int> copy = contribution == nullptr ? std::vector<int>{} : *contribution;
      write(source.tensor, p2p.destination_rank, atom, reduce, &copy);
    }
  }

  /// What one atom is after the collective: the source chunk that holds it, or the sum over all that do.
  void collective(const Collective& c) {
    const bool reduces = c.type == CollectiveType::reduce_scatter || c.type == CollectiveType::all_reduce;
    const std::size_t sources = c.type == CollectiveType::broadcast ? 1 : c.ranks.size();
    struct Landing {
      int tensor;
      int rank;
      int atom;
      std::vector<int> contributors;
    };
    std::vector<Landing> landings;
    for (std::size_t i = 0; i < c.ranks.size(); ++i) {
      const int tensor = schedule_.chunks[static_cast<std::size_t>(c.destination_chunks[i])].tensor;
      TensorState& s = state(tensor);
      for (const int atom : chunk_atoms_[static_cast<std::size_t>(c.destination_chunks[i])]) {
        Landing landing{tensor, c.ranks[i], atom, {}};
        bool found = false;
        for (std::size_t j = 0; j < sources; ++j) {
          const auto& atoms = chunk_atoms_[static_cast<std::size_t>(c.source_chunks[j])];
          if (schedule_.chunks[static_cast<std::size_t>(c.source_chunks[j])].tensor != tensor ||
              std::find(atoms.begin(), atoms.end(), atom) == atoms.end() || (found && !reduces))
            continue;
          found = true;
          check_read(tensor, c.ranks[j], atom);
          if (!s.partial) continue;
          for (const int contributor : s.contributors[place(s, c.ranks[j], atom)])
            landing.contributors.push_back(contributor);
        }
        if (!found)
          fail(fmt::format("no source chunk of the collective holds {}", atom_name(tensor, atom)),
               "list one that does");
        std::sort(landing.contributors.begin(), landing.contributors.end());
        if (std::adjacent_find(landing.contributors.begin(), landing.contributors.end()) != landing.contributors.end())
          fail(fmt::format("it counts a summand of {} twice", atom_name(tensor, atom)), "add every summand once");
        // What a rank contributes itself is in place already.
        if (s.partial || s.writer[place(s, c.ranks[i], atom)] == kNobody) landings.push_back(std::move(landing));
      }
    }
    for (const Landing& landing : landings)
      write(landing.tensor, landing.rank, landing.atom, false, &landing.contributors);
  }

  const Schedule& schedule_;
  const SourceFile* file_;
  std::vector<std::size_t> first_;
  std::vector<TensorState> states_;
  std::vector<std::vector<int>> chunk_atoms_;
  std::vector<Dependency> order_;
  Dependency at_;
  std::vector<std::uint32_t> visited_;
  std::uint32_t round_ = 0;
};

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
        Holding holding{s.atoms.region(atom), s.writer[cell] != kNobody,
                        s.partial ? s.contributors[cell] : std::vector<int>{}};
        auto& list = per_rank[static_cast<std::size_t>(rank)];
        if (!list.empty() && list.back().held == holding.held && list.back().contributors == holding.contributors) {
          std::vector<Region> merged = {list.back().region};
          append_merged(merged, holding.region);
          if (merged.size() == 1) {
            list.back().region = merged.front();
            continue;
          }
        }
        list.push_back(std::move(holding));
      }
  }
  return result;
}

void check_meaning(const Schedule& schedule, const SourceFile* file) {
  SymbolicRun run(schedule, file);
  run.run();
  const SourceLocation where = file == nullptr ? SourceLocation{} : SourceLocation{file->name()};
  for (int t = 0; t < static_cast<int>(schedule.tensors.size()); ++t) {
    const LogicalTensor& tensor = schedule.tensors[static_cast<std::size_t>(t)];
    const TensorState& s = run.state(t);
    const bool whole_sum = s.partial && tensor.after.kind != Placement::Kind::partial_sum;
    for (int rank = 0; rank < schedule.ranks(); ++rank)
      for (const int atom : s.atoms.of(held_region(tensor.after, tensor.shape, schedule.ranks(), rank))) {
        const std::size_t cell = run.place(s, rank, atom);
        const std::string name = tensor.name + s.atoms.region(atom).to_string();
        const std::string demand =
            fmt::format("after the schedule '{}' must be {}", tensor.name, tensor.after.to_string());
        if (s.writer[cell] == kNobody)
          throw UserError(where, fmt::format("rank {} never receives {}", rank, name), demand);
        if (whole_sum && s.contributors[cell].size() != static_cast<std::size_t>(schedule.ranks()))
          throw UserError(where,
                          fmt::format("rank {} holds {} with the summands of ranks {} only", rank, name,
                                      fmt::join(s.contributors[cell], ", ")),
                          demand);
      }
  }
}

}  // namespace syncopate
