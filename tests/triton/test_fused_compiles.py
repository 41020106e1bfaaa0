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
TMA_REDUCE = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add"
RAISE = "red.release.sys.global.add.u64"
MOST_SHARED = 227 * 1024  # bytes of shared memory that a block can have


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
                self.assertFalse(after.serialised)
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

    def compare_sums(self, name, most_spilled, extra_shared=0):
        """`most_spilled`: bytes, for each configuration, where slots keep all of their tile and where they may not."""
        local = kernels.local_kernel(name)
        fused = getattr(kernels.sum_module(name), f"{name}_fused")
        for (tile, warps, stages), most in zip(CONFIGURATIONS, most_spilled):
            before = compile_kernel(local, tile, warps, stages)
            for cut in (False, True):
                with self.subTest(kernel=name, tile=tile, warps=warps, stages=stages, cut=cut):
                    after = compile_kernel(fused, tile, warps, stages, cut)
                    print(f"{name} {tile}, {warps} warps, {stages} stages, a sum{', cut' if cut else ''}: {after}")
                    self.assertLessEqual(after.spill_bytes, most[cut])
                    self.assertLessEqual(after.shared_bytes, before.shared_bytes + extra_shared)
                    self.assertLessEqual(after.shared_bytes, MOST_SHARED)
                    self.assertFalse(after.serialised)
                    for instruction in INSTRUCTIONS:
                        # Tiles that add and tiles that do not store in branches of their own.
                        branches = 2 if instruction == TMA_STORE else 1
                        self.assertEqual(after.count(instruction), branches * before.count(instruction), instruction)
                    self.assert_published_before_raised(after)

    def assert_published_before_raised(self, compiled):
        """Every release of a flag comes after the wait for the block's TMA stores and a barrier."""
        waits = compiled.positions("cp.async.bulk.wait_group    0;")
        raises = compiled.positions(RAISE)
        self.assertGreater(len(raises), 0)
        for raised in raises:
            published = max(at for at in waits if at < raised)
            between = compiled.ptx[published:raised]
            self.assertIn("barrier.sync", between)

    def test_dynamic_orders(self):
        """They need no more memory than the local kernel, and a loop that was flattened less."""
        for name in ("gemm", "gemm_pointers"):
            local = kernels.local_kernel(name)
            fused = getattr(kernels.dynamic_module(name), f"{name}_fused")
            for tile, warps, stages in CONFIGURATIONS:
                with self.subTest(kernel=name, tile=tile, warps=warps, stages=stages):
                    before = compile_kernel(local, tile, warps, stages)
                    after = compile_kernel(fused, tile, warps, stages)
                    print(f"{name} {tile}, {warps} warps, {stages} stages, dynamic\n  local: {before}\n  fused: {after}")
                    self.assertLessEqual(after.spill_bytes, before.spill_bytes)
                    self.assertLessEqual(after.shared_bytes, before.shared_bytes)
                    self.assertFalse(after.serialised)
                    for instruction in INSTRUCTIONS:
                        if instruction == TMA_STORE:  # a flattened loop stores in a branch of each of its arms
                            self.assertGreaterEqual(before.count(instruction), after.count(instruction))
                            self.assertEqual(before.count(instruction) > 0, after.count(instruction) > 0)
                        else:
                            self.assertEqual(after.count(instruction), before.count(instruction), instruction)
                    # Before the loop, and at its end.
                    self.assertEqual(after.count("atom.relaxed.gpu.global.max.u64"), 2)
                    self.assertGreater(after.count("ld.acquire.sys.global.u64"), 0)
        fused = getattr(kernels.dynamic_module("gemm_split_helper", "_sum"), "gemm_split_helper_fused")
        for tile, warps, stages in CONFIGURATIONS:
            with self.subTest(kernel="gemm_split_helper, a sum", tile=tile, warps=warps, stages=stages):
                after = compile_kernel(fused, tile, warps, stages, False)
                print(f"gemm_split_helper {tile}, {warps} warps, {stages} stages, a sum, dynamic: {after}")
                self.assertLessEqual(after.spill_bytes, 40)  # around syncopate_take, once a tile
                self.assert_published_before_raised(after)

    def test_sent_outputs(self):
        for name in ("gemm", "gemm_pointers"):
            local = kernels.local_kernel(name)
            fused = getattr(kernels.sent_module(name), f"{name}_fused")
            for tile, warps, stages in CONFIGURATIONS:
                with self.subTest(kernel=name, tile=tile, warps=warps, stages=stages):
                    before = compile_kernel(local, tile, warps, stages)
                    after = compile_kernel(fused, tile, warps, stages)
                    print(f"{name} {tile}, {warps} warps, {stages} stages, sent\n  local: {before}\n  fused: {after}")
                    self.assertLessEqual(after.spill_bytes, before.spill_bytes)
                    self.assertLessEqual(after.shared_bytes, before.shared_bytes + 16 * 1024)
                    self.assertLessEqual(after.shared_bytes, MOST_SHARED)
                    for instruction in INSTRUCTIONS:
                        self.assertEqual(after.count(instruction), before.count(instruction), instruction)
                    self.assert_published_before_raised(after)

    def test_one_shot_sums(self):
        for name in ("gemm", "gemm_pointers"):
            local = kernels.local_kernel(name)
            fused = getattr(kernels.one_shot_module(name), f"{name}_fused")
            for tile, warps, stages in CONFIGURATIONS:
                with self.subTest(kernel=name, tile=tile, warps=warps, stages=stages):
                    before = compile_kernel(local, tile, warps, stages)
                    after = compile_kernel(fused, tile, warps, stages)
                    print(f"{name} {tile}, {warps} warps, {stages} stages, one-shot\n  local: {before}\n  fused: {after}")
                    self.assertLessEqual(after.spill_bytes, before.spill_bytes)
                    self.assertLessEqual(after.shared_bytes, before.shared_bytes + 16 * 1024)
                    self.assertLessEqual(after.shared_bytes, MOST_SHARED)
                    self.assertFalse(after.serialised)
                    for instruction in INSTRUCTIONS:
                        self.assertEqual(after.count(instruction), before.count(instruction), instruction)
                    self.assert_published_before_raised(after)
                    # A part of 2048 elements: the own summand, and one of each rank but for the own, past the L1 cache.
                    threads = 32 * warps
                    self.assertEqual(after.count("ld.global.cg.v4.b32"), (1 + 4) * 2048 * 2 // (16 * threads))
                    self.assertEqual(after.count("ld.global.cg.b16"), 0)
                    # What the program's own tiles have stored is published before any of it is read.
                    first = min(after.positions("ld.global.cg.v4.b32"))
                    published = max(at for at in after.positions("cp.async.bulk.wait_group    0;") if at < first)
                    self.assertIn("barrier.sync", after.ptx[published:first])

    def test_sums_through_descriptors(self):
        none = [(0, 0)] * len(CONFIGURATIONS)
        some_predicates = [(8, 8)] * len(CONFIGURATIONS)
        self.compare_sums("gemm_split_helper", some_predicates)
        # The flattened loop holds its buffers while the summands change their layout.
        self.compare_sums("gemm", none, extra_shared=16 * 1024)

    def test_sums_in_place(self):
        for name, most_more in (("gemm", 56), ("gemm_split_helper", 24)):
            local = kernels.local_kernel(name)
            fused = getattr(kernels.in_place_module(name), f"{name}_fused")
            for tile, warps, stages in CONFIGURATIONS:
                with self.subTest(kernel=name, tile=tile, warps=warps, stages=stages):
                    before = compile_kernel(local, tile, warps, stages)
                    after = compile_kernel(fused, tile, warps, stages)
                    print(f"{name} {tile}, {warps} warps, {stages} stages, in place\n  local: {before}\n  fused: {after}")
                    self.assertEqual(after.spill_bytes, 0)
                    self.assertLessEqual(after.registers, before.registers + most_more)
                    self.assertEqual(after.shared_bytes, before.shared_bytes)
                    self.assertFalse(after.serialised)
                    for instruction in INSTRUCTIONS:
                        self.assertEqual(after.count(instruction), before.count(instruction), instruction)
                    self.assertEqual(after.count(TMA_REDUCE), before.count(TMA_STORE))
                    self.assertEqual(after.count("ld.global.cg"), 0)
                    self.assert_published_before_raised(after)
                    self.assert_told_before_added(after)

    def assert_told_before_added(self, compiled):
        """Between each look at flags and the reductions behind it stands a fence for TMA in global memory."""
        told = compiled.positions("fence.proxy.async.global;")
        looks = compiled.positions("ld.acquire.sys.global.u64")
        for added in compiled.positions(TMA_REDUCE):
            fence = max(at for at in told if at < added)
            self.assertFalse([at for at in looks if fence < at < added])

    def test_summands_come_in_wide_loads_past_the_l1_cache(self):
        for name in ("gemm", "gemm_split_helper"):
            compiled = compile_kernel(getattr(kernels.sum_module(name), f"{name}_fused"), *CONFIGURATIONS[2])
            # Three times, first and before and after the own value: a tile of 2-byte elements in loads of 16 bytes by
            # 256 threads.
            loads = 3 * (128 * 256 * 2) // (16 * 256)
            self.assertIn(compiled.count("ld.global.cg.v4.b32"), (loads, 2 * loads), name)

    def test_sums_through_pointers(self):
        # A thread that holds 128 elements, and their addresses, has too few registers.
        self.compare_sums("gemm_pointers", [(1300, 7200), (64, 2200), (1400, 7000)])

    def test_a_value_smaller_than_its_pointers_is_summed(self):
        text = (kernels.FUSED / "gemm_pointers_sum.py").read_text()
        whole = "syncopate_sum_at(accumulator.to(c_ptr.dtype.element_ty),"
        self.assertEqual(text.count(whole), 1)
        for name, value in (("row", "tl.sum(accumulator, axis=1)[:, None]"), ("constant", "1.0"), ("integer", "1")):
            with self.subTest(value=value):
                path = pathlib.Path(self.cache.name) / f"{name}.py"
                path.write_text(text.replace(whole, f"syncopate_sum_at({value},"))
                compiled = compile_kernel(kernels.load(path).gemm_pointers_fused, *CONFIGURATIONS[1])
                self.assertGreater(compiled.count(RAISE), 0)

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
