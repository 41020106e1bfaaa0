"""Our product of 8-bit floats against torch._scaled_mm on one GPU, with a scale for each tensor and one for each row.

Shapes are the projections of the Llama-3 models on two ranks. Each product is an operator of one rank,
gemm_fp8.toml with the constants that fp8_table.json has for it; Operator.local() launches it. torch adds as the tensor
cores do (use_fast_accum), which is what ours does; the column "precise" is torch without that.

Results first: integers with scales that are powers of two, whose products are exact, bit for bit; then random numbers,
a part of which is compared with fp64. A sample is a CUDA graph of up to 20 calls; samples of all are taken in turns,
and the median of 11 counts.

--search measures all candidates of each shape first, and writes the table.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import sys
import tempfile
import time

from gemm_shapes import MODELS, parse as parse_shape
from needs import need

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "python"))  # for a package built in place; one that is installed comes first
TABLE = HERE / "fp8_table.json"
SAMPLES, LEAST = 11, 0.9
ROWS = (512, 2048, 8192)
RANKS = 2
SCALES = {"tensor": False, "row": True}


@dataclasses.dataclass(frozen=True)
class Configuration:
    block_m: int
    block_n: int
    block_k: int
    group_m: int
    warps: int
    stages: int
    per_sm: int = 1

    def settings(self, m, n, k, row_scales, multiprocessors):
        """What makes gemm_fp8.toml an operator whose local kernel is this one."""
        scales = {} if row_scales else {"tensors.a_scale.shape": [1], "tensors.b_scale.shape": [1]}
        return scales | {
            "kernel.args.M": m, "kernel.args.N": n, "kernel.args.K": k, "kernel.args.ROW_SCALES": row_scales,
            "kernel.args.BLOCK_M": self.block_m, "kernel.args.BLOCK_N": self.block_n,
            "kernel.args.BLOCK_K": self.block_k, "kernel.args.GROUP_M": self.group_m, "launch.warps": self.warps, "launch.stages": self.stages,
            "launch.workers": multiprocessors * self.per_sm}

    def __str__(self):
        return (f"{self.block_m}x{self.block_n}x{self.block_k} group {self.group_m} w{self.warps} s{self.stages} "
                f"p{self.per_sm}")


DEFAULT = Configuration(128, 256, 128, 8, 8, 3)
CANDIDATES = [DEFAULT, Configuration(128, 256, 128, 8, 8, 4), Configuration(128, 128, 128, 8, 4, 4),
              Configuration(128, 128, 128, 8, 4, 3, 2), Configuration(128, 128, 128, 8, 8, 5),
              Configuration(256, 128, 128, 8, 8, 4), Configuration(64, 256, 128, 8, 4, 4),
              Configuration(64, 128, 128, 8, 4, 4, 2), Configuration(64, 256, 128, 8, 4, 2, 2),
              Configuration(64, 128, 256, 8, 4, 3), Configuration(128, 256, 128, 4, 8, 4),
              Configuration(128, 256, 128, 16, 8, 4)]


def shapes():
    """(M, N, K) of each projection, once."""
    found = {}
    for name, (hidden, qkv, feed_forward) in MODELS.items():
        if name.startswith("Llama"):
            for n, k in ((qkv // RANKS, hidden), (hidden, hidden // RANKS), (2 * feed_forward // RANKS, hidden),
                         (hidden, feed_forward // RANKS)):
                found |= {(m, n, k): True for m in ROWS}
    return list(found)


def read_table(path):
    """{(M, N, K, row scales): Configuration}"""
    if not path.exists():
        return {}
    choices = json.loads(path.read_text())["choices"]
    return {(m, n, k, bool(row)): Configuration(*rest) for m, n, k, row, *rest in choices}


def write_table(path, table):
    about = ["M", "N", "K", "row scales", *(field.name for field in dataclasses.fields(Configuration))]
    lines = [json.dumps([*shape, int(row), *dataclasses.astuple(choice)])
             for (*shape, row), choice in sorted(table.items(), key=lambda item: item[0])]
    path.write_text(f'{{"choices_of": {json.dumps(about)},\n "choices": [\n  ' + ",\n  ".join(lines) + "]}\n")


class Problem:
    """A product's operands; c is what the last call made."""

    def __init__(self, m, n, k, row_scales, device="cuda"):
        import torch

        self.shape, self.row_scales, self.device = (m, n, k), row_scales, device
        self.a, self.b = (torch.empty(rows, k, dtype=torch.float8_e4m3fn, device=device) for rows in (m, n))
        self.a_scale, self.b_scale = (torch.empty(rows if row_scales else 1, device=device) for rows in (m, n))
        self.c = torch.empty(m, n, dtype=torch.bfloat16, device=device)

    def fill(self, integers):
        import torch

        generator = torch.Generator(device=self.device).manual_seed(1)
        for tensor, scale in ((self.a, self.a_scale), (self.b, self.b_scale)):
            if integers:
                values = torch.randint(-2, 3, tensor.shape, generator=generator, device=self.device).float()
                scale.copy_(2.0 ** torch.randint(-2, 3, scale.shape, generator=generator, device=self.device))
            else:
                values = torch.randn(tensor.shape, generator=generator, device=self.device)
                scale.uniform_(0.5, 2.0, generator=generator)
            tensor.copy_(values)
        if integers:
            product = torch.mm(self.a.to(torch.bfloat16), self.b.to(torch.bfloat16).t()).float()
            a_scale, b_scale = self.scales()
            self.expected = (product * a_scale * b_scale).to(torch.bfloat16)

    def scales(self):
        """As _scaled_mm takes them."""
        if self.row_scales:
            return self.a_scale[:, None], self.b_scale[None, :]
        return self.a_scale, self.b_scale

    def torch_call(self, fast):
        import torch

        a_scale, b_scale = self.scales()
        return lambda: torch._scaled_mm(self.a, self.b.t(), scale_a=a_scale, scale_b=b_scale, out_dtype=torch.bfloat16,
                                        use_fast_accum=fast)

    def wrong_integers(self, c):
        """"" or what is wrong. Sums of products are exact in fp32, and below 2^13 in tensor cores' sums of 8-bit floats."""
        off = ~(self.expected == c)
        return f"{int(off.sum())} of {off.numel()} elements of an integer product are wrong" if off.any() else ""

    def wrong_reals(self, c):
        """16 rows and 64 columns against fp64: what a block of 128 of K = 16384 that is missing changes is 0.09."""
        import torch

        generator = torch.Generator().manual_seed(2)
        rows = torch.randint(self.shape[0], (16,), generator=generator).to(self.device)
        columns = torch.randint(self.shape[1], (64,), generator=generator).to(self.device)
        a_scale, b_scale = (scale.double()[which] if self.row_scales else scale.double()
                            for scale, which in ((self.a_scale, rows), (self.b_scale, columns)))
        expected = self.a[rows].double() @ self.b[columns].double().t()
        expected = expected * (a_scale[:, None] * b_scale[None, :] if self.row_scales else a_scale * b_scale)
        error = ((c[rows][:, columns].double() - expected).norm() / expected.norm()).item()
        return "" if error < 0.02 else f"the result differs from fp64 by {error:.3g}"


