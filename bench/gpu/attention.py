"""Our attention kernel against torch's flash and cuDNN attention on one GPU, with constants of attention_table.json.

First correctness: ragged lengths, other lengths of keys than of queries, offsets, grouped heads, both types; all tiles
against fp64, outputs NaN before. Then times: operands are standard normal, samples of all three in an order that is
drawn anew each round (a card that is hot from one is slower for the next), and the median of 11 counts. Tiles of every
row are compared with fp64 too. torch gets its operands as [1, heads, length, head_dim], ours as [length, heads,
head_dim].

--search measures all candidates instead, and writes the table.
"""
import argparse
import json
import math
import pathlib
import random
import sys

from needs import need

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "attention_table.json"


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=pathlib.Path, default=TABLE)
    parser.add_argument("--search", action="store_true", help="measure the candidates and write the table")
    parser.add_argument("--most", type=int, default=1 << 20, help="rows of at most this length")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the report here")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    OPTIONS = parse(sys.argv[1:])  # --help, and what is wrong with an option, where there is no torch
    need("torch")

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import figures
from attention_checks import check
from attention_kernels import (TYPES, Configuration, Launch, Shape, cdiv, code_of, compile_all, read_table, write_table)
from local import machine

SAMPLES = 11
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
LEAST = {False: 0.8, True: 0.75}  # of the fastest backend, by whether causal

SIZES = [(4096, 32, 32, 128), (8192, 32, 32, 128), (32768, 32, 8, 128), (16384, 32, 32, 64)]  # of the measurements file
LENGTHS = [(length, 32, 8, 128) for length in (4096, 8192, 16384, 65536, 131072)] + [(8192, 16, 16, 128)]
SEARCHED = [(8192, 32, 32, 128), (32768, 32, 8, 128), (4096, 32, 32, 64), (16384, 32, 32, 64)]
CANDIDATES = {
    128: [(128, 64, 4, 2), (64, 64, 4, 2), (64, 64, 4, 3), (128, 64, 8, 2), (128, 128, 8, 2), (128, 128, 8, 3),
          (256, 64, 8, 2), (256, 64, 8, 3), (64, 128, 4, 2)],
    64: [(64, 64, 4, 2), (64, 64, 4, 3), (64, 64, 4, 4), (128, 64, 4, 2), (128, 64, 4, 3), (128, 64, 8, 2),
         (256, 64, 8, 2), (64, 32, 4, 3), (128, 32, 4, 3)],
}


def rows_of(sizes):
    return [Shape(length, length, heads, kv_heads, head_dim, causal)
            for length, heads, kv_heads, head_dim in sizes for causal in (False, True)]


def ragged():
    """Shapes of which all tiles are checked."""
    found = []
    for head_dim in (64, 128):
        for dtype in TYPES:
            found += [Shape(300, 1000, 4, 2, head_dim, False, 0, dtype), Shape(1, 1, 2, 2, head_dim, False, 0, dtype),
                      Shape(333, 333, 4, 1, head_dim, True, 0, dtype),
                      Shape(256, 777, 3, 3, head_dim, True, 521, dtype),
                      Shape(300, 200, 2, 1, head_dim, True, -70, dtype),
                      Shape(128, 4096, 8, 1, head_dim, True, 3968, dtype)]
    return found


def operands(shape, seed):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    sizes = [(shape.q_length, shape.heads), (shape.kv_length, shape.kv_heads), (shape.kv_length, shape.kv_heads)]
    dtype = getattr(torch, TYPES[shape.dtype])
    return [torch.randn(*size, shape.head_dim, generator=generator, device="cuda").to(dtype) for size in sizes]


def check_launch(launch, shape, q, k, v, samples=None):
    """All tiles, or the first and the last and so many others."""
    launch.o.fill_(math.nan)
    launch.lse.fill_(math.nan)
    launch()
    tile_rows = launch.kernel.configuration.configuration.block_m
    blocks = cdiv(shape.q_length, tile_rows)
    tiles = [(head, block) for head in range(shape.heads) for block in range(blocks)]
    if samples is not None:
        if not launch.o.isfinite().all() or not launch.lse.isfinite().all():
            raise RuntimeError(f"{shape}, {launch.kernel.configuration}: a result is not finite")
        tiles = [tiles[0], tiles[-1], *random.Random(1).sample(tiles, min(samples, len(tiles)))]
    worst = check(shape, q, k, v, launch.o, launch.lse, tile_rows, tiles)
    if not worst.right:
        raise RuntimeError(f"{shape}, {launch.kernel.configuration}: {worst}")
    return worst


def backend_call(backend, shape, q, k, v):
    q, k, v = (each.transpose(0, 1)[None].contiguous() for each in (q, k, v))

    def call():
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=shape.causal,
                                                                    enable_gqa=shape.group > 1)

    return call


def sample_us(call, calls):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return 1000 * begin.elapsed_time(end) / calls


def measure(calls, samples):
    """name -> samples in microseconds, the order drawn anew each round."""
    for call in calls.values():
        call()
    repeats = {name: figures.calls_per_sample(sample_us(call, 1)) for name, call in calls.items()}
    order, drawn = list(calls), random.Random(1)
    taken = {name: [] for name in calls}
    for _ in range(samples):
        drawn.shuffle(order)
        for name in order:
            taken[name].append(sample_us(calls[name], repeats[name]))
    return taken


