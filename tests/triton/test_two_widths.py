"""The kernel whose tiles have two widths: fused, proven, run on CPU ranks, and compiled for sm_90 at no extra cost."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import kernels
import triton
from compiled import compile_kernel

SYNCOPATE = sys.argv.pop(1)
OPERATOR = kernels.ROOT / "operators" / "ag_gemm_two_widths.toml"
# BLOCK_M, BLOCK_N, EXTRA_N, BLOCK_K, GROUP_M; warps; stages.
CONFIGURATIONS = [((128, 256, 64, 64, 8), 8, 3), ((64, 256, 64, 64, 8), 4, 4), ((128, 128, 0, 64, 8), 4, 3)]


def run(*arguments):
    result = subprocess.run([SYNCOPATE, *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


class TwoWidths(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        triton.knobs.cache.dir = str(self.path / "triton")

    def tearDown(self):
        self.folder.cleanup()

    def test_proven_and_bitwise_equal_to_the_unfused_operator(self):
        for extra, columns in ((32, 640), (64, 256), (0, 512), (16, 200)):  # the last two sizes leave ragged tiles
            for algorithm in ("direct", "ring"):
                with self.subTest(extra=extra, columns=columns, algorithm=algorithm):
                    changes = ["--set", "kernel.args.M=256", "--set", f"kernel.args.N={columns}", "--set",
                               "kernel.args.K=128", "--set", "kernel.args.BLOCK_M=32", "--set",
                               f"kernel.args.EXTRA_N={extra}", "--set", f"communicate.a.algorithm={algorithm}"]
                    run("compile", OPERATOR, *changes, "--out", self.path / "out")
                    proof = run("verify", self.path / "out" / "plan.json")
                    self.assertIn("no deadlock: proven", proof)
                    result = run("run", self.path / "out" / "plan.json", "--seed", 5, "--adversary", "--repeat", 2)
                    self.assertIn("bitwise equal to the unfused operator", result)
                    self.assertIn(f"8 pid_m x {-(-columns // (128 + extra))} pid_n", result)

    def test_fusing_costs_no_instruction_of_work(self):
        run("compile", OPERATOR, "--out", self.path / "out")
        local = kernels.local_kernel("gemm_two_widths")
        fused = kernels.load(self.path / "out" / "fused.py").gemm_two_widths_fused
        for tile, warps, stages in CONFIGURATIONS:
            with self.subTest(tile=tile, warps=warps, stages=stages):
                before = compile_kernel(local, tile, warps, stages)
                after = compile_kernel(fused, tile, warps, stages)
                print(f"{tile}, {warps} warps, {stages} stages\n  local: {before}\n  fused: {after}")
                self.assertEqual(before.spill_bytes, 0)
                self.assertEqual(after.spill_bytes, 0)
                self.assertLessEqual(after.shared_bytes, before.shared_bytes)
                self.assertGreater(before.count("wgmma.mma_async"), 0)
                for instruction in ("wgmma.mma_async", "cp.async.bulk.tensor.2d.shared"):
                    self.assertEqual(after.count(instruction), before.count(instruction), instruction)
                self.assertGreater(after.count("ld.acquire.sys.global.u64"), 0)


if __name__ == "__main__":
    unittest.main()
