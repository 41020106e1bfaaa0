"""The local kernels of kernels/ on one GPU, for tune_gemm.py: compiled as the runtime compiles them, but launched through
the driver, with neither plan nor operator, of which many candidates for many sizes would need too many. local.py
measures what this finds through Syncopate's runtime; `settings` is the operator of a configuration.
"""
import concurrent.futures
import ctypes
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels"
COMPILER = ROOT / "syncopate" / "cuda" / "compile_child.py"
OPERATOR = ROOT / "operators" / "gemm.toml"
CAPABILITY = 90
MAX_DYNAMIC_SHARED_SIZE = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
BFLOAT16 = 9  # CU_TENSOR_MAP_DATA_TYPE_BFLOAT16


def cdiv(a, b):
    return -(-a // b)


@dataclasses.dataclass(frozen=True)
class Configuration:
    """A kernel with its constants. `blocks` are its constexpr parameters in order; `per_sm` programs share an SM."""
    kernel: str  # the name of both the file and the function
    blocks: tuple
    warps: int
    stages: int
    per_sm: int = 1

    def constants(self):
        names = {
            "gemm": ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M"),
            "gemm_two_widths": ("BLOCK_M", "BLOCK_N", "EXTRA_N", "BLOCK_K", "GROUP_M"),
            "gemm_pointers": ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M"),
        }[self.kernel]
        return dict(zip(names, self.blocks, strict=True))

    def tile(self):
        """Rows and columns of a tile."""
        constants = self.constants()
        return constants["BLOCK_M"], constants["BLOCK_N"] + constants.get("EXTRA_N", 0)

    def tiles(self, m, n):
        rows, columns = self.tile()
        return cdiv(m, rows) * cdiv(n, columns)

    def settings(self, m, n, k, multiprocessors):
        """What makes operators/gemm.toml an operator whose local kernel is this one."""
        blocks = {f"kernel.args.{name}": value for name, value in self.constants().items()}
        # A kernel that is not persistent has a program for each tile, however many workers the plan has.
        per_sm = 1 if self.kernel == "gemm_pointers" else self.per_sm
        return blocks | {"kernel.file": f"../kernels/{self.kernel}.py", "kernel.function": self.kernel,
                         "kernel.args.M": m, "kernel.args.N": n, "kernel.args.K": k, "launch.warps": self.warps,
                         "launch.stages": self.stages, "launch.workers": multiprocessors * per_sm}

    def __str__(self):
        return f"{self.kernel} {'x'.join(map(str, self.blocks))} w{self.warps} s{self.stages} p{self.per_sm}"


def read_table(path):
    """(M, N, K) -> configuration"""
    table = json.loads(path.read_text())
    configurations = [Configuration(kernel, tuple(blocks), *rest) for kernel, blocks, *rest in table["configurations"]]
    return {(m, n, k): configurations[index] for m, n, k, index in table["choices"]}


def request(configuration):
    """What the runtime would ask its compiler for."""
    parameters = [{"name": f"{tensor}_ptr", "type": "*bf16", "divisible_by_16": True} for tensor in "abc"]
    parameters += [{"name": size, "type": "i32", "divisible_by_16": True} for size in "MNK"]
    parameters += [{"name": name, "type": "constexpr", "divisible_by_16": False, "value": value}
                   for name, value in configuration.constants().items()]
    return {"function": configuration.kernel, "parameters": parameters, "capability": CAPABILITY,
            "warps": configuration.warps, "stages": configuration.stages, "hoist": True}


def compile_one(configuration):
    """What the runtime's compiler makes of it, in a process of its own as there: Triton may abort."""
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        (here / "kernel.py").write_text((KERNELS / f"{configuration.kernel}.py").read_text())
        (here / "request.json").write_text(json.dumps(request(configuration)))
        child = subprocess.run([sys.executable, COMPILER], cwd=here, capture_output=True, text=True, timeout=300)
        if child.returncode != 0:
            raise RuntimeError(f"{configuration} was not compiled:\n{child.stderr[-1000:]}")
        return json.loads((here / "result.json").read_text())


def compile_all(configurations, workers=None):
    """Configuration -> what compile_one found; those that cannot be compiled are reported and left out."""
    compiled = {}
    threads = concurrent.futures.ThreadPoolExecutor(workers or min(16, os.cpu_count()))
    with threads as pool:
        futures = {pool.submit(compile_one, each): each for each in configurations}
        for future, configuration in futures.items():
            try:
                compiled[configuration] = future.result()
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(error, file=sys.stderr)
    return compiled


class Kernel:
    """A compiled kernel in the current context of the driver."""

    def __init__(self, configuration, compiled):
        self.configuration = configuration
        self.threads, self.shared_bytes = 32 * compiled["warps"], compiled["shared_bytes"]
        self.scratch_bytes, self.descriptors = compiled["scratch_bytes"], compiled["descriptors"]
        self.driver = ctypes.CDLL("libcuda.so.1")
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.driver.cuModuleLoadData(ctypes.byref(module), bytes.fromhex(compiled["image"])))
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(self.function), module, compiled["name"].encode()))
        self.check(self.driver.cuFuncSetAttribute(self.function, MAX_DYNAMIC_SHARED_SIZE, self.shared_bytes))

    def tensor_map(self, tensor, descriptor, sizes, strides):
        """For a descriptor that the kernel takes, of a matrix."""
        map_type = ctypes.c_uint64 * 16
        memory = (ctypes.c_uint64 * 24)()
        at = map_type.from_buffer(memory, -ctypes.addressof(memory) % 64)
        row_bytes = strides[0] * tensor.element_size()
        self.check(self.driver.cuTensorMapEncodeTiled(
            at, BFLOAT16, 2, ctypes.c_void_p(tensor.data_ptr()), (ctypes.c_uint64 * 2)(*reversed(sizes)),
            (ctypes.c_uint64 * 1)(row_bytes), (ctypes.c_uint32 * 2)(*reversed(descriptor["box"])),
            (ctypes.c_uint32 * 2)(1, 1), 0, descriptor["swizzle"], 0, 0))
        return at

    def check(self, result):
        if result != 0:
            raise RuntimeError(f"{self.configuration}: the driver answers {result}")