def correctness(table):
    shapes = ragged()
    kernels = compile_all({code_of(table[shape.head_dim, shape.causal], shape) for shape in shapes})
    for seed, shape in enumerate(shapes):
        q, k, v = operands(shape, seed)
        kernel = kernels[code_of(table[shape.head_dim, shape.causal], shape)]
        print(f"{shape}: {check_launch(Launch(kernel, shape, q, k, v), shape, q, k, v)}", flush=True)


def compare(table, shapes):
    kernels = compile_all({code_of(table[shape.head_dim, shape.causal], shape) for shape in shapes})
    results = []
    for shape in shapes:
        q, k, v = operands(shape, 1)
        launch = Launch(kernels[code_of(table[shape.head_dim, shape.causal], shape)], shape, q, k, v)
        worst = check_launch(launch, shape, q, k, v, samples=24)
        calls = {name: backend_call(backend, shape, q, k, v) for name, backend in BACKENDS.items()} | {"ours": launch}
        taken = measure(calls, SAMPLES)
        us = {name: figures.median(samples) for name, samples in taken.items()}
        results.append({"shape": str(shape), "length": shape.q_length, "heads": shape.heads, "kv_heads": shape.kv_heads,
                        "head_dim": shape.head_dim, "causal": shape.causal, "us": us, "samples_us": taken,
                        "tflops": {name: shape.flops / each / 1e6 for name, each in us.items()},
                        "ratio": min(us[name] for name in BACKENDS) / us["ours"],
                        "share_of_bound": {"o": worst.o, "lse": worst.lse},
                        "configuration": str(launch.kernel.configuration.configuration)})
        print(line_of(results[-1]), flush=True)
    return results


def line_of(result):
    tflops = " | ".join(f"{result['tflops'][name]:.0f}" for name in (*BACKENDS, "ours"))
    bound = f"{result['share_of_bound']['o']:.2f}, {result['share_of_bound']['lse']:.2f}"
    return f"| {result['shape']} | {tflops} | {result['ratio']:.3f} | {result['configuration']} | {bound} |"


def report(results):
    lines = ["| length, heads/KV heads x head dim | flash | cuDNN | ours | ours to the faster | tile | "
             "error over bound, o, lse |", "|---|---|---|---|---|---|---|", *map(line_of, results), ""]
    for causal, least in LEAST.items():
        ratios = {result["shape"]: result["ratio"] for result in results if result["causal"] == causal}
        if ratios:
            missed = [f"{shape} {ratio:.3f}" for shape, ratio in ratios.items() if ratio < least]
            mean = figures.geometric_mean(ratios.values())
            lines.append(f"{'causal' if causal else 'full'}: geometric mean {mean:.3f}, below {least}: "
                         f"{'; '.join(missed) or 'none'}")
    return "\n".join(lines)


def search(path):
    """For each head dimension and mask the configuration with the least geometric mean of times over the row's best."""
    lost = {}
    codes = [code_of(Configuration(*each), shape) for shape in rows_of(SEARCHED) for each in CANDIDATES[shape.head_dim]]
    kernels = compile_all(dict.fromkeys(codes))
    for shape in rows_of(SEARCHED):
        q, k, v = operands(shape, 1)
        launches = {code.configuration: Launch(kernel, shape, q, k, v) for code, kernel in kernels.items()
                    if code == code_of(code.configuration, shape)}
        right = {}
        for configuration, launch in launches.items():
            try:
                check_launch(launch, shape, q, k, v, samples=8)
                right[configuration] = launch
            except RuntimeError as error:
                print(error, flush=True)
        us = {each: figures.median(samples) for each, samples in measure(right, 5).items()}
        print(f"{shape}: " + ", ".join(f"{each} {shape.flops / us[each] / 1e6:.0f}" for each in sorted(us, key=us.get)),
              "TFLOP/s", flush=True)
        of_key = lost.setdefault((shape.head_dim, shape.causal), {})
        for each, time in us.items():
            of_key.setdefault(each, []).append(time / min(us.values()))
    table = {}
    for key, candidates in lost.items():
        most = max(map(len, candidates.values()))  # a candidate must be right in every row
        means = {each: figures.geometric_mean(ratios) for each, ratios in candidates.items() if len(ratios) == most}
        table[key] = min(means, key=means.get)
    write_table(path, table)
    print(path.read_text())


def main():
    options = OPTIONS
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        sys.exit("this benchmark needs an NVIDIA GPU of compute capability 9.0")
    torch.zeros(1, device="cuda")
    if options.search:
        search(options.table)
        return
    table = read_table(options.table)
    correctness(table)
    results = compare(table, [shape for shape in rows_of(SIZES + LENGTHS) if shape.q_length <= options.most])
    text = report(results)
    print(text)
    if options.markdown:
        about = "\n".join(f"- {key}: {value}" for key, value in machine().items())
        title = "# Local attention, TFLOP/s (causal: of the pairs that the mask keeps)"
        options.markdown.write_text(f"{title}\n\n{about}\n\n{text}\n")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
