// What templates ask of their options.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "syncopate/schedule/templates.h"

namespace syncopate {

/// Throws UserError at `where` unless the collective has a template by the algorithm, and the algorithm has what it
/// needs and nothing that it has no use for.
void check_options(CollectiveType type, int ranks, const TemplateOptions& options, const SourceLocation& where);

/// Throws UserError at `where` unless split is from 1 to `most`, with the reason `because`: "the largest shard has
/// ...".
void check_split(const TemplateOptions& options, std::int64_t most, const std::string& because,
                 const SourceLocation& where);

/// check_split for the chunks of a whole tensor.
void check_whole_split(const LogicalTensor& tensor, const TemplateOptions& options, const SourceLocation& where);

/// The shares as stated, or 1:1.
std::array<int, 2> shares_of(const TemplateOptions& options);

}  // namespace syncopate
