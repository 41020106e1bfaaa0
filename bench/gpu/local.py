"""Our local matrix products against cuBLAS on one GPU, with the constants of gemm_table.json.

Operands are standard normal, in bf16. A sample is a CUDA graph of 20 calls; samples of ours and of cuBLAS alternate,
and the median of 11 counts, so a clock that moves moves both. Every result is compared with that of cuBLAS, and a part
of it with a product in fp64. Operands that fit in the L2 cache stay there from call to call, for both.
"""
import argparse
import json
import math
import pathlib
import platform
import sys
import time

import torch

from gemm_kernels import Kernel, Launch, captured, check_product, compile_all, random_operands, read_table
from gemm_shapes import shapes

HERE = pathlib.Path(__file__).resolve().parent
CALLS, SAMPLES = 20, 11
LEAST_RATIO, LEAST_RATIO_FROM_M, LEAST_MEAN = 0.95, 2048, 0.97


def sample(graph):
    """Microseconds of a call."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return 1000 * begin.elapsed_time(end) / CALLS


def check_part(c, a, b):
    """16 rows and 64 columns against fp64."""
    rows = torch.randint(a.shape[0], (16,), device=a.device)
    columns = torch.randint(b.shape[1], (64,), device=a.device)
    expected = a[rows].double() @ b[:, columns].double()
    error = ((c[rows][:, columns].double() - expected).norm() / expected.norm()).item()
    if not error < 3e-3:
        raise RuntimeError(f"the result differs from fp64 by {error}")


def compare(kernel, splits, a, b):
    """Median microseconds of ours and of cuBLAS."""
    (m, k), n = a.shape, b.shape[1]
    c, reference = (torch.empty(m, n, dtype=a.dtype, device=a.device) for _ in range(2))
    c.fill_(float("nan"))
    launch = Launch(kernel, a, b, c, splits)  # owns memory that the graph uses
    graphs = captured(launch, CALLS), captured(lambda: torch.mm(a, b, out=reference), CALLS)
    check_product(c, reference, k)
    check_part(c, a, b)
    for graph in graphs:
        graph.replay()
    times = [[sample(graph) for graph in graphs] for _ in range(SAMPLES)]
    return [sorted(each)[SAMPLES // 2] for each in zip(*times)]


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def machine():
    import triton
    properties = torch.cuda.get_device_properties(0)
    return {"gpu": properties.name, "multiprocessors": properties.multi_processor_count, "torch": torch.__version__,
            "cuda": torch.version.cuda, "triton": triton.__version__, "python": platform.python_version()}


def report(rows):
    """A Markdown table by M, then what is below the bar."""
    lines = ["| M | shapes | geometric mean | least | below 0.95 |", "|---|---|---|---|---|"]
    for m in sorted({row["M"] for row in rows}):
        ratios = [row["ratio"] for row in rows if row["M"] == m]
        lines.append(f"| {m} | {len(ratios)} | {geometric_mean(ratios):.3f} | {min(ratios):.3f} | "
                     f"{sum(ratio < LEAST_RATIO for ratio in ratios)} |")
    ratios = [row["ratio"] for row in rows]
    lines.append(f"| all | {len(ratios)} | {geometric_mean(ratios):.3f} | {min(ratios):.3f} | "
                 f"{sum(ratio < LEAST_RATIO for ratio in ratios)} |")
    missed = [row for row in rows if row["M"] >= LEAST_RATIO_FROM_M and row["ratio"] < LEAST_RATIO]
    lines += [f"below the bar: {row['M']}x{row['N']}x{row['K']} {row['ratio']:.3f}, cuBLAS {row['cublas_us']:.1f} us, "
              f"{row['configuration']}" for row in missed]
    return lines, not missed and geometric_mean(ratios) >= LEAST_MEAN


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=pathlib.Path, default=HERE / "gemm_table.json")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    parser.add_argument("--rows", type=int, nargs="*", help="only these M")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop measuring after so long")
    options = parser.parse_args()
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        sys.exit("this benchmark needs an NVIDIA GPU of compute capability 9.0")

    begin = time.monotonic()
    table = read_table(options.table)
    todo = [shape for shape in shapes() if shape in table and (not options.rows or shape[0] in options.rows)]
    configurations = {table[shape][0] for shape in todo}
    torch.zeros(1, device="cuda")
    kernels = {each: Kernel(each, compiled) for each, compiled in compile_all(configurations).items()}
    rows, failures, operands = [], [], {}
    for m, n, k in todo:
        if time.monotonic() - begin > options.seconds:
            break
        if (n, k) not in operands:
            operands = {(n, k): random_operands(n, k)}
        a, b = operands[n, k]
        configuration, splits = table[m, n, k]
        try:
            ours, blas = compare(kernels[configuration], splits, a[:m], b)
        except RuntimeError as error:
            failures.append(f"{m}x{n}x{k} with {configuration}: {error}")
            print(failures[-1], flush=True)
            continue
        rows.append({"M": m, "N": n, "K": k, "us": ours, "cublas_us": blas, "ratio": blas / ours,
                     "tflops": 2e-6 * m * n * k / ours, "configuration": str(configuration), "splits": splits})
        print(f"{m}x{n}x{k}: {ours:.1f} us, {rows[-1]['tflops']:.0f} TFLOP/s, cuBLAS {blas:.1f} us, "
              f"ratio {blas / ours:.3f}, {configuration}", flush=True)
        if options.json:
            options.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))
    lines, passed = report(rows)
    print("\n".join(lines))
    if len(rows) < len(shapes()):
        print(f"{len(shapes()) - len(rows)} shapes were not measured")
    print("the bar is met" if passed else "the bar is not met")
    if failures:
        sys.exit("\n".join(["wrong results:", *failures]))


if __name__ == "__main__":
    main()
