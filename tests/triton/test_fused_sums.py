"""The emitted kernels with a reduced output in Triton's own interpreter: what they add, keep and raise.

The interpreter knows no inline assembly, so syncopate_wait looks once, as in test_fused_kernels.py, and so does
syncopate_is_missing; syncopate_publish and syncopate_tell_tma have nothing to do, and syncopate_raise is an atomic addition. Nor does it know
reductions by TMA: syncopate_add_block loads, adds and stores. The order of waits and raises is tested in tests/emit/producer_test.cpp.
"""
import os
import unittest

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

import numpy as np
import triton
import triton.language as tl

import kernels
from host_tensor import HostTensor

M, N, K = 72, 64, 48  # the last tile row is not full
TILE = (32, 32, 16, 2)
EPOCH, PER_LAUNCH = 3, 2
RANKS, FLAGS = 2, 8


@triton.jit
def look_once(flags, slot, expected, tile, record, time_limit):
    missed = tl.load(flags + slot) < expected
    tl.store(record, tile + 1, mask=missed)
    return tl.where(missed, 0, 0)


@triton.jit
def is_missing(flags, slot, expected):
    return tl.where(tl.load(flags + slot) < expected, 1, 0)


@triton.jit
def nothing():
    return 0


@triton.jit
def raise_flag(peers, home, slot):
    tl.atomic_add(tl.load(peers + home).to(tl.pointer_type(tl.int64)) + slot, 1)
    return 0


@triton.jit
def add_block(descriptor, row, column, value):
    descriptor.store([row, column], descriptor.load([row, column]) + value)


