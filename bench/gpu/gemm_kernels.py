"""The local kernels of kernels/ on one GPU: compiled in child processes, launched through the driver.

They are launched as the runtime of Syncopate launches, by cuLaunchKernel, without Triton; `Launch` is all that the
measurements see of that. Run as a program, this file is the child that compiles one kernel.
"""
import concurrent.futures
import ctypes
import dataclasses
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "kernels"
CAPABILITY = 90
MAX_DYNAMIC_SHARED_SIZE = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


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
            "gemm_split_k": ("BLOCK_M", "BLOCK_N", "BLOCK_K"),
        }[self.kernel]
        return dict(zip(names, self.blocks, strict=True))

    def tile(self):
        """Rows and columns of a tile."""
        constants = self.constants()
        return constants["BLOCK_M"], constants["BLOCK_N"] + constants.get("EXTRA_N", 0)

    def tiles(self, m, n):
        rows, columns = self.tile()
        return cdiv(m, rows) * cdiv(n, columns)

    def __str__(self):
        return f"{self.kernel} {'x'.join(map(str, self.blocks))} w{self.warps} s{self.stages} p{self.per_sm}"


def read_table(path):
    """(M, N, K) -> (configuration, splits)"""
    table = json.loads(path.read_text())
    configurations = [Configuration(kernel, tuple(blocks), *rest) for kernel, blocks, *rest in table["configurations"]]
    return {(m, n, k): (configurations[index], splits) for m, n, k, index, splits in table["choices"]}


def compile_one(configuration, folder):
    """Leaves the image and what a launch must know in `folder`. Triton may abort, hence the child process."""
    name = str(configuration).replace(" ", "_")
    target = pathlib.Path(folder) / f"{name}.json"
    request = json.dumps([dataclasses.asdict(configuration), str(target)])
    environment = dict(os.environ, TRITON_CACHE_DIR=str(pathlib.Path(folder) / "triton"))
    child = subprocess.run([sys.executable, __file__, request], capture_output=True, text=True, env=environment,
                           timeout=300)
    if child.returncode != 0:
        raise RuntimeError(f"{configuration} was not compiled:\n{child.stderr[-1000:]}")
    return json.loads(target.read_text())


def compile_all(configurations, workers=None):
    """Configuration -> what compile_one found; those that cannot be compiled are reported and left out."""
    compiled = {}
    threads = concurrent.futures.ThreadPoolExecutor(workers or os.cpu_count())
    with tempfile.TemporaryDirectory() as folder, threads as pool:
        futures = {pool.submit(compile_one, each, folder): each for each in configurations}
        for future, configuration in futures.items():
            try:
                compiled[configuration] = future.result()
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(error, file=sys.stderr)
    return compiled


def child(configuration, target):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    configuration = Configuration(**{**configuration, "blocks": tuple(configuration["blocks"])})
    spec = importlib.util.spec_from_file_location(configuration.kernel, KERNELS / f"{configuration.kernel}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, configuration.kernel)
    types = {"partial_ptr": "*fp32", "arrivals_ptr": "*i32"}
    constants = configuration.constants()
    signature, values, attributes = {}, {}, {}
    for i, parameter in enumerate(function.params):
        if parameter.is_constexpr:
            signature[parameter.name] = "constexpr"
            values[(i,)] = constants[parameter.name]
            continue
        pointer = parameter.name.endswith("_ptr")
        signature[parameter.name] = types.get(parameter.name, "*bf16") if pointer else "i32"
        if parameter.name != "splits":  # sizes are multiples of 16
            attributes[(i,)] = [["tt.divisibility", 16]]
    kernel = triton.compile(ASTSource(fn=function, signature=signature, constexprs=values, attrs=attributes),
                            target=GPUTarget("cuda", CAPABILITY, 32),
                            options={"num_warps": configuration.warps, "num_stages": configuration.stages})
    metadata = kernel.metadata
    pathlib.Path(target).write_text(json.dumps({
        "name": metadata.name, "threads": 32 * metadata.num_warps, "shared_bytes": metadata.shared,
        "scratch_bytes": metadata.global_scratch_size or 0, "image": kernel.asm["cubin"].hex()}))


class Kernel:
    """A compiled kernel in the current context of the driver."""

    def __init__(self, configuration, compiled):
        self.configuration = configuration
        self.threads, self.shared_bytes = compiled["threads"], compiled["shared_bytes"]
        self.scratch_bytes = compiled["scratch_bytes"]
        self.driver = ctypes.CDLL("libcuda.so.1")
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.driver.cuModuleLoadData(ctypes.byref(module), bytes.fromhex(compiled["image"])))
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(self.function), module, compiled["name"].encode()))
        self.check(self.driver.cuFuncSetAttribute(self.function, MAX_DYNAMIC_SHARED_SIZE, self.shared_bytes))

    def check(self, result):
        if result != 0:
            raise RuntimeError(f"{self.configuration}: the driver answers {result}")


class Launch:
    """One product, ready to be launched again and again: call it. All memory is allocated here."""

    def __init__(self, kernel, a, b, c, splits=1):
        import torch

        configuration = kernel.configuration
        (m, k), n = a.shape, b.shape[1]
        multiprocessors = torch.cuda.get_device_properties(a.device).multi_processor_count
        tiles = configuration.tiles(m, n)
        arguments = [a, b, c]
        grid = tiles
        if configuration.kernel == "gemm_split_k":
            rows, columns = configuration.tile()
            grid = tiles * splits
            arguments += [torch.empty(grid * rows * columns, dtype=torch.float32, device=a.device),
                          torch.zeros(tiles, dtype=torch.int32, device=a.device)]
        elif configuration.kernel != "gemm_pointers":
            grid = min(tiles, multiprocessors * configuration.per_sm)
        arguments += [m, n, k] + ([splits] if configuration.kernel == "gemm_split_k" else [])
        scratch = torch.empty(max(1, grid * kernel.scratch_bytes), dtype=torch.int8, device=a.device)
        arguments += [scratch, None]  # the second is of Triton's profiler
        self.kept, self.kernel, self.grid, self.splits = arguments, kernel, grid, splits
        self.values = [ctypes.c_int32(each) if isinstance(each, int) else
                       ctypes.c_uint64(0 if each is None else each.data_ptr()) for each in arguments]
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


if __name__ == "__main__":
    child(*json.loads(sys.argv[1]))
