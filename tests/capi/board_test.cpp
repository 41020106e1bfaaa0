#include "syncopate/cuda/board.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "syncopate/core/error.h"

namespace syncopate::cuda {
namespace {

/// Runs `body` in a process of its own and returns its exit code.
template <typename Body>
int in_another_process(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Board, BeginsEmpty) {
  const Board board = Board::make();
  EXPECT_EQ(board.failure(), std::nullopt);
  for (int rank = 0; rank < kBoardRanks; ++rank) EXPECT_FALSE(board.is_there(rank));
}

TEST(Board, AnotherProcessSeesWhatThisOneSaysAndTheReverse) {
  Board board = Board::make();
  const std::string name = board.name();
  EXPECT_EQ(board.arrive(3), 1);
  EXPECT_EQ(board.arrive(1), 2);
  const int code = in_another_process([&] {
    Board opened = Board::open(name);
    if (!opened.is_there(3) || !opened.is_there(1) || opened.is_there(2)) return 1;
    if (opened.arrive(2) != 3) return 2;
    opened.fail("rank 1: something broke");
    opened.leave(1);
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(board.failure(), "rank 1: something broke");
  EXPECT_FALSE(board.is_there(1));
  EXPECT_TRUE(board.is_there(2));
  EXPECT_TRUE(board.is_there(3));
}

TEST(Board, CountsLaunches) {
  Board board = Board::make();
  EXPECT_EQ(board.given(4), 0);
  EXPECT_EQ(board.ended(4), 0);
  EXPECT_FALSE(board.captured(4));
  EXPECT_FALSE(board.has_left(4));
  const int code = in_another_process([name = board.name()] {
    Board opened = Board::open(name);
    opened.arrive(4);
    opened.note_given(4, 7);
    opened.note_ended(4, 5);
    opened.note_ended(4, 3);  // seen earlier, told later
    opened.note_captured(4);
    opened.leave(4);
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(board.given(4), 7);
  EXPECT_EQ(board.ended(4), 5);
  EXPECT_TRUE(board.captured(4));
  EXPECT_TRUE(board.has_left(4));
  EXPECT_FALSE(board.is_there(4));
  EXPECT_EQ(board.given(3), 0);
  EXPECT_FALSE(board.has_left(3)) << "it has never been there";
}

TEST(Board, OnlyTheFirstFailureCounts) {
  Board board = Board::make();
  board.fail("the first");
  board.fail("the second");
  EXPECT_EQ(board.failure(), "the first");
}

TEST(Board, OfManyFailuresAtOnceEveryoneSeesTheSameWholeOne) {
  for (int round = 0; round < 50; ++round) {
    Board board = Board::make();
    std::vector<std::optional<std::string>> seen(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < seen.size(); ++i)
      threads.emplace_back([&, i] {
        board.fail(std::string(3000, static_cast<char>('a' + i)));
        while (!(seen[i] = board.failure())) {
        }
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(seen[0]->size(), 3000U);
    EXPECT_EQ(seen[0]->find_first_not_of(seen[0]->front()), std::string::npos);
    for (const auto& each : seen) EXPECT_EQ(each, seen[0]);
  }
}

TEST(Board, WhoDiesWhileTellingOfAFailureKeepsNobodyFromTelling) {
  Board board = Board::make();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* memory = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(::mprotect(static_cast<char*>(memory) + page, page, PROT_NONE), 0);
  const int code = in_another_process([&] {
    ::signal(SIGSEGV, SIG_DFL);
    board.fail(std::string_view(static_cast<const char*>(memory) + page - 100, 200));  // dies in the middle of it
    return 0;
  });
  ::munmap(memory, 2 * page);
  EXPECT_EQ(code, -1) << "it was to die";
  EXPECT_EQ(board.failure(), std::nullopt);
  board.fail("rank 1: its process has died");
  EXPECT_EQ(board.failure(), "rank 1: its process has died");
}

TEST(Board, LongTextsAreCut) {
  Board board = Board::make();
  board.fail(std::string(10000, 'x'));
  EXPECT_EQ(board.failure(), std::string(4000, 'x'));
}

TEST(Board, LeavesNothingBehind) {
  std::string name;
  {
    const Board board = Board::make();
    name = board.name();
    EXPECT_TRUE(std::filesystem::exists("/dev/shm" + name));
  }
  EXPECT_FALSE(std::filesystem::exists("/dev/shm" + name));
  try {
    Board::open(name);
    FAIL() << "a board that is gone was opened";
  } catch (const UserError& error) {
    EXPECT_NE(error.problem().find(name + " cannot be opened (No such file"), std::string::npos) << error.what();
  }
}

TEST(Board, WithoutItsNameItGoesOn) {
  Board board = Board::make();
  Board opened = Board::open(board.name());
  opened.unlink();
  EXPECT_FALSE(std::filesystem::exists("/dev/shm" + board.name()));
  opened.fail("late");
  EXPECT_EQ(board.failure(), "late");
  Board moved = std::move(board);
  EXPECT_EQ(moved.failure(), "late");
}

}  // namespace
}  // namespace syncopate::cuda