class Kernels:
    """Operators of configurations, made several at a time: each compiles its kernel or finds it in the cache."""

    def __init__(self, cache):
        import syncopate
        import torch

        from local import OneRank
        self.syncopate, self.cache, self.one_rank = syncopate, cache, OneRank()
        self.multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count

    def operator(self, configuration, m, n, k, row_scales):
        settings = configuration.settings(m, n, k, row_scales, self.multiprocessors)
        plan = self.syncopate.compile(str(HERE / "gemm_fp8.toml"), settings)
        return self.syncopate.Operator(plan, group=self.one_rank, cache=self.cache)

    def usable(self, configurations):
        """{(configuration, row scales)} that compile and fit; the others are reported."""
        def prepare(configuration, row_scales):
            size = configuration.block_m * self.multiprocessors * configuration.per_sm
            operator = self.operator(configuration, size, configuration.block_n, 512, row_scales)
            operator.local(**{name: operator.buffer(name) for name in ("a", "b", "a_scale", "b_scale", "c")})
            operator.close()

        found = set()
        with concurrent.futures.ThreadPoolExecutor(min(16, os.cpu_count())) as pool:
            jobs = {(each, row): pool.submit(prepare, each, row) for each in configurations for row in SCALES.values()}
            for job, future in jobs.items():
                if error := future.exception():
                    print(f"{job[0]}: {str(error).splitlines()[0]}", flush=True)
                else:
                    found.add(job)
        return found


def ours(kernels, configuration, problem):
    """A call of ours, right for integers, or an error."""
    import torch

    operator = kernels.operator(configuration, *problem.shape, problem.row_scales)
    p = problem
    call = lambda: operator.local(a=p.a, b=p.b, a_scale=p.a_scale, b_scale=p.b_scale, c=p.c)
    check(problem, call, lambda: p.c, poison=lambda: p.c.fill_(math.nan))
    torch.cuda.synchronize()
    return call


def check(problem, call, result, poison=lambda: None):
    for integers, wrong in ((True, problem.wrong_integers), (False, problem.wrong_reals)):
        problem.fill(integers)
        poison()
        made = call()
        if error := wrong(made if made is not None else result()):
            raise RuntimeError(error)


def search(kernels, usable, problem):
    """(the fastest configuration, {configuration: us})"""
    from tune_gemm import measure

    m, n, _ = problem.shape
    calls = {}
    for configuration in CANDIDATES:
        wasteful = configuration.block_m > max(m, 64) or configuration.block_n > max(n, 128)
        if (configuration, problem.row_scales) in usable and not wasteful:
            try:
                calls[configuration] = ours(kernels, configuration, problem)
            except (RuntimeError, kernels.syncopate.Error) as error:
                print(f"{configuration}: {str(error).splitlines()[0]}", flush=True)
    times = measure(list(calls.values()), calls_of(problem), 5)
    us = dict(zip(calls, times))
    return min(us, key=us.get, default=None), us


def calls_of(problem):
    from local import calls_of_a_sample

    return calls_of_a_sample(*problem.shape)


