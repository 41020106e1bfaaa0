/* The C interface of Syncopate: plans as JSON text, tensors as DLPack, everything else behind opaque handles. It is
 * what the Python package stands on, and all that libsyncopate.so exports.
 *
 * Errors. Every function that can fail returns a syncopate_code and takes `syncopate_error** error` last. On failure,
 * if `error` is not NULL, *error becomes a new object, which the caller frees; results are left alone. On success
 * *error is left alone. There is no error state outside these objects.
 *
 * Texts. A `char**` receives a new zero-terminated UTF-8 text, which the caller frees with syncopate_text_free().
 * Texts that go in are read during the call and not kept.
 *
 * Threads. Functions on different objects may run at once. A plan may be used by any number of threads at once. Of the
 * functions on one operator only syncopate_operator_status() may run beside another, and only beside
 * syncopate_operator_call() and syncopate_operator_synchronize().
 *
 * What is collective. syncopate_operator_connect(), every syncopate_operator_call() and syncopate_operator_destroy()
 * are to be made by all ranks, calls in the same number. None of them waits for the others on the host, with three
 * exceptions: connect() needs the handles of all ranks, which the caller exchanges; call() waits while 1024 calls are
 * under way; and destroy() waits some seconds for peers that may still use this rank's memory. Everything else is each
 * rank's own affair. A call beyond the number that another rank made before its destroy() fails on all ranks.
 */
#ifndef SYNCOPATE_CAPI_SYNCOPATE_H
#define SYNCOPATE_CAPI_SYNCOPATE_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYNCOPATE_API __attribute__((visibility("default")))

/** Version of this interface. Functions and fields are only ever added to it; anything else raises the number. */
#define SYNCOPATE_ABI_VERSION 1

typedef enum syncopate_code {
  SYNCOPATE_OK = 0,
  SYNCOPATE_USER_ERROR = 1, /**< something the caller can mend: a file, an argument, a machine without a GPU */
  SYNCOPATE_FAILED = 2, /**< a launch failed on some rank: a wait was missed, a process died. The operator is spent */
  SYNCOPATE_OUT_OF_MEMORY = 3, /**< of the host; a GPU without memory is a SYNCOPATE_USER_ERROR */
  SYNCOPATE_STOPPED = 4,       /**< a progress function asked for it */
  SYNCOPATE_INTERNAL_ERROR = 5 /**< a defect of Syncopate */
} syncopate_code;

typedef struct syncopate_error syncopate_error;
typedef struct syncopate_plan syncopate_plan;
typedef struct syncopate_operator syncopate_operator;

SYNCOPATE_API int syncopate_abi_version(void);
/** "0.1.0"; lives as long as the library. */
SYNCOPATE_API const char* syncopate_version(void);

/* ---- errors and texts ---------------------------------------------------------------------------------------------
 */

/** What these return lives as long as the error. NULL is no error: SYNCOPATE_OK, "" and 0. */
SYNCOPATE_API syncopate_code syncopate_error_code(const syncopate_error* error);
/** "file:line:column: what is wrong; what would be right". Never NULL. */
SYNCOPATE_API const char* syncopate_error_message(const syncopate_error* error);
/** The parts of the message; "" and 0 where there is none. Lines and columns count from 1. */
SYNCOPATE_API const char* syncopate_error_problem(const syncopate_error* error);
SYNCOPATE_API const char* syncopate_error_remedy(const syncopate_error* error);
SYNCOPATE_API const char* syncopate_error_file(const syncopate_error* error);
SYNCOPATE_API int syncopate_error_line(const syncopate_error* error);
SYNCOPATE_API int syncopate_error_column(const syncopate_error* error);
/** NULL is allowed, here and in the other functions that free. */
SYNCOPATE_API void syncopate_error_free(syncopate_error* error);
SYNCOPATE_API void syncopate_text_free(char* text);

/* ---- plans --------------------------------------------------------------------------------------------------------
 */

/** One `--set`: a dotted key of the operator file ("kernel.args.M") and its value as TOML text ("8192", "\"ring\""). */
typedef struct syncopate_override {
  const char* key;
  const char* value;
} syncopate_override;

/** Compiles an operator file (.toml). `overrides` may be NULL if `count` is 0. Free the plan with
 * syncopate_plan_free(). */
SYNCOPATE_API syncopate_code syncopate_plan_compile(const char* operator_file, const syncopate_override* overrides,
                                                    size_t count, syncopate_plan** plan, syncopate_error** error);
