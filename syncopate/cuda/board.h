// What the processes of one operator know of each other while they run: host memory that all of them map. The
// first failure anywhere is written there once, so that every rank reports the same one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace syncopate::cuda {

/// The most ranks that a board has room for.
inline constexpr int kBoardRanks = 256;

/// Every function may be called from any thread of any process.
class Board {
 public:
  /// A new board, under a name that no other has. Rank 0 makes it. Throws UserError if the machine has no shared
  /// memory.
  static Board make();
  /// Maps a board that make() of some process made. Throws UserError if there is none of that name.
  static Board open(const std::string& name);
  Board(Board&& from) noexcept;
  Board& operator=(Board&& from) noexcept;
  /// The memory lives until the last process has let it go.
  ~Board();

  const std::string& name() const { return name_; }
  /// Takes the name away once nobody needs it any more; processes that die later then leave nothing behind.
  void unlink();

  /// Says that this rank has joined the others, and returns how many have.
  int arrive(int rank);
  /// Says that this rank will not use its peers' memory any more.
  void leave(int rank);
  /// Joined, and not left yet.
  bool is_there(int rank) const;
  bool has_left(int rank) const;

  /// How many launches a rank has given to its GPU, and how many of them have ended as far as it has seen. A rank whose
  /// call a caller captured says so: replays are not seen, and its number of launches is anything from then on.
  void note_given(int rank, std::int64_t launches);
  void note_ended(int rank, std::int64_t launches);
  void note_captured(int rank);
  std::int64_t given(int rank) const;
  std::int64_t ended(int rank) const;
  bool captured(int rank) const;

  /// Only the first failure counts; texts of more than 4000 bytes are cut. A process that dies in here does not keep
  /// the others from telling of a failure.
  void fail(std::string_view message);
  std::optional<std::string> failure() const;

 private:
  struct Page;
  Board(std::string name, Page* page, bool linked) : name_(std::move(name)), page_(page), linked_(linked) {}

  std::string name_;
  Page* page_ = nullptr;
  bool linked_ = false;  ///< made here, and its name not yet taken away
};

}  // namespace syncopate::cuda
