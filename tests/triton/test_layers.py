"""Kernels that are more than products, as they are and fused, compile for sm_90 without spilling registers."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import kernels
import triton
from compiled import compile_by_name

SYNCOPATE = sys.argv.pop(1)
TILE = {"BLOCK_M": 128, "GROUP_M": 8}
LAYER = {"BLOCK_K": 64, "ACTIVATION": 1, "HAS_BIAS": True, "HAS_RESIDUAL": True}
PRODUCT = {"a_ptr": "*bf16", "b_ptr": "*bf16", "c_ptr": "*bf16"}
EPILOGUE = PRODUCT | {"bias_ptr": "*fp32", "residual_ptr": "*bf16"}
FP8 = {"a_ptr": "*fp8e4nv", "b_ptr": "*fp8e4nv", "c_ptr": "*bf16", "a_scale_ptr": "*fp32", "b_scale_ptr": "*fp32"}
EMBEDDING = {"ids_ptr": "*i32", "first_ptr": "*i32", "table_ptr": "*bf16", "out_ptr": "*bf16", "syncopate_staging": "*bf16"}
GROUPED = {"x_ptr": "*bf16", "w_ptr": "*bf16", "y_ptr": "*bf16", "counts_ptr": "*i32", "weights_ptr": "*fp32",
           "syncopate_staging": "*bf16"}
ROWS = {"BLOCK_M": 128, "BLOCK_K": 64, "CAPACITY": 512, "syncopate_cut": False}
RAGGED = ROWS | {"CAPACITY": 500}  # stores through pointers
ATTENTION = {name: "*bf16" for name in ("q_ptr", "k_ptr", "v_ptr", "o_ptr")} | {"lse_ptr": "*fp32", "scale": "fp32"}
HEADS = {"GROUP": 4, "CAUSAL": True}
ONE_STRETCH, TWO_STRETCHES = (HEADS | {"TWO_STRETCHES": two} for two in (False, True))
NORM = {name: "*bf16" for name in ("x_ptr", "residual_ptr", "weight_ptr", "y_ptr", "h_ptr")} | {"eps": "fp32"}
# Operator and kernel; types of tensors; constexpr values; warps; stages; wgmma instructions that the loop must have.
CASES = [("ag_gemm_epilogue", "gemm_epilogue", EPILOGUE, TILE | LAYER | {"BLOCK_N": 128, "GATED": True}, 8, 4, 8),
         ("ag_gemm_epilogue", "gemm_epilogue", EPILOGUE, TILE | LAYER | {"BLOCK_N": 256, "GATED": False}, 8, 3, 4),
         ("ag_gemm_fp8", "gemm_fp8", FP8, TILE | {"BLOCK_K": 128, "BLOCK_N": 128, "ROW_SCALES": True}, 4, 4, 8),
         ("ag_gemm_fp8", "gemm_fp8", FP8, TILE | {"BLOCK_K": 128, "BLOCK_N": 256, "ROW_SCALES": True}, 8, 3, 4),
         ("ag_grouped_gemm", "grouped_gemm", GROUPED, RAGGED | {"BLOCK_N": 128, "HAS_WEIGHTS": False}, 4, 4, 8),
         ("ag_grouped_gemm", "grouped_gemm", GROUPED, ROWS | {"BLOCK_N": 256, "HAS_WEIGHTS": False}, 8, 3, 4),
         ("grouped_gemm_rs", "grouped_gemm", GROUPED, ROWS | {"BLOCK_N": 128, "HAS_WEIGHTS": True}, 8, 4, 4),
         ("grouped_gemm_rs", "grouped_gemm", GROUPED, RAGGED | {"BLOCK_N": 256, "HAS_WEIGHTS": False}, 8, 3, 4),
         ("grouped_gemm_rs", "grouped_gemm", GROUPED, ROWS | {"BLOCK_N": 256, "HAS_WEIGHTS": True}, 8, 3, 4),
         ("attention_heads", "attention", ATTENTION, HEADS | {"BLOCK_M": 64, "BLOCK_N": 64, "HEAD_DIM": 64}, 4, 2, 16),
         ("attention_sp", "attention_streamed", ATTENTION, ONE_STRETCH | {"BLOCK_M": 128, "BLOCK_N": 64, "HEAD_DIM": 64}, 4, 3,
          16),
         ("attention_sp_causal", "attention_streamed", ATTENTION,
          ONE_STRETCH | {"BLOCK_M": 128, "BLOCK_N": 128, "HEAD_DIM": 128}, 8, 2, 16),
         ("attention_sp_zigzag", "attention_streamed", ATTENTION,
          TWO_STRETCHES | {"BLOCK_M": 128, "BLOCK_N": 64, "HEAD_DIM": 64}, 4, 3, 16),
         ("attention_sp_zigzag", "attention_streamed", ATTENTION,
          TWO_STRETCHES | {"BLOCK_M": 128, "BLOCK_N": 128, "HEAD_DIM": 128}, 8, 2, 16),
         ("embedding_rs", "embedding", EMBEDDING, {"BLOCK_T": 32, "BLOCK_W": 64, "syncopate_cut": False}, 4, 3, 0),
         ("rms_norm_rs", "rms_norm", NORM, {"BLOCK_M": 4, "BLOCK_N": 2048}, 8, 3, 0),
         ("rms_norm_ar", "rms_norm", NORM, {"BLOCK_M": 1, "BLOCK_N": 8192}, 8, 3, 0)]


class Layers(unittest.TestCase):

    def test_nothing_spills_and_tensor_cores_are_used(self):
        with tempfile.TemporaryDirectory() as folder:
            triton.knobs.cache.dir = str(pathlib.Path(folder) / "triton")
            for operator, name, types, constants, warps, stages, products in CASES:
                out = pathlib.Path(folder) / operator
                subprocess.run([SYNCOPATE, "compile", kernels.ROOT / "operators" / f"{operator}.toml", "--out", out],
                               check=True, stdout=subprocess.DEVNULL)
                for function in (kernels.local_kernel(name), getattr(kernels.load(out / "fused.py"), f"{name}_fused")):
                    with self.subTest(kernel=function.__name__, constants=constants):
                        made = compile_by_name(function, types, constants, warps, stages)
                        print(f"{function.__name__}: {made}", flush=True)
                        self.assertEqual(made.spill_bytes, 0)
                        self.assertFalse(made.serialised)
                        self.assertEqual(made.count("wgmma.mma_async"), products)

    def test_attention_over_heads_streams_without_spills(self):
        constants = ONE_STRETCH | {"BLOCK_M": 128, "BLOCK_N": 128, "HEAD_DIM": 128, "CAUSAL": False}
        with tempfile.TemporaryDirectory() as folder:
            triton.knobs.cache.dir = str(pathlib.Path(folder) / "triton")
            out = pathlib.Path(folder) / "out"
            subprocess.run([SYNCOPATE, "compile", kernels.ROOT / "operators" / "attention_heads.toml", "--out", out,
                            "--set", "kernel.file=../kernels/attention_streamed.py",
                            "--set", "kernel.function=attention_streamed"], check=True, stdout=subprocess.DEVNULL)
            made = compile_by_name(kernels.load(out / "fused.py").attention_streamed_fused, ATTENTION, constants, 8, 2)
            print(f"attention_streamed_fused: {made}", flush=True)
            self.assertEqual(made.spill_bytes, 0)
            self.assertFalse(made.serialised)
            self.assertEqual(made.count("wgmma.mma_async"), 16)

    def test_attention_in_bounded_memory_compiles_without_spills(self):
        for warps, stages, sizes, products in ((8, 2, {"BLOCK_M": 128, "BLOCK_N": 128, "HEAD_DIM": 128}, 16),
                                               (4, 3, {"BLOCK_M": 128, "BLOCK_N": 64, "HEAD_DIM": 64}, 16)):
            with self.subTest(**sizes), tempfile.TemporaryDirectory() as folder:
                triton.knobs.cache.dir = str(pathlib.Path(folder) / "triton")
                out = pathlib.Path(folder) / "out"
                arguments = sizes | {"HEADS": 32, "GROUP": 4, "Q_LENGTH": 1024, "KV_LENGTH": 4096}
                two_heads = 2 * 4096 * sizes["HEAD_DIM"] * 2
                changes = [f"kernel.args.{name}={value}" for name, value in arguments.items()]
                changes += [f"communicate.{tensor}.memory_budget={two_heads}" for tensor in "kv"]
                subprocess.run([SYNCOPATE, "compile", kernels.ROOT / "operators" / "attention_ring.toml", "--out", out] +
                               [word for change in changes for word in ("--set", change)], check=True,
                               stdout=subprocess.DEVNULL)
                made = compile_by_name(kernels.load(out / "fused.py").attention_streamed_fused, ATTENTION, HEADS | sizes,
                                       warps, stages)
                print(f"attention_streamed_fused: {made}", flush=True)
                self.assertEqual(made.spill_bytes, 0)
                self.assertFalse(made.serialised)
                self.assertEqual(made.count("wgmma.mma_async"), products)

    def test_attention_of_wide_heads_spills_little(self):
        """It fills all 255 registers by itself; what the walk over tiles keeps beside it is spilled once a tile."""
        constants = HEADS | {"BLOCK_M": 128, "BLOCK_N": 64, "HEAD_DIM": 128}
        with tempfile.TemporaryDirectory() as folder:
            triton.knobs.cache.dir = str(pathlib.Path(folder) / "triton")
            out = pathlib.Path(folder) / "out"
            subprocess.run([SYNCOPATE, "compile", kernels.ROOT / "operators" / "attention_heads.toml", "--out", out],
                           check=True, stdout=subprocess.DEVNULL)
            made = compile_by_name(kernels.load(out / "fused.py").attention_fused, ATTENTION, constants, 4, 2)
            print(f"attention_fused: {made}", flush=True)
            self.assertLessEqual(made.spill_bytes, 64)
            self.assertFalse(made.serialised)
            self.assertEqual(made.count("wgmma.mma_async"), 64)


if __name__ == "__main__":
    unittest.main()
