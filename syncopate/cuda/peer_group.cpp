#include "syncopate/cuda/peer_group.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "syncopate/core/error.h"
#include "syncopate/cuda/board.h"
#include "syncopate/cuda/capture_mode.h"
#include "syncopate/cuda/launch_record.h"
#include "syncopate/cuda/peer_access.h"
#include "syncopate/cuda/peer_handle.h"
#include "syncopate/cuda/rank_watch.h"
#include "syncopate/plan/plan_json.h"

namespace syncopate::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kBetweenLooks = milliseconds(50);
/// How much longer than a wait a launch may take before its streams are suspected.
constexpr auto kPatience = milliseconds(500);
/// How long a peer that has missed a wait may take to say what it was; its own look-out looks every 50 ms.
constexpr auto kTelling = std::chrono::seconds(1);
constexpr auto kLettingGo = std::chrono::seconds(10);
/// How long peers may hold on to this rank's memory after it has left.
constexpr auto kParting = std::chrono::seconds(5);
constexpr auto kPartingAfterFailure = std::chrono::seconds(1);

DeviceUuid uuid_of(const Driver& driver, int ordinal) {
  Device device = 0;
  DeviceUuid uuid;
  driver.check(driver.device_get(&device, ordinal), "looking for a GPU");
  driver.check(driver.device_get_uuid(&uuid, device), "asking a GPU who it is");
  return uuid;
}

/// The GPU of that identity in this process; throws UserError if it is hidden from it.
int ordinal_of(const Driver& driver, const PeerHandle& peer) {
  for (int ordinal = 0; ordinal < driver.count(); ++ordinal)
    if (uuid_of(driver, ordinal).bytes == peer.device.bytes) return ordinal;
  throw UserError({}, fmt::format("the GPU of rank {} is hidden from this process", peer.rank),
                  "let every rank see the GPUs of all ranks (CUDA_VISIBLE_DEVICES), and choose one by its number");
}

}  // namespace

struct PeerGroup::State {
  State(RankOnGpu& of, int sharing)
      : rank(of),
        driver(of.gpu().driver()),
        ranks_on_device(sharing),
        watch(of, of.gpu().make_stream(true)),
        launches(of.gpu()) {}

  PeerHandle describe();
  DevicePointer reach(const PeerHandle& peer);
  void close_peers();
  void look_on();
  bool look();
  bool is_alive(const PeerHandle& peer) const;
  bool all_ended();
  std::string dead_peer() const;
  std::string missing_peer() const;
  void give(Stream stream);
  std::vector<int> reachable_peers() const;
  void look_at_peers();
  void fail(const std::string& message);
  void let_go();
  std::optional<std::string> told() const { return board ? board->failure() : std::nullopt; }
  bool still_works(const PeerHandle& peer, bool failed) const;
  bool peers_have_left(bool failed) const;

  RankOnGpu& rank;
  const Driver& driver;
  int ranks_on_device;
  PeerHandle own;
  std::string text;               ///< of `own`
  std::vector<PeerHandle> peers;  ///< by rank, this one included; empty until connected
  std::vector<DevicePointer> opened;
  std::vector<std::unique_ptr<Gpu>> peer_gpus;  ///< of ranks of this process on other GPUs
  std::optional<Board> board;
  bool left = false;

  std::mutex watch_mutex;  ///< of `watch`
  RankWatch watch;
  LaunchRecord launches;
  std::atomic<bool> captured = false;
  std::atomic<bool> released = false;  ///< a failure, and this rank's GPU was let go or given up

  std::thread onlooker;
  std::mutex mutex;  ///< of what follows
  std::condition_variable changed;
  bool stop = false;
  bool under_way = false;
};

PeerHandle PeerGroup::State::describe() {
  PeerHandle handle;
  handle.plan_hash = plan_hash(rank.plan());
  handle.ranks = rank.plan().ranks;
  handle.rank = rank.rank();
  handle.machine = this_machine();
  handle.process = ::getpid();
  handle.process_start = process_start(handle.process);
  handle.process_nonce = process_nonce();
  handle.device = uuid_of(driver, rank.gpu().ordinal());
  handle.arena = rank.arena();
  handle.arena_bytes = static_cast<std::int64_t>(rank.layout().bytes);
  if (handle.ranks > 1)
    driver.check(driver.ipc_get_memory_handle(&handle.memory, handle.arena), "sharing memory with other processes");
  if (handle.rank == 0) {
    board = Board::make();
    handle.board = board->name();
  }
  return handle;
}

