"""What holds a product, read from profiler counters: one launch of ours and one of cuBLAS under Nsight Compute.

It starts `ncu` on itself. That child warms up, launches ours through Syncopate's runtime as local.py does, then cuBLAS,
each alone; neither clocks nor caches are touched. By default the shapes with M >= 2048 that the figures of local.py in
docs/performance, or in another file, find below 0.95 of cuBLAS:

    python3 bench/gpu/counters.py --figures figures.json --json counters.json --markdown counters.md

A kernel's cycles are split into three parts: the tensor cores at work; SMs with a block on them, but without work for
the tensor cores (the start, waits for operands, the end of each tile); SMs without a block (before the first, after the
last, and in a round that does not fill the GPU). Of these, and of the clock, which falls with the power drawn, the one
in which ours loses most time against cuBLAS is what holds it. `--read` prints the table of a JSON file again.
"""
import argparse
import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from gemm_shapes import add_choice_of_shapes, chosen
from needs import need

HERE = pathlib.Path(__file__).resolve().parent
LEAST_RATIO, LEAST_RATIO_FROM_M = 0.95, 2048
FIGURES = HERE.parents[1] / "docs" / "performance" / "gemm_h200.json"
WARM_UP = 3
TENSOR_CORES = 4  # of an SM; the counter of their cycles is the sum over them
PARTS = ("tensor cores", "blocks without them", "no block")
LIMIT_S = 240
# By what they are called here: the first of the names that this version of ncu knows.
METRICS = {
    "ns": ["gpu__time_duration.sum"],
    "elapsed": ["sm__cycles_elapsed.max"],
    "active": ["sm__cycles_active.avg"],
    "tensor": ["sm__pipe_tensor_op_gmma_cycles_active.avg", "sm__inst_executed_pipe_tensor_op_gmma_cycles_active.avg",
               "sm__pipe_tensor_cycles_active.avg", "sm__pipe_tensor_op_hmma_cycles_active.avg"],
    "tensor_percent": ["sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active"],
    "sm_percent": ["sm__throughput.avg.pct_of_peak_sustained_elapsed"],
    "l2_percent": ["lts__throughput.avg.pct_of_peak_sustained_elapsed"],
    "dram_percent": ["dram__throughput.avg.pct_of_peak_sustained_elapsed",
                     "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"],
    "l2_hit_percent": ["lts__t_sector_hit_rate.pct"],
    "l2_to_sm_bytes": ["l1tex__m_xbar2l1tex_read_bytes.sum"],
    "registers": ["launch__registers_per_thread"],
    "shared_bytes": ["launch__shared_mem_per_block_dynamic"],
    "waves": ["launch__waves_per_multiprocessor"],
}


def known_metrics(names, known):
    """{what it is called here: what ncu calls it}, of METRICS and the base names in `known`; launch__ is in no list."""
    def is_known(name):
        return name.startswith("launch__") or name.split(".")[0] in known

    return {short: next(filter(is_known, choice)) for short, choice in names.items() if any(map(is_known, choice))}


def read_report(text, metrics):
    """A list of kernels from ncu's raw CSV page, in the order of their launches."""
    lines = text.splitlines()
    header = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if header is None:
        raise ValueError(f"ncu has written no table:\n{text[-2000:]}")
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[header:]))))
    units, kernels = rows[0], []
    for row in rows[1:]:
        kernel = {"kernel": row["Kernel Name"], "grid": row["Grid Size"], "block": row["Block Size"]}
        for short, name in metrics.items():
            try:
                kernel[short] = float(row[name].replace(",", "")) * scale_of(units[name])
            except (KeyError, ValueError):
                kernel[short] = None  # not for this kernel
        kernels.append(kernel)
    return kernels


def scale_of(unit):
    """ncu chooses units by size; here nanoseconds, bytes and single cycles count."""
    return {"us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9, "Kbyte": 1e3, "Mbyte": 1e6,
            "Gbyte": 1e9, "Kbyte/block": 1e3}.get(unit, 1)


