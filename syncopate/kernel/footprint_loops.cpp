#include "syncopate/kernel/footprint_loops.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "syncopate/core/error.h"

namespace syncopate {

LoopRecorder::LoopRecorder(std::vector<LoweredLoop> loops)
    : loops_(std::move(loops)), records_(loops_.size()), tile_(loops_.size()) {}

int LoopRecorder::loop_at(const Instruction& instruction) const {
  for (std::size_t i = 0; i < loops_.size(); ++i)
    if (loops_[i].begin == &instruction || loops_[i].test == &instruction) return static_cast<int>(i);
  return -1;
}

std::int64_t LoopRecorder::enter(int loop, std::int64_t iterations, Key key) {
  const auto number = static_cast<std::size_t>(loop);
  std::shared_ptr<LoopReads>& record = records_[number][std::move(key)];
  if (!record) record = std::make_shared<LoopReads>();
  check_internal(tile_[number].iterations == 0, "a tile walks a streamed loop twice");
  tile_[number] = {record, iterations};
  walked_ = &loops_[number];
  record_ = record.get();
  // The last one is executed in any case: what follows the loop finds what it leaves.
  next_ = std::clamp<std::int64_t>(iterations - 1, 0, static_cast<std::int64_t>(record->iterations.size()));
  return next_;
}

void LoopRecorder::begin_iteration() {
  recording_ = next_ == static_cast<std::int64_t>(record_->iterations.size());
  if (recording_) record_->iterations.emplace_back();
  ++next_;
}

bool LoopRecorder::take_read(const Instruction& instruction, int tensor, std::span<const Region> boxes) {
  if (walked_ == nullptr || !walked_->holds(instruction)) return false;
  if (recording_)
    for (const Region& box : boxes)
      record_->iterations.back().push_back({static_cast<int>(&instruction - walked_->test), tensor, box});
  return true;
}

std::vector<LoopFootprint> LoopRecorder::finish_tile() {
  return std::exchange(tile_, std::vector<LoopFootprint>(loops_.size()));
}

namespace {

void append_shape(const LaneShape& shape, LoopRecorder::Key& key) {
  key.push_back(shape.rank);
  for (int d = 0; d < shape.rank; ++d) key.push_back(shape[d]);
}

void append_form(const IndexForm& form, LoopRecorder::Key& key) {
  append_shape(form.shape, key);
  key.push_back(form.base);
  for (int d = 0; d < form.shape.rank; ++d) {
    key.push_back(form.slope[static_cast<std::size_t>(d)]);
    key.push_back(form.bent(d) ? 1 : 0);
    if (!form.bent(d)) continue;
    const Bend& bend = form.bend(d);
    key.insert(key.end(), {bend.tail, bend.jump, bend.split, bend.period});
  }
}

void append_mask(const LaneMask& mask, LoopRecorder::Key& key) {
  append_shape(mask.shape, key);
  for (int d = 0; d < mask.shape.rank; ++d)
    key.insert(key.end(), {mask.begin[static_cast<std::size_t>(d)], mask.end[static_cast<std::size_t>(d)]});
}

}  // namespace

void append_key(const FootprintValue& value, LoopRecorder::Key& key) {
  key.insert(key.end(), {static_cast<std::int64_t>(value.kind), static_cast<std::int64_t>(value.dtype),
                         value.python ? 1 : 0, value.parameter, std::bit_cast<std::int64_t>(value.number)});
  if (value.kind == ValueKind::boolean)
    append_mask(value.mask, key);
  else
    append_form(value.form, key);
  if (value.bounded) append_mask(value.mask, key);
  if (value.kind == ValueKind::string) key.push_back(value.descriptor);
  if (value.kind == ValueKind::block_pointer) key.insert(key.end(), value.offsets().begin(), value.offsets().end());
}

}  // namespace syncopate
