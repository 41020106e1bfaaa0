// Plans with a reduced output, carried out on symbols: every element holds the text of the sum that it is, and the
// launch it belongs to. Ranks run several launches without a common clock, in many random interleavings, and every
// output must be the sum that Plan::sums promises, of that launch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "syncopate/kernel/tile_kernel.h"
#include "syncopate/plan/compile.h"
#include "syncopate/plan/random.h"
#include "syncopate/plan/references.h"

namespace syncopate {
namespace {

/// The summand of a rank in a row, in a launch.
std::string summand(int rank, std::int64_t row, int launch) { return fmt::format("{}[{}]@{}", rank, row, launch); }

std::string text_of(const SumOrder& order, std::int64_t row, int launch) {
  if (order.terms.empty()) return summand(order.rank, row, launch);
  std::string text = "(";
  for (const SumOrder& term : order.terms) text += text_of(term, row, launch) + "+";
  text.back() = ')';
  return text;
}

/// Runs a plan whose tiles take whole cells of the reduced tensor: a cell is a row of one block of `block_columns`
/// columns. Of gathered tensors a cell is a row.
class SymbolicRun {
 public:
  SymbolicRun(const Plan& plan, std::int64_t block_columns, std::uint64_t seed, int launches)
      : plan_(plan),
        block_(block_columns),
        reduced_(reduced_buffer(plan)),
        staging_(staging_buffer(plan)),
        launches_(launches),
        random_(seed) {
    blocks_ = (plan.buffer(reduced_).shape[1] + block_ - 1) / block_;
    values_.assign(plan.signals.size(), 0);
    for (int rank = 0; rank < plan.ranks; ++rank) {
      Rank state;
      for (int buffer = 0; buffer < static_cast<int>(plan.buffers.size()); ++buffer)
        state.memory[buffer].assign(static_cast<std::size_t>(plan.buffer(buffer).shape[0] * blocks_of(buffer)),
                                    "nothing");
      ranks_.push_back(std::move(state));
      begin_launch(rank);
    }
  }

  /// The first problem, or "". In half of the runs one agent takes a step only when nobody else can.
  std::string run() {
    const bool any_delayed = random_.next() % 2 == 0;
    const std::pair<int, std::size_t> delayed = {static_cast<int>(random_.next() % at(plan_.ranks)),
                                                 random_.next() % ranks_[0].agents.size()};
    for (;;) {
      const bool persistent = random_.next() % 2 == 0;
      std::vector<std::pair<int, std::size_t>> ready;
      bool over = true;
      for (int rank = 0; rank < plan_.ranks; ++rank) {
        over = over && ranks_[at(rank)].launch > launches_;
        for (std::size_t agent = 0; agent < ranks_[at(rank)].agents.size(); ++agent)
          if (may_step(rank, agent)) ready.push_back({rank, agent});
      }
      if (ready.empty()) return over ? problem_ : problem_.empty() ? "stuck" : problem_;
      if (any_delayed && ready.size() > 1) std::erase(ready, delayed);
      const std::pair<int, std::size_t> chosen = ready[random_.next() % ready.size()];
      const bool alone = any_delayed && chosen == delayed;
      for (int steps = persistent && !alone ? 50 : 1; steps > 0 && may_step(chosen.first, chosen.second); --steps)
        step(chosen.first, chosen.second);
      if (!problem_.empty()) return problem_;
    }
  }

 private:
  /// A worker, a queue, or the caller (the last agent of its rank).
  struct Agent {
    int worker = -1;
    int queue = -1;
    std::size_t position = 0;
    int stage = 0;
    std::vector<int> owed;  ///< signals of its last slot, which it may raise later
  };
  struct Rank {
    int launch = 1;
    std::map<int, std::vector<std::string>> memory;  ///< by buffer
    std::vector<Agent> agents;
  };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  const RankProgram& program(int rank) const { return plan_.programs[at(rank)]; }

  std::int64_t blocks_of(int buffer) const { return buffer == reduced_ || buffer == staging_ ? blocks_ : 1; }

  static std::string input(std::int64_t row, int launch) { return fmt::format("in[{}]@{}", row, launch); }

  void begin_launch(int rank) {
    Rank& state = ranks_[at(rank)];
    state.agents.clear();
    if (state.launch > launches_) return;
    for (int buffer = 0; buffer < static_cast<int>(plan_.buffers.size()); ++buffer) {
      for (const Region& held : held_boxes(plan_.buffer(buffer), rank))
        for (std::int64_t row = held[0].begin; row < held[0].end; ++row)
          cell(rank, buffer, row, 0) = input(row, state.launch);
    }
    raise(program(rank).start_signals);
    for (int w = 0; w < plan_.workers; ++w) {
      Agent agent;
      agent.worker = w;
      agent.position = at(w);
      state.agents.push_back(agent);
    }
    for (std::size_t q = 0; q < program(rank).queues.size(); ++q) {
      Agent agent;
      agent.queue = static_cast<int>(q);
      state.agents.push_back(agent);
    }
    state.agents.emplace_back();
  }

