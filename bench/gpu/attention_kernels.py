"""The attention kernel of kernels/ on one GPU: its constants, compiled in child processes, launched through the driver.

Run as a program, this file is the child that compiles one configuration.
"""
import concurrent.futures
import ctypes
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

from gemm_kernels import CAPABILITY, KERNELS, Kernel, cdiv

TYPES = {"bf16": "bfloat16", "fp16": "float16"}  # Triton's name, torch's


@dataclasses.dataclass(frozen=True)
class Shape:
    q_length: int
    kv_length: int
    heads: int
    kv_heads: int
    head_dim: int
    causal: bool
    q_start: int = 0
    dtype: str = "bf16"

    @property
    def group(self):
        return self.heads // self.kv_heads

    @property
    def scale(self):
        return self.head_dim**-0.5

    @property
    def pairs(self):
        """Of a query and a key that it attends to, in one head."""
        if not self.causal:
            return self.q_length * self.kv_length
        return sum(min(max(self.q_start + i + 1, 0), self.kv_length) for i in range(self.q_length))

    @property
    def flops(self):
        """Of both products."""
        return 4 * self.pairs * self.heads * self.head_dim

    def __str__(self):
        length = str(self.q_length) if self.q_length == self.kv_length else f"{self.q_length} of {self.kv_length}"
        start = f", from {self.q_start}" if self.q_start else ""
        mask = "causal" if self.causal else "full"
        return f"{length}, {self.heads}/{self.kv_heads} x {self.head_dim}, {mask}{start}, {self.dtype}"


@dataclasses.dataclass(frozen=True)
class Configuration:
    block_m: int
    block_n: int
    warps: int
    stages: int

    def __str__(self):
        return f"{self.block_m}x{self.block_n} w{self.warps} s{self.stages}"


@dataclasses.dataclass(frozen=True)
class Code:
    """All that machine code depends on."""
    configuration: Configuration
    head_dim: int
    group: int
    causal: bool
    dtype: str

    def constants(self):
        return {"BLOCK_M": self.configuration.block_m, "BLOCK_N": self.configuration.block_n, "HEAD_DIM": self.head_dim,
                "GROUP": self.group, "CAUSAL": int(self.causal)}

    def __str__(self):
        return f"{self.configuration} d{self.head_dim} g{self.group} {'causal' if self.causal else 'full'} {self.dtype}"


def code_of(configuration, shape):
    return Code(configuration, shape.head_dim, shape.group, shape.causal, shape.dtype)


def read_table(path):
    """(head_dim, causal) -> Configuration"""
    return {(head_dim, bool(causal)): Configuration(*rest)
            for head_dim, causal, *rest in json.loads(path.read_text())["choices"]}


def write_table(path, table):
    about = ["head_dim", "causal", *(field.name for field in dataclasses.fields(Configuration))]
    lines = [json.dumps([head_dim, int(causal), *dataclasses.astuple(configuration)])
             for (head_dim, causal), configuration in sorted(table.items())]
    path.write_text(f'{{"choices_of": {json.dumps(about)},\n "choices": [\n  ' + ",\n  ".join(lines) + "]}\n")


def compile_source(function, code):
    """Triton's compiled kernel; needs no GPU."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    constants = code.constants()
    types = {"lse_ptr": "*fp32", "scale": "fp32"}
    signature, values, attributes = {}, {}, {}
    for i, parameter in enumerate(function.params):
        name = parameter.name
        if parameter.is_constexpr:
            signature[name] = "constexpr"
            values[(i,)] = constants[name]
            continue
        pointer = name.endswith("_ptr")
        signature[name] = types.get(name, f"*{code.dtype}" if pointer else "i32")
        if pointer:  # lengths and the first row may be any
            attributes[(i,)] = [["tt.divisibility", 16]]
    return triton.compile(ASTSource(fn=function, signature=signature, constexprs=values, attrs=attributes),
                          target=GPUTarget("cuda", CAPABILITY, 32),
                          options={"num_warps": code.configuration.warps, "num_stages": code.configuration.stages})


def child(code, target):
    import importlib.util

    code = Code(Configuration(*code.pop("configuration").values()), **code)
    spec = importlib.util.spec_from_file_location("attention", KERNELS / "attention.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel = compile_source(module.attention, code)
    metadata = kernel.metadata
    pathlib.Path(target).write_text(json.dumps({
        "name": metadata.name, "warps": metadata.num_warps, "shared_bytes": metadata.shared,
        "scratch_bytes": metadata.global_scratch_size or 0, "descriptors": [], "image": kernel.asm["cubin"].hex()}))


def compile_one(code, folder):
    """In a child process, since Triton may abort."""
    target = pathlib.Path(folder) / f"{str(code).replace(' ', '_')}.json"
    request = json.dumps([dataclasses.asdict(code), str(target)])
    environment = dict(os.environ, TRITON_CACHE_DIR=str(pathlib.Path(folder) / "triton"))
    process = subprocess.run([sys.executable, __file__, request], capture_output=True, text=True, env=environment,
                             timeout=300)
    if process.returncode != 0:
        raise RuntimeError(f"{code} was not compiled:\n{process.stderr[-1000:]}")
    return json.loads(target.read_text())


def compile_all(codes):
    """Code -> Kernel in the current context; those that cannot be compiled or loaded are reported and left out."""
    kernels = {}
    with (tempfile.TemporaryDirectory() as folder,
          concurrent.futures.ThreadPoolExecutor(min(16, os.cpu_count())) as pool):
        futures = {code: pool.submit(compile_one, code, folder) for code in codes}
        for code, future in futures.items():
            try:
                kernels[code] = Kernel(code, future.result())
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(error, file=sys.stderr)
    return kernels


class Launch:
    """One attention, ready to be launched again and again: call it. `o` and `lse` begin as NaN."""

    def __init__(self, kernel, shape, q, k, v):
        import torch

        self.o = torch.full_like(q, math.nan)
        self.lse = torch.full((shape.heads, shape.q_length), math.nan, device=q.device)
        self.kernel = kernel
        self.grid = cdiv(shape.q_length, kernel.configuration.configuration.block_m) * shape.heads
        self.scratch = torch.empty(max(1, self.grid * kernel.scratch_bytes), dtype=torch.int8, device=q.device)
        pointers = [q, k, v, self.o, self.lse]
        self.values = [ctypes.c_uint64(each.data_ptr()) for each in pointers]
        self.values += [ctypes.c_int32(each) for each in (shape.q_length, shape.kv_length, shape.heads, shape.q_start)]
        self.values += [ctypes.c_float(shape.scale), ctypes.c_uint64(self.scratch.data_ptr()), ctypes.c_uint64(0)]
        self.kept = pointers
        addresses = [ctypes.cast(ctypes.pointer(each), ctypes.c_void_p) for each in self.values]
        self.arguments = (ctypes.c_void_p * len(addresses))(*addresses)
        self.current_stream = torch.cuda.current_stream

    def __call__(self):
        kernel = self.kernel
        kernel.check(kernel.driver.cuLaunchKernel(
            kernel.function, self.grid, 1, 1, kernel.threads, 1, 1, kernel.shared_bytes,
            ctypes.c_void_p(self.current_stream().cuda_stream), self.arguments, None))


if __name__ == "__main__":
    child(*json.loads(sys.argv[1]))
