"""Rows of the operators that are no products: attention, mixtures of experts, norms, embedding. As those of rows.py: a
row has a kind, a name, sources (where its size comes from), `tokens` over all ranks, flops(ranks) of one of them (0
where memory decides), link_bytes(ranks), `long` for what only --rows ...+long takes, arguments(ranks) of its operator
file, and why_not(ranks), what keeps it from being split over so many.

tiny(block, ranks) is the least row whose kernel is the same: what has its kernels built ahead.
"""
import math
from dataclasses import dataclass, replace

KINDS = {"heads": "Head-parallel attention", "sp": "Sequence-parallel attention", "ring": "Ring attention",
         "moe": "AG-grouped-GEMM", "moe_rs": "Grouped-GEMM-RS", "norm_ar": "All-reduce, residual and RMS norm",
         "norm_rs": "Reduce-scatter, residual and RMS norm", "embedding": "Embedding-RS"}
# What the parts of a size are.
SIZES = {"heads": "sequence x heads x KV heads x head dim", "moe": "tokens x N x K - experts x top-k",
         "norm_ar": "rows x width", "embedding": "tokens x rows of a rank's table x width"}
SIZES |= {"sp": SIZES["heads"], "ring": SIZES["heads"], "moe_rs": SIZES["moe"], "norm_rs": SIZES["norm_ar"]}
ATTENTION, EXPERTS, NORMS = ("heads", "sp", "ring"), ("moe", "moe_rs"), ("norm_ar", "norm_rs")
CAPACITY_BLOCK = 128  # rows of a tile, of which a group's capacity is a multiple


@dataclass(frozen=True)
class LayerRow:
    kind: str
    tokens: int  # of all ranks
    sources: tuple[str, ...] = ()
    long: bool = False

    @property
    def name(self):
        return f"{self.kind}:{self.size}"

    def about(self):
        return {"kind": self.kind, "size": self.size, "sources": list(self.sources)}