class Tables:
    """A random tile order: addends from rows of the staging buffer, signals, and slots that keep rows of their tile."""

    def __init__(self, random, cut, programs, in_place=False):
        self.in_place = in_place
        self.tiles, self.waits, self.addends, self.signals, self.slots = [], [], [], [], []
        self.raised = np.zeros((RANKS, FLAGS), np.int64)
        self.rows = M if in_place else 40
        self.programs, self.signals_of = programs, []
        corners = [(row, column) for row in range(-(-M // TILE[0])) for column in range(N // TILE[1])]
        for i in random.permutation(len(corners)):
            first, last = corners[i][0] * TILE[0], min((corners[i][0] + 1) * TILE[0], M)
            border = int(random.integers(first, last + 1)) if cut else last
            for begin, end in ((first, border), (border, last)):
                if begin < end:
                    self.add(random, corners[i], (begin, end), (begin, end) if cut else (0, M))
        self.place_raises()

    def add(self, random, corner, rows, kept):
        addends = []
        for _ in range(0 if self.in_place else random.integers(0, 3)):
            count = rows[1] - rows[0] if random.integers(2) else int(random.integers(1, rows[1] - rows[0] + 1))
            begin = int(random.integers(rows[0], rows[1] - count + 1))
            addends.append((begin, begin + count, int(random.integers(0, self.rows - count + 1))))
        if self.in_place and random.integers(3):
            addends = [(*rows, rows[0])]
        own = int(random.integers(0, len(addends) + 1))
        self.slots.append((corner, rows, addends))
        row = [*corner, len(self.waits), len(self.waits)]
        self.waits += [[0, PER_LAUNCH, PER_LAUNCH]] * bool(addends)
        row += [row[-1], len(self.waits), len(self.addends), len(self.addends) + own * (not self.in_place)]
        self.addends += [] if self.in_place else [[(place - begin) * N, begin * N, end * N] for begin, end, place in addends]
        row += [len(self.addends)]
        work = bool(addends) * (1 + 16)
        if len(addends) == 1 and not self.in_place:
            begin, end, place = addends[0]
            tile = (corner[0] * TILE[0], min((corner[0] + 1) * TILE[0], M))
            work += 8 + (32 + 64 * (place - begin) * N if begin <= tile[0] and tile[1] <= end else 0)
        first = len(self.signals)
        for _ in range(random.integers(0, 3)):
            home, flag = int(random.integers(RANKS)), int(random.integers(FLAGS))
            self.signals.append([home, flag])
            self.raised[home, flag] += 1
        self.signals_of.append([first, len(self.signals)])
        self.tiles.append(row + [0, 0, 0, 0, kept[0] * N, kept[1] * N, work])

    def place_raises(self):
        """Signals of a slot are raised before the program's next slot stores, or after their own where that one waits."""
        for i, row in enumerate(self.tiles):
            following = i + self.programs
            if following < len(self.tiles) and not self.slots[following][2]:
                self.tiles[following][9:11] = self.signals_of[i]
                self.tiles[following][15] += 2
            else:
                row[11:13] = self.signals_of[i]
                row[15] += 4

    def expected(self, own, staging):
        result = own.copy()
        for (_, column), (first, last), addends in self.slots:
            columns = slice(column * TILE[1], (column + 1) * TILE[1])
            for begin, end, place in addends:
                result[begin:end, columns] += staging[place:place + end - begin, columns]
        return result


def table(rows):
    return HostTensor(np.array(rows + [[-1] * len(rows[0])] if rows else [[-1]], np.int64))


def run(name, tables, cut, arrived=EPOCH * PER_LAUNCH):
    """What the fused kernel leaves in c, what it should, the flags of each rank, and record[0]."""
    module = kernels.in_place_module(name) if tables.in_place else kernels.sum_module(name)
    module.syncopate_tell_tma, module.syncopate_add_block = nothing, add_block
    module.syncopate_wait, module.syncopate_is_missing = look_once, is_missing
    module.syncopate_publish, module.syncopate_raise = nothing, raise_flag
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-2, 3, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    staging = generator.integers(-9, 10, (tables.rows, N)).astype(np.float16)
    # In place summands stand in the output; elsewhere nothing does.
    there = np.full((M, N), np.nan, np.float16)
    for (_, column), (first, last), addends in tables.slots:
        if tables.in_place and addends:
            block = slice(first, last), slice(column * TILE[1], (column + 1) * TILE[1])
            there[block] = staging[block]
    c, record = HostTensor(there), HostTensor(np.zeros(8, np.int64))
    added = {} if tables.in_place else {"syncopate_staging": HostTensor(staging),
                                        "syncopate_addends": table(tables.addends), "syncopate_cut": cut}
    flags = HostTensor(np.zeros((RANKS, FLAGS), np.int64))
    peers = HostTensor(flags.data_ptr() + 8 * FLAGS * np.arange(RANKS, dtype=np.int64))
    getattr(module, f"{name}_fused")[(tables.programs,)](
        HostTensor(a), HostTensor(b), c, M, N, K, *TILE, syncopate_rank=0, syncopate_world_size=RANKS,
        syncopate_tiles=table(tables.tiles), syncopate_tile_count=len(tables.tiles), syncopate_waits=table(tables.waits),
        syncopate_flags=HostTensor(np.array([arrived], np.int64)),
        syncopate_epoch=HostTensor(np.array([EPOCH], np.int64)), syncopate_record=record, syncopate_time_limit=10**9,
        syncopate_signals=table(tables.signals), syncopate_peers=peers, **added)
    return c.array, tables.expected(a @ b, staging), flags.array, record.array[0]


class FusedSums(unittest.TestCase):

    def test_adds_keeps_and_raises(self):
        for name in kernels.NAMES:
            for cut in (False, True):
                for seed, programs in ((1, 1), (2, 3), (3, 40)):
                    with self.subTest(kernel=name, cut=cut, seed=seed, programs=programs):
                        tables = Tables(np.random.default_rng(seed), cut, programs)
                        result, expected, flags, missed = run(name, tables, cut)
                        self.assertEqual(missed, 0)
                        np.testing.assert_array_equal(result, expected)
                        np.testing.assert_array_equal(flags, tables.raised)
                        self.assertGreater(len(tables.addends), 0)
                        self.assertGreater(len(tables.signals), 0)

    def test_adds_in_place(self):
        for name in ("gemm", "gemm_split_helper"):
            adding = []
            for seed, programs in ((1, 1), (2, 3), (3, 40)):
                with self.subTest(kernel=name, seed=seed, programs=programs):
                    tables = Tables(np.random.default_rng(seed), False, programs, in_place=True)
                    result, expected, flags, missed = run(name, tables, False)
                    self.assertEqual(missed, 0)
                    np.testing.assert_array_equal(result, expected)
                    np.testing.assert_array_equal(flags, tables.raised)
                    self.assertEqual(len(tables.addends), 0)
                adding += [bool(addends) for _, _, addends in tables.slots]
            self.assertEqual(set(adding), {False, True})

    def test_waits_for_the_summands_of_this_launch(self):
        for name in kernels.NAMES:
            tables = Tables(np.random.default_rng(4), False, 2)
            with self.subTest(kernel=name):
                self.assertGreater(run(name, tables, False, EPOCH * PER_LAUNCH - 1)[3], 0)


class OneShotSums(unittest.TestCase):
    """The golden files are of four ranks. Triton's interpreter runs programs one after the other, so only the last adds."""

    def run_one(self, name, rank, programs, seed, arrived=EPOCH * PER_LAUNCH):
        module = kernels.one_shot_module(name)
        module.syncopate_wait, module.syncopate_publish, module.syncopate_raise = look_once, nothing, raise_flag
        random = np.random.default_rng(seed)
        a, b = (random.integers(-2, 3, shape).astype(np.float16) for shape in ((M, K), (K, N)))
        others = random.integers(-9, 10, (3, M, N)).astype(np.float16)
        corners = [(row, column) for row in range(-(-M // TILE[0])) for column in range(N // TILE[1])]
        tiles = [[*corners[i], 0, 0, 0, 0, 0, 0, 0] for i in random.permutation(len(corners))]
        # Parts of 8 elements or more, some larger than what a program adds at once.
        borders = [0, *sorted(8 * random.choice(np.arange(1, M * N // 8), 3, replace=False)), M * N]
        additions = []
        for begin, end in zip(borders, borders[1:]):
            additions += [[0, 0, 0, 0, M * N]] * (programs - 1) + [[0, 1, int(begin), int(end), M * N]]
        own, result, record = (HostTensor(np.full((M, N), np.nan, np.float16)), HostTensor(np.full((M, N), np.nan, np.float16)),
                               HostTensor(np.zeros(8, np.int64)))
        getattr(module, f"{name}_fused")[(programs,)](
            HostTensor(a), HostTensor(b), own, M, N, K, *TILE, syncopate_rank=rank, syncopate_world_size=4,
            syncopate_tiles=table(tiles), syncopate_tile_count=len(tiles),
            syncopate_waits=table([[0, PER_LAUNCH, PER_LAUNCH]]),
            syncopate_flags=HostTensor(np.array([arrived], np.int64)),
            syncopate_epoch=HostTensor(np.array([EPOCH], np.int64)), syncopate_record=record, syncopate_time_limit=10**9,
            syncopate_signals=table([]), syncopate_peers=table([]), syncopate_result=result,
            syncopate_summands=HostTensor(others), syncopate_additions=table(additions),
            syncopate_addition_count=len(additions))
        np.testing.assert_array_equal(own.array, a @ b)
        return result.array, a @ b, others, record.array[0]

    def test_adds_up_what_all_ranks_have_stored(self):
        for name in ("gemm", "gemm_pointers"):
            for rank in range(4):
                for programs in (1, 3):
                    with self.subTest(kernel=name, rank=rank, programs=programs):
                        result, own, others, missed = self.run_one(name, rank, programs, seed=rank)
                        self.assertEqual(missed, 0)
                        np.testing.assert_array_equal(result, own + others.sum(axis=0))

    def test_waits_for_the_summands_of_this_launch(self):
        for name in ("gemm", "gemm_pointers"):
            self.assertGreater(self.run_one(name, 1, 1, 2, EPOCH * PER_LAUNCH - 1)[3], 0)


if __name__ == "__main__":
    unittest.main()