def pairs(kernels, shapes):
    """[(shape, our kernel, [cuBLAS's])]: ours is the only one called gemm..., cuBLAS may need more than one."""
    found = []
    for kernel in kernels:
        if kernel["kernel"].startswith("gemm"):
            found.append((kernel, []))
        elif found:
            found[-1][1].append(kernel)
    if len(found) != len(shapes) or not all(theirs for _, theirs in found):
        raise ValueError(f"{len(found)} pairs of kernels for {len(shapes)} products")
    return [(shape, ours, theirs) for shape, (ours, theirs) in zip(shapes, found)]


def parts(kernels):
    """Of a product's kernels: microseconds, thousands of cycles of an SM and in which part, and GHz."""
    total = {"us": 0.0} | dict.fromkeys(PARTS, 0.0)
    for kernel in kernels:
        tensor = (kernel["tensor"] or 0) / TENSOR_CORES
        total["us"] += kernel["ns"] / 1000
        total["tensor cores"] += tensor / 1000
        total["blocks without them"] += (kernel["active"] - tensor) / 1000
        total["no block"] += (kernel["elapsed"] - kernel["active"]) / 1000
    total["cycles"] = sum(total[part] for part in PARTS)
    total["GHz"] = total["cycles"] / total["us"]
    return total


def verdict(ours, theirs):
    """What ours loses most time by against cuBLAS, and how much of the whole difference that is."""
    lost = {part: (ours[part] - theirs[part]) / ours["GHz"] for part in PARTS}
    lost["clock"] = theirs["cycles"] * (1 / ours["GHz"] - 1 / theirs["GHz"])
    worst = max(lost, key=lost.get)
    difference = ours["us"] - theirs["us"]
    if difference <= 0:
        return f"nothing: alone it is {-difference:.1f} us faster"
    return f"{worst}: {lost[worst]:+.1f} of {difference:+.1f} us"


def table(measured):
    """Markdown."""
    lines = ["| M x N x K | | kernel | us | GHz | 1000 cycles | tensor cores | blocks without them | no block | "
             "B/cycle from L2 to an SM | L2 | DRAM | L2 hits | what holds ours |", "|---" * 14 + "|"]

    def line(name, who, kernels, holds):
        of = parts(kernels)
        main = max(kernels, key=lambda kernel: kernel["ns"])
        rate = main["l2_to_sm_bytes"] and main["l2_to_sm_bytes"] / main["active"] / main["multiprocessors"]
        numbers = [f"{of['us']:.1f}", f"{of['GHz']:.2f}", *(f"{of[part]:.1f}" for part in ("cycles", *PARTS))]
        shares = ["" if main[share] is None else f"{main[share]:.0f}%"
                  for share in ("l2_percent", "dram_percent", "l2_hit_percent")]
        short = main["kernel"].split("(")[0] + (f" and {len(kernels) - 1} more" if len(kernels) > 1 else "")
        cells = [name, who, f"`{short}`", *numbers, f"{rate:.0f}" if rate else "", *shares, holds]
        return "| " + " | ".join(cells) + " |"

    for each in measured:
        ours, theirs = [each["ours"]], each["cublas"]
        lines.append(line("x".join(map(str, each["shape"])), "ours", ours, verdict(parts(ours), parts(theirs))))
        lines.append(line("", "cuBLAS", theirs, ""))
    return "\n".join(lines) + "\n"


