"""The emitted kernels in Triton's own interpreter, as an independent reader of what they mean.

The interpreter knows no inline assembly, so syncopate_wait is replaced by a function that looks once: the result is
poisoned if a flag is not yet what the kernel waits for.
"""
import os
import unittest

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

import numpy as np
import triton
import triton.language as tl

import kernels
from host_tensor import HostTensor

M, N, K = 96, 64, 48
TILE = (32, 32, 16, 2)
SHAPE = (M // TILE[0], N // TILE[1])
EPOCH = 3
# One flag for each tile row. In a launch it grows by as much as the row's number, plus 1.
PER_LAUNCH = [row + 1 for row in range(SHAPE[0])]


@triton.jit
def look_once(flags, slot, expected, tile, record, time_limit):
    missed = tl.load(flags + slot) < expected
    tl.store(record, slot + 1, mask=missed)
    return tl.where(missed, 0, 0)


def tables(order):
    """The tile order and the waits as the kernel reads them: a wait for its row's flag before each tile."""
    tiles, waits = [], []
    for row, column in order:
        tiles.append([row, column, len(waits), len(waits) + 1])
        waits.append([row, PER_LAUNCH[row], PER_LAUNCH[row]])
    return HostTensor(np.array(tiles, np.int64)), HostTensor(np.array(waits, np.int64))


def run(name, order, flags, programs):
    """What the fused kernel leaves in c and in record[0]."""
    module = kernels.fused_module(name)
    module.syncopate_wait = look_once
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-2, 3, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    c, record = HostTensor(np.full((M, N), np.nan, np.float16)), HostTensor(np.zeros(8, np.int64))
    tiles, waits = tables(order)
    getattr(module, f"{name}_fused")[(programs,)](
        HostTensor(a), HostTensor(b), c, M, N, K, *TILE, syncopate_rank=0, syncopate_world_size=1,
        syncopate_tiles=tiles, syncopate_tile_count=len(order), syncopate_waits=waits,
        syncopate_flags=HostTensor(np.array(flags, np.int64)), syncopate_epoch=HostTensor(np.array([EPOCH], np.int64)),
        syncopate_record=record, syncopate_time_limit=10**9)
    return c.array, a @ b, record.array[0]


class FusedKernels(unittest.TestCase):
    ALL = [(row, column) for row in range(SHAPE[0]) for column in range(SHAPE[1])]
    ARRIVED = [EPOCH * each for each in PER_LAUNCH]

    def test_any_order_and_any_number_of_programs(self):
        shuffled = [self.ALL[i] for i in np.random.default_rng(2).permutation(len(self.ALL))]
        for name in kernels.NAMES:
            for order in (self.ALL, self.ALL[::-1], shuffled):
                for programs in (1, 4, len(order) + 2):
                    with self.subTest(kernel=name, order=order, programs=programs):
                        result, expected, missed = run(name, order, self.ARRIVED, programs)
                        self.assertEqual(missed, 0)
                        np.testing.assert_array_equal(result, expected)

    def test_only_the_tiles_of_the_table_are_written(self):
        for name in kernels.NAMES:
            with self.subTest(kernel=name):
                result, expected, _ = run(name, [(2, 1), (0, 0)], self.ARRIVED, 1)
                written = np.zeros((M, N), bool)
                written[64:96, 32:64] = written[:32, :32] = True
                np.testing.assert_array_equal(result[written], expected[written])
                self.assertTrue(np.isnan(result[~written]).all())

    def test_waits_for_exactly_this_launch(self):
        for name in kernels.NAMES:
            for late in range(SHAPE[0]):
                flags = list(self.ARRIVED)
                flags[late] -= 1
                with self.subTest(kernel=name, late=late):
                    self.assertEqual(run(name, self.ALL, flags, 1)[2], late + 1)


if __name__ == "__main__":
    unittest.main()
