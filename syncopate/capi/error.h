// What crosses from C++ to C: exceptions become codes and error objects, strings become texts that the caller frees.
#pragma once

#include <string>
#include <string_view>

#include "syncopate/capi/syncopate.h"
#include "syncopate/core/error.h"

/// What the C interface calls an error.
struct syncopate_error {
  syncopate_code code = SYNCOPATE_INTERNAL_ERROR;
  std::string message;
  std::string problem;
  std::string remedy;
  syncopate::SourceLocation where;
};

namespace syncopate::capi {

/// A launch failed on some rank.
struct LaunchFailed {
  std::string message;
};
/// A progress function asked for the work to stop.
struct Stopped {};

/// To be called from a catch block: turns the exception under way into a code and, if `error` is not null, an object.
syncopate_code report(syncopate_error** error) noexcept;

/// Runs `body`; whatever it throws becomes an error.
template <typename Body>
syncopate_code guard(syncopate_error** error, Body&& body) noexcept {
  try {
    body();
    return SYNCOPATE_OK;
  } catch (...) {
    return report(error);
  }
}

/// Throws UserError if an argument that must be there is null; `what` names it.
void require(const void* argument, std::string_view what);

/// A copy that syncopate_text_free() frees.
char* new_text(std::string_view text);

}  // namespace syncopate::capi