  void raise(const std::vector<int>& signals) {
    for (const int signal : signals) ++values_[at(signal)];
  }

  bool satisfied(const std::vector<Wait>& waits, int rank) const {
    return std::all_of(waits.begin(), waits.end(), [&](const Wait& wait) {
      const std::int64_t target =
          plan_.signals[at(wait.signal)].per_launch * (ranks_[at(rank)].launch - 1) + wait.threshold;
      return values_[at(wait.signal)] >= target;
    });
  }

  bool is_done(int rank, const Agent& agent) const {
    if (agent.worker >= 0) return agent.position >= program(rank).slots.size() && agent.owed.empty();
    return agent.position >= program(rank).queues[at(agent.queue)].transfers.size();
  }

  bool may_step(int rank, std::size_t index) const {
    const Rank& state = ranks_[at(rank)];
    if (state.launch > launches_) return false;
    const Agent& agent = state.agents[index];
    if (agent.worker < 0 && agent.queue < 0) {
      for (const Agent& other : state.agents)
        if ((other.worker >= 0 || other.queue >= 0) && !is_done(rank, other)) return false;
      return satisfied(program(rank).completion_waits, rank);
    }
    if (is_done(rank, agent)) return false;
    if (agent.worker >= 0) {
      if (!agent.owed.empty()) return true;
      const Slot& slot = program(rank).slots[agent.position];
      return satisfied(agent.stage == 0 ? slot.waits : slot.sum_waits, rank);
    }
    return satisfied(program(rank).queues[at(agent.queue)].transfers[agent.position].waits, rank);
  }

  void step(int rank, std::size_t index) {
    Agent& agent = ranks_[at(rank)].agents[index];
    if (agent.worker < 0 && agent.queue < 0) {
      check_output(rank);
      raise(program(rank).completion_signals);
      ++ranks_[at(rank)].launch;
      begin_launch(rank);
    } else if (agent.worker >= 0) {
      step_worker(rank, agent);
    } else {
      step_queue(rank, agent);
    }
  }

  void step_worker(int rank, Agent& agent) {
    if (!agent.owed.empty()) {
      raise(agent.owed);
      agent.owed.clear();
      return;
    }
    const Slot& slot = program(rank).slots[agent.position];
    check_reads(rank, slot);
    if (agent.stage == 0) {
      agent.stage = 1;
      return;
    }
    compute(rank, slot);
    agent.owed = slot.signals;
    agent.stage = 0;
    agent.position += at(plan_.workers);
  }

  void check_reads(int rank, const Slot& slot) {
    for (const TileAccess& access : plan_.tiles[at(slot.tile)].reads)
      for (std::int64_t row = access.region[0].begin; row < access.region[0].end; ++row)
        if (const std::string& found = cell(rank, access.buffer, row, 0);
            found != input(row, ranks_[at(rank)].launch) && problem_.empty())
          problem_ =
              fmt::format("rank {} reads {} instead of row {} of launch {}", rank, found, row, ranks_[at(rank)].launch);
  }

  std::string& cell(int rank, int buffer, std::int64_t row, std::int64_t block) {
    return ranks_[at(rank)].memory[buffer][static_cast<std::size_t>(row * blocks_of(buffer) + block)];
  }

  void compute(int rank, const Slot& slot) {
    const int launch = ranks_[at(rank)].launch;
    for (const TileAccess& access : plan_.tiles[at(slot.tile)].writes) {
      if (access.buffer != reduced_) continue;
      for (std::int64_t row = access.region[0].begin; row < access.region[0].end; ++row) {
        if (slot.kept.dimensions() > 0 && (row < slot.kept[0].begin || row >= slot.kept[0].end)) continue;
        const std::int64_t block = access.region[1].begin / block_;
        std::string sum = "(";
        int added = 0;
        const std::string own = summand(rank, row, launch);
        for (std::size_t i = 0; i <= slot.addends.size(); ++i) {
          if (static_cast<int>(i) == slot.own_place) sum += own + "+";
          if (i == slot.addends.size()) break;
          const Addend& addend = slot.addends[i];
          if (row < addend.target[0].begin || row >= addend.target[0].end) continue;
          sum += cell(rank, staging_, addend.source[0].begin + row - addend.target[0].begin, block) + "+";
          ++added;
        }
        sum.back() = ')';
        cell(rank, reduced_, row, block) = added == 0 ? own : sum;
      }
    }
  }

