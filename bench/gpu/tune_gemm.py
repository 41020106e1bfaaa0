"""Measures which kernel and which constants are best for each matrix product, and writes gemm_table.json.

A launch of each candidate tells which are promising, these are measured again, and the best few once more, in other
groups of rows too. Times are those of CUDA graphs of several launches, the candidates of a shape in turns. Shapes that
are not measured, because others were asked for or the time was over, keep what the table says of them.
"""
import argparse
import dataclasses
import json
import pathlib
import time

from gemm_kernels import (Configuration, Kernel, Launch, captured, check_product, compile_all, random_operands,
                          read_table)
from gemm_shapes import add_choice_of_shapes, chosen, shapes
from needs import need

HERE = pathlib.Path(__file__).resolve().parent
GROUPS = (4, 8, 16)
MIDDLE_GROUP = 8

# Blocks in the order of the kernel's parameters, without GROUP_M; warps; stages; programs per SM.
PERSISTENT = (((128, 256, 64), 8, 3, 1), ((128, 128, 64), 4, 5, 1), ((128, 128, 64), 4, 3, 2), ((128, 256, 64), 8, 4, 1),
              ((128, 128, 64), 4, 6, 1), ((64, 256, 64), 4, 5, 1), ((256, 128, 64), 8, 4, 1),
              ((64, 128, 128), 4, 4, 1), ((64, 64, 128), 4, 6, 1), ((64, 128, 64), 4, 4, 2), ((64, 64, 128), 4, 3, 2),
              ((64, 256, 32), 4, 5, 2))
TWO_WIDTHS = (
    ((128, 256, 0, 64), 8, 4, 1), ((128, 128, 0, 64), 4, 6, 1), ((128, 128, 0, 64), 4, 3, 2),
    ((128, 128, 0, 128), 4, 3, 1), ((64, 256, 0, 64), 4, 5, 1), ((64, 128, 0, 128), 4, 4, 1),
    ((64, 64, 0, 128), 4, 6, 1), ((64, 64, 0, 128), 4, 3, 2), ((64, 128, 0, 64), 4, 4, 2), ((64, 32, 0, 128), 4, 4, 2),
    # a program for each SM
    ((128, 64, 16, 64), 4, 7, 1), ((128, 64, 32, 64), 4, 7, 1), ((128, 128, 16, 64), 4, 6, 1),
    ((128, 128, 32, 64), 4, 6, 1), ((128, 128, 64, 64), 4, 5, 1), ((128, 128, 64, 64), 4, 4, 1),
    ((128, 256, 32, 64), 8, 4, 1), ((128, 256, 64, 64), 8, 3, 1), ((128, 256, 64, 64), 8, 4, 1),
    ((128, 256, 128, 64), 8, 3, 1), ((256, 128, 32, 64), 8, 4, 1), ((256, 128, 64, 64), 8, 3, 1),
    ((256, 128, 64, 64), 8, 4, 1), ((64, 64, 16, 128), 4, 5, 1), ((64, 64, 32, 128), 4, 5, 1),
    ((64, 32, 16, 128), 4, 7, 1), ((64, 128, 32, 128), 4, 3, 1), ((64, 128, 32, 64), 4, 7, 1),
    ((64, 128, 64, 64), 4, 6, 1), ((64, 128, 64, 128), 4, 3, 1), ((64, 256, 32, 64), 4, 5, 1),
    ((64, 256, 64, 64), 4, 4, 1), ((64, 256, 128, 64), 4, 4, 1),
    # two on each SM, of which one computes while the other starts, waits or stores
    ((128, 128, 16, 64), 4, 3, 2), ((128, 128, 32, 64), 4, 3, 2), ((128, 128, 64, 32), 4, 5, 2),
    ((128, 64, 32, 64), 4, 3, 2), ((128, 64, 16, 64), 4, 4, 2), ((64, 64, 16, 128), 4, 3, 2),
    ((64, 64, 32, 64), 4, 5, 2), ((64, 128, 32, 64), 4, 3, 2), ((64, 128, 64, 64), 4, 3, 2),
    ((64, 256, 32, 32), 4, 5, 2), ((64, 256, 64, 32), 4, 4, 2), ((64, 256, 0, 32), 4, 5, 2))
# Also in the other groups of rows.
GROUPED_TWO_WIDTHS = (((128, 256, 0, 64), 8, 4, 1), ((128, 128, 64, 64), 4, 5, 1), ((64, 256, 64, 64), 4, 4, 1),
                      ((128, 256, 128, 64), 8, 3, 1), ((64, 128, 64, 64), 4, 6, 1), ((128, 256, 32, 64), 8, 4, 1))
POINTERS = (((64, 64, 128), 4, 4, 1), ((64, 64, 64), 4, 6, 2), ((64, 128, 64), 4, 4, 2), ((64, 32, 128), 4, 4, 2),
            ((128, 128, 64), 8, 5, 1))


