// Step 2 of the search for the tile scheduler (scheduler.h): a kernel's statements and how values flow between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "syncopate/kernel/scheduler_facts.h"
#include "syncopate/kernel/scheduler_walk.h"

namespace syncopate {

/// To which side of the frontier a unit belongs.
enum class Side : std::uint8_t {
  work,       ///< what a tile does, or what comes before all tiles
  scheduler,  ///< removed
  check,      ///< tl.assume and the like: goes where the values go that it speaks of
};

enum class Place : std::uint8_t { prologue, header, body, epilogue };

/// A value that a unit gives a name.
struct Definition {
  std::size_t unit = 0;
  std::string name;
  friend auto operator<=>(const Definition&, const Definition&) = default;
};

/// A statement at the function's own level or at that of the tile loop, with all that is inside it.
struct Unit {
  const Statement* statement = nullptr;
  Place place = Place::prologue;
  Side side = Side::work;
  bool forced = false;        ///< an annotation says that it belongs to the scheduler
  bool scalar = false;        ///< assigns names scalar arithmetic
  bool data = false;          ///< assigns scalars that depend on memory at an address that differs between programs
  bool asks_program = false;  ///< asks for a program id or the number of programs
  bool from_program = false;  ///< depends on the program id other than through the tile loop's counter
  bool tainted = false;       ///< scalar, and depends on a source
  bool divides = false;
  std::vector<std::string> writes;
  std::vector<std::pair<Definition, ByteRange>> reads;  ///< resolved, in source order
};

/// All units of a kernel in source order; the header of the tile loop is one of them.
struct UnitTable {
  std::vector<Unit> units;
  std::map<Definition, std::vector<std::size_t>> users;  ///< the units that read a value
};

UnitTable find_units(const Function& function, const TileWalk& walk, HelperFacts& helpers);

}  // namespace syncopate