  void step_queue(int rank, Agent& agent) {
    const Transfer& transfer = program(rank).queues[at(agent.queue)].transfers[agent.position];
    for (std::int64_t i = 0; i < transfer.source.region[0].size(); ++i)
      for (std::int64_t block = 0; block < blocks_of(transfer.source.buffer); ++block)
        cell(transfer.destination.rank, transfer.destination.buffer, transfer.destination.region[0].begin + i, block) =
            cell(transfer.source.rank, transfer.source.buffer, transfer.source.region[0].begin + i, block);
    raise(transfer.signals);
    ++agent.position;
  }

  void check_output(int rank) {
    std::int64_t rows = 0;
    for (const Sum& sum : plan_.sums) {
      if (sum.rank != rank) continue;
      for (std::int64_t row = sum.region[0].begin; row < sum.region[0].end; ++row, ++rows) {
        const std::string expected = text_of(sum.order, row, ranks_[at(rank)].launch);
        for (std::int64_t block = 0; block < blocks_; ++block)
          if (const std::string& found = cell(rank, reduced_, row, block); found != expected && problem_.empty())
            problem_ = fmt::format("rank {}, row {}: {} instead of {}", rank, row, found, expected);
      }
    }
    if (rows != output_region(plan_, reduced_, rank)[0].size()) problem_ = "the sums do not cover the output";
  }

  const Plan& plan_;
  std::int64_t block_;
  std::int64_t blocks_ = 0;
  int reduced_;
  int staging_;
  int launches_;
  Random random_;
  std::vector<std::int64_t> values_;  ///< of each signal
  std::vector<Rank> ranks_;
  std::string problem_;
};

Plan compiled(const std::vector<Override>& overrides) {
  const OperatorStatement statement = read_operator(SYNCOPATE_SOURCE_DIR "/operators/gemm_rs_pointers.toml", overrides);
  return compile_plan(statement, TileKernel::read(statement.kernel_file, statement.kernel_function));
}

/// Whether two transfers of a launch land in the same memory.
bool reuses_staging(const Plan& plan) {
  std::map<int, std::vector<Region>> landed;
  for (const RankProgram& program : plan.programs)
    for (const Queue& queue : program.queues)
      for (const Transfer& transfer : queue.transfers) {
        std::vector<Region>& regions = landed[transfer.destination.rank];
        for (const Region& other : regions)
          if (other.overlaps(transfer.destination.region)) return true;
        regions.push_back(transfer.destination.region);
      }
  return false;
}

struct Family {
  const char* algorithm;
  const char* initiator;
};

class ProducerRun : public ::testing::TestWithParam<Family> {
 protected:
  static std::vector<Override> overrides(int ranks, int rows, int split, int workers) {
    return {{"ranks", std::to_string(ranks)},
            {"kernel.args.M", std::to_string(rows)},
            {"kernel.args.N", "40"},
            {"kernel.args.K", "16"},
            {"kernel.args.BLOCK_M", "16"},
            {"kernel.args.BLOCK_N", "32"},
            {"kernel.args.BLOCK_K", "16"},
            {"kernel.args.GROUP_M", "2"},
            {"launch.workers", std::to_string(workers)},
            {"communicate.c.algorithm", GetParam().algorithm},
            {"communicate.c.initiator", GetParam().initiator},
            {"communicate.c.split", std::to_string(split)}};
  }
};

TEST_P(ProducerRun, EveryOutputIsTheSumOfItsLaunch) {
  Random random(7);
  int cut = 0;
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8})
    for (const int rows : {32, 61, 80, 100, 128}) {
      const int largest = (rows + ranks - 1) / ranks;
      for (const int split : {1, 2, 3, 5}) {
        if (split > largest) continue;
        const Plan plan = compiled(overrides(ranks, rows, split, 1 + static_cast<int>(random.next() % 6)));
        ASSERT_EQ(broken_reference(plan), std::nullopt);
        cut += cuts_tiles(plan) ? 1 : 0;
        for (int seed = 0; seed < 3; ++seed)
          ASSERT_EQ(SymbolicRun(plan, 32, random.next(), 3).run(), "")
              << ranks << " ranks " << rows << " rows split " << split;
      }
    }
  EXPECT_GT(cut, 20);
}