def launch_all(todo, cache):
    """What runs under ncu: for each product one launch of ours and one of cuBLAS while the profiler looks."""
    import syncopate  # before torch: it sets how many hardware queues CUDA has
    import torch

    from gemm_kernels import random_operands
    from local import Operators

    del syncopate
    operators = Operators(cache, torch.cuda.get_device_properties(0).multi_processor_count)
    operators.plan_ahead(todo)
    for (m, n, k), _ in todo:
        a, b = random_operands(n, k)
        c = torch.empty(m, n, dtype=a.dtype, device=a.device)
        [operator] = operators.of([(m, n, k)])
        calls = [lambda: operator.local(a=a[:m], b=b, c=c), lambda: torch.mm(a[:m], b, out=c)]
        for call in calls * WARM_UP:
            call()
        torch.cuda.synchronize()
        for call in calls:
            torch.cuda.profiler.start()
            call()
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
        operator.close()


def profile(ncu, arguments, metrics):
    """ncu's report on this program, run with `arguments`, as text."""
    command = [ncu, "--csv", "--page", "raw", "--profile-from-start", "off", "--clock-control", "none",
               "--cache-control", "none", "--target-processes", "application-only",
               "--metrics", ",".join(metrics.values()), sys.executable, __file__, *arguments]
    child = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if child.returncode != 0:
        raise RuntimeError(f"ncu failed:\n{child.stdout[-2000:]}\n{child.stderr[-2000:]}")
    return child.stdout


def base_metrics(ncu):
    """What counters this GPU has, by ncu's account."""
    listed = subprocess.run([ncu, "--query-metrics"], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
    return {line.split()[0] for line in listed.splitlines() if line.split()}


def find_ncu():
    return shutil.which("ncu") or next((path for path in ("/usr/local/cuda/bin/ncu",) if os.access(path, os.X_OK)), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=pathlib.Path, default=HERE / "gemm_table.json")
    parser.add_argument("--json", type=pathlib.Path, help="write all counters here")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table here too")
    parser.add_argument("--read", type=pathlib.Path, help="print what --json has written before, and end")
    parser.add_argument("--cache", help="folder of compiled kernels (a new one)")
    parser.add_argument("--under-ncu", action="store_true", help=argparse.SUPPRESS)
    add_choice_of_shapes(parser)
    parser.set_defaults(below=LEAST_RATIO, least_m=LEAST_RATIO_FROM_M, figures=FIGURES)
    options = parser.parse_args()
    if options.read:
        return print(table(json.loads(options.read.read_text())["products"]), end="")
    from gemm_kernels import read_table
    configurations = read_table(options.table)
    todo = [(shape, configurations[shape]) for shape in chosen(options) if shape in configurations]
    if options.under_ncu:
        return launch_all(todo, options.cache)
    ncu = find_ncu()
    if ncu is None:
        sys.exit("there is no ncu here; it is a part of the CUDA toolkit")
    need("syncopate", "torch")
    import torch
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    metrics = known_metrics(METRICS, base_metrics(ncu))
    if missing := {"ns", "elapsed", "active", "tensor"} - set(metrics):
        sys.exit(f"this ncu knows no counter for {', '.join(sorted(missing))}")
    with tempfile.TemporaryDirectory() as folder:
        cache = options.cache or folder
        from local import Operators
        unusable = Operators(cache, multiprocessors).prepare(dict.fromkeys(each for _, each in todo))
        todo = [(shape, configuration) for shape, configuration in todo if configuration not in unusable]
        shapes = [shape for shape, _ in todo]
        names = ["x".join(map(str, shape)) for shape in shapes]
        text = profile(ncu, ["--under-ncu", "--table", str(options.table), "--cache", cache, "--shapes", *names], metrics)
    measured = [{"shape": shape, "configuration": str(configurations[shape]),
                 "ours": ours | {"multiprocessors": multiprocessors},
                 "cublas": [each | {"multiprocessors": multiprocessors} for each in theirs]}
                for shape, ours, theirs in pairs(read_report(text, metrics), shapes)]
    print(table(measured))
    if options.json:
        options.json.write_text(json.dumps({"metrics": metrics, "products": measured}, indent=1))
    if options.markdown:
        options.markdown.write_text(table(measured))


if __name__ == "__main__":
    main()