DevicePointer PeerGroup::State::reach(const PeerHandle& peer) {
  if (peer.rank == own.rank) return own.arena;
  const int ordinal = ordinal_of(driver, peer);
  const bool other_gpu = ordinal != rank.gpu().ordinal();
  if (same_process(peer, own)) {
    if (other_gpu) {
      peer_gpus.push_back(
          std::make_unique<Gpu>(std::shared_ptr<const Driver>(std::shared_ptr<const Driver>(), &driver), ordinal));
      rank.gpu().enable_peer_access(*peer_gpus.back());
    }
    return peer.arena;
  }
  if (peer.process == own.process || process_start(peer.process) != peer.process_start)
    throw UserError({}, fmt::format("the process of rank {} cannot be seen from that of rank {}", peer.rank, own.rank),
                    "it has ended, or the two are in different containers");
  rank.gpu().make_current();
  if (other_gpu) check_peer_access(driver, rank.gpu().ordinal(), ordinal);
  DevicePointer address = 0;
  driver.check(driver.ipc_open_memory_handle(&address, peer.memory, kEnablePeerAccess),
               fmt::format("opening the memory of rank {}", peer.rank));
  opened.push_back(address);
  return address;
}

void PeerGroup::State::close_peers() {
  for (const DevicePointer address : opened) driver.ipc_close_memory_handle(address);
  opened.clear();
  peer_gpus.clear();
}

/// The thread beside the caller's.
void PeerGroup::State::look_on() {
  try {
    rank.gpu().make_current();
  } catch (const std::exception& error) {  // nobody else would let this rank go
    fail(fmt::format("rank {}: {}", own.rank, error.what()));
    rank.gpu().abandon();
    released = true;
    return;
  }
  const CapturesUndisturbed undisturbed(driver);
  std::unique_lock lock(mutex);
  while (!stop) {
    changed.wait(lock, [this] { return stop || under_way; });
    if (stop) return;
    under_way = captured;  // set again by the next call
    lock.unlock();
    bool more = look();
    lock.lock();
    under_way = under_way || more;
    if (under_way) changed.wait_for(lock, kBetweenLooks, [this] { return stop; });
  }
}

/// One look. Whether there is more to see: launches under way that have not failed.
bool PeerGroup::State::look() {
  if (released) {
    let_go();  // a call may have come too late to be refused, and graphs may be replayed still
    return false;
  }
  try {
    const bool ended = all_ended();
    if (auto dead = ended && !captured ? std::string() : dead_peer(); !dead.empty()) fail(dead);
    std::optional<std::string> missed;
    {
      const std::lock_guard lock(watch_mutex);
      missed = watch.missed();
    }
    if (missed) fail(*missed);
    const auto limit = std::chrono::duration<double>(rank.time_limit()) + kPatience;
    if (const auto at_work = launches.oldest_at_work(); at_work && *at_work > limit) {
      const std::lock_guard lock(watch_mutex);
      fail(fmt::format("rank {}: a launch has been at work for {:.1f} s, longer than any wait may take; {}", own.rank,
                       std::chrono::duration<double>(*at_work).count(), watch.empty_mailboxes()));
    }
    if (!told()) return !ended;
  } catch (const std::exception& error) {
    fail(fmt::format("rank {}: {}", own.rank, error.what()));
  }
  let_go();
  return false;
}

bool PeerGroup::State::all_ended() {
  const bool ended = launches.all_ended();
  if (board) board->note_ended(own.rank, launches.ended());
  return ended;
}

bool PeerGroup::State::is_alive(const PeerHandle& peer) const {
  return same_process(peer, own) || process_start(peer.process) == peer.process_start;
}

