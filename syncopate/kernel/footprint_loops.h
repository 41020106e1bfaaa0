// What the iterations of streamed loops read, apart from what the rest of a tile reads. Tiles whose iterations must
// read the same share one record of them, and only what is not in it yet is executed: a tile of an attention kernel has
// a thousand iterations, a launch thousands of tiles, and all tiles of a head read the same.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "syncopate/core/region.h"
#include "syncopate/kernel/footprint.h"
#include "syncopate/kernel/footprint_value.h"
#include "syncopate/kernel/streamed_loops.h"

namespace syncopate {

class LoopRecorder {
 public:
  /// Everything that decides which elements the iterations of a loop touch, as numbers.
  using Key = std::vector<std::int64_t>;

  explicit LoopRecorder(std::vector<LoweredLoop> loops);

  /// The loop that begins or is tested at `instruction`, or -1.
  int loop_at(const Instruction& instruction) const;
  const LoweredLoop& loop(int number) const { return loops_[static_cast<std::size_t>(number)]; }

  /// The tile comes to the loop. Returns the iteration to begin with: of those before it all is known.
  std::int64_t enter(int loop, std::int64_t iterations, Key key);
  void begin_iteration();
  void leave() { walked_ = nullptr; }
  /// Whether the instruction is in the loop that is being walked; then what it reads has been taken.
  bool take_read(const Instruction& instruction, int tensor, std::span<const Region> boxes);

  /// The loops of the tile that has ended.
  std::vector<LoopFootprint> finish_tile();

 private:
  std::vector<LoweredLoop> loops_;
  std::vector<std::map<Key, std::shared_ptr<LoopReads>>> records_;  ///< [loop]
  std::vector<LoopFootprint> tile_;
  const LoweredLoop* walked_ = nullptr;
  LoopReads* record_ = nullptr;
  std::int64_t next_ = 0;   ///< iteration
  bool recording_ = false;  ///< the iteration is a new one
};

/// Appends what tells a value from others.
void append_key(const FootprintValue& value, LoopRecorder::Key& key);

}  // namespace syncopate