def compare(kernels, configuration, problem):
    """{column: median us} and what failed."""
    from gemm_kernels import captured
    from local import sample

    count, calls, errors = calls_of(problem), {}, {}
    for name, make in (("torch", lambda: problem.torch_call(True)), ("precise", lambda: problem.torch_call(False)),
                       ("ours", lambda: ours(kernels, configuration, problem))):
        try:
            call = make()
            if name != "ours":
                check(problem, call, lambda: None)
            calls[name] = captured(call, count)
        except (RuntimeError, kernels.syncopate.Error) as error:
            errors[name] = str(error).splitlines()[0]
    taken = {name: [] for name in calls}
    for _ in range(SAMPLES + 1):  # the first warms up
        for name, graph in calls.items():
            taken[name].append(sample(graph) / count)
    return {name: sorted(samples[1:])[SAMPLES // 2] for name, samples in taken.items()}, errors


def report(rows):
    """(a Markdown table by scales, whether the bar is met)"""
    from figures import geometric_mean

    lines = ["| M x N x K | scales | torch | precise | ours | torch / ours | TFLOP/s | tile |", "|" + "---|" * 8]
    for row in rows:
        us, (m, n, k) = row["us"], row["shape"]
        cells = [f"{us[name]:.1f}" if name in us else "failed" for name in ("torch", "precise", "ours")]
        ratio, rate = (f"{row['ratio']:.3f}", f"{2e-6 * m * n * k / us['ours']:.0f}") if "ratio" in row else ("-", "-")
        cells = [f"{m}x{n}x{k}", row["scales"], *cells, ratio, rate, row["configuration"]]
        lines.append("| " + " | ".join(cells) + " |")
    met = bool(rows)
    for scales in SCALES:
        ratios = [row["ratio"] for row in rows if row["scales"] == scales and "ratio" in row]
        if ratios:
            mean = geometric_mean(ratios)
            met = met and mean >= LEAST
            lines.append(f"\nscales by {scales}: {len(ratios)} shapes, geometric mean {mean:.3f}, "
                         f"least {min(ratios):.3f}, {sum(ratio < LEAST for ratio in ratios)} below {LEAST}")
    return "\n".join(lines), met


def parse(arguments):
    parser = argparse.ArgumentParser(prog="fp8.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", type=parse_shape, metavar="MxNxK", help="only these, listed or not")
    parser.add_argument("--scales", choices=SCALES, help="only these")
    parser.add_argument("--search", action="store_true", help="measure candidates of each shape, write the table")
    parser.add_argument("--table", type=pathlib.Path, default=TABLE)
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here, after each shape")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the report here")
    parser.add_argument("--seconds", type=float, default=300, help="begin no shape after so long (%(default)s)")
    parser.add_argument("--cache", help="folder of compiled kernels (a new one)")
    return parser.parse_args(arguments)


def main():
    options = parse(sys.argv[1:])
    need("syncopate", "torch")
    import torch

    from local import machine
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        sys.exit("this benchmark needs an NVIDIA GPU of compute capability 9.0")
    begin = time.monotonic()
    torch.zeros(1, device="cuda")
    table, rows = read_table(options.table), []
    todo = [(shape, name) for name in SCALES if options.scales in (None, name) for shape in options.shapes or shapes()]
    with tempfile.TemporaryDirectory() as folder:
        kernels = Kernels(options.cache or folder)
        usable = kernels.usable(CANDIDATES if options.search else dict.fromkeys([DEFAULT, *table.values()]))
        print(f"{len(usable)} kernels in {time.monotonic() - begin:.0f} s", flush=True)
        for shape, scales in todo:
            if time.monotonic() - begin > options.seconds:
                print("out of time")
                break
            problem = Problem(*shape, SCALES[scales])
            key = (*shape, SCALES[scales])
            if options.search:
                best, _ = search(kernels, usable, problem)
                if best:
                    table[key] = best
                    write_table(options.table, table)
            configuration = table.get(key, DEFAULT)
            us, errors = compare(kernels, configuration, problem)
            rows.append({"shape": list(shape), "scales": scales, "us": us, "errors": errors,
                         "configuration": str(configuration)})
            if "torch" in us and "ours" in us:
                rows[-1]["ratio"] = us["torch"] / us["ours"]
            figures = ", ".join([f"{name} {each:.1f} us" for name, each in us.items()]
                                + [f"{name}: {error}" for name, error in errors.items()])
            print(f"{'x'.join(map(str, shape))}, scales by {scales}: {figures}, {configuration}", flush=True)
            if options.json:
                options.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")
    text, met = report(rows)
    print(text)
    if options.markdown:
        about = "\n".join(f"- {key}: {value}" for key, value in machine().items())
        options.markdown.write_text(f"# Products of 8-bit floats, one GPU, us\n\n{about}\n\n{text}\n")
    print(f"the bar is {'' if met else 'not '}met by what was measured, in {time.monotonic() - begin:.0f} s")
    if any(row["errors"] for row in rows):
        sys.exit("something failed; see above")


if __name__ == "__main__":
    main()