std::string PeerGroup::State::dead_peer() const {
  for (const PeerHandle& peer : peers)
    if (!is_alive(peer) && board->is_there(peer.rank))
      return fmt::format("rank {}: its process ({}) has died", peer.rank, peer.process);
  return {};
}

/// A peer that has left and will not take part in this rank's next launch: its memory may be gone.
std::string PeerGroup::State::missing_peer() const {
  const std::int64_t next = board->given(own.rank) + 1;
  for (const PeerHandle& peer : peers)
    if (board->has_left(peer.rank) && !board->captured(peer.rank) && board->given(peer.rank) < next)
      return fmt::format("rank {} has closed its operator before call {}, which rank {} makes", peer.rank, next,
                         own.rank);
  return {};
}

/// The other ranks whose memory this rank may read: a rank that has left may have freed it, and so may a dead one.
std::vector<int> PeerGroup::State::reachable_peers() const {
  std::vector<int> reachable;
  for (const PeerHandle& peer : peers) {
    if (peer.rank != own.rank && is_alive(peer) && board->is_there(peer.rank)) reachable.push_back(peer.rank);
  }
  return reachable;
}

/// A peer that has missed a wait tells in its own words; if it does not, this rank fails in general ones.
void PeerGroup::State::look_at_peers() {
  std::optional<int> missed;
  {
    const std::lock_guard lock(watch_mutex);
    missed = watch.missed_elsewhere(reachable_peers());
  }
  if (!missed) return;
  const auto deadline = Clock::now() + kTelling;
  while (!told() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  fail(fmt::format("rank {} has missed a wait", *missed));
}

void PeerGroup::State::fail(const std::string& message) { board->fail(message); }

/// Lets this rank's GPU go on until all launches have ended, or gives it up.
void PeerGroup::State::let_go() {
  const auto deadline = Clock::now() + kLettingGo;
  try {
    while (!(all_ended() && rank.queues_ended()) && Clock::now() < deadline) {
      {
        const std::lock_guard lock(watch_mutex);
        watch.let_go();
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
    const std::lock_guard lock(watch_mutex);
    watch.let_go();
    if (!all_ended() || !rank.queues_ended()) rank.gpu().abandon();
  } catch (const std::exception&) {  // the GPU has failed: there is nothing to let go, and nothing to free
    rank.gpu().abandon();
  }
  released = true;
}

/// Whether a rank of this process still has launches under way, or to come, that reach this rank's memory.
bool PeerGroup::State::still_works(const PeerHandle& peer, bool failed) const {
  if (board->has_left(peer.rank)) return false;
  std::int64_t needed = board->given(peer.rank);
  if (!failed && !captured && !board->captured(peer.rank)) needed = std::max(needed, board->given(own.rank));
  return board->ended(peer.rank) < needed;
}

/// Ranks of this process may all be of one thread, which leaves them one after the other: only their launches count.
bool PeerGroup::State::peers_have_left(bool failed) const {
  return std::none_of(peers.begin(), peers.end(), [&](const PeerHandle& peer) {
    if (peer.rank == own.rank) return false;
    return same_process(peer, own) ? still_works(peer, failed) : board->is_there(peer.rank) && is_alive(peer);
  });
}

PeerGroup::PeerGroup(RankOnGpu& rank, int ranks_on_device) {
  check_internal(rank.plan().ranks <= kBoardRanks, "more ranks than a board has room for");
  state_ = std::make_unique<State>(rank, ranks_on_device);
  state_->own = state_->describe();
  state_->text = to_text(state_->own);
}

PeerGroup::~PeerGroup() { leave(); }

const std::string& PeerGroup::handle() const { return state_->text; }

void PeerGroup::connect(const std::vector<std::string>& handles) {
  State& state = *state_;
  if (!state.peers.empty()) throw UserError({}, "this operator is connected already", "connect it once");
  std::vector<PeerHandle> peers;
  for (const std::string& handle : handles) peers.push_back(parse_peer_handle(handle));
  check_peers(peers, state.own, state.ranks_on_device);
  if (!state.board) state.board = Board::open(peers.front().board);
  try {
    std::vector<DevicePointer> arenas;
    for (const PeerHandle& peer : peers) arenas.push_back(state.reach(peer));
    state.rank.connect(arenas);
  } catch (...) {
    state.close_peers();
    throw;
  }
  state.peers = std::move(peers);
  if (state.board->arrive(state.own.rank) == state.own.ranks) state.board->unlink();
  state.onlooker = std::thread([&state] { state.look_on(); });
}

/// One launch that is not captured. If only part of it can be given, all ranks hear of it, and everything is let go.
void PeerGroup::State::give(Stream stream) {
  try {
    rank.call(stream);
  } catch (const std::exception& error) {
    if (!rank.is_spent()) throw;
    fail(fmt::format("rank {}: a launch could be given to its GPU in part only: {}", own.rank, error.what()));
  }
  try {
    launches.end(stream);
    board->note_given(own.rank, launches.given());
  } catch (const std::exception& error) {  // nobody can see any more when it ends
    fail(fmt::format("rank {}: {}", own.rank, error.what()));
    rank.gpu().abandon();
  }
}

std::optional<std::string> PeerGroup::call(Stream stream) {
  State& state = *state_;
  if (state.peers.empty())
    throw UserError({}, "this operator is not connected", "pass it the handles of all ranks first");
  if (auto failure = state.told()) return failure;
  if (const std::string missing = state.missing_peer(); !missing.empty()) {
    state.fail(missing);
    return state.told();
  }
  int capture = kCaptureNone;
  state.driver.check(state.driver.stream_is_capturing(stream, &capture), "asking whether a stream is being captured");
  if (capture != kCaptureNone) {
    state.rank.call(stream);
    state.captured = true;
    state.board->note_captured(state.own.rank);
  } else {
    while (!state.launches.begin(stream)) {
      if (auto failure = state.told()) return failure;
      std::this_thread::sleep_for(milliseconds(1));
    }
    state.give(stream);
  }
  {
    const std::lock_guard lock(state.mutex);
    if (!state.under_way) {
      state.under_way = true;
      state.changed.notify_one();
    }
  }
  return state.told();
}

std::optional<std::string> PeerGroup::failure() {
  State& state = *state_;
  if (auto failure = state.told()) return failure;
  if (state.peers.empty()) return std::nullopt;
  const CapturesUndisturbed undisturbed(state.driver);
  try {
    state.rank.gpu().make_current();
    {
      const std::lock_guard lock(state.watch_mutex);
      if (auto missed = state.watch.missed()) state.fail(*missed);
    }
    if (!state.told()) state.look_at_peers();
  } catch (const UserError& error) {
    state.fail(fmt::format("rank {}: {}", state.own.rank, error.what()));
  }
  return state.told();
}

std::optional<std::string> PeerGroup::synchronize() {
  State& state = *state_;
  const CapturesUndisturbed undisturbed(state.driver);
  state.rank.gpu().make_current();
  try {
    while (!state.all_ended() && !state.released) std::this_thread::sleep_for(std::chrono::microseconds(20));
  } catch (const UserError& error) {
    // A peer that died takes the GPU's work with it: the look-out may know that better than the driver.
    std::this_thread::sleep_for(2 * kBetweenLooks);
    state.fail(fmt::format("rank {}: {}", state.own.rank, error.what()));
  }
  return failure();
}

void PeerGroup::leave() {
  State& state = *state_;
  if (state.left) return;
  state.left = true;
  const bool connected = !state.peers.empty();
  bool failed = false;
  if (connected) {
    try {
      failed = synchronize().has_value();
    } catch (const std::exception&) {  // whatever broke has been reported by the call that met it first
      failed = true;
    }
    {
      const std::lock_guard lock(state.mutex);
      state.stop = true;
    }
    state.changed.notify_one();
    if (state.onlooker.joinable()) state.onlooker.join();
  }
  if (!connected) return;
  state.close_peers();
  state.board->leave(state.own.rank);
  const auto deadline = Clock::now() + (failed ? Clock::duration(kPartingAfterFailure) : Clock::duration(kParting));
  while (!state.peers_have_left(failed) && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  if (!state.peers_have_left(failed)) state.rank.gpu().abandon();
}

}  // namespace syncopate::cuda
