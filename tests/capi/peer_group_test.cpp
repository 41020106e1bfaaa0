// Ranks that join, fail and part, with a GPU on which launches do what the test says.
#include "syncopate/cuda/peer_group.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "instant_gpu.h"
#include "syncopate/core/error.h"
#include "syncopate/cuda/board.h"
#include "syncopate/cuda/launch_record.h"
#include "syncopate/cuda/peer_handle.h"
#include "syncopate/driver/driver.h"

namespace syncopate::cuda {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

const Plan& plan() {
  static const Plan plan =
      compile_operator(SYNCOPATE_SOURCE_DIR "/operators/ag_gemm.toml", {{"ranks", "2"}, {"kernel.args.M", "256"}});
  return plan;
}

RankOptions options(double time_limit) {
  RankOptions options;
  options.ranks_on_this_gpu = 2;
  options.time_limit = time_limit;
  options.graph = false;
  CompiledKernel kernel;
  kernel.name = "stand_in";
  kernel.warps = 4;
  for (const ParameterType& type : signature_of(plan(), KernelText::fused))
    if (type.type != "constexpr") kernel.parameters.push_back(type.name);
  options.compiled = std::make_shared<const CompiledKernel>(kernel);
  return options;
}

/// A rank with all it stands on, and the stream that calls are made on.
struct Member {
  Member(InstantGpu& machine, int number, double time_limit = 10)
      : gpu(machine.driver(), 0),
        rank(plan(), number, gpu, options(time_limit)),
        group(rank, 2),
        stream(gpu.make_stream(false)) {
    rank.allocate_unbound();
  }
  Gpu gpu;
  RankOnGpu rank;
  PeerGroup group;
  Stream stream;
};

/// Both ranks in this process.
struct Both {
  explicit Both(double time_limit = 10) : first(machine, 0, time_limit), second(machine, 1, time_limit) {
    const std::vector<std::string> handles = {first.group.handle(), second.group.handle()};
    first.group.connect(handles);
    second.group.connect(handles);
  }
  InstantGpu machine;
  Member first;
  Member second;
};

/// Rank 1 is a process that does nothing; this one pretends to be it where that is needed.
struct WithOther {
  explicit WithOther(double time_limit = 10) : first(machine, 0, time_limit), child(::fork()) {
    if (child == 0) {
      for (;;) ::pause();
    }
    PeerHandle other = parse_peer_handle(first.group.handle());
    board.emplace(Board::open(other.board));
    other.rank = 1;
    other.board.clear();
    other.process = child;
    other.process_start = process_start(child);
    first.group.connect({first.group.handle(), to_text(other)});
    board->arrive(1);
  }
  ~WithOther() { kill(); }
  void kill() {
    if (child <= 0) return;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    child = 0;
  }
  InstantGpu machine;
  Member first;
  pid_t child;
  std::optional<Board> board;
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

TEST(PeerGroup, JoinsCallsAndParts) {
  Both both;
  EXPECT_FALSE(std::filesystem::exists("/dev/shm" + parse_peer_handle(both.first.group.handle()).board));
  for (int launch = 0; launch < 2000; ++launch)
    for (Member* member : {&both.first, &both.second})
      ASSERT_EQ(member->group.call(member->stream), std::nullopt) << launch;
  for (Member* member : {&both.first, &both.second}) {
    EXPECT_EQ(member->group.synchronize(), std::nullopt);
    EXPECT_EQ(member->group.failure(), std::nullopt);
    const auto begin = Clock::now();
    member->group.leave();
    EXPECT_LT(seconds_since(begin), 1) << "ranks of one process do not wait for each other";
  }
}

TEST(PeerGroup, AMissedWaitIsToldToAllInTheSameWordsAndTheyAreLetGo) {
  Both both;
  for (Member* member : {&both.first, &both.second}) {
    both.machine.hold(member->stream, member->rank.record());
    ASSERT_EQ(member->group.call(member->stream), std::nullopt);
  }
  both.machine.write_words(both.second.rank.record(), {1, 0, 0, 1, 0, 0, 0, 0});
  const auto begin = Clock::now();
  const auto first = both.first.group.synchronize();
  const auto second = both.second.group.synchronize();
  EXPECT_LT(seconds_since(begin), 1);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first, second);
  EXPECT_THAT(*first, ::testing::StartsWith("rank 1: tile ("));
  EXPECT_THAT(*first, HasSubstr("expected 1, seen 0"));
  for (Member* member : {&both.first, &both.second}) {
    EXPECT_EQ(member->group.call(member->stream), first);
    EXPECT_EQ(member->group.failure(), first);
  }
}

TEST(PeerGroup, ARecordLeftByALaunchThatHasEndedCounts) {
  Both both;
  ASSERT_EQ(both.first.group.call(both.first.stream), std::nullopt);
  both.machine.write_words(both.first.rank.record(), {1, -1, 0, 1, 0, 0, 0, 0});
  const auto told = both.first.group.synchronize();
  ASSERT_TRUE(told.has_value());
  EXPECT_THAT(*told, HasSubstr("rank 0: the completion"));
  EXPECT_EQ(both.second.group.failure(), told);
}

TEST(PeerGroup, NoLaunchIsGoodWhileAnotherRankHasMissedAWait) {
  Both both;
  ASSERT_EQ(both.first.group.call(both.first.stream), std::nullopt);
  ASSERT_EQ(both.first.group.synchronize(), std::nullopt);
  // Rank 1 has no launch under way, so its own look-out sleeps and tells nothing.
  both.machine.write_words(both.second.rank.record(), {1, 0, 0, 1, 0, 0, 0, 0});
  const auto begin = Clock::now();
  EXPECT_EQ(both.first.group.synchronize(), "rank 1 has missed a wait");
  EXPECT_GT(seconds_since(begin), 0.9) << "it may still tell what it was";
  EXPECT_LT(seconds_since(begin), 2);
  EXPECT_EQ(both.second.group.failure(), "rank 1 has missed a wait");
}

TEST(PeerGroup, ARankThatHasMissedAWaitIsWaitedForToTellWhatItWas) {
  Both both;
  for (Member* member : {&both.first, &both.second}) ASSERT_EQ(member->group.call(member->stream), std::nullopt);
  ASSERT_EQ(both.second.group.synchronize(), std::nullopt);
  ::usleep(100000);  // its look-out sleeps
  both.machine.write_words(both.second.rank.record(), {1, 0, 0, 1, 0, 0, 0, 0});
  std::thread late([&] {
    ::usleep(200000);
    both.second.group.failure();
  });
  const auto begin = Clock::now();
  EXPECT_THAT(both.first.group.synchronize().value_or(""), ::testing::StartsWith("rank 1: tile ("));
  EXPECT_LT(seconds_since(begin), 0.9);
  late.join();
}

TEST(PeerGroup, ALaunchThatIsAtWorkForTooLongIsAFailure) {
  Both both(0.01);
  both.machine.hold(both.first.stream, both.first.rank.record());
  ASSERT_EQ(both.first.group.call(both.first.stream), std::nullopt);
  const auto begin = Clock::now();
  const auto told = both.first.group.synchronize();
  ASSERT_TRUE(told.has_value());
  EXPECT_THAT(*told, HasSubstr("rank 0: a launch has been at work for 0."));
  EXPECT_GT(seconds_since(begin), 0.5);
  EXPECT_LT(seconds_since(begin), 1) << "within a second after the limit";
}

TEST(PeerGroup, AfterACapturedCallItLooksOnThoughNoLaunchIsKnown) {
  Both both;
  both.machine.capture(true);
  ASSERT_EQ(both.first.group.call(both.first.stream), std::nullopt);
  both.machine.capture(false);
  both.machine.write_words(both.first.rank.record(), {1, 0, 0, 1, 0, 0, 0, 0});  // of a replay
  const auto begin = Clock::now();
  while (!both.second.group.failure() && seconds_since(begin) < 2) ::usleep(1000);
  EXPECT_LT(seconds_since(begin), 1);
  EXPECT_THAT(both.second.group.failure().value_or(""), HasSubstr("rank 0: tile ("));
}

TEST(PeerGroup, AGpuThatFailsIsToldToAll) {
  Both both;
  both.machine.hold(both.first.stream, both.first.rank.record());
  ASSERT_EQ(both.first.group.call(both.first.stream), std::nullopt);
  both.machine.break_with(700);
  const auto told = both.first.group.synchronize();
  ASSERT_TRUE(told.has_value());
  EXPECT_THAT(*told, HasSubstr("rank 0: the GPU failed while running an operator: CUDA_ERROR_OF_A_TEST"));
  EXPECT_EQ(both.second.group.call(both.second.stream), told);
}

TEST(PeerGroup, ALaunchThatCouldOnlyBeGivenInPartIsToldToAllAndLetGo) {
  Both both;
  both.machine.hold(both.second.stream, both.second.rank.record());
  ASSERT_EQ(both.second.group.call(both.second.stream), std::nullopt) << "it waits for rank 0";
  both.machine.break_launches_with(719);
  const auto told = both.first.group.call(both.first.stream);
  both.machine.break_launches_with(kSuccess);
  ASSERT_TRUE(told.has_value());
  EXPECT_THAT(*told, HasSubstr("rank 0: a launch could be given to its GPU in part only: the GPU failed while "
                               "launching "));
  EXPECT_THAT(*told, HasSubstr("CUDA_ERROR_OF_A_TEST"));
  const auto begin = Clock::now();
  EXPECT_EQ(both.second.group.synchronize(), told);
  EXPECT_EQ(both.first.group.synchronize(), told);
  EXPECT_LT(seconds_since(begin), 1) << "long before the time limit of 10 s";
  for (Member* member : {&both.first, &both.second}) EXPECT_EQ(member->group.call(member->stream), told);
}

TEST(PeerGroup, AMistakeBeforeAnythingIsGivenSpendsNothing) {
  InstantGpu machine;
  Gpu gpu(machine.driver(), 0);
  RankOnGpu rank(plan(), 0, gpu, options(10));
  PeerGroup group(rank, 2);
  Member other(machine, 1);
  const std::vector<std::string> handles = {group.handle(), other.group.handle()};
  group.connect(handles);
  other.group.connect(handles);
  const Stream stream = gpu.make_stream(false);
  EXPECT_THROW(group.call(stream), UserError) << "a tensor without memory";
  EXPECT_EQ(other.group.failure(), std::nullopt);
  rank.allocate_unbound();
  EXPECT_EQ(group.call(stream), std::nullopt);
  EXPECT_EQ(other.group.call(other.stream), std::nullopt);
  EXPECT_EQ(group.synchronize(), std::nullopt);
  EXPECT_EQ(other.group.synchronize(), std::nullopt);
}

TEST(PeerGroup, LeavingWaitsForTheLaunchesOfARankOfTheSameProcess) {
  Both both;
  both.machine.hold(both.second.stream, both.second.rank.record());
  for (Member* member : {&both.first, &both.second}) ASSERT_EQ(member->group.call(member->stream), std::nullopt);
  ASSERT_EQ(both.first.group.synchronize(), std::nullopt);
  std::atomic<bool> left = false;
  std::thread leaving([&] {
    both.first.group.leave();
    left = true;
  });
  ::usleep(300000);
  EXPECT_FALSE(left) << "rank 1 still reads and writes rank 0's memory";
  both.machine.driver()->stream_write_value_64(nullptr, both.second.rank.record(), 0, 0);  // its launch ends
  const auto begin = Clock::now();
  leaving.join();
  EXPECT_LT(seconds_since(begin), 1);
  EXPECT_EQ(both.second.group.synchronize(), std::nullopt);
}

TEST(PeerGroup, LeavingWaitsForACallThatARankOfTheSameProcessHasYetToMake) {
  Both both;
  ASSERT_EQ(both.first.group.call(both.first.stream), std::nullopt);
  std::atomic<bool> left = false;
  std::thread leaving([&] {
    both.first.group.leave();
    left = true;
  });
  ::usleep(300000);
  EXPECT_FALSE(left);
  EXPECT_EQ(both.second.group.call(both.second.stream), std::nullopt) << "as many as rank 0 has made";
  leaving.join();
  EXPECT_EQ(both.second.group.synchronize(), std::nullopt);
  EXPECT_EQ(both.second.group.call(both.second.stream),
            "rank 0 has closed its operator before call 2, which rank 1 makes");
  EXPECT_EQ(both.second.group.failure(), both.second.group.call(both.second.stream));
}

TEST(PeerGroup, WhereCallsWereCapturedTheirNumberMeansNothing) {
  Both both;
  both.machine.capture(true);
  for (Member* member : {&both.first, &both.second}) ASSERT_EQ(member->group.call(member->stream), std::nullopt);
  both.machine.capture(false);
  ASSERT_EQ(both.first.group.call(both.first.stream), std::nullopt);
  const auto begin = Clock::now();
  both.first.group.leave();
  EXPECT_LT(seconds_since(begin), 1) << "rank 1 may have replayed a graph instead";
  for (int call = 0; call < 3; ++call) EXPECT_EQ(both.second.group.call(both.second.stream), std::nullopt);
}

TEST(PeerGroup, AProcessThatDiesEndsTheLaunch) {
  WithOther with;
  with.machine.hold(with.first.stream, with.first.rank.record());
  const pid_t child = with.child;
  ASSERT_EQ(with.first.group.call(with.first.stream), std::nullopt);
  ::usleep(200000);
  EXPECT_EQ(with.first.group.failure(), std::nullopt) << "it is alive";
  with.kill();
  const auto begin = Clock::now();
  const auto told = with.first.group.synchronize();
  EXPECT_LT(seconds_since(begin), 1);
  EXPECT_EQ(told, fmt::format("rank 1: its process ({}) has died", child));
}

TEST(PeerGroup, AFailureThatAnotherProcessTellsOfLetsThisRankGo) {
  WithOther with;
  with.machine.hold(with.first.stream, with.first.rank.record());
  ASSERT_EQ(with.first.group.call(with.first.stream), std::nullopt);
  with.board->fail("rank 1: tile (0, 0) waited in vain");
  EXPECT_EQ(with.first.group.synchronize(), "rank 1: tile (0, 0) waited in vain");
}

TEST(PeerGroup, PartsWhenTheOtherHasLeft) {
  WithOther with;
  EXPECT_EQ(with.machine.opened(), 1);
  with.board->leave(1);
  const auto begin = Clock::now();
  with.first.group.leave();
  EXPECT_LT(seconds_since(begin), 1);
  EXPECT_EQ(with.machine.opened(), 0);
  EXPECT_FALSE(with.board->is_there(0));
}

TEST(PeerGroup, FreesNothingThatAnotherProcessHoldsOnTo) {
  InstantGpu machine;
  {
    auto first = std::make_unique<Member>(machine, 0);
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) ::pause();
    }
    PeerHandle other = parse_peer_handle(first->group.handle());
    Board board = Board::open(other.board);
    other.rank = 1;
    other.board.clear();
    other.process = child;
    other.process_start = process_start(child);
    first->group.connect({first->group.handle(), to_text(other)});
    board.arrive(1);
    board.fail("so that it waits for a second only");
    const auto begin = Clock::now();
    first.reset();
    EXPECT_GT(seconds_since(begin), 0.9);
    EXPECT_LT(seconds_since(begin), 3);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  EXPECT_EQ(machine.freed(), 0);
  EXPECT_EQ(machine.opened(), 0);
}

