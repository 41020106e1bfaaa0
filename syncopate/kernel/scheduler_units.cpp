#include "syncopate/kernel/scheduler_units.h"

#include <algorithm>

namespace syncopate {
namespace {

class Builder {
 public:
  Builder(const Function& function, const TileWalk& walk, HelperFacts& helpers)
      : function_(function), walk_(walk), helpers_(helpers) {}

  UnitTable run() {
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
    return std::move(table_);
  }

 private:
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
    const std::size_t index = table_.units.size();
    for (const std::string& name : unit.writes) current_[name] = index;
    for (const auto& [definition, range] : unit.reads) table_.users[definition].push_back(index);
    table_.units.push_back(std::move(unit));
  }

  /// The unit whose value a name has now, or nullptr for parameters, constants and functions.
  const Unit* unit_of(const std::string& name) const {
    const auto found = current_.find(name);
    return found == current_.end() ? nullptr : &table_.units[found->second];
  }

  void classify(Unit& unit) {
    unit.from_program = unit.asks_program;
    for (const auto& [definition, range] : unit.reads)
      unit.from_program = unit.from_program || table_.units[definition.unit].from_program;
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
    const auto tainted_read = [&](const auto& read) { return table_.units[read.first.unit].tainted; };
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

  const Function& function_;
  const TileWalk& walk_;
  HelperFacts& helpers_;
  UnitTable table_;
  std::map<std::string, std::size_t> current_;  ///< which unit wrote a name last
};

}  // namespace

UnitTable find_units(const Function& function, const TileWalk& walk, HelperFacts& helpers) {
  return Builder(function, walk, helpers).run();
}

}  // namespace syncopate
