"""Measures which kernel and which constants are best for each matrix product, and writes gemm_table.json.

A launch of each candidate tells which are promising, these are measured again, and the best few once more, in other
groups of rows too. Times are those of CUDA graphs of several launches, the candidates of a shape in turns.
"""
import argparse
import dataclasses
import json
import pathlib
import time

import torch

from gemm_kernels import Configuration, Kernel, Launch, captured, check_product, compile_all, random_operands
from gemm_shapes import shapes

HERE = pathlib.Path(__file__).resolve().parent
GROUPS = (4, 8, 16)
MIDDLE_GROUP = 8
SPLITS = (2, 3, 4, 5, 6, 8)


# Blocks in the order of the kernel's parameters, without GROUP_M where there is one; warps; stages; programs per SM.
PERSISTENT = (((128, 256, 64), 8, 3, 1), ((128, 128, 64), 4, 5, 1), ((128, 128, 64), 4, 3, 2), ((64, 256, 64), 4, 5, 1),
              ((64, 128, 128), 4, 4, 1), ((64, 64, 128), 4, 6, 1), ((64, 128, 64), 4, 4, 2), ((64, 64, 128), 4, 3, 2))
TWO_WIDTHS = (
    ((128, 256, 0, 64), 8, 4, 1), ((128, 128, 0, 64), 4, 6, 1), ((128, 128, 0, 64), 4, 3, 2),
    ((64, 256, 0, 64), 4, 5, 1), ((64, 128, 0, 128), 4, 4, 1), ((64, 64, 0, 128), 4, 6, 1),
    ((64, 64, 0, 128), 4, 3, 2), ((64, 128, 0, 64), 4, 4, 2), ((64, 32, 0, 128), 4, 4, 2),
    # a program for each SM
    ((128, 64, 16, 64), 4, 7, 1), ((128, 64, 32, 64), 4, 7, 1), ((128, 128, 16, 64), 4, 6, 1),
    ((128, 128, 32, 64), 4, 6, 1), ((128, 128, 64, 64), 4, 5, 1), ((128, 128, 64, 64), 8, 5, 1),
    ((128, 256, 32, 64), 8, 4, 1), ((128, 256, 64, 64), 8, 3, 1), ((256, 128, 32, 64), 8, 4, 1),
    ((64, 64, 16, 128), 4, 5, 1), ((64, 64, 32, 128), 4, 5, 1), ((64, 32, 16, 128), 4, 7, 1),
    ((64, 128, 32, 128), 4, 3, 1), ((64, 128, 32, 64), 4, 7, 1), ((64, 128, 64, 64), 4, 6, 1),
    ((64, 256, 32, 64), 4, 5, 1), ((64, 256, 64, 64), 4, 4, 1), ((64, 256, 128, 64), 4, 4, 1),
    # two on each SM, of which one computes while the other starts, waits or stores
    ((128, 128, 16, 64), 4, 3, 2), ((128, 128, 32, 64), 4, 3, 2), ((128, 128, 64, 32), 4, 5, 2),
    ((128, 64, 32, 64), 4, 3, 2), ((128, 64, 16, 64), 4, 4, 2), ((64, 64, 16, 128), 4, 3, 2),
    ((64, 64, 32, 64), 4, 5, 2), ((64, 128, 32, 64), 4, 3, 2), ((64, 128, 64, 64), 4, 3, 2),
    ((64, 256, 32, 32), 4, 5, 2), ((64, 256, 64, 32), 4, 4, 2))
POINTERS = (((64, 64, 128), 4, 4, 1), ((64, 64, 64), 4, 6, 2), ((64, 128, 64), 4, 4, 2), ((64, 32, 128), 4, 4, 2),
            ((128, 128, 64), 8, 5, 1))
SPLIT_K = (((64, 64, 128), 4, 3, 2), ((64, 64, 64), 4, 6, 2), ((64, 128, 64), 4, 4, 2), ((128, 64, 64), 4, 4, 2),
           ((128, 128, 64), 4, 6, 1), ((128, 256, 64), 8, 4, 1))


def candidates():
    found = [Configuration("gemm", (*blocks, group), *rest) for group in GROUPS for blocks, *rest in PERSISTENT[:3]]
    for kernel, sizes in (("gemm", PERSISTENT[3:]), ("gemm_two_widths", TWO_WIDTHS), ("gemm_pointers", POINTERS)):
        found += [Configuration(kernel, (*blocks, MIDDLE_GROUP), *rest) for blocks, *rest in sizes]
    return found + [Configuration("gemm_split_k", blocks, *rest) for blocks, *rest in SPLIT_K]


