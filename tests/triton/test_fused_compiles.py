"""Every emitted kernel compiles for sm_90 without a GPU, and costs no more than it must."""
import pathlib
import tempfile
import unittest

import kernels
import triton
from compiled import compile_kernel

# BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M; warps; stages.
CONFIGURATIONS = [
    ((128, 128, 64, 8), 4, 4),
    ((128, 128, 64, 8), 8, 4),
    ((128, 256, 64, 8), 8, 3),
]
# Instructions that carry the work: the fused kernel must have as many as the local one.
INSTRUCTIONS = ["wgmma.mma_async", "cp.async.bulk.tensor.2d.shared", "cp.async.bulk.tensor.2d.global", "cp.async.cg"]
TMA_LOAD, TMA_STORE = INSTRUCTIONS[1:3]


class FusedCompiles(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        # A cache of an earlier run would hide that a kernel no longer compiles.
        cls.cache = tempfile.TemporaryDirectory()
        triton.knobs.cache.dir = cls.cache.name

    @classmethod
    def tearDownClass(cls):
        cls.cache.cleanup()

    def compare(self, name, descriptors):
        local = kernels.local_kernel(name)
        fused = getattr(kernels.fused_module(name), f"{name}_fused")
        for tile, warps, stages in CONFIGURATIONS:
            with self.subTest(kernel=name, tile=tile, warps=warps, stages=stages):
                before = compile_kernel(local, tile, warps, stages)
                after = compile_kernel(fused, tile, warps, stages)
                print(f"{name} {tile}, {warps} warps, {stages} stages\n  local: {before}\n  fused: {after}")
                self.assertLessEqual(after.spill_bytes, before.spill_bytes)
                self.assertLessEqual(after.shared_bytes, before.shared_bytes)
                self.assertGreater(before.count("wgmma.mma_async"), 0)
                self.assertEqual(before.count(TMA_LOAD) > 0, descriptors)
                self.assertEqual(before.count(TMA_STORE) > 0, descriptors)
                for instruction in INSTRUCTIONS:
                    self.assertEqual(after.count(instruction), before.count(instruction), instruction)
                self.assertEqual(before.count("ld.acquire.sys.global.u64"), 0)
                self.assertGreater(after.count("ld.acquire.sys.global.u64"), 0)

    def test_gemm(self):
        self.compare("gemm", descriptors=True)

    def test_gemm_pointers(self):
        self.compare("gemm_pointers", descriptors=False)

    def test_gemm_split_helper(self):
        self.compare("gemm_split_helper", descriptors=True)

    def test_flattened_tile_loop_stays_flattened(self):
        # Triton fuses the tile loop with the K loop only if that is the one `for` in it. It peels a K step off for tiles
        # that have none, which shows as twice as many stores in the code; compare() has seen that gemm's agree.
        text = (kernels.FUSED / "gemm.py").read_text()
        self.assertEqual(text.count(", flatten=True):"), 1)
        path = pathlib.Path(self.cache.name) / "nested.py"
        path.write_text(text.replace(", flatten=True):", "):"))
        nested = compile_kernel(kernels.load(path).gemm_fused, *CONFIGURATIONS[2])
        flattened = compile_kernel(kernels.fused_module("gemm").gemm_fused, *CONFIGURATIONS[2])
        self.assertEqual(flattened.count(TMA_STORE), 2 * nested.count(TMA_STORE))


if __name__ == "__main__":
    unittest.main()
