#include "syncopate/kernel/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "syncopate/kernel/scheduler_facts.h"
#include "syncopate/kernel/scheduler_walk.h"

namespace syncopate {
namespace {

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

class Search {
 public:
  Search(const Module& module, const Function& function, const Annotations& annotations)
      : module_(module),
        function_(function),
        annotations_(annotations),
        helpers_(module),
        walk_(find_walk(module, function, annotations)) {}

  TileScheduler run() {
    add_units();
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

  // --- Units and their names.

  void add_units() {
    Place place = Place::prologue;
    for (const auto& statement : function_.body) {
      if (statement.get() != walk_.loop) {
        add_unit(*statement, place);
        continue;
      }
      add_header();
      for (const auto& inner : statement->body) add_unit(*inner, Place::body);
      place = Place::epilogue;
    }
  }

  void add_header() {
    Unit unit;
    unit.statement = walk_.loop;
    unit.place = Place::header;
    unit.side = Side::scheduler;
    unit.scalar = unit.tainted = true;
    unit.writes = {walk_.counter};
    resolve(unit, own_names_read(*walk_.loop));
    append(std::move(unit));
  }

  void add_unit(const Statement& statement, Place place) {
    Unit unit;
    unit.statement = &statement;
    unit.place = place;
    unit.writes = names_written(statement);
    unit.asks_program = helpers_.asks_program(statement);
    std::vector<NameRead> reads = names_read(statement);
    // A name that a branch may or may not write keeps what it had: the branch reads it too.
    if (!statement.body.empty())
      for (const std::string& name : unit.writes) reads.push_back({name, statement.header});
    resolve(unit, reads);
    if (is_check(statement)) unit.side = Side::check;
    classify(unit);
    append(std::move(unit));
  }

  void resolve(Unit& unit, const std::vector<NameRead>& reads) const {
    for (const NameRead& read : reads)
      if (const auto found = current_.find(read.name); found != current_.end())
        unit.reads.push_back({{found->second, read.name}, read.range});
  }

  void append(Unit unit) {
    const std::size_t index = units_.size();
    for (const std::string& name : unit.writes) current_[name] = index;
    for (const auto& [definition, range] : unit.reads) users_[definition].push_back(index);
    units_.push_back(std::move(unit));
  }

  /// The unit whose value a name has now, or nullptr for parameters, constants and functions.
  const Unit* unit_of(const std::string& name) const {
    const auto found = current_.find(name);
    return found == current_.end() ? nullptr : &units_[found->second];
  }

  static bool is_check(const Statement& statement) {
    if (statement.kind != StatementKind::expression) return false;
    constexpr std::array<std::string_view, 4> kChecks = {"assume", "static_assert", "device_assert", "assert"};
    return std::find(kChecks.begin(), kChecks.end(), called(*statement.value)) != kChecks.end();
  }

  void classify(Unit& unit) {
    unit.from_program = unit.asks_program;
    for (const auto& [definition, range] : unit.reads)
      unit.from_program = unit.from_program || units_[definition.unit].from_program;
    const Statement& statement = *unit.statement;
    const bool augmented = statement.kind == StatementKind::augmented_assign;
    if (statement.kind != StatementKind::assign && !augmented) return;

    const auto is_scalar = [this](const std::string& name) {
      const Unit* source = unit_of(name);
      return source == nullptr || source->scalar;
    };
    const auto is_scalar_or_data = [this, &is_scalar](const std::string& name) {
      const Unit* source = unit_of(name);
      return is_scalar(name) || source->data;
    };
    const auto is_tainted = [this](const std::string& name) {
      const Unit* source = unit_of(name);
      return source != nullptr && (source->tainted || source->data);
    };
    const auto holds = [&](const HelperFacts::NameTest& names_fit, const HelperFacts::CallTest& calls_fit) {
      return helpers_.is_scalar(*statement.value, names_fit, calls_fit) && statement.text != "/" &&
             statement.text != "@" && (!augmented || names_fit(statement.targets[0]->text)) &&
             unpacks_what_it_can(statement);
    };
    const auto tainted_read = [&](const auto& read) { return units_[read.first.unit].tainted; };
    const bool reads_source = unit.asks_program || std::any_of(unit.reads.begin(), unit.reads.end(), tainted_read);
    const auto is_load = [&](const Expression& call) { return loads_scalar(call, is_scalar, reads_source); };
    unit.scalar = holds(is_scalar, {});
    unit.tainted = unit.scalar && reads_source;
    unit.data = !unit.scalar && holds(is_scalar_or_data, is_load);
    unit.divides =
        helpers_.divides(*statement.value, is_tainted) ||
        (augmented && (statement.text == "//" || statement.text == "%") && is_tainted(statement.targets[0]->text));
  }

  /// A tuple of values for a tuple of names, one value for one name.
  bool unpacks_what_it_can(const Statement& statement) {
    const HelperFacts::Facts* helper = helpers_.of_call(*statement.value);
    const bool makes_tuple = statement.value->kind == ExpressionKind::tuple ||
                             (helper != nullptr && helper->returns_tuple) || called(*statement.value) == "swizzle2d";
    return std::all_of(statement.targets.begin(), statement.targets.end(), [makes_tuple](const auto& target) {
      return (target->kind == ExpressionKind::tuple) == makes_tuple;
    });
  }

  /// tl.load or an atomic operation on a scalar address that differs between programs or, for atomics, in time.
  static bool loads_scalar(const Expression& value, const HelperFacts::NameTest& is_scalar, bool reads_source) {
    if (called(value) == "to") {
      const Expression& callee = *value.children[0];
      return callee.kind == ExpressionKind::attribute && loads_scalar(*callee.children[0], is_scalar, reads_source);
    }
    if (!reads_memory(value)) return false;
    const auto scalars = [&is_scalar](const Expression& expression) {
      const std::vector<NameRead> reads = names_read(expression);
      bool found = true;
      for_each_expression(expression, [&found](const Expression& each) {
        found = found && called(each) != "arange" && each.kind != ExpressionKind::subscript;
      });
      return found && std::all_of(reads.begin(), reads.end(),
                                  [&is_scalar](const NameRead& read) { return is_scalar(read.name); });
    };
    if (value.children.size() < 2 || !scalars(*value.children[1])) return false;
    return called(value) != "load" || (reads_source && value.children[0]->dotted_name() == "tl.load");
  }

  // --- Annotations.

  void force_annotated() {
    for (Unit& unit : units_) {
      if (unit.place == Place::header) continue;
      for (const ByteRange block : annotations_.scheduler_blocks) {
        const ByteRange range = unit.statement->range;
        if (range.end <= block.begin || block.end <= range.begin) continue;
        if (range.begin < block.begin || block.end < range.end)
          throw error({block.begin, block.begin}, "'tile_scheduler' begins or ends inside a statement",
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
        throw error({block.begin, block.begin}, "there is no statement between 'tile_scheduler' begin and end",
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
    const auto users = users_.find(definition);
    return users != users_.end() && std::any_of(users->second.begin(), users->second.end(),
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
                               : "give the program id a name first, as in `pid = tl.program_id(0)`, and use the name");
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
    const auto users = users_.find({unit, name});
    if (users == users_.end()) return false;
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
  std::vector<Unit> units_;
  std::map<std::string, std::size_t> current_;  ///< while units are added: who wrote a name last
  std::map<Definition, std::vector<std::size_t>> users_;
};

}  // namespace

TileScheduler find_scheduler(const Module& module, const Function& function, const Annotations& annotations) {
  return Search(module, function, annotations).run();
}

}  // namespace syncopate
