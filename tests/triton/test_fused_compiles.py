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
# Instructions that carry the work: where the local kernel has them, the fused one must.
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
                    self.assertEqual(after.count(instruction) > 0, before.count(instruction) > 0, instruction)
                self.assertEqual(before.count("ld.acquire.sys.global.u64"), 0)
                self.assertGreater(after.count("ld.acquire.sys.global.u64"), 0)

    def test_gemm(self):
        self.compare("gemm", descriptors=True)

    def test_gemm_pointers(self):
        self.compare("gemm_pointers", descriptors=False)

    def test_gemm_split_helper(self):
        self.compare("gemm_split_helper", descriptors=True)

    def flattened(self, path, function):
        """The kernel with its tile loop flattened by Triton, as by its user."""
        text = path.read_text()
        self.assertEqual(text.count("tl.num_programs(0)):"), 1)
        copy = pathlib.Path(self.cache.name) / f"{function}_flattened.py"
        copy.write_text(text.replace("tl.num_programs(0)):", "tl.num_programs(0), flatten=True):"))
        return compile_kernel(getattr(kernels.load(copy), function), *CONFIGURATIONS[2])

    def test_tile_loop_can_still_be_flattened(self):
        # Triton fuses the tile loop with the K loop only if that is the one `for` in it. It peels the first iteration
        # off for tiles without K steps, which shows as twice as many stores in the code.
        local = self.flattened(kernels.LOCAL / "gemm.py", "gemm")
        fused = self.flattened(kernels.FUSED / "gemm.py", "gemm_fused")
        nested = compile_kernel(kernels.fused_module("gemm").gemm_fused, *CONFIGURATIONS[2])
        print(f"gemm flattened, {CONFIGURATIONS[2]}\n  local: {local}\n  fused: {fused}")
        self.assertGreater(local.count(TMA_STORE), nested.count(TMA_STORE))
        self.assertEqual(fused.count(TMA_STORE), local.count(TMA_STORE))
        self.assertEqual(fused.count(TMA_LOAD), local.count(TMA_LOAD))
        self.assertLessEqual(fused.spill_bytes, local.spill_bytes)
        self.assertLessEqual(fused.shared_bytes, local.shared_bytes)


if __name__ == "__main__":
    unittest.main()
