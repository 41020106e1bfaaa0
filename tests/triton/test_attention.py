"""The attention kernels: right in Triton's interpreter; for sm_90 it compiles without spills at shipped constants."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import kernels

sys.path.insert(0, str(kernels.ROOT / "bench" / "gpu"))
from attention_kernels import Code, Shape, read_table, write_table

TABLE = kernels.ROOT / "bench" / "gpu" / "attention_table.json"
COMPILE, INTERPRET = "compile", "interpret"  # Triton decides for one when it is imported
UNIT = 2.0**-11  # of fp16

# q_length, kv_length, heads, group, head_dim, causal, q_start; BLOCK_M, BLOCK_N. Row strides are multiples of 16 bytes.
CASES = [
    (64, 64, 2, 1, 32, False, 0, 32, 32),
    (64, 64, 2, 1, 32, True, 0, 32, 16),  # two parts
    (50, 37, 4, 2, 32, False, 0, 16, 16),  # ragged both ways
    (50, 37, 4, 4, 16, True, 10, 16, 16),  # all keys seen well before the last row
    (50, 37, 2, 1, 32, True, -5, 16, 16),  # rows that see no key
    (40, 64, 2, 2, 16, True, -64, 16, 16),  # no row sees any
    (1, 1, 1, 1, 16, True, 0, 16, 16),
    (33, 100, 3, 1, 32, True, 67, 32, 16),  # the last rows of a sequence
    (17, 129, 2, 1, 16, True, 40, 16, 32),  # BLOCK_N above HEAD_DIM
]


# q_length, kv_length, heads, group, head_dim, q_start, q_second; BLOCK_M, BLOCK_N: queries of two stretches.
TWO_STRETCHES = [
    (64, 128, 2, 1, 32, 0, 96, 16, 16),  # rank 0 of 2
    (64, 128, 2, 2, 16, 32, 64, 32, 16),  # rank 1: beside each other
    (44, 80, 4, 2, 16, 11, 55, 16, 16),  # a tile with rows of both
    (10, 37, 2, 1, 16, 5, 34, 16, 16),  # one tile, and rows past the end of the keys
]


def reference(q, k, v, heads, group, head_dim, causal, q_start, scale, q_second=None):
    """(o, lse, sum of w |v|) in fp64."""
    o, magnitude, lse = np.zeros(q.shape), np.zeros(q.shape), np.zeros((heads, len(q)))
    places = q_start + np.arange(len(q))
    if q_second is not None:
        places[len(q) // 2:] = q_second + np.arange(len(q) // 2)
    seen = np.arange(len(k))[None, :] <= places[:, None]
    for head in range(heads):
        mine = slice(head * head_dim, (head + 1) * head_dim)
        theirs = slice(head // group * head_dim, (head // group + 1) * head_dim)
        scores = q[:, mine].astype(float) @ k[:, theirs].astype(float).T * scale
        weights = np.where(seen, np.exp(scores), 0.0) if causal else np.exp(scores)
        total = weights.sum(1, keepdims=True)
        value = v[:, theirs].astype(float)
        o[:, mine] = weights @ value / np.where(total > 0, total, 1)
        magnitude[:, mine] = weights @ abs(value) / np.where(total > 0, total, 1)
        with np.errstate(divide="ignore"):
            lse[head] = np.log(total[:, 0])
    return o, lse, magnitude


def run(q, k, v, heads, group, head_dim, causal, q_start, block_m, block_n, scale, name="attention", q_second=None):
    from host_tensor import HostTensor

    o, lse = HostTensor(np.full(q.shape, np.nan, q.dtype)), HostTensor(np.full((heads, len(q)), np.nan, np.float32))
    grid = -(-len(q) // block_m) * heads
    attention = kernels.local_kernel(name)
    attention[(grid,)](HostTensor(q), HostTensor(k), HostTensor(v), o, lse, len(q), len(k), heads, q_start, scale,
                       block_m, block_n, head_dim, group, int(causal), *([] if q_second is None else [True, q_second]))
    return o.array, lse.array


class Interpreted(unittest.TestCase):

    def test_against_fp64(self):
        for name, seeds in (("attention", 3), ("attention_streamed", 1)):
            self.check_against_fp64(name, seeds)

    def check_against_fp64(self, name, seeds):
        for case in CASES:
            for seed in range(seeds):
                with self.subTest(kernel=name, case=case, seed=seed):
                    self.check_case(name, seed, *case)

    def test_two_stretches_against_fp64(self):
        for case in TWO_STRETCHES:
            with self.subTest(case=case):
                q_length, kv_length, heads, group, head_dim, q_start, q_second, block_m, block_n = case
                self.check_case("attention_streamed", 0, q_length, kv_length, heads, group, head_dim, True, q_start, block_m,
                                block_n, q_second)

    def check_case(self, name, seed, q_length, kv_length, heads, group, head_dim, causal, q_start, block_m, block_n,
                   q_second=None):
        scale = 0.25
        generator = np.random.default_rng(seed)
        q = generator.standard_normal((q_length, heads * head_dim)).astype(np.float16)
        k, v = (generator.standard_normal((kv_length, heads // group * head_dim)).astype(np.float16) for _ in range(2))
        o, lse = run(q, k, v, heads, group, head_dim, causal, q_start, block_m, block_n, scale, name, q_second)
        exact, exact_lse, magnitude = reference(q, k, v, heads, group, head_dim, causal, q_start, scale, q_second)
        # Weights are rounded once and so is the result; all else is fp32, and the least fp16 is 2^-24.
        bound = 1.01 * UNIT * (magnitude + abs(exact)) + 2e-5 * magnitude + 2.0**-24
        self.assertTrue((abs(o - exact) <= bound).all(), f"off by {(abs(o - exact) / bound).max()} bounds")
        np.testing.assert_array_equal(np.isneginf(lse), np.isneginf(exact_lse))
        np.testing.assert_allclose(lse, exact_lse, rtol=0, atol=1e-5)

    def test_equal_scores_give_exact_means(self):
        """With q = 0, 2^n keys and integers as values every step is exact."""
        for causal, q_start, keys in ((False, 0, 64), (True, 31, 32), (True, 63, 64)):
            values = np.random.default_rng(keys).integers(-8, 9, (64, 32)).astype(np.float16)
            q, k = np.zeros((16, 32), np.float16), np.ones((64, 32), np.float16)
            o, lse = run(q, k, values, 1, 1, 32, causal, q_start, 16, 16, 1.0)
            np.testing.assert_array_equal(o[0], (values[:keys].astype(float).mean(0)).astype(np.float16))
            self.assertAlmostEqual(lse[0, 0], np.log(keys), delta=1e-6)

    def test_scores_far_apart(self):
        """A block with far greater scores makes all others vanish, and a row's scores may all be far below 0."""
        k = np.zeros((64, 16), np.float16)
        k[40], v = 60.0, np.random.default_rng(1).integers(-8, 9, (64, 16)).astype(np.float16)
        o, _ = run(np.full((16, 16), 60.0, np.float16), k, v, 1, 1, 16, False, 0, 16, 16, 1.0)
        np.testing.assert_array_equal(o, np.broadcast_to(v[40], o.shape))
        o, lse = run(np.full((16, 16), -60.0, np.float16), np.full((64, 16), 60.0, np.float16), v, 1, 1, 16, False, 0,
                     16, 16, 1.0)
        np.testing.assert_array_equal(o, np.broadcast_to(v.astype(float).mean(0).astype(np.float16), o.shape))
        np.testing.assert_allclose(lse, -57600 + np.log(64), rtol=1e-6)