/** Reads a plan from JSON text of `length` bytes; `name` is what messages call it. */
SYNCOPATE_API syncopate_code syncopate_plan_parse(const char* name, const char* json, size_t length,
                                                  syncopate_plan** plan, syncopate_error** error);
/** Reads a plan from a file (.json). */
SYNCOPATE_API syncopate_code syncopate_plan_load(const char* plan_file, syncopate_plan** plan, syncopate_error** error);
/** Operators and texts made from the plan do not need it any more. */
SYNCOPATE_API void syncopate_plan_free(syncopate_plan* plan);

/** The plan as text: same plan, same bytes. */
SYNCOPATE_API syncopate_code syncopate_plan_json(const syncopate_plan* plan, char** json, syncopate_error** error);
/** The fused kernel as Triton source. */
SYNCOPATE_API syncopate_code syncopate_plan_fused_source(const syncopate_plan* plan, char** text,
                                                         syncopate_error** error);
/** The plan in words: schedule, tile order, waits. */
SYNCOPATE_API syncopate_code syncopate_plan_show(const syncopate_plan* plan, char** text, syncopate_error** error);
/** What a caller must know of a plan, as JSON: docs/c_api.md lists the members. */
SYNCOPATE_API syncopate_code syncopate_plan_describe(const syncopate_plan* plan, char** json, syncopate_error** error);

/** Proves the plan or finds a counter-example: a report as JSON (docs/c_api.md). A plan that does not hold is a
 *  result, not an error. */
SYNCOPATE_API syncopate_code syncopate_plan_verify(const syncopate_plan* plan, char** report, syncopate_error** error);

/** Called now and then with (how many are done, of how many); anything but 0 stops the work with SYNCOPATE_STOPPED. */
typedef int (*syncopate_progress)(void* context, int64_t done, int64_t all);

/** Fill with syncopate_run_options_init(), then change what should differ. */
typedef struct syncopate_run_options {
  size_t size; /**< of this struct, so that a library can know an older caller's */
  uint64_t seed;
  int32_t repeat;              /**< launches back to back (1) */
  int32_t adversary;           /**< delay transfers and signals as long as legal (0) */
  int32_t reals;               /**< inputs: 0 small integers, 1 reals in [-1, 1] (0) */
  syncopate_progress progress; /**< NULL for none */
  void* progress_context;
} syncopate_run_options;
SYNCOPATE_API void syncopate_run_options_init(syncopate_run_options* options);

/** Executes the plan on CPU ranks, on the calling thread, and compares with the unfused operator: a report as JSON
 *  (docs/c_api.md). A wrong result, a race or a deadlock is a result, not an error. */
SYNCOPATE_API syncopate_code syncopate_plan_run(const syncopate_plan* plan, const syncopate_run_options* options,
                                                char** report, syncopate_error** error);

/* ---- operators: one rank of a plan on a GPU ------------------------------------------------------------------------
 */

/** Fill with syncopate_operator_options_init(), then change what should differ. */
typedef struct syncopate_operator_options {
  size_t size;             /**< of this struct */
  int32_t rank;            /**< which of the plan's ranks this is (0) */
  int32_t device;          /**< CUDA ordinal in this process (0) */
  int32_t ranks_on_device; /**< how many ranks of the operator share that GPU (1) */
  double time_limit;       /**< seconds that one wait may take (10) */
  const char* python;      /**< interpreter that has Triton ("python3") */
  const char* cache;       /**< folder of compiled kernels; must be given */
  /** For tests: a transfer of this rank that does not happen in one launch. Queue -1: none (-1). */
  int32_t withheld_queue;
  int32_t withheld_transfer;
  int64_t withheld_launch; /**< counted from 1 */
} syncopate_operator_options;
SYNCOPATE_API void syncopate_operator_options_init(syncopate_operator_options* options);

/** Prepares one rank: compiles its kernel, or takes it from the cache, loads it, allocates all it needs. Fails where
 * there is no GPU, no Triton, too little memory. Not collective. Destroy with syncopate_operator_destroy(). */
SYNCOPATE_API syncopate_code syncopate_operator_create(const syncopate_plan* plan,
                                                       const syncopate_operator_options* options,
                                                       syncopate_operator** made, syncopate_error** error);
/** What the other ranks need to reach this one: bytes to be sent to them by any means. Lives as long as the operator.
 */
