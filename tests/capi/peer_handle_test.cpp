#include "syncopate/cuda/peer_handle.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "syncopate/core/error.h"

namespace syncopate::cuda {
namespace {

PeerHandle handle_of(int rank, int ranks = 3) {
  PeerHandle handle;
  handle.plan_hash = "0123456789abcdef";
  handle.ranks = ranks;
  handle.rank = rank;
  handle.machine = "here";
  handle.process = 100 + rank;
  handle.process_start = 7;
  handle.process_nonce = "abcd";
  handle.device.bytes[0] = static_cast<char>(rank);
  handle.device.bytes[15] = static_cast<char>(0xfe);
  handle.arena = 0x7f0000000000 + static_cast<DevicePointer>(rank);
  handle.arena_bytes = 1 << 21;
  for (std::size_t i = 0; i < 64; ++i) handle.memory.bytes[i] = static_cast<char>(i * 5);
  handle.board = rank == 0 ? "/syncopate-1" : "";
  return handle;
}

std::vector<PeerHandle> all(int ranks) {
  std::vector<PeerHandle> handles;
  for (int rank = 0; rank < ranks; ++rank) handles.push_back(handle_of(rank, ranks));
  return handles;
}

void expect_user_error(const std::function<void()>& act, const std::string& part) {
  try {
    act();
    ADD_FAILURE() << "no error; expected one with: " << part;
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(PeerHandle, ComesBackAsItWent) {
  const PeerHandle sent = handle_of(2);
  const PeerHandle got = parse_peer_handle(to_text(sent));
  EXPECT_EQ(to_text(got), to_text(sent));
  EXPECT_EQ(got.rank, 2);
  EXPECT_EQ(got.arena, sent.arena);
  EXPECT_EQ(got.memory.bytes, sent.memory.bytes);
  EXPECT_EQ(got.device.bytes, sent.device.bytes);
  EXPECT_EQ(got.process_start, 7);
  EXPECT_EQ(got.process_nonce, "abcd");
}

TEST(PeerHandle, DamagedTextIsRefused) {
  const std::string text = to_text(handle_of(1));
  for (std::size_t length = 0; length < text.size() - 2; ++length)
    EXPECT_THROW(parse_peer_handle(text.substr(0, length)), UserError) << length;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  expect_user_error([&] { parse_peer_handle(with("\"syncopate_handle\": 2", "\"syncopate_handle\": 1")); },
                    "it is of version 1, not 2");
  expect_user_error([&] { parse_peer_handle(with("fe\"", "f\"")); }, "not 16 bytes in hexadecimal");
  expect_user_error([&] { parse_peer_handle(with("fe\"", "fx\"")); }, "not 16 bytes in hexadecimal");
  expect_user_error([&] { parse_peer_handle(with("\"machine\"", "\"engine\"")); }, "machine");
}

TEST(CheckPeers, TakesThoseOfAllRanks) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int own = 0; own < ranks; ++own) EXPECT_NO_THROW(check_peers(all(ranks), handle_of(own, ranks), 1));
}

TEST(CheckPeers, NamesWhatDoesNotFit) {
  const PeerHandle own = handle_of(1);
  auto handles = all(3);
  handles.pop_back();
  expect_user_error([&] { check_peers(handles, own, 1); }, "2 handles for a plan of 3 ranks");

  handles = all(3);
  std::swap(handles[1], handles[2]);
  expect_user_error([&] { check_peers(handles, own, 1); }, "handle 1 is that of rank 2");

  handles = all(3);
  handles[2].plan_hash = "other";
  expect_user_error([&] { check_peers(handles, own, 1); }, "ranks 0 and 2 have different plans");

  handles = all(3);
  handles[2].machine = "there";
  expect_user_error([&] { check_peers(handles, own, 1); }, "ranks 0 and 2 are on different machines");

  handles = all(3);
  handles[1].arena = 1;
  expect_user_error([&] { check_peers(handles, own, 1); }, "handle 1 is not this operator's own");
}

TEST(CheckPeers, CountsRanksOnOneGpu) {
  auto handles = all(3);
  handles[2].device = handles[1].device;
  expect_user_error([&] { check_peers(handles, handles[0], 1); }, "ranks 1 and 2 are on the same GPU");
  EXPECT_NO_THROW(check_peers(handles, handles[0], 2));
  handles[0].device = handles[1].device;
  expect_user_error([&] { check_peers(handles, handles[0], 2); }, "say that 3 ranks share one");
  EXPECT_NO_THROW(check_peers(handles, handles[0], 3));
}

TEST(SameProcess, IsOfOneNumberOneStartAndOneNonce) {
  const PeerHandle one = handle_of(1);
  PeerHandle other = one;
  other.rank = 2;
  EXPECT_TRUE(same_process(one, other));
  other.process_nonce = "abce";
  EXPECT_FALSE(same_process(one, other)) << "the same number in another container";
  other = one;
  ++other.process_start;
  EXPECT_FALSE(same_process(one, other)) << "the same number, used again";
  other = one;
  ++other.process;
  EXPECT_FALSE(same_process(one, other)) << "a fork";
}

TEST(ProcessNonce, StaysTheSame) {
  EXPECT_EQ(process_nonce().size(), 32U);
  EXPECT_EQ(process_nonce(), process_nonce());
}

TEST(ThisMachine, IsNamed) {
  EXPECT_EQ(this_machine().size(), 36U);  // a UUID
  EXPECT_EQ(this_machine(), this_machine());
}

TEST(ProcessStart, IsTheSameForeverAndThenNone) {
  const std::int64_t mine = process_start(::getpid());
  EXPECT_GT(mine, 0);
  EXPECT_EQ(process_start(::getpid()), mine);
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  EXPECT_GE(process_start(child), mine);
  ::kill(child, SIGKILL);
  siginfo_t about{};
  ::waitid(P_PID, static_cast<id_t>(child), &about, WEXITED | WNOWAIT);
  EXPECT_EQ(process_start(child), 0);  // dead, though its parent has not taken note
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(process_start(child), 0);
}

}  // namespace
}  // namespace syncopate::cuda
