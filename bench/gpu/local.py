"""Our local matrix products, launched by Syncopate's runtime, against cuBLAS on one GPU.

Each product is an operator of one rank, operators/gemm.toml with the kernel and the constants that gemm_table.json has
for it; Operator.local() launches it. Operands are standard normal, in bf16. A sample is a CUDA graph of 20 calls, of
fewer where these would take longer than 10 ms; samples of ours and of cuBLAS alternate, and the median of 11 counts, so
a clock that moves moves both. Every result is compared with that of cuBLAS, and a part of it with a product in fp64.
Operands that fit in the L2 cache stay there from call to call, for both.
"""
import argparse
import concurrent.futures
import itertools
import json
import math
import os
import pathlib
import platform
import sys
import tempfile
import time

from gemm_kernels import OPERATOR, ROOT, captured, check_product, random_operands, read_table
from gemm_shapes import add_choice_of_shapes, chosen, shapes
from needs import need

sys.path.append(str(ROOT / "python"))  # for a package built in place; one that is installed comes first

HERE = pathlib.Path(__file__).resolve().parent
CALLS, SAMPLES = 20, 11
LONGEST_SAMPLE_US = 10_000
LEAST_RATIO, LEAST_RATIO_FROM_M, LEAST_MEAN = 0.95, 2048, 0.97


class OneRank:
    """A group of one, for operators that communicate nothing."""

    rank, size = 0, 1

    def all_gather(self, item):
        return [item]


class Operators:
    """Makes operators of configurations. All kernels are compiled by prepare(), many at a time, and the plans of the
    products that come next while others are measured."""

    def __init__(self, cache, multiprocessors):
        import syncopate

        self.syncopate, self.cache, self.multiprocessors = syncopate, cache, multiprocessors
        self.pool = concurrent.futures.ThreadPoolExecutor(min(16, os.cpu_count()))
        self.plans = {}

    def plan(self, configuration, m, n, k):
        return self.syncopate.compile(OPERATOR, configuration.settings(m, n, k, self.multiprocessors))

    def operator(self, plan):
        return self.syncopate.Operator(plan, group=OneRank(), cache=self.cache)

    def prepare(self, configurations):
        """{configuration: why it cannot be used}"""
        def prepare_one(configuration):
            # Machine code is the same for all sizes. A kernel that compiles but does not fit fails here too.
            rows, columns = configuration.tile()
            operator = self.operator(self.plan(configuration, rows * self.multiprocessors * configuration.per_sm,
                                               columns, 128))
            operator.local(**{name: operator.buffer(name) for name in "abc"})
            operator.close()

        futures = {self.pool.submit(prepare_one, each): each for each in configurations}
        failed = {each: future.exception() for future, each in futures.items() if future.exception()}
        return {each: str(error) for each, error in failed.items()}

    def plan_ahead(self, todo):
        self.plans = {shape: self.pool.submit(self.plan, configuration, *shape) for shape, configuration in todo}

    def of(self, shapes_together):
        """Several at once, since each looks for the Python that has Triton: [operator or error]"""
        def one(shape):
            try:
                return self.operator(self.plans.pop(shape).result())
            except self.syncopate.Error as error:
                return error

        return list(self.pool.map(one, shapes_together))


def calls_of_a_sample(m, n, k):
    """At 700 TFLOP/s."""
    return max(2, min(CALLS, int(LONGEST_SAMPLE_US / (2e-6 * m * n * k / 700))))


def sample(graph):
    """Microseconds."""
    import torch

    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return 1000 * begin.elapsed_time(end)


def check_part(c, a, b):
    """16 rows and 64 columns against fp64."""
    import torch

    rows = torch.randint(a.shape[0], (16,), device=a.device)
    columns = torch.randint(b.shape[1], (64,), device=a.device)
    expected = a[rows].double() @ b[:, columns].double()
    error = ((c[rows][:, columns].double() - expected).norm() / expected.norm()).item()
    if not error < 3e-3:
        raise RuntimeError(f"the result differs from fp64 by {error}")