SYNCOPATE_API syncopate_code syncopate_operator_handle(const syncopate_operator* op, const void** bytes, size_t* size,
                                                       syncopate_error** error);
/** Joins the ranks: handles[r] is that of rank r, this rank's own included. Checks that all of them are ranks of this
 * very plan, on this machine. Collective; when it has succeeded on all ranks, calls may begin. */
SYNCOPATE_API syncopate_code syncopate_operator_connect(syncopate_operator* op, const void* const* handles,
                                                        const size_t* sizes, size_t count, syncopate_error** error);

/** Uses the caller's memory for a tensor that is not symmetric, from the next call on. Checked: name, dtype, shape,
 *  row-major contiguity, device, alignment to 16 bytes. The memory is to live until the last call that uses it is
 *  complete. `tensor` itself is only read during the call. */
SYNCOPATE_API syncopate_code syncopate_operator_bind(syncopate_operator* op, const char* name, const DLTensor* tensor,
                                                     syncopate_error** error);

typedef enum syncopate_part {
  SYNCOPATE_WHOLE = 0,  /**< all of the tensor on this rank */
  SYNCOPATE_SHARD = 1,  /**< what this rank's caller fills before each call; of zigzag(d) the first of its stretches */
  SYNCOPATE_OUTPUT = 2, /**< what launches leave for this rank's caller */
  SYNCOPATE_SECOND_STRETCH = 3 /**< of an input that is placed in zigzag: the other stretch that the caller fills */
} syncopate_part;

/** A view of a part (syncopate_part) of a tensor in the operator's memory (or where it is bound to). A local tensor that is not bound gets memory
 * of the operator's own. The view is freed by its `deleter`, on any thread; the operator's memory lives until the
 * operator and all views are gone. An output is overwritten by the next call. */
SYNCOPATE_API syncopate_code syncopate_operator_view(syncopate_operator* op, const char* name, int part,
                                                     DLManagedTensor** view, syncopate_error** error);

/** Gives one launch to the GPU, ordered after what `stream` (a CUstream; NULL: the legacy default stream) holds and
 * before what it will hold. Allocates nothing, and returns at once unless 1024 calls are under way: then it waits for
 * the oldest of them to end or to fail. Local inputs must be bound or viewed (and filled) before. Two operators on one
 * GPU must run one after the other, in the same order on all ranks, since the kernel of each may take all SMs. May be
 * called while `stream` is being captured into a CUDA graph; the graph may then be replayed instead of further calls, on
 * all ranks alike. Fails with SYNCOPATE_FAILED once a launch of any rank has failed. */
SYNCOPATE_API syncopate_code syncopate_operator_call(syncopate_operator* op, void* stream, syncopate_error** error);

/** Compiles the plan's local kernel, or takes it from the cache, and loads it, unless that has been done. For
 *  syncopate_operator_call_local(). Not collective; not while a stream is being captured. */
SYNCOPATE_API syncopate_code syncopate_operator_prepare_local(syncopate_operator* op, syncopate_error** error);
/** Gives `stream` one launch of the local kernel over the whole tensors of this rank as they lie there, on at most as
 *  many thread blocks as the plan has workers: the computing half of the unfused operator, whose other half, transfers
 *  and sums, is the caller's. Not collective, and nothing else of the operator knows of it: order it by streams
 *  against calls, which use the same tensors, against other launches of it, and before destroy. May be captured. */
SYNCOPATE_API syncopate_code syncopate_operator_call_local(syncopate_operator* op, void* stream,
                                                           syncopate_error** error);

/** Whether any rank's launch is known to have failed: SYNCOPATE_FAILED with the same message on every rank. Waits for
 *  nothing. */
SYNCOPATE_API syncopate_code syncopate_operator_status(syncopate_operator* op, syncopate_error** error);
/** Waits until all launches given so far are complete on this rank, or have failed. A missed wait shows within
 *  the time limit and a second. */
SYNCOPATE_API syncopate_code syncopate_operator_synchronize(syncopate_operator* op, syncopate_error** error);

/** Waits for this rank's calls, but not for replays of graphs: synchronize their streams first. Then waits, a few
 *  seconds at most, for the other ranks to let go of its memory: for those of other processes to be destroyed too, for
 *  those of this process to have completed as many calls. What is not let go of by then is not freed. */
SYNCOPATE_API void syncopate_operator_destroy(syncopate_operator* op);

#ifdef __cplusplus
}
#endif

#endif
