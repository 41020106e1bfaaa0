#include "syncopate/cuda/board.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <random>
#include <utility>

#include "syncopate/core/error.h"

namespace syncopate::cuda {

/// New memory is all zeros, which is the beginning state of every member.
struct Board::Page {
  std::atomic<int> arrived;
  std::array<std::atomic<bool>, kBoardRanks> there;
  std::atomic<bool> claimed;  ///< somebody writes the failure
  std::atomic<bool> failed;   ///< it is written
  std::size_t length;
  std::array<char, 4000> message;
};

namespace {

static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
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
  page_->there[static_cast<std::size_t>(rank)] = true;
  return ++page_->arrived;
}

void Board::leave(int rank) { page_->there[static_cast<std::size_t>(rank)] = false; }

bool Board::is_there(int rank) const { return page_->there[static_cast<std::size_t>(rank)]; }

void Board::fail(std::string_view message) {
  if (page_->claimed.exchange(true)) return;
  page_->length = std::min(message.size(), page_->message.size());
  std::memcpy(page_->message.data(), message.data(), page_->length);
  page_->failed = true;
}

std::optional<std::string> Board::failure() const {
  if (!page_->failed) return std::nullopt;
  return std::string(page_->message.data(), page_->length);
}

}  // namespace syncopate::cuda
