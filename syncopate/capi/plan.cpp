#include "syncopate/capi/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "syncopate/capi/describe.h"
#include "syncopate/capi/error.h"
#include "syncopate/capi/options.h"
#include "syncopate/driver/driver.h"
#include "syncopate/host/host.h"
#include "syncopate/plan/plan_json.h"
#include "syncopate/plan/print.h"
#include "syncopate/verify/verify.h"

namespace syncopate::capi {
namespace {

/// A new handle in *out from what `make` returns.
template <typename Make>
syncopate_code new_plan(syncopate_plan** out, syncopate_error** error, Make&& make) {
  return guard(error, [&] {
    require(out, "plan");
    *out = new syncopate_plan{std::make_shared<const Plan>(make())};
  });
}

/// A new text in *out from what `make` says of the plan.
template <typename Make>
syncopate_code new_text_of(const syncopate_plan* plan, char** out, syncopate_error** error, Make&& make) {
  return guard(error, [&] {
    require(plan, "plan");
    require(out, "the place for the text");
    *out = new_text(make(*plan->plan));
  });
}

RunOptions run_options_of(const syncopate_run_options* given) {
  const syncopate_run_options options = complete(given, syncopate_run_options_init);
  if (options.repeat < 1)
    throw UserError({}, fmt::format("repeat is {}", options.repeat), "a run has at least one launch");
  RunOptions run;
  run.seed = options.seed;
  run.repeat = options.repeat;
  run.adversary = options.adversary != 0;
  run.inputs = options.reals != 0 ? InputKind::reals : InputKind::small_integers;
  if (options.progress != nullptr)
    run.progress = [progress = options.progress, context = options.progress_context](std::int64_t done,
                                                                                     std::int64_t all) {
      if (progress(context, done, all) != 0) throw Stopped{};
    };
  return run;
}

}  // namespace
}  // namespace syncopate::capi

using namespace syncopate;
using namespace syncopate::capi;

syncopate_code syncopate_plan_compile(const char* operator_file, const syncopate_override* overrides, size_t count,
                                      syncopate_plan** plan, syncopate_error** error) {
  return new_plan(plan, error, [&] {
    require(operator_file, "operator_file");
    if (count > 0) require(overrides, "overrides");
    std::vector<Override> settings;
    for (std::size_t i = 0; i < count; ++i) {
      require(overrides[i].key, "the key of an override");
      require(overrides[i].value, "the value of an override");
      settings.push_back({overrides[i].key, overrides[i].value});
    }
    return compile_operator(operator_file, settings);
  });
}

syncopate_code syncopate_plan_parse(const char* name, const char* json, size_t length, syncopate_plan** plan,
                                    syncopate_error** error) {
  return new_plan(plan, error, [&] {
    require(name, "name");
    require(json, "json");
    return parse_plan(SourceFile(name, std::string(json, length)));
  });
}

syncopate_code syncopate_plan_load(const char* plan_file, syncopate_plan** plan, syncopate_error** error) {
  return new_plan(plan, error, [&] {
    require(plan_file, "plan_file");
    return parse_plan(*SourceFile::read(plan_file));
  });
}

void syncopate_plan_free(syncopate_plan* plan) { delete plan; }

syncopate_code syncopate_plan_json(const syncopate_plan* plan, char** json, syncopate_error** error) {
  return new_text_of(plan, json, error, [](const Plan& of) { return to_json(of); });
}

syncopate_code syncopate_plan_fused_source(const syncopate_plan* plan, char** text, syncopate_error** error) {
  return new_text_of(plan, text, error, [](const Plan& of) { return of.kernel.fused_source; });
}

syncopate_code syncopate_plan_show(const syncopate_plan* plan, char** text, syncopate_error** error) {
  return new_text_of(plan, text, error, [](const Plan& of) { return show(of); });
}

syncopate_code syncopate_plan_describe(const syncopate_plan* plan, char** json, syncopate_error** error) {
  return new_text_of(plan, json, error, [](const Plan& of) { return describe(of); });
}

syncopate_code syncopate_plan_verify(const syncopate_plan* plan, char** report, syncopate_error** error) {
  return new_text_of(plan, report, error, [](const Plan& of) { return describe(verify(of)); });
}

void syncopate_run_options_init(syncopate_run_options* options) {
  if (options == nullptr) return;
  *options = {};
  options->size = sizeof *options;
  options->repeat = 1;
}

syncopate_code syncopate_plan_run(const syncopate_plan* plan, const syncopate_run_options* options, char** report,
                                  syncopate_error** error) {
  return new_text_of(plan, report, error,
                     [&](const Plan& of) { return describe(run_on_cpu_ranks(of, run_options_of(options))); });
}
