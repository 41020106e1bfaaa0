"""The rows of the operator tables: which operator at which size, and where the size comes from.

Sizes are those of one rank's product c[M, N] = a[M, K] @ b[K, N]. In an all-gather GEMM ("ag") a is split by rows over
the ranks before the operator and N is the rank's own part of the columns; in a GEMM reduce-scatter ("rs") K is the
rank's own part of the sum and c is split by rows after it; in a GEMM all-reduce ("ar") every rank has all of c after it.
In an all-to-all GEMM ("a2a") a rank has a block of rows of all of a before, and all rows of its own K columns for the
product; in a GEMM all-to-all ("to_a2a") the M rows are the rank's own, and after it a rank has the rows of all ranks of
its part of the N columns.
"""
from dataclasses import dataclass, replace

from gemm_shapes import MODELS

KINDS = {"ag": "AG-GEMM", "rs": "GEMM-RS", "ar": "GEMM-AR", "a2a": "A2A-GEMM", "to_a2a": "GEMM-A2A"}
REDUCED = ("rs", "ar")  # kinds whose output is a sum over ranks
TABLE = "table"  # the source of the rows whose geometric mean has a bar


@dataclass(frozen=True)
class Row:
    kind: str  # of KINDS
    M: int
    N: int
    K: int
    sources: tuple[str, ...]  # TABLE, or the projections of models that have this size

    @property
    def name(self):
        return f"{self.kind}:{self.M}x{self.N}x{self.K}"

    long = False  # rows that a run takes only if it is told so

    def about(self):
        return {"kind": self.kind, "M": self.M, "N": self.N, "K": self.K, "sources": list(self.sources)}

    @property
    def flops(self):
        return 2 * self.M * self.N * self.K

    def link_bytes(self, ranks):
        """What one rank must receive (and send) over its link, in bf16: a part of a, or of c; for an all-reduce of its
        summands, and then of its sums."""
        once = 2 * self.M * (self.K if self.kind in ("ag", "a2a") else self.N) * (ranks - 1) // ranks
        return 2 * once if self.kind == "ar" else once


TOKENS = [1024, 2048, 4096, 8192]
TOKENS_TO_REDUCE = [128, 512, 2048, 8192]  # all-reduces serve few tokens too, which no rank can split
TOKENS_TO_EXCHANGE = [2048, 8192]

# The two tables that earlier measurements on two GPUs were made on.
TABLE_SIZES = {
    "ag": [(8192, 14336, 8192), (8192, 7168, 8192), (8192, 3584, 8192), (8192, 1280, 8192), (4096, 3584, 8192),
           (2048, 3584, 8192), (1024, 3584, 8192)],
    "rs": [(8192, 8192, 14336), (8192, 8192, 3584), (8192, 8192, 1024), (4096, 8192, 3584), (2048, 8192, 3584),
           (1024, 8192, 3584), (8192, 4096, 7168)],
}


def projections(model, ranks):
    """The four projections of a layer under tensor parallelism: (kind, name, N, K) of each rank's product. Columns of
    QKV and of gate and up together are split over ranks, as are the rows of O and down."""
    hidden, qkv, feed_forward = MODELS[model]
    return [
        ("ag", "QKV", qkv // ranks, hidden),
        ("ag", "gate+up", 2 * feed_forward // ranks, hidden),
        ("rs", "O", hidden, hidden // ranks),
        ("rs", "down", hidden, feed_forward // ranks),
    ]


def sizes(model, ranks):
    """(kind, name, M, N, K) of all of a model's rows: its projections; those that make sums with all-reduces, for layers
    whose tokens no rank splits; and, for attention that is split by heads where all else is split by tokens, with whole
    weights: QKV, whose columns go to the ranks of their heads, and O, whose rows come from there."""
    hidden, qkv, _ = MODELS[model]
    found = [(kind, name, M, N, K) for kind, name, N, K in projections(model, ranks) for M in TOKENS]
    found += [("ar", name, M, N, K) for kind, name, N, K in projections(model, ranks) if kind == "rs"
              for M in TOKENS_TO_REDUCE]
    for M in TOKENS_TO_EXCHANGE:
        found += [("to_a2a", "QKV", M // ranks, qkv, hidden), ("a2a", "O", M, hidden, hidden // ranks)]
    return found


def all_rows(ranks):
    """Every row, each size once, the tables first. The tables are sizes of one rank, so they do not change with
    ranks."""
    found = {}
    for kind, of_table in TABLE_SIZES.items():
        for M, N, K in of_table:
            found[kind, M, N, K] = Row(kind, M, N, K, (TABLE,))
    for model in MODELS:
        for kind, name, M, N, K in sizes(model, ranks):
            row = found.get((kind, M, N, K), Row(kind, M, N, K, ()))
            found[kind, M, N, K] = replace(row, sources=row.sources + (f"{model} {name}",))
    return list(found.values())


def select(rows, patterns):
    """The rows that any of the patterns names: "all", "products", "table", "models", a kind ("ag", "heads", ...), a part
    of a source ("70B", "QKV"), a size ("8192x3584x8192"), a kind and a size ("ag:8192x3584x8192"), "causal", or several of
    these joined by "+" that must all hold ("ag+table", "70B+rs"). Long rows are taken only by name or with "long"
    ("heads+long"). Raises ValueError for a pattern that names no row."""

    def names(row, word):
        return word == row.name or word == row.name.partition(":")[2]

    def holds(row, word):
        return (word == "all" or word == row.kind or names(row, word)
                or (word == "products" and row.kind in KINDS) or (word == "long" and row.long)
                or (word == "causal" and row.name.endswith("-causal"))
                or (word == TABLE and TABLE in row.sources)
                or (word == "models" and row.sources and row.sources != (TABLE,))
                or word in (f"M={getattr(row, 'M', None)}", f"tokens={getattr(row, 'tokens', None)}")
                or any(word and word.lower() in source.lower() for source in row.sources if source != TABLE))

    def chosen(row, words):
        return (not row.long or "long" in words or any(names(row, word) for word in words)) and all(
            holds(row, word) for word in words)

    # "gate+up" is the name of a projection, not two words.
    split = [[word.replace("gate&up", "gate+up") for word in pattern.replace("gate+up", "gate&up").split("+")]
             for pattern in patterns]
    for pattern, words in zip(patterns, split):
        if not any(chosen(row, words) for row in rows):
            raise ValueError(f"no row is called '{pattern}'; try all, products, table, models, ag, rs, heads, moe, 70B, "
                             "QKV, M=4096, 8192x3584x8192, ag:8192x3584x8192, or several joined by '+' that must all hold: "
                             "ag+table, heads+long")
    return [row for row in rows if any(chosen(row, words) for words in split)]
