"""Compiles a kernel for an NVIDIA sm_90 GPU, with none present, and reads what it costs from the assembler."""
import dataclasses
import pathlib
import re
import subprocess
import tempfile

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

ASSEMBLER = pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
RUNTIME_SCALARS = {"syncopate_rank": "i32", "syncopate_world_size": "i32", "syncopate_tile_count": "i32",
                   "syncopate_time_limit": "i64", "syncopate_lookahead": "i32", "syncopate_addition_count": "i32"}
TENSORS = ("syncopate_staging", "syncopate_result", "syncopate_summands")
ALIGNED = [["tt.divisibility", 16]]


@dataclasses.dataclass
class Compiled:
    ptx: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    serialised: bool  # whether each wgmma waits for the one before, at half the speed

    def count(self, instruction):
        return len(re.findall(re.escape(instruction), self.ptx))

    def positions(self, text):
        """Where `text` begins in the code."""
        return [match.start() for match in re.finditer(re.escape(text), self.ptx)]

    def __str__(self):
        return (f"{self.registers} registers, {self.spill_bytes} bytes spilled, {self.shared_bytes} bytes shared, "
                f"{self.count('wgmma.mma_async')} wgmma, {self.count('cp.async.bulk.tensor')} TMA")


def argument_types(function, tile, cut):
    """Types of the parameters: three bf16 tensors, the runtime's, sizes that are multiples of 16."""
    signature, constants, attributes = {}, {}, {}
    constexprs = iter((*tile, cut))
    for i, parameter in enumerate(function.params):
        name = parameter.name
        if parameter.is_constexpr:
            signature[name] = "constexpr"
            constants[(i,)] = next(constexprs)
        elif name in RUNTIME_SCALARS:
            signature[name] = RUNTIME_SCALARS[name]
        else:
            tensor = i < 3 or name in TENSORS
            signature[name] = "*bf16" if tensor else "*i64" if name.startswith("syncopate_") else "i32"
            attributes[(i,)] = ALIGNED
    return signature, constants, attributes


def assembled(ptx):
    """Bytes spilled, registers, and whether the assembler says that it serialises wgmma instructions."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [ASSEMBLER, "-v", "--gpu-name=sm_90a", file.name, "-o", "/dev/null"]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    stores, loads = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", report).groups()
    registers = int(re.search(r"Used (\d+) registers", report).group(1))
    return int(stores) + int(loads), registers, "instructions are serialized" in report


def compile_source(function, signature, constants, attributes, warps, stages):
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32),
                            options={"num_warps": warps, "num_stages": stages})
    spill_bytes, registers, serialised = assembled(kernel.asm["ptx"])
    return Compiled(kernel.asm["ptx"], registers, spill_bytes, kernel.metadata.shared, serialised)


def compile_kernel(function, tile, warps, stages, cut=False):
    """`tile` holds the values of the kernel's own constexpr parameters, in order; `cut` is syncopate_cut."""
    return compile_source(function, *argument_types(function, tile, cut), warps, stages)


def compile_by_name(function, types, constants, warps, stages):
    """By names of parameters: `types` of those that are neither i32 nor the runtime's, `constants` of the constexpr ones,
    but for those with defaults that will do."""
    signature, values, attributes = {}, {}, {}
    for i, parameter in enumerate(function.params):
        name = parameter.name
        if parameter.is_constexpr:
            signature[name], values[(i,)] = "constexpr", constants[name] if name in constants else parameter.default
        elif name in RUNTIME_SCALARS:
            signature[name] = RUNTIME_SCALARS[name]
        else:
            signature[name] = types.get(name, "*i64" if name.startswith("syncopate_") else "i32")
            if signature[name] != "fp32":
                attributes[(i,)] = ALIGNED
    return compile_source(function, signature, values, attributes, warps, stages)