def address(tensor):
    return ctypes.c_uint64(tensor.data_ptr())


class Launch:
    """One product, ready to be launched again and again: call it. All memory is allocated here."""

    def __init__(self, kernel, a, b, c):
        import torch

        configuration = kernel.configuration
        (m, k), n = a.shape, b.shape[1]
        multiprocessors = torch.cuda.get_device_properties(a.device).multi_processor_count
        tiles = configuration.tiles(m, n)
        is_persistent = configuration.kernel != "gemm_pointers"
        grid = min(tiles, multiprocessors * configuration.per_sm) if is_persistent else tiles
        scratch = torch.empty(max(1, grid * kernel.scratch_bytes), dtype=torch.int8, device=a.device)
        tensors, sizes = {"a_ptr": a, "b_ptr": b, "c_ptr": c}, {"M": m, "N": n, "K": k, "1": 1}
        self.kept, self.kernel, self.grid = (a, b, c, scratch), kernel, grid
        self.values = [*map(address, (a, b, c)), *map(ctypes.c_int32, (m, n, k))]
        for each in kernel.descriptors:
            shape, strides = ([sizes[text] for text in each[of]] for of in ("shape", "strides"))
            self.values += [kernel.tensor_map(tensors[each["pointer"]], each, shape, strides),
                            *map(ctypes.c_int32, shape), *map(ctypes.c_int64, strides)]
        self.values += [address(scratch), ctypes.c_uint64(0)]  # the last is of Triton's profiler
        pointers = [ctypes.cast(ctypes.pointer(each), ctypes.c_void_p) for each in self.values]
        self.pointers = (ctypes.c_void_p * len(pointers))(*pointers)
        self.current_stream = torch.cuda.current_stream

    def __call__(self):
        kernel = self.kernel
        kernel.check(kernel.driver.cuLaunchKernel(
            kernel.function, self.grid, 1, 1, kernel.threads, 1, 1, kernel.shared_bytes,
            ctypes.c_void_p(self.current_stream().cuda_stream), self.pointers, None))


def random_operands(n, k):
    """Rows for the largest M, of which smaller products take the first, and the matrix that they are multiplied by."""
    import torch

    return [torch.randn(size, dtype=torch.bfloat16, device="cuda") for size in ((8192, k), (k, n))]


def captured(call, times):
    """A CUDA graph of so many calls, so that what a launch costs the host is not measured. Keep what it calls alive."""
    import torch

    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            call()
    return graph


def check_product(c, reference, k):
    """Both are products of standard normal operands, rounded to bf16: they may differ by a last bit or two."""
    error = (c - reference).abs().max().item() / k**0.5
    if not error < 0.07:
        raise RuntimeError(f"the result differs from cuBLAS by {error} of its standard deviation")