def compare(operator, a, b):
    """Median microseconds of ours and of cuBLAS."""
    import torch

    (m, k), n = a.shape, b.shape[1]
    c, reference = (torch.empty(m, n, dtype=a.dtype, device=a.device) for _ in range(2))
    c.fill_(float("nan"))
    calls = calls_of_a_sample(m, n, k)
    graphs = (captured(lambda: operator.local(a=a, b=b, c=c), calls),
              captured(lambda: torch.mm(a, b, out=reference), calls))
    check_product(c, reference, k)
    check_part(c, a, b)
    for graph in graphs:
        graph.replay()
    times = [[sample(graph) / calls for graph in graphs] for _ in range(SAMPLES)]
    return [sorted(each)[SAMPLES // 2] for each in zip(*times)]


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def machine():
    import torch
    import triton

    properties = torch.cuda.get_device_properties(0)
    return {"gpu": properties.name, "multiprocessors": properties.multi_processor_count, "torch": torch.__version__,
            "cuda": torch.version.cuda, "triton": triton.__version__, "python": platform.python_version()}


def name_of(row):
    return f"{row['M']}x{row['N']}x{row['K']}"


def report(rows):
    """(a Markdown table by M, then what is below the bar; whether the bar is met)"""
    lines = ["| M | shapes | geometric mean | least | below 0.95 |", "|---|---|---|---|---|"]

    def summary(name, ratios):
        return (f"| {name} | {len(ratios)} | {geometric_mean(ratios):.3f} | {min(ratios):.3f} | "
                f"{sum(ratio < LEAST_RATIO for ratio in ratios)} |")

    for m in sorted({row["M"] for row in rows}):
        lines.append(summary(m, [row["ratio"] for row in rows if row["M"] == m]))
    ratios = [row["ratio"] for row in rows]
    if ratios:
        lines.append(summary("all", ratios))
    missed = [row for row in rows if row["M"] >= LEAST_RATIO_FROM_M and row["ratio"] < LEAST_RATIO]
    lines += [f"below the bar: {name_of(row)} {row['ratio']:.3f}, cuBLAS {row['cublas_us']:.1f} us, "
              f"{row['configuration']}" for row in missed]
    return lines, bool(ratios) and not missed and geometric_mean(ratios) >= LEAST_MEAN


def measure(operators, todo, seconds, say):
    """(rows, failures); what is not reached in the time is in neither."""
    begin = time.monotonic()
    rows, failures = [], []
    for (n, k), group in itertools.groupby(todo, key=lambda item: item[0][1:]):
        if time.monotonic() - begin > seconds:
            break
        group = list(group)
        a, b = random_operands(n, k)
        for ((m, _, _), configuration), operator in zip(group, operators.of([shape for shape, _ in group])):
            try:
                if isinstance(operator, Exception):
                    raise operator
                ours, blas = compare(operator, a[:m], b)
                operator.close()
            except (RuntimeError, operators.syncopate.Error) as error:
                failures.append(f"{m}x{n}x{k} with {configuration}: {error}")
                say(failures[-1], rows)
                continue
            rows.append({"M": m, "N": n, "K": k, "us": ours, "cublas_us": blas, "ratio": blas / ours,
                         "tflops": 2e-6 * m * n * k / ours, "configuration": str(configuration)})
            say(f"{name_of(rows[-1])}: {ours:.1f} us, {rows[-1]['tflops']:.0f} TFLOP/s, cuBLAS {blas:.1f} us, "
                f"ratio {blas / ours:.3f}, {configuration}", rows)
    return rows, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=pathlib.Path, default=HERE / "gemm_table.json")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop measuring after so long")
    parser.add_argument("--cache", help="folder of compiled kernels (a new one)")
    add_choice_of_shapes(parser)
    options = parser.parse_args()
    need("syncopate", "torch")
    import torch

    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        sys.exit("this benchmark needs an NVIDIA GPU of compute capability 9.0")

    begin = time.monotonic()
    torch.zeros(1, device="cuda")
    table = read_table(options.table)
    todo = [(shape, table[shape]) for shape in chosen(options) if shape in table]
    with tempfile.TemporaryDirectory() as folder:
        operators = Operators(options.cache or folder, torch.cuda.get_device_properties(0).multi_processor_count)
        unusable = operators.prepare(dict.fromkeys(configuration for _, configuration in todo))
        for configuration, error in unusable.items():
            print(f"{configuration}: {error}")
        todo = [(shape, configuration) for shape, configuration in todo if configuration not in unusable]
        print(f"kernels compiled in {time.monotonic() - begin:.0f} s", flush=True)
        operators.plan_ahead(todo)

        def say(line, rows):
            print(line, flush=True)
            if options.json:
                options.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))

        rows, failures = measure(operators, todo, options.seconds - (time.monotonic() - begin), say)
    lines, passed = report(rows)
    print("\n".join(lines))
    if len(rows) < len(shapes()):
        print(f"{len(shapes()) - len(rows)} of the {len(shapes())} listed shapes were not measured")
    print(f"the bar is {'' if passed else 'not '}met by what was measured, in {time.monotonic() - begin:.0f} s")
    if failures:
        sys.exit("\n".join(["failed:", *failures]))


if __name__ == "__main__":
    main()
