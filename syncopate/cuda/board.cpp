#include "syncopate/cuda/board.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <random>
#include <utility>

#include "syncopate/core/error.h"

namespace syncopate::cuda {

namespace {

/// Two threads of each rank may tell of a failure at the same time.
constexpr int kMessages = 2 * kBoardRanks;

}  // namespace

/// New memory is all zeros, which is the beginning state of every member.
struct Board::Page {
  std::atomic<int> arrived;
  struct Rank {
    std::atomic<bool> there;
    std::atomic<bool> left;
    std::atomic<bool> captured;
    std::atomic<std::int64_t> given;
    std::atomic<std::int64_t> ended;
  };
  std::array<Rank, kBoardRanks> ranks;
  Rank& at(int rank) { return ranks[static_cast<std::size_t>(rank)]; }
  /// A failure is written to a message of its own first and published then: whoever dies while writing keeps nobody
  /// from telling of another one.
  struct Message {
    std::size_t length;
    std::array<char, 4000> text;
  };
  std::atomic<int> taken;  ///< messages that somebody has begun to write
  std::atomic<int> first;  ///< the number of the one that counts, from 1; 0 as long as there is none
  std::array<Message, kMessages> messages;
};

namespace {

static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
                  std::atomic<std::int64_t>::is_always_lock_free,
              "atomics between processes must not need a lock");

[[noreturn]] void throw_system(const std::string& name, std::string_view doing) {
  throw UserError({}, fmt::format("shared memory {} {} ({})", name, doing, std::strerror(errno)),
                  "ranks of one operator need to share /dev/shm");
}

/// Maps the object and closes the descriptor.
void* map_and_close(int descriptor, std::size_t bytes, const std::string& name) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  const int problem = errno;
  ::close(descriptor);
  errno = problem;
  if (address == MAP_FAILED) throw_system(name, "cannot be mapped");
  return address;
}

}  // namespace

Board Board::make() {
  // Names are only for finding it: random so that a number used again by another process meets no left-over.
  std::random_device random;
  for (int attempt = 0;; ++attempt) {
    const std::string name = fmt::format("/syncopate-{}-{:08x}{:08x}", ::getpid(), random(), random());
    const int descriptor = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor < 0) {
      if (errno == EEXIST && attempt < 10) continue;
      throw_system(name, "cannot be made");
    }
    if (::ftruncate(descriptor, sizeof(Page)) != 0) {
      const int problem = errno;
      ::close(descriptor);
      ::shm_unlink(name.c_str());
      errno = problem;
      throw_system(name, "cannot be made");
    }
    try {
      return Board(name, static_cast<Page*>(map_and_close(descriptor, sizeof(Page), name)), true);
    } catch (...) {
      ::shm_unlink(name.c_str());
      throw;
    }
  }
}

Board Board::open(const std::string& name) {
  const int descriptor = ::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (descriptor < 0) throw_system(name, "cannot be opened");
  struct stat about{};
  if (::fstat(descriptor, &about) != 0 || about.st_size != static_cast<off_t>(sizeof(Page))) {
    ::close(descriptor);
    throw UserError({}, fmt::format("shared memory {} is not of this version", name),
                    "use the same version of Syncopate on all ranks");
  }
  return Board(name, static_cast<Page*>(map_and_close(descriptor, sizeof(Page), name)), false);
}

Board::Board(Board&& from) noexcept
    : name_(std::move(from.name_)),
      page_(std::exchange(from.page_, nullptr)),
      linked_(std::exchange(from.linked_, false)) {}

Board& Board::operator=(Board&& from) noexcept {
  std::swap(name_, from.name_);
  std::swap(page_, from.page_);
  std::swap(linked_, from.linked_);
  return *this;
}

Board::~Board() {
  if (page_ == nullptr) return;
  if (linked_) unlink();
  ::munmap(page_, sizeof(Page));
}

void Board::unlink() {
  ::shm_unlink(name_.c_str());
  linked_ = false;
}

int Board::arrive(int rank) {
  page_->at(rank).there = true;
  return ++page_->arrived;
}

void Board::leave(int rank) {
  page_->at(rank).there = false;
  page_->at(rank).left = true;
}

bool Board::is_there(int rank) const { return page_->at(rank).there; }
bool Board::has_left(int rank) const { return page_->at(rank).left; }

void Board::note_given(int rank, std::int64_t launches) { page_->at(rank).given = launches; }
void Board::note_ended(int rank, std::int64_t launches) {
  std::atomic<std::int64_t>& ended = page_->at(rank).ended;
  std::int64_t seen = ended;
  while (seen < launches && !ended.compare_exchange_weak(seen, launches)) {
  }
}
void Board::note_captured(int rank) { page_->at(rank).captured = true; }
std::int64_t Board::given(int rank) const { return page_->at(rank).given; }
std::int64_t Board::ended(int rank) const { return page_->at(rank).ended; }
bool Board::captured(int rank) const { return page_->at(rank).captured; }

void Board::fail(std::string_view message) {
  if (page_->first != 0) return;
  const int number = ++page_->taken;
  if (number > kMessages) return;  // as many others are about to publish theirs
  Page::Message& mine = page_->messages[static_cast<std::size_t>(number - 1)];
  mine.length = std::min(message.size(), mine.text.size());
  std::memcpy(mine.text.data(), message.data(), mine.length);
  int none = 0;
  page_->first.compare_exchange_strong(none, number);
}

std::optional<std::string> Board::failure() const {
  const int first = page_->first;
  if (first == 0) return std::nullopt;
  const Page::Message& message = page_->messages[static_cast<std::size_t>(first - 1)];
  return std::string(message.text.data(), message.length);
}

}  // namespace syncopate::cuda