def candidates():
    middle = [("gemm", each) for each in PERSISTENT] + [("gemm_two_widths", each) for each in TWO_WIDTHS]
    middle += [("gemm_pointers", each) for each in POINTERS]
    others = [("gemm", each) for each in PERSISTENT[:4]] + [("gemm_two_widths", each) for each in GROUPED_TWO_WIDTHS]
    found = [Configuration(kernel, (*blocks, MIDDLE_GROUP), *rest) for kernel, (blocks, *rest) in middle]
    return found + [Configuration(kernel, (*blocks, group), *rest)
                    for kernel, (blocks, *rest) in others for group in GROUPS if group != MIDDLE_GROUP]


def worth_trying(configurations, m, n, multiprocessors):
    """Those that are no waste of time for a product of this size; of such as differ in GROUP_M alone the middle one."""
    def good(configuration):
        rows, columns = configuration.tile()
        tiles = configuration.tiles(m, n)
        many_small = rows * columns < 128 * 128 and tiles > 30 * multiprocessors
        few_large = rows * columns >= 128 * 128 and 3 * tiles < multiprocessors
        is_middle = configuration.constants()["GROUP_M"] == MIDDLE_GROUP
        return rows <= max(m, 64) and is_middle and not many_small and not few_large

    return [configuration for configuration in configurations if good(configuration)]


def measure(calls, repeats, rounds):
    """Median microseconds of each, taken in turns."""
    import torch

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
    """(configuration, microseconds of it, of cuBLAS, microseconds of all promising candidates)"""
    import torch

    (m, k), n = a.shape, b.shape[1]
    c, reference = (torch.empty(m, n, dtype=a.dtype, device=a.device) for _ in range(2))
    blas = lambda: torch.mm(a, b, out=reference)
    calls = [Launch(kernels[each], a, b, c) for each in worth_trying(kernels, m, n, multiprocessors)]
    measure(calls, 1, 1)
    once = measure(calls, 1, 1)
    repeats = max(1, min(20, int(400 / (min(once) + 1))))
    promising = [call for call, each in zip(calls, once) if each < 1.3 * min(once) + 4]
    first = measure(promising, repeats, 3)
    best = [promising[i] for i in sorted(range(len(promising)), key=first.__getitem__)[:5]]
    for call in best[:3]:
        best += [Launch(other, a, b, c) for other in kernels.values()
                 if is_regrouping(other.configuration, call.kernel.configuration)
                 and m > 4 * other.configuration.tile()[0]]
    blas_time, *second = measure([blas, *best], repeats, 7)
    time_taken, i = min((each, i) for i, each in enumerate(second) if is_right(best[i], c, reference, k))
    found = {str(call.kernel.configuration): each for call, each in [*zip(promising, first), *zip(best, second)]}
    return best[i].kernel.configuration, time_taken, blas_time, found


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
    return one != other and dataclasses.replace(one, blocks=one.blocks[:-1]) == dataclasses.replace(
        other, blocks=other.blocks[:-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=pathlib.Path, default=HERE / "gemm_table.json", help="the table so far")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "gemm_table.json")
    parser.add_argument("--details", type=pathlib.Path, help="write the times of all promising candidates here")
    parser.add_argument("--seconds", type=float, default=600, help="begin no shape after so long")
    add_choice_of_shapes(parser)
    options = parser.parse_args()
    need("torch")
    import torch

    begin = time.monotonic()
    table = read_table(options.table) if options.table.exists() else {}
    todo = chosen(options)
    compiled = compile_all(candidates())
    print(f"{len(compiled)} kernels compiled in {time.monotonic() - begin:.0f} s", flush=True)
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    kernels = {configuration: Kernel(configuration, each) for configuration, each in compiled.items()}
    details, operands = [], {}
    for m, n, k in todo:
        if time.monotonic() - begin > options.seconds:
            print("out of time")
            break
        if (n, k) not in operands:
            operands = {(n, k): random_operands(n, k)}
        a, b = operands[n, k]
        configuration, ours, blas, found = tune(kernels, a[:m], b, multiprocessors)
        table[m, n, k] = configuration
        print(f"{m}x{n}x{k}: cuBLAS {blas:.1f} us, {blas / ours:.3f} with {configuration}", flush=True)
        details.append({"shape": [m, n, k], "cublas_us": blas, "us": found})
        write(options.out, table)
        if options.details:
            options.details.write_text(json.dumps(details))
    print(f"{len(details)} of {len(todo)} shapes in {time.monotonic() - begin:.0f} s")


def write(path, table):
    """One configuration a line, one shape a line, in the order of shapes()."""
    order = {shape: i for i, shape in enumerate(shapes())}
    choices = sorted(table.items(), key=lambda item: (order.get(item[0], len(order)), item[0]))
    used = {}
    for _, configuration in choices:
        used.setdefault(configuration, len(used))
    configurations = [[each.kernel, list(each.blocks), each.warps, each.stages, each.per_sm] for each in used]
    lines = ['{"about": ["kernel", "blocks", "warps", "stages", "programs per SM"],', ' "configurations": [']
    lines += [f"  {json.dumps(each)}," for each in configurations]
    lines[-1] = lines[-1].rstrip(",") + "],"
    lines += [' "choices_of": ["M", "N", "K", "configuration"],', ' "choices": [']
    lines += [f"  {json.dumps([*shape, used[configuration]])}," for shape, configuration in choices]
    lines[-1] = lines[-1].rstrip(",") + "]}"
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
