#include "syncopate/kernel/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "syncopate/kernel/scheduler_facts.h"
#include "syncopate/kernel/scheduler_units.h"
#include "syncopate/kernel/scheduler_walk.h"

namespace syncopate {
namespace {

class Search {
 public:
  Search(const Module& module, const Function& function, const Annotations& annotations)
      : module_(module),
        function_(function),
        annotations_(annotations),
        helpers_(module),
        walk_(find_walk(module, function, annotations)),
        table_(find_units(function, walk_, helpers_)),
        units_(table_.units) {}

  TileScheduler run() {
    force_annotated();
    check_carried();
    find_frontier();
    check_work();
    check_data();
    remove_leftovers();
    return result();
  }

 private:
  UserError error(ByteRange range, std::string problem, std::string remedy) const {
    return {module_.locate(range), std::move(problem), std::move(remedy)};
  }
  int line(ByteRange range) const { return module_.locate(range).line; }
  bool persistent() const { return walk_.loop != nullptr; }
  bool annotated() const { return !annotations_.scheduler_blocks.empty() || !annotations_.tile_index.empty(); }
  const std::vector<std::string>* annotated_index() const {
    return annotations_.tile_index.empty() ? nullptr : &annotations_.tile_index.front().names;
  }

  // --- Annotations.

  void force_annotated() {
    for (Unit& unit : units_) {
      if (unit.place == Place::header) continue;
      for (const ByteRange block : annotations_.scheduler_blocks) {
        const ByteRange range = unit.statement->range;
        if (range.end <= block.begin || block.end <= range.begin) continue;
        if (range.begin < block.begin || block.end < range.end)
          throw error(block, "'tile_scheduler' begins or ends inside a statement",
                      "put begin and end around whole statements, directly in the kernel's body or in its loop over "
                      "tiles");
        unit.forced = true;
      }
      if (annotations_.scheduler_blocks.empty() && annotated_index() != nullptr && &unit != advance_unit())
        for (const std::string& name : unit.writes) unit.forced = unit.forced || is_annotated_index(name);
      if (unit.forced) unit.side = Side::scheduler;
    }
    check_blocks();
    check_annotated_index();
  }

  const Unit* advance_unit() const {
    for (const Unit& unit : units_)
      if (unit.statement == walk_.advance && walk_.advance != nullptr) return &unit;
    return nullptr;
  }

  bool is_annotated_index(const std::string& name) const {
    const auto* names = annotated_index();
    return names != nullptr && std::find(names->begin(), names->end(), name) != names->end();
  }

  void check_blocks() const {
    for (const ByteRange block : annotations_.scheduler_blocks) {
      const bool empty = std::none_of(units_.begin(), units_.end(), [block](const Unit& unit) {
        return unit.forced && block.begin <= unit.statement->range.begin && unit.statement->range.end <= block.end;
      });
      if (empty)
        throw error(block, "there is no statement between 'tile_scheduler' begin and end",
                    "put begin before the first and end after the last statement that computes tile indices, directly "
                    "in the kernel's body or in its loop over tiles");
    }
  }

  void check_annotated_index() const {
    if (annotated_index() == nullptr) return;
    for (const std::string& name : *annotated_index()) {
      const bool assigned = std::any_of(units_.begin(), units_.end(), [&](const Unit& unit) {
        const bool here = unit.forced || unit.place == Place::header;
        return here && std::find(unit.writes.begin(), unit.writes.end(), name) != unit.writes.end();
      });
      if (!assigned)
        throw error(annotations_.tile_index.front().range, fmt::format("the scheduler assigns no variable '{}'", name),
                    "name variables that are assigned directly in the kernel's body or in its loop over tiles, inside "
                    "the marked scheduler if one is marked");
    }
  }

  // --- The frontier.

  bool is_used_by_work(const Definition& definition) const {
    const auto users = table_.users.find(definition);
    return users != table_.users.end() &&
           std::any_of(users->second.begin(), users->second.end(),
                       [this](std::size_t user) { return units_[user].side == Side::work; });
  }

  /// Whether a tile's work can know the value: an index variable, or computed by the work itself.
  bool is_known_to_work(const Definition& definition) const {
    return units_[definition.unit].side == Side::work || is_used_by_work(definition);
  }

