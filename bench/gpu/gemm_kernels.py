"""The local kernels of kernels/ on one GPU, for tune_gemm.py: compiled in child processes, launched through the driver,
with neither plan nor operator, of which many candidates for many sizes would need too many. local.py measures what this
finds through Syncopate's runtime; `settings` is the operator of a configuration. Run as a program, this file is the
child that compiles one kernel.
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

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels"
OPERATOR = ROOT / "operators" / "gemm.toml"
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
            "gemm_three_widths": ("BLOCK_M", "BLOCK_N", "EXTRA_N", "REST_N", "BLOCK_K", "GROUP_M"),
            "gemm_pointers": ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M"),
        }[self.kernel]
        return dict(zip(names, self.blocks, strict=True))

    def tile(self):
        """Rows and columns of a tile."""
        constants = self.constants()
        return constants["BLOCK_M"], sum(constants.get(part, 0) for part in ("BLOCK_N", "EXTRA_N", "REST_N"))

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
    threads = concurrent.futures.ThreadPoolExecutor(workers or min(16, os.cpu_count()))
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
    constants = configuration.constants()
    signature, values, attributes = {}, {}, {}
    for i, parameter in enumerate(function.params):
        if parameter.is_constexpr:
            signature[parameter.name] = "constexpr"
            values[(i,)] = constants[parameter.name]
            continue
        signature[parameter.name] = "*bf16" if parameter.name.endswith("_ptr") else "i32"
        attributes[(i,)] = [["tt.divisibility", 16]]  # sizes are multiples of 16
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

    def __init__(self, kernel, a, b, c):
        import torch

        configuration = kernel.configuration
        (m, k), n = a.shape, b.shape[1]
        multiprocessors = torch.cuda.get_device_properties(a.device).multi_processor_count
        tiles = configuration.tiles(m, n)
        is_persistent = configuration.kernel != "gemm_pointers"
        grid = min(tiles, multiprocessors * configuration.per_sm) if is_persistent else tiles
        scratch = torch.empty(max(1, grid * kernel.scratch_bytes), dtype=torch.int8, device=a.device)
        arguments = [a, b, c, m, n, k, scratch, None]  # the last is of Triton's profiler
        self.kept, self.kernel, self.grid = arguments, kernel, grid
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