@dataclass(frozen=True)
class Attention(LayerRow):
    """`tokens` is the length of the whole sequence, which is cut over the ranks before and after."""
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 128
    causal: bool = False

    @property
    def size(self):
        return f"{self.tokens}x{self.heads}x{self.kv_heads}x{self.head_dim}" + ("-causal" if self.causal else "")

    @property
    def scale(self):
        return self.head_dim**-0.5

    def why_not(self, ranks):
        parts = 2 * ranks if self.causal else ranks
        if self.tokens % parts:
            return f"{self.tokens} positions are no multiple of {parts}"
        if self.kind == "heads" and self.kv_heads % ranks:
            return f"{self.kv_heads} heads of keys are no multiple of {ranks} ranks"
        return ""

    def flops(self, ranks):
        pairs = self.tokens * (self.tokens + 1) // 2 if self.causal else self.tokens**2
        return 4 * pairs * self.heads * self.head_dim // ranks

    def link_bytes(self, ranks):
        """What a rank receives: the queries, keys and values of its heads and the result of its rows; or all keys and
        values."""
        q, kv = (2 * count * self.head_dim * self.tokens // ranks for count in (self.heads, 2 * self.kv_heads))
        return (2 * q + kv) * (ranks - 1) // ranks if self.kind == "heads" else kv * (ranks - 1)

    @property
    def is_zigzag(self):
        """Whether a rank has a stretch from the front of the sequence and one from its back, which balances work."""
        return self.causal and self.kind != "heads"

    def arguments(self, ranks):
        heads = self.heads // ranks if self.kind == "heads" else self.heads
        found = {"KV_LENGTH": self.tokens, "HEADS": heads, "scale": self.scale, "HEAD_DIM": self.head_dim,
                 "GROUP": self.heads // self.kv_heads, "CAUSAL": self.causal}
        if not self.is_zigzag:  # else the operator's file works these out for each rank
            found |= {"Q_LENGTH": self.tokens if self.kind == "heads" else self.tokens // ranks, "q_start": 0}
        return found

    def tiny(self, block, ranks):
        return replace(self, tokens=max(block, 128) * 2 * ranks, sources=(), long=False)


@dataclass(frozen=True)
class Experts(LayerRow):
    """N and K of one rank's products: every rank has its own columns ("moe") or rows ("moe_rs") of all experts."""
    N: int = 0
    K: int = 0
    experts: int = 0
    top_k: int = 0

    @property
    def size(self):
        return f"{self.tokens}x{self.N}x{self.K}-{self.experts}x{self.top_k}"

    def why_not(self, ranks):
        return f"{self.tokens} tokens are no multiple of {ranks} ranks" if self.tokens % ranks else ""

    def capacity(self, ranks):
        """Rows of a group: a quarter more than the mean, in whole tiles. Tokens beyond it are dropped."""
        mean = self.tokens * self.top_k / (ranks * self.experts)
        return CAPACITY_BLOCK * math.ceil(1.25 * mean / CAPACITY_BLOCK)

    def flops(self, ranks):
        """Of the rows that are in use, but for those that are dropped."""
        return 2 * self.tokens * self.top_k * self.N * self.K

    def link_bytes(self, ranks):
        """All rows of the groups travel, in use or not."""
        return 2 * self.experts * self.capacity(ranks) * (self.K if self.kind == "moe" else self.N) * (ranks - 1)

    def arguments(self, ranks):
        return {"GROUPS": self.experts * ranks, "CAPACITY": self.capacity(ranks), "EXPERTS": self.experts, "N": self.N,
                "K": self.K, "HAS_WEIGHTS": self.kind == "moe_rs"}

    def tiny(self, block, ranks):
        """CAPACITY is a constant of the kernel; of N and K it is that they are multiples of 16, of EXPERTS the same."""
        experts = math.gcd(16, self.experts)
        mean = self.tokens * self.top_k // self.experts
        return replace(self, tokens=mean * experts, experts=experts, top_k=1, N=256, K=64, sources=(), long=False)


@dataclass(frozen=True)
class Norm(LayerRow):
    """tokens x width is what is summed over the ranks."""
    width: int = 0

    @property
    def size(self):
        return f"{self.tokens}x{self.width}"

    def why_not(self, ranks):
        return f"{self.tokens} rows are no multiple of {ranks} ranks" if self.tokens % ranks else ""

    def flops(self, ranks):
        return 0

    def link_bytes(self, ranks):
        """The sum once, or the least that an all-reduce can do."""
        share = 2 * self.tokens * self.width * (ranks - 1) // ranks
        return 2 * share if self.kind == "norm_ar" else share

    def arguments(self, ranks):
        return {"M": self.tokens if self.kind == "norm_ar" else self.tokens // ranks, "N": self.width}

    def tiny(self, block, ranks):
        """How far a rank's summand is from the next is written into the kernel, so it has no smaller one."""
        return replace(self, sources=(), long=False)


@dataclass(frozen=True)
class Embedding(LayerRow):
    rows: int = 0  # of the table on each rank
    width: int = 0

    @property
    def size(self):
        return f"{self.tokens}x{self.rows}x{self.width}"

    def why_not(self, ranks):
        return f"{self.tokens} tokens are no multiple of {ranks} ranks" if self.tokens % ranks else ""

    def flops(self, ranks):
        return 0

    def link_bytes(self, ranks):
        return 2 * self.tokens * self.width * (ranks - 1) // ranks

    def arguments(self, ranks):
        return {"TOKENS": self.tokens, "ROWS": self.rows, "WIDTH": self.width}

    def tiny(self, block, ranks):
        return replace(self, tokens=max(block, 16) * ranks, rows=1024, sources=(), long=False)


LENGTHS, LONG_LENGTHS = (4096, 8192, 16384, 32768), (65536, 131072)
HEADS = ((32, 8), (16, 16))  # query heads, heads of keys and values; of 128

# hidden size, width of an expert, experts, top-k
MIXTURES = {
    "Mixtral 8x7B": (4096, 14336, 8, 2),
    "Phi-3.5-MoE": (4096, 6400, 16, 2),
    "DeepSeek-MoE 16B": (2048, 1408, 64, 6),
    "OLMoE": (2048, 1024, 64, 8),
}
LONG_MIXTURES = {"Mixtral 8x22B": (6144, 16384, 8, 2)}
WIDTHS = {"Llama-3 8B": 4096, "Llama-3 70B": 8192, "Llama-3 405B": 16384}
VOCABULARY = 128256  # of Llama-3


def attention_rows():
    for kind in ATTENTION:
        for heads, kv_heads in HEADS:
            for tokens in LENGTHS + LONG_LENGTHS:
                for causal in (False, True):
                    yield Attention(kind, tokens, (), tokens in LONG_LENGTHS, heads, kv_heads, 128, causal)


def expert_rows(ranks):
    for name, (hidden, width, experts, top_k) in (MIXTURES | LONG_MIXTURES).items():
        for tokens in (2048, 4096, 8192, 16384):
            long = name in LONG_MIXTURES or tokens not in (4096, 8192)
            yield Experts("moe", tokens, (f"{name} gate+up",), long, 2 * width // ranks, hidden, experts, top_k)
            yield Experts("moe_rs", tokens, (f"{name} down",), long, hidden, width // ranks, experts, top_k)


def memory_rows(ranks):
    """All-reduces serve few tokens too."""
    for name, width in WIDTHS.items():
        for tokens in (128, 512, 2048, 8192):
            yield Norm("norm_ar", tokens, (name,), name == "Llama-3 405B", width)
        for tokens in (2048, 8192, 32768):
            yield Norm("norm_rs", tokens, (name,), name == "Llama-3 405B", width)
        for tokens in (2048, 8192, 16384):
            yield Embedding("embedding", tokens, (name,), name == "Llama-3 405B", VOCABULARY // ranks, width)


def all_rows(ranks):
    every = [*attention_rows(), *expert_rows(ranks), *memory_rows(ranks)]
    return sorted(every, key=lambda row: list(KINDS).index(row.kind))
