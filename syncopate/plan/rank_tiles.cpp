#include "syncopate/plan/rank_tiles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "syncopate/plan/pieces.h"

namespace syncopate {

namespace {

/// "argument 'q_start'", or several.
std::string names_of_rank_arguments(const OperatorStatement& statement) {
  std::vector<std::string> names;
  for (const auto& own : statement.rank_arguments.front()) names.push_back(fmt::format("'{}'", own.first));
  return fmt::format("argument{} {}", names.size() == 1 ? "" : "s", fmt::join(names, ", "));
}

SourceLocation place_of(const OperatorStatement& statement, const std::string& argument) {
  const auto place = statement.argument_where.find(argument);
  return place == statement.argument_where.end() ? statement.kernel_where : place->second;
}

void check_not_compiled_in(const OperatorStatement& statement, const TileKernel& kernel) {
  for (const Parameter& parameter : kernel.function().parameters)
    if (parameter.constexpr_ && statement.rank_arguments.front().contains(parameter.name))
      throw UserError(
          place_of(statement, parameter.name),
          fmt::format("argument '{}' differs by rank, and it is compiled in (tl.constexpr)", parameter.name),
          "all ranks run one kernel: make it an ordinary parameter, or give it one value");
}

/// Of the space of another rank than rank 0.
void check_same_launch(const OperatorStatement& statement, const TileSpace& first, const TileSpace& other, int rank) {
  const auto differ = [&](const std::string& what) {
    throw UserError(place_of(statement, statement.rank_arguments.front().begin()->first),
                    fmt::format("{} differ{} by rank, and so {}", names_of_rank_arguments(statement),
                                statement.rank_arguments.front().size() == 1 ? "s" : "", what),
                    "what differs by rank may decide which elements a tile touches, not which tiles there are");
  };
  if (other.extents != first.extents || other.tiles.size() != first.tiles.size())
    differ(fmt::format("do the tiles: {} ({}) on rank 0, {} ({}) on rank {}", first.tiles.size(),
                       fmt::join(first.extents, " x "), other.tiles.size(), fmt::join(other.extents, " x "), rank));
  if (other.grid != first.grid)
    differ(fmt::format("does the grid: {} on rank 0, {} on rank {}", fmt::join(first.grid, " x "),
                       fmt::join(other.grid, " x "), rank));
}

/// The error of one rank's analysis, which may be none on the others.
TileSpace analyse_rank(const OperatorStatement& statement, const TileKernel& kernel, const TensorBindings& tensors,
                       bool streams, int rank) {
  ScalarArguments arguments = statement.arguments;
  const ScalarArguments& own = statement.rank_arguments[static_cast<std::size_t>(rank)];
  arguments.insert(own.begin(), own.end());
  try {
    return analyse_tiles(kernel, arguments, tensors, statement.grid, streams);
  } catch (const UserError& error) {
    throw UserError(error.where(), fmt::format("with the arguments of rank {}: {}", rank, error.problem()),
                    error.remedy());
  }
}

/// Calls work(0), ..., work(count - 1), which have nothing to do with each other, on as many threads as the machine
/// runs at once. Throws what the call with the smallest number has thrown, if any has.
template <typename Work>
void for_all(int count, Work&& work) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count));
  std::atomic<int> next = 0;
  const auto take = [&] {
    for (int number = next++; number < count; number = next++) try {
        work(number);
      } catch (...) {
        errors[static_cast<std::size_t>(number)] = std::current_exception();
      }
  };
  {
    std::vector<std::jthread> helpers;  // joined where they end
    const int threads = std::min(count, static_cast<int>(std::thread::hardware_concurrency()));
    while (static_cast<int>(helpers.size()) + 1 < threads) helpers.emplace_back(take);
    take();
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

/// What is loaded of a buffer where the local kernel reads `region`.
Region loaded_region(const Buffer& buffer, const Region& region) {
  if (!buffer.stacked) return region;
  Region loaded = Region::whole(buffer.shape);
  for (int d = 0; d < region.dimensions(); ++d) loaded[d + 1] = region[d];
  return loaded;
}

std::vector<Tile> tiles_of_space(const TileSpace& space, const std::vector<Buffer>& buffers) {
  const auto buffer_index = [&](const std::string& parameter) {
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i].parameter == parameter) return static_cast<int>(i);
    throw InternalError("access through a parameter that is no tensor");
  };
  std::vector<Tile> tiles;
  tiles.reserve(space.tiles.size());
  for (const TileFootprint& footprint : space.tiles) {
    Tile tile;
    tile.index = footprint.index;
    for (const ParameterAccess& access : footprint.accesses) {
      const int buffer = buffer_index(access.parameter);
      for (const Region& region : access.reads)
        tile.reads.push_back({buffer, loaded_region(buffers[static_cast<std::size_t>(buffer)], region)});
      for (const Region& region : access.writes) tile.writes.push_back({buffer, region});
    }
    tiles.push_back(std::move(tile));
  }
  return tiles;
}

