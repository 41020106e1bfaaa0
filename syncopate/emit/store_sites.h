// The stores of a kernel to one output: where they stand among the tile's statements, and what they say.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "syncopate/emit/line_editor.h"
#include "syncopate/kernel/stores.h"
#include "syncopate/kernel/tile_kernel.h"

namespace syncopate {

using Body = std::vector<std::unique_ptr<Statement>>;

/// A store, the statement that it is, and the statements among which it stands.
struct Site {
  const Statement* statement = nullptr;
  const Body* siblings = nullptr;
  bool descriptor = false;
};

/// A call that stores, as the user wrote it.
struct Call {
  std::string place;                 ///< the descriptor or the pointers
  std::vector<std::string> offsets;  ///< of a descriptor
  const Expression* offsets_written = nullptr;
  ByteRange place_range;
  ByteRange value;
  const Expression* value_written = nullptr;
  const Expression* mask = nullptr;
  std::uint32_t end = 0;  ///< past the last argument
};

/// The stores to an output that is a sum over ranks. Refers to the kernel and the editor.
class StoreSites {
 public:
  /// `sent`: parameters of outputs that leave as they are, whose stores the last line is not to be before. Throws
  /// UserError at a store that cannot be edited.
  StoreSites(const LineEditor& editor, const TileKernel& kernel, std::string parameter,
             const std::vector<std::string>& sent);

  /// In source order.
  const std::vector<Site>& all() const { return sites_; }
  /// The first of the tile's own statements that is or holds a store.
  const Statement& first() const { return *first_; }
  /// The first line, and the last, of what slots that add and slots that do not each have for themselves: the stores,
  /// and before them the statements that make their values, back to the tile's last loop.
  int begin_line() const { return editor_.line_of(start_->range.begin); }
  int end_line() const { return editor_.line_of(last_->range.end - 1); }
  std::uint32_t begin() const { return start_->range.begin; }

  /// Throws UserError for a descriptor without a name.
  Call read_call(const Site& site) const;

 private:
  [[noreturn]] void reject(ByteRange range, std::string problem, std::string remedy) const;
  std::string text(ByteRange range) const { return std::string(module_.source->slice(range)); }
  const Body& tile_body() const { return scheduler_.loop == nullptr ? function_.body : scheduler_.loop->body; }
  void add_site(const Store& store);
  void check_own_lines(const Statement& statement) const;
  bool is_scheduling(const Statement& statement) const;
  bool begins_line(const Statement& statement) const;
  const Statement* find_start() const;

  const LineEditor& editor_;
  const Module& module_;
  const Function& function_;
  const TileScheduler& scheduler_;
  std::string parameter_;
  std::vector<Site> sites_;
  const Statement* first_ = nullptr;
  const Statement* last_ = nullptr;
  const Statement* start_ = nullptr;
};

}  // namespace syncopate
