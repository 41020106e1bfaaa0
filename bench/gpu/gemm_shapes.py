"""The matrix products that bench/gpu measures: C [M, N] = A [M, K] @ B [K, N], as one rank computes them."""
import json
import pathlib

# hidden size, columns of Q, K and V together, width of the feed-forward part
MODELS = {
    "Llama-3 8B": (4096, 6144, 14336),
    "Llama-3 70B": (8192, 10240, 28672),
    "Llama-3 405B": (16384, 18432, 53248),
    "Qwen2-72B": (8192, 10240, 29568),
}
RANKS = (2, 4, 8)
ROWS = (128, 256, 512, 1024, 2048, 4096, 8192)
MIXED = ((8192, 8192, 8192), (8192, 14336, 4096), (8192, 1280, 8192), (8192, 8192, 3584), (4096, 14336, 8192),
         (2048, 7168, 8192), (8192, 14336, 8192))


def projections():
    """N and K of each projection on each number of ranks: columns of QKV and gate+up are split, rows of O and down."""
    found = {}
    for hidden, qkv, feed_forward in MODELS.values():
        for ranks in RANKS:
            for columns, depth in ((qkv // ranks, hidden), (hidden, hidden // ranks),
                                   (2 * feed_forward // ranks, hidden), (hidden, feed_forward // ranks)):
                found[columns, depth] = True
    return list(found)


def shapes():
    """All (M, N, K), those of one N and K together so that they can share operands."""
    found = {(n, k): set(ROWS) for n, k in projections()}
    for m, n, k in MIXED:
        found.setdefault((n, k), set()).add(m)
    return [(m, n, k) for (n, k), rows in found.items() for m in sorted(rows)]


def parse(word):
    """(M, N, K) of "MxNxK"."""
    sizes = tuple(int(part) for part in word.split("x"))
    if len(sizes) != 3 or min(sizes) < 1:
        raise ValueError(f"'{word}' is no product; write MxNxK, as in 2048x3072x4096")
    return sizes


def below(path, ratio, least_m=0):
    """The shapes that a file of local.py has figures for and finds slower, and those that it has none for."""
    ratios = {(row["M"], row["N"], row["K"]): row["ratio"] for row in json.loads(pathlib.Path(path).read_text())["rows"]}
    return [shape for shape in shapes() if shape[0] >= least_m and ratios.get(shape, 0) < ratio]


def add_choice_of_shapes(parser):
    """--shapes, --below, --figures and --least-m of a program that works on some shapes; chosen() is what they say."""
    parser.add_argument("--shapes", nargs="+", type=parse, metavar="MxNxK", help="only these, whether listed or not")
    parser.add_argument("--below", type=float, metavar="RATIO", help="only those that --figures has no better ratio of")
    parser.add_argument("--figures", type=pathlib.Path, help="what local.py --json wrote", metavar="FILE")
    parser.add_argument("--least-m", type=int, default=0, help="only those with so many rows")


def chosen(options):
    if options.shapes:
        return options.shapes
    if options.below is None:
        return [shape for shape in shapes() if shape[0] >= options.least_m]
    if not options.figures:
        raise SystemExit("--below needs --figures, a file of local.py --json")
    return below(options.figures, options.below, options.least_m)
