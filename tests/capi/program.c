/* The C interface as a C program uses it. Usage: capi_program SOURCE_DIR */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syncopate/capi/syncopate.h"

static int failures = 0;

static void expect(int holds, const char* what, int line) {
  if (holds) return;
  fprintf(stderr, "line %d: not so: %s\n", line, what);
  ++failures;
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

/* A text that must hold `part`. */
static void expect_part(const char* text, const char* part, int line) {
  if (text != NULL && strstr(text, part) != NULL) return;
  fprintf(stderr, "line %d: no '%s' in: %s\n", line, part, text == NULL ? "(null)" : text);
  ++failures;
}
#define EXPECT_PART(text, part) expect_part((text), (part), __LINE__)

static void require_success(syncopate_code code, syncopate_error* error, int line) {
  if (code == SYNCOPATE_OK) return;
  fprintf(stderr, "line %d: %s\n", line, error == NULL ? "failed" : syncopate_error_message(error));
  exit(1);
}
#define REQUIRE(call) require_success((call), error, __LINE__)

/* Checks what an error says, and frees it. */
static void expect_error(syncopate_code code, syncopate_error** error, syncopate_code expected, const char* part,
                         int line) {
  expect(code == expected, "the expected code", line);
  expect(*error != NULL, "an error object", line);
  if (*error == NULL) return;
  expect(syncopate_error_code(*error) == code, "the error's own code", line);
  expect_part(syncopate_error_message(*error), part, line);
  syncopate_error_free(*error);
  *error = NULL;
}
#define EXPECT_ERROR(call, code, part) expect_error((call), &error, (code), (part), __LINE__)

static syncopate_plan* compile_small(const char* source, const char* ranks) {
  char path[4096];
  syncopate_error* error = NULL;
  syncopate_plan* plan = NULL;
  syncopate_override overrides[4];
  overrides[0].key = "ranks";
  overrides[0].value = ranks;
  overrides[1].key = "kernel.args.M";
  overrides[1].value = "256";
  overrides[2].key = "kernel.args.N";
  overrides[2].value = "128";
  overrides[3].key = "communicate.a.algorithm";
  overrides[3].value = "\"ring\"";
  snprintf(path, sizeof path, "%s/operators/ag_gemm.toml", source);
  REQUIRE(syncopate_plan_compile(path, overrides, 4, &plan, &error));
  return plan;
}

static void test_plans(const char* source) {
  syncopate_error* error = NULL;
  syncopate_plan* plan = compile_small(source, "2");
  syncopate_plan* again = NULL;
  char* text = NULL;
  char* second = NULL;

  REQUIRE(syncopate_plan_json(plan, &text, &error));
  REQUIRE(syncopate_plan_parse("mine.json", text, strlen(text), &again, &error));
  REQUIRE(syncopate_plan_json(again, &second, &error));
  EXPECT(strcmp(text, second) == 0);
  syncopate_text_free(second);

  /* A damaged plan is refused, at its place. */
  syncopate_plan* none = NULL;
  EXPECT_ERROR(syncopate_plan_parse("mine.json", text, strlen(text) / 2, &none, &error), SYNCOPATE_USER_ERROR,
               "mine.json:");
  EXPECT(none == NULL);
  syncopate_text_free(text);

  REQUIRE(syncopate_plan_describe(plan, &text, &error));
  EXPECT_PART(text, "\"operator\": \"ag_gemm\"");
  EXPECT_PART(text, "\"shape\": [256, ");
  syncopate_text_free(text);

  REQUIRE(syncopate_plan_fused_source(plan, &text, &error));
  EXPECT_PART(text, "@triton.jit");
  syncopate_text_free(text);
  REQUIRE(syncopate_plan_show(plan, &text, &error));
  EXPECT_PART(text, "ring, push");
  syncopate_text_free(text);

  REQUIRE(syncopate_plan_verify(again, &text, &error));
  EXPECT_PART(text, "\"holds\": true");
  EXPECT(strstr(text, "\"holds\": false") == NULL);
  syncopate_text_free(text);

  syncopate_plan_free(again);
  syncopate_plan_free(plan);
}

static int count_progress(void* context, int64_t done, int64_t all) {
  if (done >= 0 && done <= all) ++*(int*)context;
  return 0;
}
static int stop_at_once(void* context, int64_t done, int64_t all) {
  (void)context, (void)done, (void)all;
  return 1;
}

static void test_runs(const char* source) {
  syncopate_error* error = NULL;
  syncopate_plan* plan = compile_small(source, "2");
  syncopate_run_options options;
  char* text = NULL;
  int calls = 0;

  REQUIRE(syncopate_plan_run(plan, NULL, &text, &error));
  EXPECT_PART(text, "\"right\": true");
  syncopate_text_free(text);

  syncopate_run_options_init(&options);
  options.seed = 7;
  options.repeat = 3;
  options.adversary = 1;
  options.reals = 1;
  options.progress = count_progress;
  options.progress_context = &calls;
  REQUIRE(syncopate_plan_run(plan, &options, &text, &error));
  EXPECT_PART(text, "\"outcome\": \"right\"");
  EXPECT(calls > 0);
  syncopate_text_free(text);

  text = NULL;
  options.progress = stop_at_once;
  EXPECT_ERROR(syncopate_plan_run(plan, &options, &text, &error), SYNCOPATE_STOPPED, "stopped");
  options.progress = NULL;
  options.repeat = 0;
  EXPECT_ERROR(syncopate_plan_run(plan, &options, &text, &error), SYNCOPATE_USER_ERROR, "repeat is 0");
  options.size = sizeof options + 8;
  EXPECT_ERROR(syncopate_plan_run(plan, &options, &text, &error), SYNCOPATE_USER_ERROR, "_init");
  EXPECT(text == NULL);
  syncopate_plan_free(plan);
}

static void test_errors(const char* source) {
  syncopate_error* error = NULL;
  syncopate_plan* plan = NULL;
  char path[4096];
  syncopate_override unknown;
  unknown.key = "rank";
  unknown.value = "2";

  EXPECT_ERROR(syncopate_plan_compile("none.toml", NULL, 0, &plan, &error), SYNCOPATE_USER_ERROR,
               "none.toml: no such file");
  EXPECT_ERROR(syncopate_plan_load("none.json", &plan, &error), SYNCOPATE_USER_ERROR, "none.json: no such file");
  EXPECT_ERROR(syncopate_plan_load(NULL, &plan, &error), SYNCOPATE_USER_ERROR, "plan_file is NULL");
  EXPECT_ERROR(syncopate_plan_compile("x", NULL, 1, &plan, &error), SYNCOPATE_USER_ERROR, "overrides is NULL");
  /* The error is optional. */
  EXPECT(syncopate_plan_load("none.json", &plan, NULL) == SYNCOPATE_USER_ERROR);

  snprintf(path, sizeof path, "%s/operators/ag_gemm.toml", source);
  EXPECT(syncopate_plan_compile(path, &unknown, 1, &plan, &error) == SYNCOPATE_USER_ERROR);
  EXPECT_PART(syncopate_error_problem(error), "unknown key 'rank'");
  EXPECT_PART(syncopate_error_remedy(error), "did you mean 'ranks'?");
  EXPECT_PART(syncopate_error_file(error), "--set rank=2");
  syncopate_error_free(error);
  error = NULL;
  EXPECT(plan == NULL);

  /* A place in a file. */
  EXPECT(syncopate_plan_parse("bad.json", "{\n  x", 5, &plan, &error) == SYNCOPATE_USER_ERROR);
  EXPECT_PART(syncopate_error_file(error), "bad.json");
  EXPECT(syncopate_error_line(error) == 2);
  EXPECT(syncopate_error_column(error) > 0);
  syncopate_error_free(error);

  /* No error has no text and no place. */
  EXPECT(syncopate_error_code(NULL) == SYNCOPATE_OK);
  EXPECT(strcmp(syncopate_error_message(NULL), "") == 0);
  EXPECT(strcmp(syncopate_error_problem(NULL), "") == 0);
  EXPECT(strcmp(syncopate_error_remedy(NULL), "") == 0);
  EXPECT(strcmp(syncopate_error_file(NULL), "") == 0);
  EXPECT(syncopate_error_line(NULL) == 0);
  EXPECT(syncopate_error_column(NULL) == 0);
  syncopate_run_options_init(NULL);
  syncopate_operator_options_init(NULL);

  syncopate_error_free(NULL);
  syncopate_text_free(NULL);
  syncopate_plan_free(NULL);
  syncopate_operator_destroy(NULL);
}

/* What must be said before any GPU is looked for, and what is said where there is none. */
static void test_operators(const char* source) {
  syncopate_error* error = NULL;
  syncopate_plan* plan = compile_small(source, "2");
  syncopate_operator_options options;
  syncopate_operator* op = NULL;

  syncopate_operator_options_init(&options);
  EXPECT_ERROR(syncopate_operator_create(plan, &options, &op, &error), SYNCOPATE_USER_ERROR, "cache is NULL");
  options.cache = "/tmp";
  options.rank = 2;
  EXPECT_ERROR(syncopate_operator_create(plan, &options, &op, &error), SYNCOPATE_USER_ERROR,
               "rank 2 of a plan of 2 ranks");
  options.rank = 0;
  options.ranks_on_device = 3;
  EXPECT_ERROR(syncopate_operator_create(plan, &options, &op, &error), SYNCOPATE_USER_ERROR, "3 ranks on one GPU");
  options.ranks_on_device = 1;
  options.time_limit = 0;
  EXPECT_ERROR(syncopate_operator_create(plan, &options, &op, &error), SYNCOPATE_USER_ERROR, "time limit of 0");
  options.time_limit = 1;
  options.device = 1000;
  /* "there is no GPU 1000" or "there is no CUDA driver on this machine". */
  EXPECT_ERROR(syncopate_operator_create(plan, &options, &op, &error), SYNCOPATE_USER_ERROR, "GPU");
  EXPECT_ERROR(syncopate_operator_create(NULL, &options, &op, &error), SYNCOPATE_USER_ERROR, "plan is NULL");
  EXPECT_ERROR(syncopate_operator_create(plan, NULL, &op, &error), SYNCOPATE_USER_ERROR, "options is NULL");
  EXPECT_ERROR(syncopate_operator_create(plan, &options, NULL, &error), SYNCOPATE_USER_ERROR, "operator is NULL");
  EXPECT_ERROR(syncopate_operator_call(NULL, NULL, &error), SYNCOPATE_USER_ERROR, "op is NULL");
  EXPECT_ERROR(syncopate_operator_handle(NULL, NULL, NULL, &error), SYNCOPATE_USER_ERROR, "op is NULL");
  EXPECT_ERROR(syncopate_operator_connect(NULL, NULL, NULL, 0, &error), SYNCOPATE_USER_ERROR, "op is NULL");
  EXPECT_ERROR(syncopate_operator_bind(NULL, "a", NULL, &error), SYNCOPATE_USER_ERROR, "op is NULL");
  EXPECT_ERROR(syncopate_operator_view(NULL, "a", 0, NULL, &error), SYNCOPATE_USER_ERROR, "op is NULL");
  EXPECT_ERROR(syncopate_operator_status(NULL, &error), SYNCOPATE_USER_ERROR, "op is NULL");
  EXPECT_ERROR(syncopate_operator_synchronize(NULL, &error), SYNCOPATE_USER_ERROR, "op is NULL");
  EXPECT(syncopate_operator_call(NULL, NULL, NULL) == SYNCOPATE_USER_ERROR);
  EXPECT_ERROR(syncopate_operator_prepare_local(NULL, &error), SYNCOPATE_USER_ERROR, "op is NULL");
  EXPECT_ERROR(syncopate_operator_call_local(NULL, NULL, &error), SYNCOPATE_USER_ERROR, "op is NULL");
  EXPECT(op == NULL);
  syncopate_plan_free(plan);
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  EXPECT(syncopate_abi_version() == SYNCOPATE_ABI_VERSION);
  EXPECT(strlen(syncopate_version()) > 0);
  test_plans(arguments[1]);
  test_runs(arguments[1]);
  test_errors(arguments[1]);
  test_operators(arguments[1]);
  printf(failures == 0 ? "all as expected\n" : "%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
