"""The emitted kernels on one real GPU: they wait for data that a copy brings while they run, and give up in time.

Skipped where there is no GPU (of compute capability 9.0) or no PyTorch to launch with.
"""
import sys
import time
import unittest

try:
    import torch
except ImportError:
    torch = None

if torch is None or not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    print("skipped: this test needs an NVIDIA GPU of compute capability 9.0 and PyTorch")
    sys.exit(0)

import kernels
import triton

M, N, K = 2048, 1024, 1024
TILE = (128, 128, 64, 8)
CHUNKS = 4  # of rows of a; chunk i has flag i
PER_LAUNCH = 2
MILLISECOND = 10**6

triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))


def int64(values):
    return torch.tensor(values, dtype=torch.int64, device="cuda")


class Launch:
    """A fused kernel with its tables, on a stream of its own; leaves some SMs free for copies."""

    def __init__(self, name, shape=(M, N, K), tile=TILE, warps=4, stages=4, waits=True):
        self.kernel = getattr(kernels.fused_module(name), f"{name}_fused")
        self.shape, self.tile, self.options = shape, tile, {"num_warps": warps, "num_stages": stages}
        rows, columns = shape[0] // tile[0], shape[1] // tile[1]
        # Down the rows of a group, then the next column, as the local kernel does it.
        order = [(row, column) for first in range(0, rows, tile[3]) for column in range(columns)
                 for row in range(first, min(first + tile[3], rows))]
        chunk_rows = max(1, rows // CHUNKS)
        self.tiles = int64([[row, column, i, i + waits] for i, (row, column) in enumerate(order)])
        self.waits = int64([[row // chunk_rows % CHUNKS, PER_LAUNCH, PER_LAUNCH] for row, _ in order])
        self.flags, self.epoch, self.record = int64([0] * CHUNKS), int64([1]), int64([0] * 8)
        self.programs = min(len(order), torch.cuda.get_device_properties(0).multi_processor_count - 12)

    def __call__(self, a, b, c, limit=1000 * MILLISECOND):
        self.kernel[(self.programs,)](a, b, c, *self.shape, *self.tile, 0, 2, self.tiles, len(self.tiles), self.waits,
                                      self.flags, self.epoch, self.record, limit, **self.options)


def side_by_side(runs, repeats=40):
    """Median microseconds of each, taken in turns, since the card's clock moves."""
    times = [[] for _ in runs]
    for _ in range(repeats):
        for run, each in zip(runs, times):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            run()
            end.record()
            torch.cuda.synchronize()
            each.append(1000 * begin.elapsed_time(end))
    return [sorted(each)[repeats // 2] for each in times]


class OnGpu(unittest.TestCase):

    def setUp(self):
        torch.manual_seed(0)
        torch.cuda._sleep(1)  # loads it: loading a module waits for kernels that run, and they may wait for us
        self.a = torch.randint(-2, 3, (M, K), device="cuda").to(torch.bfloat16)
        self.b = torch.randint(-2, 3, (K, N), device="cuda").to(torch.bfloat16)
        self.expected = (self.a.float() @ self.b.float()).to(torch.bfloat16)

    def test_waits_for_each_chunk_in_several_launches(self):
        for name in kernels.NAMES:
            launch = Launch(name)
            launch.flags += PER_LAUNCH  # the first launch finds all data there: it compiles and loads the kernel
            launch(self.a, self.b, torch.empty_like(self.expected))
            torch.cuda.synchronize()
            computing, copying = torch.cuda.Stream(), torch.cuda.Stream()
            for epoch in range(2, 6):
                gathered = torch.full_like(self.a, float("nan"))
                c = torch.empty_like(self.expected)
                launch.epoch.fill_(epoch)
                raised = int64([PER_LAUNCH * epoch] * CHUNKS)
                torch.cuda.synchronize()
                with torch.cuda.stream(computing):
                    launch(gathered, self.b, c)
                with torch.cuda.stream(copying):
                    for chunk in reversed(range(CHUNKS)):
                        rows = slice(chunk * M // CHUNKS, (chunk + 1) * M // CHUNKS)
                        torch.cuda._sleep(200_000)
                        gathered[rows].copy_(self.a[rows])
                        launch.flags[chunk:chunk + 1].copy_(raised[chunk:chunk + 1])
                torch.cuda.synchronize()
                self.assertEqual(launch.record.tolist(), [0] * 8)
                self.assertTrue(torch.equal(c, self.expected), f"{name}, launch {epoch}")

    def test_a_missing_flag_ends_the_kernel_and_leaves_a_record(self):
        for name in kernels.NAMES:
            launch = Launch(name)
            launch.epoch.fill_(3)
            late = 2
            launch.flags.copy_(int64([3 * PER_LAUNCH - (i == late) for i in range(CHUNKS)]))
            c = torch.empty_like(self.expected)
            launch(self.a, self.b, c, 20 * MILLISECOND)  # compiles
            torch.cuda.synchronize()
            launch.record.zero_()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            launch(self.a, self.b, c, 20 * MILLISECOND)
            torch.cuda.synchronize()
            elapsed = time.perf_counter() - begin
            given_up, tile, slot, expected, seen = launch.record.tolist()[:5]
            self.assertEqual((given_up, slot, expected, seen), (1, late, 3 * PER_LAUNCH, 3 * PER_LAUNCH - 1))
            self.assertEqual(launch.waits[launch.tiles[tile, 2]].tolist(), [late, PER_LAUNCH, PER_LAUNCH])
            self.assertGreater(elapsed, 0.02)
            self.assertLess(elapsed, 0.06, "tiles after the missed wait must not wait as long again")

    def test_walking_the_table_costs_little(self):
        shape, tile = (8192, 8192, 4096), (128, 256, 64, 8)
        a = torch.randn(shape[0], shape[2], device="cuda", dtype=torch.bfloat16)
        b = torch.randn(shape[2], shape[1], device="cuda", dtype=torch.bfloat16)
        c = torch.empty(shape[0], shape[1], device="cuda", dtype=torch.bfloat16)
        for name in ("gemm", "gemm_split_helper"):
            local = kernels.local_kernel(name)
            waiting, walking = (Launch(name, shape, tile, warps=8, stages=3, waits=waits) for waits in (True, False))
            waiting.flags += PER_LAUNCH
            runs = [lambda: local[(walking.programs,)](a, b, c, *shape, *tile, num_warps=8, num_stages=3),
                    lambda: walking(a, b, c), lambda: waiting(a, b, c)]
            before, walk, wait = side_by_side(runs)
            print(f"{name}: local {before:.0f} us; fused, no waits {walk:.0f} us; a wait in each tile, all data there "
                  f"{wait:.0f} us ({2e-6 * shape[0] * shape[1] * shape[2] / wait:.0f} TFLOP/s)")
            self.assertLess(walk, 1.03 * before)
            self.assertLess(wait, 1.05 * before)


if __name__ == "__main__":
    unittest.main()