class Compiled(unittest.TestCase):

    def test_what_the_benchmark_compiles_it_can_load(self):
        from attention_kernels import compile_all
        from unittest.mock import patch

        code = Code(read_table(TABLE)[64, True], 64, 4, True, "bf16")
        with patch("gemm_kernels.ctypes.CDLL") as load:
            for function in ("cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute"):
                getattr(load.return_value, function).return_value = 0
            kernel = compile_all([code])[code]
        self.assertEqual((kernel.threads, kernel.descriptors), (32 * code.configuration.warps, []))
        self.assertTrue(load.return_value.cuModuleLoadData.call_args.args[1].startswith(b"\x7fELF"))

    def compile(self, code):
        """(PTX, what the assembler says of it)"""
        from attention_kernels import compile_source
        from compiled import ASSEMBLER

        ptx = compile_source(kernels.local_kernel("attention"), code).asm["ptx"]
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(ptx)
            file.flush()
            command = [ASSEMBLER, "-v", "--gpu-name=sm_90a", file.name, "-o", "/dev/null"]
            return ptx, subprocess.run(command, capture_output=True, text=True, check=True).stderr

    def test_shipped_constants_spill_nothing(self):
        for (head_dim, causal), configuration in read_table(TABLE).items():
            for group, dtype in ((1, "bf16"), (4, "fp16")):
                code = Code(configuration, head_dim, group, causal, dtype)
                with self.subTest(code=str(code)):
                    ptx, report = self.compile(code)
                    self.assertIn("0 bytes spill stores, 0 bytes spill loads", report)
                    self.assertNotIn("serialized", report)
                    self.assertGreater(ptx.count("wgmma.mma_async"), 0)
                    # A wait after each product of the loop would be the slow form.
                    loop = max(re.split(r"^\$L__BB\w+:", ptx, flags=re.M), key=lambda block: block.count("ex2.approx"))
                    self.assertLessEqual(loop.count("wgmma.wait_group"), 1)


class Table(unittest.TestCase):

    def test_has_every_kind(self):
        self.assertEqual(set(read_table(TABLE)), {(dim, causal) for dim in (64, 128) for causal in (False, True)})

    def test_is_read_as_it_was_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "table.json"
            write_table(path, read_table(TABLE))
            self.assertEqual(path.read_text(), TABLE.read_text())

    def test_pairs_that_a_mask_keeps(self):
        for q_length, kv_length, q_start in ((5, 5, 0), (3, 7, 4), (6, 4, -3), (2, 2, -9), (4, 3, 9)):
            kept = sum(key <= q_start + row for row in range(q_length) for key in range(kv_length))
            self.assertEqual(Shape(q_length, kv_length, 1, 1, 64, True, q_start).pairs, kept)


def main():
    if len(sys.argv) < 2:  # each kind in a process of its own
        codes = [subprocess.run([sys.executable, "-B", __file__, kind]).returncode for kind in (INTERPRET, COMPILE)]
        sys.exit(max(map(abs, codes)))
    kind = sys.argv.pop(1)
    suites = {INTERPRET: (Interpreted,), COMPILE: (Compiled, Table)}[kind]
    loader = unittest.TestLoader()
    result = unittest.TextTestRunner().run(unittest.TestSuite(map(loader.loadTestsFromTestCase, suites)))
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    if sys.argv[1:] == [INTERPRET]:
        os.environ["TRITON_INTERPRET"] = "1"  # Triton is imported later
    main()
