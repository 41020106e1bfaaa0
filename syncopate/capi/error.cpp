#include "syncopate/capi/error.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

namespace syncopate::capi {
namespace {

syncopate_error describe_current() {
  try {
    throw;
  } catch (const UserError& error) {
    return {SYNCOPATE_USER_ERROR, error.what(), error.problem(), error.remedy(), error.where()};
  } catch (const LaunchFailed& failed) {
    return {SYNCOPATE_FAILED, failed.message, failed.message, {}, {}};
  } catch (const Stopped&) {
    return {SYNCOPATE_STOPPED, "stopped", "stopped", {}, {}};
  } catch (const std::bad_alloc&) {
    constexpr const char* kMessage = "not enough memory for tensors or blocks of these sizes; use smaller ones";
    return {SYNCOPATE_OUT_OF_MEMORY, kMessage, kMessage, {}, {}};
  } catch (const std::exception& error) {
    const std::string message = fmt::format("{} (a defect of Syncopate)", error.what());
    return {SYNCOPATE_INTERNAL_ERROR, message, message, {}, {}};
  }
}

/// No error has no text.
const char* text_of(const syncopate_error* error, std::string syncopate_error::* part) {
  return error == nullptr ? "" : (error->*part).c_str();
}

}  // namespace

syncopate_code report(syncopate_error** error) noexcept {
  try {
    syncopate_error described = describe_current();
    const syncopate_code code = described.code;
    if (error != nullptr) *error = new syncopate_error(std::move(described));
    return code;
  } catch (...) {  // not even memory for the message
    return SYNCOPATE_OUT_OF_MEMORY;
  }
}

void require(const void* argument, std::string_view what) {
  if (argument == nullptr) throw UserError({}, fmt::format("{} is NULL", what), "it must be given");
}

char* new_text(std::string_view text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

}  // namespace syncopate::capi

using syncopate::capi::text_of;

int syncopate_abi_version() { return SYNCOPATE_ABI_VERSION; }
const char* syncopate_version() { return SYNCOPATE_VERSION; }

syncopate_code syncopate_error_code(const syncopate_error* error) {
  return error == nullptr ? SYNCOPATE_OK : error->code;
}
const char* syncopate_error_message(const syncopate_error* error) { return text_of(error, &syncopate_error::message); }
const char* syncopate_error_problem(const syncopate_error* error) { return text_of(error, &syncopate_error::problem); }
const char* syncopate_error_remedy(const syncopate_error* error) { return text_of(error, &syncopate_error::remedy); }
const char* syncopate_error_file(const syncopate_error* error) {
  return error == nullptr ? "" : error->where.file.c_str();
}
int syncopate_error_line(const syncopate_error* error) { return error == nullptr ? 0 : error->where.line; }
int syncopate_error_column(const syncopate_error* error) { return error == nullptr ? 0 : error->where.column; }
void syncopate_error_free(syncopate_error* error) { delete error; }
void syncopate_text_free(char* text) { std::free(text); }