  bool belongs_to_work(std::size_t index) const {
    const Unit& unit = units_[index];
    if (unit.side != Side::scheduler || unit.forced || unit.asks_program || unit.place == Place::header ||
        unit.statement == walk_.advance)
      return false;
    const bool used = std::any_of(unit.writes.begin(), unit.writes.end(),
                                  [&](const std::string& name) { return is_used_by_work({index, name}); });
    if (annotated()) return used;
    if (used && !unit.divides) return true;
    return std::all_of(unit.reads.begin(), unit.reads.end(), [this](const auto& read) {
      return !units_[read.first.unit].tainted || is_known_to_work(read.first);
    });
  }

  void find_frontier() {
    for (Unit& unit : units_)
      if (unit.side == Side::work && (unit.tainted || unit.statement == walk_.advance)) unit.side = Side::scheduler;
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < units_.size(); ++i) {
        if (!belongs_to_work(i)) continue;
        units_[i].side = Side::work;
        changed = true;
      }
    }
  }

  // --- What would make the result wrong.

  /// A value that one tile leaves for the next ties the tiles to the local kernel's order.
  void check_carried() const {
    if (!persistent()) return;
    std::set<std::string> before;
    for (const Parameter& parameter : function_.parameters) before.insert(parameter.name);
    for (const Unit& unit : units_)
      if (unit.place == Place::prologue) before.insert(unit.writes.begin(), unit.writes.end());
    std::set<std::string> carried;
    for (const auto& statement : walk_.loop->body)
      if (statement.get() != walk_.advance)
        for (const std::string& name : names_written(*statement))
          if (before.contains(name) && name != walk_.counter) carried.insert(name);
    std::set<std::string> assigned;
    for (const auto& statement : walk_.loop->body) check_carried(*statement, carried, assigned);
  }

  void check_carried(const Statement& statement, const std::set<std::string>& carried,
                     std::set<std::string>& assigned) const {
    for (const NameRead& read : own_names_read(statement))
      if (carried.contains(read.name) && !assigned.contains(read.name))
        throw error(read.range,
                    fmt::format("'{}' carries a value from one tile to the next, but a fused kernel runs "
                                "its tiles in another order",
                                read.name),
                    "compute it from the tile's own indices, at the beginning of every tile");
    const bool loop = statement.kind == StatementKind::for_ || statement.kind == StatementKind::while_;
    std::set<std::string> in_body = assigned;
    std::set<std::string> in_orelse = assigned;
    auto& target_set = loop ? in_body : assigned;
    for (const std::string& name : own_names_written(statement)) target_set.insert(name);
    for (const auto& child : statement.body) check_carried(*child, carried, in_body);
    for (const auto& child : statement.orelse) check_carried(*child, carried, in_orelse);
    if (statement.kind == StatementKind::if_)
      std::set_intersection(in_body.begin(), in_body.end(), in_orelse.begin(), in_orelse.end(),
                            std::inserter(assigned, assigned.end()));
  }

