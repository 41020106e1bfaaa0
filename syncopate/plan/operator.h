// An operator as its user states it: a local kernel, its tensors, and for each tensor where it lives before the
// operator and what the kernel reads or writes inside it. The collective follows from the difference.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "syncopate/core/dtype.h"
#include "syncopate/core/region.h"
#include "syncopate/core/source.h"
#include "syncopate/kernel/program.h"
#include "syncopate/schedule/placement.h"
#include "syncopate/schedule/templates.h"

namespace syncopate {

/// One tensor. The places are for messages.
struct TensorStatement {
  std::string name;
  std::string parameter;
  Shape shape;
  Dtype dtype = Dtype::bf16;
  Placement before;
  Placement inside;
  Placement after;
  std::vector<Range> values;   ///< per rank, as Buffer::values; empty if not stated
  bool states_before = false;  ///< whether the file states `before`; else it is `inside`
  bool states_after = false;   ///< whether the file states `after`; else it is `inside`
  SourceLocation where;        ///< of the table
  SourceLocation parameter_where;
  SourceLocation shape_where;
  SourceLocation placement_where;
  SourceLocation before_where;  ///< the places of `before` and `after`, where stated
  SourceLocation after_where;
};

/// Where the summands of a reduced tensor lie that a rank has received, until it adds them.
enum class SumPlace : std::uint8_t {
  automatic,  ///< in the tensor itself if that is possible and gives the same bits everywhere
  in_place,   ///< in the tensor itself
  staging,    ///< in a staging buffer
};

/// How one tensor's collective is carried out.
struct CommunicationStatement {
  std::string tensor;
  TemplateOptions options;
  std::string schedule_file;  ///< if not empty, the schedule is read from here instead of made from a template
  /// Of a reduced tensor: the most bytes per rank that summands which have arrived may take up at a time. Nothing: as
  /// many as arrive in a launch.
  std::optional<std::int64_t> memory_budget;
  SumPlace sum = SumPlace::automatic;  ///< of a reduced tensor
  SourceLocation where;
  SourceLocation split_where;
  SourceLocation budget_where;
  SourceLocation sum_where;  ///< if it is stated
};

struct OperatorStatement {
  std::string name;
  int ranks = 1;
  int workers = 132;           ///< thread blocks per rank; clipped to the number of tiles
  int lookahead = 0;           ///< as Plan::lookahead
  SourceLocation order_where;  ///< where a dynamic order is asked for
  int warps = 4;               ///< for Triton: per thread block
  int stages = 3;              ///< for Triton: depth of software pipelines
  std::int64_t grid = 0;       ///< programs of a one-program-per-tile kernel; 0: inferred
  SourceLocation grid_where;
  std::string kernel_file;  ///< resolved against the operator file's folder
  std::string kernel_function;
  ScalarArguments arguments;  ///< those that have one value on all ranks
  /// Per rank: those that do not. Empty if there are none.
  std::vector<ScalarArguments> rank_arguments = {};
  std::map<std::string, SourceLocation> argument_where;  ///< of both
  SourceLocation kernel_where;
  std::vector<TensorStatement> tensors;  ///< in file order
  std::vector<CommunicationStatement> communications;
};

/// One --set: dotted key and TOML value text.
struct Override {
  std::string key;
  std::string value;
};

/// Reads an operator file, with overrides applied before anything is interpreted. Throws UserError at the exact place
/// for syntax errors, unknown keys (naming the nearest known one), wrong types, unknown names in expressions.
OperatorStatement read_operator(const std::string& path, const std::vector<Override>& overrides = {});

}  // namespace syncopate