TEST_P(ProducerRun, StagingMayBeUsedSeveralTimesInALaunch) {
  Random random(11);
  int reused = 0;
  for (const int ranks : {2, 3, 4, 6})
    for (const int rows : {64, 100, 192})
      for (const int split : {2, 4, 6})
        for (const int places : {1, 2, 3}) {
          const std::int64_t shard = (rows + ranks - 1) / ranks;
          const std::int64_t chunk = (shard + split - 1) / split * 40 * 2;
          const bool direct = GetParam().algorithm == std::string("direct");
          const bool ring = GetParam().algorithm == std::string("ring");
          const std::int64_t sources = direct ? ranks - 1 : ring || ranks == 2 ? 1 : 2;
          std::vector<Override> all = overrides(ranks, rows, split, 1 + static_cast<int>(random.next() % 6));
          all.push_back({"communicate.c.memory_budget", std::to_string(sources * places * chunk)});
          const Plan plan = compiled(all);
          EXPECT_LE(extra_memory(plan).staging, sources * places * chunk);
          reused += reuses_staging(plan) ? 1 : 0;
          for (int seed = 0; seed < 3; ++seed)
            ASSERT_EQ(SymbolicRun(plan, 32, random.next(), 3).run(), "")
                << ranks << " ranks " << rows << " rows split " << split << " places " << places;
        }
  EXPECT_GT(reused, 20);
}

TEST_P(ProducerRun, AGatheredInputBesideAReducedOutput) {
  Random random(5);
  for (const int ranks : {2, 3, 5})
    for (const char* gather : {"direct", "ring"}) {
      std::vector<Override> all = overrides(ranks, 90, 2, 4);
      for (const Override& more : std::vector<Override>{{"tensors.a.before", "\"shard(0)\""},
                                                        {"tensors.a.inside", "replicate"},
                                                        {"communicate.a.algorithm", gather},
                                                        {"communicate.a.initiator", GetParam().initiator},
                                                        {"communicate.a.split", "2"}})
        all.push_back(more);
      const Plan plan = compiled(all);
      ASSERT_EQ(broken_reference(plan), std::nullopt);
      int waits = 0;
      int sum_waits = 0;
      for (const RankProgram& program : plan.programs)
        for (const Slot& slot : program.slots) {
          waits += static_cast<int>(slot.waits.size());
          sum_waits += static_cast<int>(slot.sum_waits.size());
        }
      EXPECT_GT(waits, 0);
      EXPECT_GT(sum_waits, 0);
      for (int seed = 0; seed < 20; ++seed) ASSERT_EQ(SymbolicRun(plan, 32, random.next(), 3).run(), "") << gather;
    }
}

/// Calls `visit(waits)` for every list of waits in the plan.
template <typename Visitor>
void for_each_wait_list(Plan& plan, Visitor&& visit) {
  for (RankProgram& program : plan.programs) {
    for (Queue& queue : program.queues)
      for (Transfer& transfer : queue.transfers) visit(transfer.waits);
    for (Slot& slot : program.slots) {
      visit(slot.waits);
      visit(slot.sum_waits);
    }
    visit(program.completion_waits);
  }
}

bool fails_sometimes(const Plan& plan, int runs) {
  for (int seed = 0; seed < runs; ++seed)
    if (!SymbolicRun(plan, 32, static_cast<std::uint64_t>(seed), 3).run().empty()) return true;
  return false;
}

TEST_P(ProducerRun, EveryWaitIsNeeded) {
  for (const bool budget : {false, true}) {
    std::vector<Override> all = overrides(3, 100, 3, 3);
    if (budget) all.push_back({"communicate.c.memory_budget", std::to_string(4 * 12 * 40 * 2)});
    const Plan plan = compiled(all);
    ASSERT_EQ(budget, reuses_staging(plan));
    ASSERT_FALSE(fails_sometimes(plan, 20));
    std::vector<std::pair<int, int>> places;  // list, wait
    Plan copy = plan;
    int lists = 0;
    for_each_wait_list(copy, [&](std::vector<Wait>& waits) {
      for (int w = 0; w < static_cast<int>(waits.size()); ++w) places.emplace_back(lists, w);
      ++lists;
    });
    EXPECT_GT(places.size(), 20U);
    for (const auto& [list, wait] : places) {
      Plan mutant = plan;
      int number = 0;
      for_each_wait_list(mutant, [&](std::vector<Wait>& waits) {
        if (number++ == list) waits.erase(waits.begin() + wait);
      });
      EXPECT_TRUE(fails_sometimes(mutant, 3000)) << "without wait " << wait << " of list " << list;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ProducerRun,
                         ::testing::Values(Family{"direct", "push"}, Family{"direct", "pull"}, Family{"ring", "push"},
                                           Family{"ring", "pull"}, Family{"bidirectional_ring", "push"},
                                           Family{"bidirectional_ring", "pull"}),
                         [](const auto& family) {
                           return fmt::format("{}_{}", family.param.algorithm, family.param.initiator);
                         });

}  // namespace
}  // namespace syncopate
