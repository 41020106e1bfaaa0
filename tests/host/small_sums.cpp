#include "small_sums.h"

namespace syncopate::test {
namespace {

constexpr const char* kLocalSource = R"(import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, TILE_M: tl.constexpr, TILE_N: tl.constexpr):
    across = tl.cdiv(N, TILE_N)
    m = tl.program_id(0) // across
    n = tl.program_id(0) % across
    rows = m * TILE_M + tl.arange(0, TILE_M)
    columns = n * TILE_N + tl.arange(0, TILE_N)
    total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for k in range(K):
        a = tl.load(a_ptr + rows * K + k, mask=rows < M, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + k * N + columns, mask=columns < N, other=0.0).to(tl.float32)
        total += a[:, None] * b[None, :]
    elements = rows[:, None] * N + columns[None, :]
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + elements, total.to(tl.bfloat16), mask=inside)
)";

constexpr const char* kFusedSource = R"(import triton
import triton.language as tl


@triton.jit
def syncopate_wait(flags, slot, expected, tile, record, time_limit):
    return 0


@triton.jit
def syncopate_publish():
    return 0


@triton.jit
def syncopate_raise(peers, home, slot):
    return 0


@triton.jit
def wait_for_all(entry, waits, flags, epoch, tile, record, time_limit):
    first = tl.load(entry)
    last = tl.load(entry + 1)
    ready = 0
    for i in range(first, last):
        w = waits + i * 3
        expected = tl.load(w + 1) * (epoch - 1) + tl.load(w + 2)
        ready += syncopate_wait(flags, tl.load(w), expected, tile, record, time_limit)
    return ready


@triton.jit
def summands(staging, addend, elements, inside):
    here = inside & (elements >= tl.load(addend + 1)) & (elements < tl.load(addend + 2))
    return tl.load(staging + elements + tl.load(addend), mask=here, other=0.0).to(tl.float32)


@triton.jit
def product_fused(a_ptr, b_ptr, c_ptr, M, N, K, TILE_M: tl.constexpr, TILE_N: tl.constexpr, syncopate_rank,
                  syncopate_world_size, syncopate_tiles, syncopate_tile_count, syncopate_waits, syncopate_flags,
                  syncopate_epoch, syncopate_record, syncopate_time_limit, syncopate_staging, syncopate_addends,
                  syncopate_signals, syncopate_peers, syncopate_cut: tl.constexpr):
    epoch = tl.load(syncopate_epoch)
    for slot in tl.range(tl.program_id(0), syncopate_tile_count, tl.num_programs(0)):
        entry = syncopate_tiles + slot.to(tl.int64) * 16
        ready = wait_for_all(entry + 2, syncopate_waits, syncopate_flags, epoch, slot, syncopate_record,
                             syncopate_time_limit)
        m = tl.load(entry).to(tl.int32) + ready
        n = tl.load(entry + 1).to(tl.int32) + ready
        rows = m * TILE_M + tl.arange(0, TILE_M)
        columns = n * TILE_N + tl.arange(0, TILE_N)
        total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
        for k in range(K):
            a = tl.load(a_ptr + rows * K + k, mask=rows < M, other=0.0).to(tl.float32)
            b = tl.load(b_ptr + k * N + columns, mask=columns < N, other=0.0).to(tl.float32)
            total += a[:, None] * b[None, :]
        elements = rows[:, None] * N + columns[None, :]
        inside = (rows[:, None] < M) & (columns[None, :] < N)
        for i in range(tl.load(entry + 9), tl.load(entry + 10)):
            syncopate_raise(syncopate_peers, tl.load(syncopate_signals + i * 2), tl.load(syncopate_signals + i * 2 + 1))
        wait_for_all(entry + 4, syncopate_waits, syncopate_flags, epoch, slot, syncopate_record, syncopate_time_limit)
        value = total.to(tl.bfloat16)
        first = tl.load(entry + 6)
        own = tl.load(entry + 7)
        last = tl.load(entry + 8)
        if first < last:
            total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
            for i in range(first, own):
                total += summands(syncopate_staging, syncopate_addends + i * 3, elements, inside)
            total += value.to(tl.float32)
            for i in range(own, last):
                total += summands(syncopate_staging, syncopate_addends + i * 3, elements, inside)
            value = total.to(tl.bfloat16)
        if syncopate_cut:
            inside = inside & (elements >= tl.load(entry + 13)) & (elements < tl.load(entry + 14))
        tl.store(c_ptr + elements, value, mask=inside)
        syncopate_publish()
        for i in range(tl.load(entry + 11), tl.load(entry + 12)):
            syncopate_raise(syncopate_peers, tl.load(syncopate_signals + i * 2), tl.load(syncopate_signals + i * 2 + 1))
)";

}  // namespace

Plan small_sum_plan(const testing::ReduceOptions& options) {
  Plan plan = testing::hand_made_reduce(options);
  KernelPart& kernel = plan.kernel;
  kernel.file = "product.py";
  kernel.function = "product";
  kernel.local_source = kLocalSource;
  kernel.fused_function = "product_fused";
  kernel.fused_source = kFusedSource;
  kernel.arguments = {{"M", options.rows},
                      {"N", options.columns},
                      {"K", options.inner},
                      {"TILE_M", options.tile_rows},
                      {"TILE_N", options.tile_columns}};
  return plan;
}

}  // namespace syncopate::test