/// Puts the tiles of all ranks into one list, equal ones once. All ranks have tiles of the same indices, in one order.
class TileMerger {
 public:
  explicit TileMerger(std::vector<Tile>& merged) : merged_(merged) {}

  /// The rank's tiles, by index into the merged list.
  std::vector<int> add(std::vector<Tile>&& tiles) {
    std::vector<int> numbers;
    numbers.reserve(tiles.size());
    alike_.resize(tiles.size());
    for (std::size_t place = 0; place < tiles.size(); ++place)
      numbers.push_back(number_of(std::move(tiles[place]), alike_[place]));
    return numbers;
  }

 private:
  int number_of(Tile&& tile, std::vector<int>& alike) {
    for (const int number : alike) {
      const Tile& other = merged_[static_cast<std::size_t>(number)];
      check_internal(other.index == tile.index, "ranks have their tiles in one order");
      if (are_equal(other, tile)) return number;
    }
    alike.push_back(static_cast<int>(merged_.size()));
    merged_.push_back(std::move(tile));
    return alike.back();
  }

  /// Tiles that end elsewhere differ in their last piece, if at all.
  static bool are_equal(const Tile& a, const Tile& b) {
    if (a.pieces.size() != b.pieces.size()) return false;
    if (!a.pieces.empty() && !(a.pieces.back() == b.pieces.back())) return false;
    return a == b;
  }

  std::vector<Tile>& merged_;
  std::vector<std::vector<int>> alike_;  ///< [place in a rank's list]: the different tiles that ranks have there
};

}  // namespace

std::vector<TileSpace> analyse_ranks(const OperatorStatement& statement, const TileKernel& kernel,
                                     const TensorBindings& tensors, bool streams) {
  std::vector<TileSpace> spaces;
  if (statement.rank_arguments.empty()) {
    spaces.push_back(analyse_tiles(kernel, statement.arguments, tensors, statement.grid, streams));
    return spaces;
  }
  check_not_compiled_in(statement, kernel);
  spaces.resize(static_cast<std::size_t>(statement.ranks));
  for_all(statement.ranks, [&](int rank) {
    spaces[static_cast<std::size_t>(rank)] = analyse_rank(statement, kernel, tensors, streams, rank);
  });
  for (int rank = 1; rank < statement.ranks; ++rank)
    check_same_launch(statement, spaces.front(), spaces[static_cast<std::size_t>(rank)], rank);
  const std::string& step = spaces.front().step_parameter;
  if (statement.rank_arguments.front().contains(step))
    throw UserError(place_of(statement, step),
                    fmt::format("argument '{}' differs by rank, and says how many programs there are", step),
                    "give it one value");
  return spaces;
}

void make_tiles(std::span<const TileSpace> spaces, const TileKernel& kernel, BoundOperator& bound) {
  Plan& plan = bound.plan;
  std::vector<std::vector<Tile>> tiles;
  for (const TileSpace& space : spaces) tiles.push_back(tiles_of_space(space, plan.buffers));
  cut_into_pieces(spaces, kernel, bound, tiles);
  if (tiles.size() == 1) {
    plan.tiles = std::move(tiles.front());
    std::vector<int> all(plan.tiles.size());
    std::iota(all.begin(), all.end(), 0);
    bound.tiles.assign(static_cast<std::size_t>(plan.ranks), all);
    return;
  }
  std::size_t count = 0;
  for (const std::vector<Tile>& own : tiles) count += own.size();
  plan.tiles.reserve(count);
  TileMerger merger(plan.tiles);
  for (std::vector<Tile>& own : tiles) bound.tiles.push_back(merger.add(std::move(own)));
}

}  // namespace syncopate
