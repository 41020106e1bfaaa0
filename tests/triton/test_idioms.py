"""Examples of docs/idioms.md in Triton itself: its interpreter gives the numbers of the page, and its compiler takes them
for sm_90. Kernels written as public ones are (tests/kernel/idioms/) compile for sm_90 as they are and fused, and run
right on CPU ranks.

The interpreter and the compiler do not go together in one process, so this file runs itself once more for the first.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
SYNCOPATE = sys.argv.pop(1)

import numpy as np
import triton

import kernels
from compiled import ALIGNED, RUNTIME_SCALARS, assembled
from host_tensor import HostTensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

IDIOMS = kernels.ROOT / "tests" / "kernel" / "idioms"
# Rows that the interpreter of Triton 3.6 cannot run.
ONLY_COMPILED = ("libdevice",)
HEAD = "import triton\nimport triton.language as tl\n"
# Per kernel: types of tensors, and values of constexpr parameters for a GPU.
FUSED = {
    "gemm_block_pointers": ({"a_ptr": "*bf16", "b_ptr": "*bf16", "c_ptr": "*bf16"},
                            {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "EVEN_K": True, "PRECISION": "tf32"}),
    "attention_block_pointers": ({"q_ptr": "*bf16", "k_ptr": "*bf16", "v_ptr": "*bf16", "out_ptr": "*bf16",
                                  "lse_ptr": "*fp32", "scale": "fp32"},
                                 {"BLOCK_M": 128, "BLOCK_N": 64, "D": 64, "CAUSAL": True}),
    "norm_rotary": ({"x_ptr": "*bf16", "weight_ptr": "*bf16", "cos_ptr": "*fp32", "sin_ptr": "*fp32", "out_ptr": "*bf16",
                     "eps": "fp32"}, {"WIDTH": 2048, "CASTING": 1, "OFFSET": 0.0}),
    "gated_grid": ({"x_ptr": "*bf16", "out_ptr": "*bf16"},
                   {"BLOCK_M": 16, "BLOCK_N": 128, "GELU": True, "EVEN": True}),
}


def page():
    return (kernels.ROOT / "docs" / "idioms.md").read_text()


def examples():
    """What, the lines of the example, and the eight numbers, of every accepted row."""
    section = page().split("\n## Accepted\n")[1].split("\n## ")[0]
    for line in section.splitlines():
        found = re.fullmatch(r"\| (.*?) \| (`.*`) \| ([-\d. ]+) \|", line)
        if found:
            what, example, numbers = found.groups()
            yield what, re.findall(r"`([^`]*)`", example), [float(number) for number in numbers.split()]


def load_example(lines, folder, number):
    """A module with the kernel; Triton reads its source from a file."""
    helpers = page().split("```python\n")[1].split("```")[0]
    body = "".join(f"    {line}\n" for line in lines)
    path = pathlib.Path(folder) / f"example_{number}.py"
    path.write_text(f"{HEAD}{helpers}\n\n@triton.jit\ndef kernel(x, out, n, N: tl.constexpr):\n    i = tl.arange(0, 8)\n"
                    f"    v = tl.load(x + i)\n{body}    tl.store(out + i, r)\n")
    return kernels.load(path).kernel


def compile_kernel(function, types, constants, warps=4, stages=2):
    """Compiles for sm_90; the bytes that spill."""
    signature, values, attributes = {}, {}, {}
    for i, parameter in enumerate(function.params):
        name = parameter.name
        if parameter.is_constexpr:
            signature[name], values[(i,)] = "constexpr", constants[name]
        elif name in RUNTIME_SCALARS:
            signature[name] = RUNTIME_SCALARS[name]
        else:
            signature[name] = types.get(name, "*i64" if name.startswith("syncopate_") else "i32")
            if signature[name] != "fp32":
                attributes[(i,)] = ALIGNED
    made = triton.compile(ASTSource(fn=function, signature=signature, constexprs=values, attrs=attributes),
                          target=GPUTarget("cuda", 90, 32), options={"num_warps": warps, "num_stages": stages})
    return assembled(made.asm["ptx"])[0]


@unittest.skipUnless(INTERPRETED, "run by the other process")
class Interpreted(unittest.TestCase):

    def test_examples_give_the_numbers_of_the_page(self):
        count = 0
        with tempfile.TemporaryDirectory() as folder:
            for number, (what, lines, expected) in enumerate(examples()):
                if any(word in "".join(lines) for word in ONLY_COMPILED):
                    continue
                with self.subTest(what):
                    out = HostTensor(np.zeros(16, np.float32))
                    x = HostTensor(np.arange(1, 17, dtype=np.float32))
                    load_example(lines, folder, number)[(1, 1, 1)](x, out, 8, 8)
                    self.assertEqual(out.array[:8].tolist(), expected)
                    count += 1
        self.assertGreater(count, 40)


@unittest.skipIf(INTERPRETED, "run by the other process")
class Compiled(unittest.TestCase):

    def test_the_interpreter_agrees_with_the_page(self):
        result = subprocess.run([sys.executable, "-B", __file__, SYNCOPATE], env=os.environ | {"TRITON_INTERPRET": "1"},
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_examples_compile_for_sm_90(self):
        count = 0
        with tempfile.TemporaryDirectory() as folder:
            triton.knobs.cache.dir = str(pathlib.Path(folder) / "triton")
            for number, (what, lines, _) in enumerate(examples()):
                with self.subTest(what):
                    function = load_example(lines, folder, number)
                    self.assertEqual(compile_kernel(function, {"x": "*fp32", "out": "*fp32"}, {"N": 8}), 0)
                    count += 1
        self.assertGreater(count, 40)

    def test_kernels_compile_for_sm_90_as_they_are_and_fused(self):
        with tempfile.TemporaryDirectory() as folder:
            triton.knobs.cache.dir = str(pathlib.Path(folder) / "triton")
            for name, (types, constants) in FUSED.items():
                out = pathlib.Path(folder) / name
                subprocess.run([SYNCOPATE, "compile", IDIOMS / f"{name}.toml", "--out", out], check=True,
                               stdout=subprocess.DEVNULL)
                if name == "norm_rotary":  # its row is 64 bits wide and stays so
                    self.assertIn("row = tl.load(syncopate_row) + syncopate_ready", (out / "fused.py").read_text())
                local = getattr(kernels.load(IDIOMS / f"{name}.py"), name)
                for function in (getattr(local, "fn", local) if name == "gated_grid" else local,
                                 getattr(kernels.load(out / "fused.py"), f"{name}_fused")):
                    with self.subTest(kernel=function.__name__):
                        self.assertEqual(compile_kernel(function, types, constants, warps=8), 0)

    def test_kernels_run_right_on_cpu_ranks(self):
        for name in FUSED:
            for ranks in (1, 2, 5):
                with self.subTest(operator=name, ranks=ranks):
                    result = subprocess.run([SYNCOPATE, "run", IDIOMS / f"{name}.toml", "--set", f"ranks={ranks}"],
                                            capture_output=True, text=True)
                    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