def worth_trying(kernels, m, n, k, multiprocessors):
    """(kernel, splits); of kernels that differ in GROUP_M alone only the middle one."""
    found = []
    for kernel in kernels.values():
        configuration = kernel.configuration
        rows, columns = configuration.tile()
        tiles = configuration.tiles(m, n)
        is_middle = configuration.constants().get("GROUP_M", MIDDLE_GROUP) == MIDDLE_GROUP
        many_small = rows * columns < 128 * 128 and tiles > 30 * multiprocessors
        if rows > m or many_small or not is_middle:
            continue
        if configuration.kernel != "gemm_split_k":
            found.append((kernel, 1))
        elif tiles <= 2 * multiprocessors:
            found += [(kernel, splits) for splits in SPLITS if k // splits >= 256]
    return found


def measure(calls, repeats, rounds):
    """Median microseconds of each, taken in turns."""
    if repeats > 1:
        calls = [captured(call, repeats).replay for call in calls]
    events = [[] for _ in calls]
    for _ in range(rounds):
        for call, taken in zip(calls, events):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            taken.append((begin, end))
    torch.cuda.synchronize()
    return [sorted(1000 * begin.elapsed_time(end) / repeats for begin, end in taken)[rounds // 2] for taken in events]


def tune(kernels, a, b, multiprocessors):
    """(configuration, splits, microseconds of it, of cuBLAS, microseconds of all promising candidates)"""
    (m, k), n = a.shape, b.shape[1]
    c, reference = (torch.empty(m, n, dtype=a.dtype, device=a.device) for _ in range(2))
    blas = lambda: torch.mm(a, b, out=reference)
    calls = [Launch(kernel, a, b, c, splits) for kernel, splits in worth_trying(kernels, m, n, k, multiprocessors)]
    measure(calls, 1, 1)
    once = measure(calls, 1, 1)
    repeats = max(1, min(20, int(400 / (min(once) + 1))))
    promising = [call for call, each in zip(calls, once) if each < 1.4 * min(once) + 4]
    first = measure(promising, repeats, 3)
    best = [promising[i] for i in sorted(range(len(promising)), key=first.__getitem__)[:4]]
    for call in best[:2]:
        best += [Launch(other, a, b, c) for other in kernels.values()
                 if is_regrouping(other.configuration, call.kernel.configuration)
                 and m > 4 * other.configuration.tile()[0]]
    blas_time, *second = measure([blas, *best], repeats, 5)
    time_taken, i = min((each, i) for i, each in enumerate(second) if is_right(best[i], c, reference, k))
    found = {f"{call.kernel.configuration} /{call.splits}": each
             for call, each in [*zip(promising, first), *zip(best, second)]}
    return best[i].kernel.configuration, best[i].splits, time_taken, blas_time, found


def is_right(call, c, reference, k):
    c.fill_(float("nan"))
    call()
    try:
        check_product(c, reference, k)
    except RuntimeError as error:
        print(f"{call.kernel.configuration}: {error}")
        return False
    return True


def is_regrouping(one, other):
    """Whether they differ in GROUP_M alone."""
    return one != other and "GROUP_M" in one.constants() and dataclasses.replace(
        one, blocks=one.blocks[:-1]) == dataclasses.replace(other, blocks=other.blocks[:-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "gemm_table.json")
    parser.add_argument("--details", type=pathlib.Path, help="write the times of all promising candidates here")
    parser.add_argument("--seconds", type=float, default=600, help="stop after so long; the table is then not whole")
    options = parser.parse_args()
    begin = time.monotonic()
    compiled = compile_all(candidates())
    print(f"{len(compiled)} kernels compiled in {time.monotonic() - begin:.0f} s", flush=True)
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    kernels = {configuration: Kernel(configuration, each) for configuration, each in compiled.items()}
    used, choices, details, operands = {}, [], [], {}
    for m, n, k in shapes():
        if time.monotonic() - begin > options.seconds:
            print("out of time")
            break
        if (n, k) not in operands:
            operands = {(n, k): random_operands(n, k)}
        a, b = operands[n, k]
        configuration, splits, ours, blas, found = tune(kernels, a[:m], b, multiprocessors)
        used.setdefault(configuration, len(used))
        choices.append([m, n, k, used[configuration], splits])
        print(f"{m}x{n}x{k}: cuBLAS {blas:.1f} us, {blas / ours:.3f} with {configuration}, splits {splits}", flush=True)
        details.append({"shape": [m, n, k], "cublas_us": blas, "us": found})
        write(options.out, used, choices)
    if options.details:
        options.details.write_text(json.dumps(details))
    print(f"{len(choices)} shapes in {time.monotonic() - begin:.0f} s")


def write(path, used, choices):
    """One configuration a line, one shape a line."""
    configurations = [[each.kernel, list(each.blocks), each.warps, each.stages, each.per_sm] for each in used]
    lines = ['{"about": ["kernel", "blocks", "warps", "stages", "programs per SM"],', ' "configurations": [']
    lines += [f"  {json.dumps(each)}," for each in configurations]
    lines[-1] = lines[-1].rstrip(",") + "],"
    lines += [' "choices_of": ["M", "N", "K", "configuration", "splits"],', ' "choices": [']
    lines += [f"  {json.dumps(each)}," for each in choices]
    lines[-1] = lines[-1].rstrip(",") + "]}"
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
