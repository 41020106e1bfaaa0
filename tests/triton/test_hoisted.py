"""Kernels that take tensor descriptors from their launch are, but for that, the machine code that they were."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import kernels
import triton

TOOLS = pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
COMPILER = kernels.ROOT / "syncopate" / "cuda" / "compile_child.py"
RUNTIME_SCALARS = {"syncopate_rank": "i32", "syncopate_world_size": "i32", "syncopate_tile_count": "i32",
                   "syncopate_time_limit": "i64"}
TILE = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8, "EXTRA_N": 64, "TILE_R": 128, "TILE_C": 256,
        "TILE_D": 64, "BAND": 8}
# TMA in both directions, tensor cores, loads of 16 bytes, all loads, and spills.
INSTRUCTIONS = ["UTMALDG", "UTMASTG", "HGMMA", "LDG.E.128", "LDG.E", "STL"]


def parameter(name, is_constexpr, constants):
    if is_constexpr:
        return {"name": name, "type": "constexpr", "divisible_by_16": False, "value": constants[name]}
    if name in RUNTIME_SCALARS:
        return {"name": name, "type": RUNTIME_SCALARS[name], "divisible_by_16": False}
    is_tensor = name.endswith("_ptr") or name in ("x", "w", "y", "syncopate_staging")
    kind = "*bf16" if is_tensor else "*i64" if name.startswith("syncopate_") else "i32"
    return {"name": name, "type": kind, "divisible_by_16": True}


def compiled(path, name, hoist, constants):
    """(what the runtime gets, counts of instructions, bytes of stack)"""
    function = getattr(kernels.load(path), name)
    request = {"function": name, "capability": 90, "warps": 8, "stages": 3, "hoist": hoist,
               "parameters": [parameter(each.name, each.is_constexpr, constants) for each in function.params]}
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        (here / "kernel.py").write_text(path.read_text())
        (here / "request.json").write_text(json.dumps(request))
        subprocess.run([sys.executable, COMPILER], cwd=here, check=True, timeout=300)
        result = json.loads((here / "result.json").read_text())
        (here / "kernel.cubin").write_bytes(bytes.fromhex(result.pop("image")))

        def read(tool, *options):
            return subprocess.run([TOOLS / tool, *options, here / "kernel.cubin"], capture_output=True, text=True,
                                  check=True).stdout

        code = read("nvdisasm", "-c")
        stack = int(re.search(r"STACK:(\d+)", read("cuobjdump", "-res-usage")).group(1))
    return result, {each: code.count(each) for each in INSTRUCTIONS}, stack


class Hoisted(unittest.TestCase):

    def compare(self, path, name, pointers, **constants):
        before, instructions, _ = compiled(path, name, False, TILE | constants)
        after, hoisted_instructions, stack = compiled(path, name, True, TILE | constants)
        self.assertEqual(before["descriptors"], [])
        self.assertGreater(before["scratch_bytes"], 0)
        self.assertEqual(after["scratch_bytes"], 0)
        self.assertEqual([each["pointer"] for each in after["descriptors"]], pointers)
        self.assertEqual(after["parameters"], before["parameters"])
        self.assertEqual(after["shared_bytes"], before["shared_bytes"])
        self.assertEqual(hoisted_instructions, instructions)
        self.assertGreater(instructions["UTMALDG"], 0)
        self.assertEqual(stack, 0)
        for each in after["descriptors"]:
            self.assertEqual((each["swizzle"], each["element_bytes"]), (3, 2))
            self.assertEqual(each["box"][1], 64, "128 bytes, the width of the swizzle")

    def test_local_kernels(self):
        folder = kernels.ROOT / "kernels"
        self.compare(folder / "gemm.py", "gemm", ["a_ptr", "b_ptr", "c_ptr"])
        self.compare(folder / "gemm_two_widths.py", "gemm_two_widths", ["a_ptr", "b_ptr", "b_ptr"])
        self.compare(folder / "gemm_two_widths.py", "gemm_two_widths", ["a_ptr", "b_ptr"], EXTRA_N=0)

    def test_fused_with_a_gathered_input(self):
        self.compare(kernels.FUSED / "gemm.py", "gemm_fused", ["a_ptr", "b_ptr", "c_ptr"])

    def test_fused_with_a_reduced_output(self):
        self.compare(kernels.FUSED / "gemm_sum.py", "gemm_fused", ["a_ptr", "b_ptr", "c_ptr"], syncopate_cut=True)
        self.compare(kernels.FUSED / "gemm_split_helper_sum.py", "gemm_split_helper_fused", ["x", "w", "y"],
                     syncopate_cut=False, TILE_C=128)


if __name__ == "__main__":
    unittest.main()