TEST(PeerGroup, RefusesWhatItCannotReach) {
  InstantGpu machine;
  Member first(machine, 0);
  EXPECT_THROW(first.group.call(first.stream), UserError);
  PeerHandle other = parse_peer_handle(first.group.handle());
  other.rank = 1;
  const auto expect_error = [&](const std::string& part) {
    try {
      first.group.connect({first.group.handle(), to_text(other)});
      ADD_FAILURE() << "no error; expected one with: " << part;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(part));
    }
    EXPECT_EQ(machine.opened(), 0);
  };
  other.process_nonce = "of a process in another container that has the number of this one";
  expect_error("the process of rank 1 cannot be seen from that of rank 0");
  other.process_start = 1;
  other.process = 1 << 30;  // nobody's
  expect_error("the process of rank 1 cannot be seen from that of rank 0");
  other.device.bytes.fill('v');
  expect_error("the GPU of rank 1 is hidden from this process");
}

TEST(LaunchRecord, HasRoomForManyAndNoMore) {
  InstantGpu machine;
  Gpu gpu(machine.driver(), 0);
  LaunchRecord record(gpu);
  const Stream stream = gpu.make_stream(false);
  const DevicePointer let_go = gpu.allocate(64, "a record");
  EXPECT_TRUE(record.all_ended());
  EXPECT_EQ(record.oldest_at_work(), std::nullopt);
  machine.hold(stream, let_go);
  for (int launch = 0; launch < 1024; ++launch) {
    ASSERT_TRUE(record.begin(stream)) << launch;
    record.end(stream);
  }
  EXPECT_FALSE(record.begin(stream));
  EXPECT_FALSE(record.all_ended());
  EXPECT_TRUE(record.oldest_at_work().has_value());
  gpu.driver().stream_write_value_64(stream, let_go, 1, 0);
  EXPECT_TRUE(record.begin(stream));
  record.end(stream);
  EXPECT_TRUE(record.all_ended());
  EXPECT_EQ(record.oldest_at_work(), std::nullopt);
}

}  // namespace
}  // namespace syncopate::cuda
