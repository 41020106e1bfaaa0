// What the search for the tile scheduler needs to know of single statements and expressions: which names they read and
// write, whether they are scalar integer arithmetic, and whether they ask for the program id.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "syncopate/kernel/syntax.h"

namespace syncopate {

/// Visits an expression and everything inside it, outermost first.
void for_each_expression(const Expression& expression, const std::function<void(const Expression&)>& visit);
/// Visits a statement and those inside it, in source order.
void for_each_statement(const Statement& statement, const std::function<void(const Statement&)>& visit);

/// A name that a statement reads.
struct NameRead {
  std::string name;
  ByteRange range;
};
/// The names that one statement reads, with those inside it; `x += 1` reads x.
std::vector<NameRead> names_read(const Statement& statement);
/// The names that its own header or value reads.
std::vector<NameRead> own_names_read(const Statement& statement);
std::vector<NameRead> names_read(const Expression& expression);
/// The names that one statement writes, with those inside it, in source order, each once.
std::vector<std::string> names_written(const Statement& statement);
/// The names that it writes itself: its targets.
std::vector<std::string> own_names_written(const Statement& statement);

/// The last part of the name of a called function ("load" of tl.load and of a.load), or "" if it is no call.
std::string_view called(const Expression& expression);
/// Whether a statement says something about values and computes nothing: tl.assume, assertions, docstrings.
bool is_check(const Statement& statement);
/// Whether an expression is x.to(tl.int64).
bool converts_to_int64(const Expression& expression);
/// Whether a call reads memory.
bool reads_memory(const Expression& expression);

/// Facts about the helpers of a module, computed once each.
class HelperFacts {
 public:
  explicit HelperFacts(const Module& module) : module_(module) {}

  struct Facts {
    bool scalar = false;        ///< scalar arithmetic on its arguments, without effects
    bool divides = false;       ///< applies //, % or the like
    bool asks_program = false;  ///< calls tl.program_id or tl.num_programs, itself or through others
    bool returns_tuple = false;
  };
  /// The facts of the @triton.jit function that an expression calls, or nullptr if it calls none of this file.
  const Facts* of_call(const Expression& expression);

  using NameTest = std::function<bool(const std::string&)>;
  using CallTest = std::function<bool(const Expression&)>;
  /// Whether an expression is arithmetic of scalars. `name_is_scalar` answers for its names, `call_is_scalar` for calls
  /// of what is no arithmetic.
  bool is_scalar(const Expression& expression, const NameTest& name_is_scalar, const CallTest& call_is_scalar = {});
  /// Whether it applies //, %, min or the like, or a helper that does, to a name that `is_tainted`, or to the program
  /// id.
  bool divides(const Expression& expression, const NameTest& is_tainted);
  /// Whether an expression asks for the program id or the number of programs.
  bool asks_program(const Expression& expression);
  bool asks_program(const Statement& statement);

 private:
  const Facts& of(const Function& function);
  bool body_is_scalar(const std::vector<std::unique_ptr<Statement>>& body, Facts& facts);

  const Module& module_;
  std::map<const Function*, Facts> facts_;  // only looked up by pointer, never walked
};

}  // namespace syncopate
