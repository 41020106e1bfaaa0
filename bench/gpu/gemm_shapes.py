"""The matrix products that bench/gpu measures: C [M, N] = A [M, K] @ B [K, N], as one rank computes them."""

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