  /// Work may know a tile only by its index variables.
  void check_work() const {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const Unit& unit = units_[i];
      if (unit.side == Side::work) check_work_unit(unit);
      if (unit.side == Side::scheduler && unit.place == Place::body && unit.statement != walk_.advance && persistent())
        check_program_read(unit, "the tile index");
    }
    if (index_definitions().empty()) throw nothing_found();
    check_scaled();
    check_reassigned();
  }

  void check_work_unit(const Unit& unit) const {
    if (unit.asks_program)
      throw error(question_range(*unit.statement),
                  "the tile's work asks for the program id or the number of programs, which do not say which tile a "
                  "fused kernel works on",
                  persistent() ? "compute it from the tile's indices"
                               : "give the program id a name first, as in `pid = tl.program_id(0)`, and use the name; "
                                 "tile indices follow from it and the scalar arguments, not from loaded data");
    if (persistent()) check_program_read(unit, "the tile's work");
    for (const auto& [definition, range] : unit.reads) {
      const Unit& source = units_[definition.unit];
      if (source.side == Side::scheduler && annotated() && !may_be_index(definition))
        throw error(range,
                    fmt::format("'{}' belongs to the tile scheduler, but the tile's work uses it", definition.name),
                    annotated_index() != nullptr
                        ? fmt::format("add it to `# syncopate: tile_index {}`, or compute it from these",
                                      fmt::join(*annotated_index(), ", "))
                        : "move the statement that computes it between 'tile_scheduler' begin and end");
      if (walk_.advance != nullptr && source.statement == walk_.advance)
        throw error(range, fmt::format("'{}' already counts the next tile here", definition.name),
                    "advance it at the end of the loop");
    }
  }

  /// Whether annotations allow work to use what the scheduler computes.
  bool may_be_index(const Definition& definition) const {
    if (annotated_index() != nullptr) return is_annotated_index(definition.name);
    return units_[definition.unit].forced || units_[definition.unit].place == Place::header;
  }

  void check_program_read(const Unit& unit, std::string_view what) const {
    if (unit.asks_program)
      throw error(
          question_range(*unit.statement),
          fmt::format("{} depends on the program id or the number of programs, not only on '{}'", what, walk_.counter),
          fmt::format("compute it from '{}'", walk_.counter));
    for (const auto& [definition, range] : unit.reads)
      if (units_[definition.unit].from_program && units_[definition.unit].place != Place::header &&
          units_[definition.unit].statement != walk_.advance)
        throw error(range,
                    fmt::format("{} depends on the program id through '{}', not only on '{}'", what, definition.name,
                                walk_.counter),
                    fmt::format("compute it from '{}'", walk_.counter));
  }

  /// The place of the first question for the program id inside a statement.
  ByteRange question_range(const Statement& statement) const {
    std::optional<ByteRange> found;
    for_each_statement(statement, [&](const Statement& each) {
      if (each.value == nullptr) return;
      for_each_expression(*each.value, [&](const Expression& expression) {
        if (expression.kind == ExpressionKind::call && helpers_.asks_program(expression) &&
            (!found || expression.range.begin > found->begin))
          found = expression.range;
      });
    });
    return found.value_or(statement.range);
  }

  UserError nothing_found() const {
    const bool asks = std::any_of(units_.begin(), units_.end(), [](const Unit& unit) { return unit.asks_program; });
    if (persistent())
      return error(walk_.loop->header, fmt::format("nothing in this loop over tiles depends on '{}'", walk_.counter),
                   annotation_remedy());
    return error(
        function_.name_range,
        asks ? fmt::format("no statement of the kernel '{}' uses its program id to find its tile", function_.name)
             : fmt::format("the kernel '{}' never asks which tile is its own: it has no tl.program_id", function_.name),
        annotation_remedy());
  }

  /// `start = tl.program_id(0) * BLOCK` names an offset; the tile index is the program id.
  void check_scaled() const {
    for (const Definition& definition : index_definitions()) {
      const Unit& unit = units_[definition.unit];
      if (!unit.asks_program || unit.divides || unit.forced || unit.statement->value == nullptr) continue;
      for_each_expression(*unit.statement->value, [&](const Expression& each) {
        if (each.kind == ExpressionKind::binary && each.text == "*" && helpers_.asks_program(each))
          throw error(question_range(*unit.statement), "the program id is scaled before it has a name",
                      "give it a name first, as in `pid = tl.program_id(0)`, and use the name");
      });
    }
  }

  void check_reassigned() const {
    std::map<std::string, Definition> first;
    for (const Definition& definition : index_definitions()) {
      const auto [known, added] = first.emplace(definition.name, definition);
      if (added || units_[definition.unit].forced) continue;
      const ByteRange earlier = units_[known->second.unit].statement->range;
      throw error(units_[definition.unit].statement->range,
                  fmt::format("the tile index '{}' is assigned a second time (first at line {}), after the tile's work "
                              "began",
                              definition.name, line(earlier)),
                  fmt::format("keep one assignment, or give the other a name of its own; or {}", annotation_remedy()));
    }
  }

  void check_data() const {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const Unit& unit = units_[i];
      if (unit.forced) check_forced_data(unit);
      const bool counts = unit.place == Place::header;
      if (!counts && !(unit.data && unit.divides)) continue;
      for (const auto& [definition, range] : unit.reads) {
        const Unit& source = units_[definition.unit];
        if (!source.data) continue;
        throw error(counts ? range : unit.statement->range,
                    fmt::format("{} depends on data: '{}' is loaded at line {}",
                                counts ? std::string("the number of tiles")
                                       : fmt::format("the tile index '{}'", fmt::join(unit.writes, ", ")),
                                definition.name, line(source.statement->range)),
                    "compute it from the program id and the kernel's scalar arguments");
      }
    }
  }

  void check_forced_data(const Unit& unit) const {
    for_each_statement(*unit.statement, [&](const Statement& each) {
      if (each.value == nullptr) return;
      for_each_expression(*each.value, [&](const Expression& expression) {
        if (!reads_memory(expression)) return;
        throw error(expression.range, "the tile scheduler depends on data",
                    "compute tile indices from the program id and the kernel's scalar arguments");
      });
    });
  }

  // --- The result.

  /// What of the scheduler the tile's work uses, in source order.
  std::vector<Definition> index_definitions() const {
    std::vector<Definition> found;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (units_[i].side != Side::scheduler) continue;
      for (const std::string& name : units_[i].writes)
        if (is_used_by_work({i, name})) found.push_back({i, name});
    }
    return found;
  }

  /// What of the scheduler is computed from something that was converted to 64 bits.
  std::set<Definition> wide_definitions() const {
    std::set<Definition> wide;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const Unit& unit = units_[i];
      if (unit.side != Side::scheduler) continue;
      bool converts = std::any_of(unit.reads.begin(), unit.reads.end(),
                                  [&wide](const auto& read) { return wide.contains(read.first); });
      for_each_statement(*unit.statement, [&](const Statement& each) {
        if (each.value == nullptr || unit.place == Place::header) return;
        for_each_expression(*each.value,
                            [&](const Expression& part) { converts = converts || converts_to_int64(part); });
      });
      if (!converts) continue;
      for (const std::string& name : unit.writes) wide.insert({i, name});
    }
    return wide;
  }

  /// Statements that only served what is removed are removed too.
  void remove_leftovers() {
    std::map<std::string, int> assignments;
    for (const Parameter& parameter : function_.parameters) ++assignments[parameter.name];
    for (const auto& statement : function_.body)
      for_each_statement(*statement, [&](const Statement& each) {
        for (const std::string& name : own_names_written(each)) ++assignments[name];
      });
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < units_.size(); ++i) {
        if (units_[i].side != Side::work || !units_[i].scalar || units_[i].tainted) continue;
        const auto served_only = [&](const std::string& name) {
          return assignments[name] == 1 && only_served(i, name);
        };
        const auto& writes = units_[i].writes;
        if (!std::all_of(writes.begin(), writes.end(), served_only)) continue;
        units_[i].side = Side::scheduler;
        changed = true;
      }
    }
    const std::vector<Definition> kept = index_definitions();
    for (Unit& unit : units_) {
      if (unit.side != Side::check) continue;
      const bool speaks_of_removed = std::any_of(unit.reads.begin(), unit.reads.end(), [&](const auto& read) {
        return units_[read.first.unit].side == Side::scheduler &&
               std::find(kept.begin(), kept.end(), read.first) == kept.end();
      });
      unit.side = speaks_of_removed ? Side::scheduler : Side::work;
    }
  }

  bool only_served(std::size_t unit, const std::string& name) const {
    const auto users = table_.users.find({unit, name});
    if (users == table_.users.end()) return false;
    bool served = false;
    for (const std::size_t user : users->second) {
      if (units_[user].side == Side::work) return false;
      served = served || units_[user].side == Side::scheduler;
    }
    return served;
  }

  TileScheduler result() const {
    TileScheduler scheduler;
    scheduler.kind = walk_.kind;
    scheduler.loop = walk_.loop;
    scheduler.advance = walk_.advance;
    for (const Definition& definition : index_definitions()) {
      auto& names = scheduler.index_variables;
      if (std::find(names.begin(), names.end(), definition.name) == names.end()) names.push_back(definition.name);
    }
    if (annotated_index() != nullptr) scheduler.index_variables = *annotated_index();
    for (const Definition& definition : wide_definitions()) {
      auto& names = scheduler.wide_index_variables;
      const auto& indices = scheduler.index_variables;
      if (std::find(indices.begin(), indices.end(), definition.name) != indices.end() &&
          std::find(names.begin(), names.end(), definition.name) == names.end())
        names.push_back(definition.name);
    }
    const auto is_index = [&scheduler](const std::string& name) {
      const auto& names = scheduler.index_variables;
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    for (const Unit& unit : units_) {
      if (unit.side != Side::scheduler) continue;
      if (unit.place != Place::header) scheduler.statements.push_back(unit.statement);
      const bool in_walk = unit.statement != walk_.advance && (!persistent() || unit.place != Place::prologue);
      if (in_walk && std::any_of(unit.writes.begin(), unit.writes.end(), is_index))
        scheduler.last_assignment = unit.statement;
    }
    return scheduler;
  }

  const Module& module_;
  const Function& function_;
  const Annotations& annotations_;
  mutable HelperFacts helpers_;  // remembers what it computed
  TileWalk walk_;
  UnitTable table_;
  std::vector<Unit>& units_;  // the table's
};

}  // namespace

TileScheduler find_scheduler(const Module& module, const Function& function, const Annotations& annotations) {
  return Search(module, function, annotations).run();
}

}  // namespace syncopate
