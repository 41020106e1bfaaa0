"""What the operators of layer_rows.py may choose for a size, as tuning.py for products. Needs nothing but the standard
library.
"""
import math
import re
from dataclasses import dataclass, replace

import layer_rows

FILES = {"heads": "attention_heads.toml", "sp": "attention_sp.toml", "ring": "attention_sp.toml",
         "moe": "ag_grouped_gemm.toml", "moe_rs": "grouped_gemm_rs.toml", "norm_ar": "rms_norm_ar.toml",
         "norm_rs": "rms_norm_rs.toml", "embedding": "embedding_rs.toml"}
BALANCED = "attention_sp_zigzag.toml"  # under a causal mask
COMMUNICATED = {"heads": ("q", "k", "v", "o"), "sp": ("k", "v"), "ring": ("k", "v"), "moe": ("x",), "moe_rs": ("y",),
                "norm_ar": ("x",), "norm_rs": ("x",), "embedding": ("out",)}
LONGEST_WHOLE = 32768  # positions that attention.py's plans are made for in seconds: its loop is run for every tile
ALGORITHMS = {"ring": "ring"}  # the others are direct


@dataclass(frozen=True)
class Choice:
    blocks: tuple[tuple[str, int], ...]  # constants of the kernel
    kernel: str = ""  # of kernels/, if not the operator file's
    warps: int = 4
    stages: int = 3
    sms: int = 132
    per_sm: int = 1  # thread blocks on each SM
    split: int = 1
    initiator: str = "push"

    @staticmethod
    def of(entry):
        """From what a file says of it."""
        return Choice(**entry | {"blocks": tuple((name, value) for name, value in entry["blocks"])})

    def operator_file(self, row):
        return BALANCED if row.kind in layer_rows.ATTENTION and row.is_zigzag else FILES[row.kind]

    def overrides(self, row, ranks):
        """The values of the operator file that this choice, for this row, replaces."""
        found = {"ranks": ranks, "launch.warps": self.warps, "launch.stages": self.stages,
                 "launch.workers": self.sms * self.per_sm}
        if self.kernel:
            found |= {"kernel.file": f"../kernels/{self.kernel}.py", "kernel.function": self.kernel}
        found |= {f"kernel.args.{name}": value for name, value in (row.arguments(ranks) | dict(self.blocks)).items()}
        for tensor in COMMUNICATED[row.kind]:
            found |= {f"communicate.{tensor}.split": self.split, f"communicate.{tensor}.initiator": self.initiator}
            if row.kind in ALGORITHMS:
                found[f"communicate.{tensor}.algorithm"] = ALGORITHMS[row.kind]
        return found

    @property
    def tile(self):
        return (f"{self.kernel} " if self.kernel else "") + "x".join(str(value) for _, value in self.blocks)

    @property
    def short_name(self):
        return (self.tile + (f" by {self.per_sm}" if self.per_sm > 1 else "") + f", split {self.split}"
                + (", pull" if self.initiator == "pull" else ""))

    @property
    def name(self):
        return (f"{self.tile}, {self.warps} warps, {self.stages} stages, {self.per_sm} on each of {self.sms} SMs, "
                f"split {self.split}, {self.initiator}")

    @property
    def machine_code(self):
        return replace(self, split=1, initiator="push", sms=1, per_sm=1)


def attention_tiles(row):
    """Of attention.py, whose tiles of 128 rows leave room for two on an SM, as attention_table.json has them; of
    attention_streamed.py, which wants BLOCK_N to be HEAD_DIM. By heads either can be: the first is the faster alone, the
    second walks keys as they come, and its plans take no longer for long sequences."""
    def made(shapes, kernel=""):
        return [Choice((("BLOCK_M", m), ("BLOCK_N", n)), kernel, warps, stages, per_sm=per_sm)
                for m, n, warps, stages, per_sm in shapes]

    wide = row.head_dim == 128
    streamed = [(128, 128, 8, 2, 1), (128, 64, 8, 2, 1), (64, 64, 4, 2, 2)]
    streamed = streamed if wide else [(128, 64, 4, 3, 2), (64, 64, 4, 3, 3)]
    if row.kind != "heads":
        return made(streamed)
    whole = made([(128, 64, 4, 2, 2), (64, 64, 4, 2, 2)] if wide else [(64, 64, 4, 2, 4), (128, 64, 4, 2, 2)])
    streamed = made(streamed[:2], "attention_streamed")
    return streamed if row.tokens > LONGEST_WHOLE else whole + streamed


def expert_tiles():
    return [Choice((("BLOCK_M", m), ("BLOCK_N", n), ("BLOCK_K", 64)), "", warps, stages, per_sm=per_sm)
            for m, n, warps, stages, per_sm in ((128, 256, 8, 3, 1), (128, 128, 4, 4, 1), (128, 128, 8, 4, 1),
                                                (128, 128, 4, 3, 2), (64, 256, 4, 3, 1))]


def norm_tiles(row):
    """Whole rows; several on an SM, since they wait for memory, as many as have registers with two ranks."""
    width = 1 << (row.width - 1).bit_length()
    shapes = {4096: [(8, 4), (4, 6), (8, 5), (4, 4), (8, 2)], 8192: [(8, 3), (4, 4), (8, 2)]}
    known = shapes.get(max(width, 4096), [(8, 2), (8, 1), (16, 1)])
    return [Choice((("BLOCK_M", 1), ("BLOCK_N", width)), "", warps, 1, per_sm=per_sm) for warps, per_sm in known]


def embedding_tiles():
    return [Choice((("BLOCK_T", tokens), ("BLOCK_W", width)), "", warps, 1, per_sm=per_sm)
            for tokens, width, warps, per_sm in ((8, 512, 4, 3), (16, 256, 4, 3), (4, 1024, 4, 3), (4, 512, 4, 4),
                                                 (16, 512, 4, 2))]


def tiles(row):
    """Those to try, the one to use where nothing was measured first."""
    if row.kind in layer_rows.ATTENTION:
        return attention_tiles(row)
    if row.kind in layer_rows.EXPERTS:
        return expert_tiles()
    return norm_tiles(row) if row.kind in layer_rows.NORMS else embedding_tiles()


def rows_of_a_chunk(row, ranks, split):
    """Of what is communicated, that a chunk has."""
    whole = row.experts * row.capacity(ranks) if row.kind in layer_rows.EXPERTS else row.tokens // ranks
    return whole // split


def fits(choice, row, ranks):
    """A chunk thinner than a tile only makes tiles wait for several chunks."""
    return choice.split == 1 or rows_of_a_chunk(row, ranks, choice.split) >= max(16, choice.blocks[0][1])


def default_choice(row, ranks, sms):
    """Where nothing was measured: chunks of at least 4 MiB."""
    choice = replace(tiles(row)[0], sms=sms)
    of_a_peer = row.link_bytes(ranks) // max(1, ranks - 1) // len(COMMUNICATED[row.kind])
    splits = [split for split in (1, 2, 4)
              if of_a_peer // split >= 4 << 20 and fits(replace(choice, split=split), row, ranks)]
    return replace(choice, split=max(splits, default=1))


def axes(row, sms, names):
    """As tuning.axes: (name, variations of a choice to try)."""
    def vary(**changes):
        return lambda choice: replace(choice, **changes)

    every = [
        ("tile", [vary(blocks=tile.blocks, kernel=tile.kernel, warps=tile.warps, stages=tile.stages, per_sm=tile.per_sm)
                  for tile in tiles(row)]),
        ("split", [vary(split=split) for split in (1, 2, 4, 8)]),
        ("initiator", [vary(initiator=initiator) for initiator in ("push", "pull")]),
        ("SMs", [vary(sms=count) for count in sms]),
    ]
    return [axis for axis in every if axis[0] in names]


def parts_of(name):
    """(kind and suffix, numbers) of a row's name: rows of one kind and mask have like choices."""
    kind, _, size = name.partition(":")
    return (kind, size.endswith("-causal")), [int(part) for part in re.findall(r"\d+", size)]


def choose(row, ranks, sms, tuned):
    """The measured choice for this row, else that of the nearest measured row of its kind, all of whose sizes but the
    first are the same, else the default. Returns (choice, where it is from)."""
    def lowered(choice):
        return replace(choice, sms=min(choice.sms, sms))

    if f"{row.name}@{ranks}" in tuned:
        return lowered(tuned[f"{row.name}@{ranks}"]), "measured"
    kind, sizes = parts_of(row.name)
    near = {}
    for name, choice in tuned.items():
        row_name, _, of_ranks = name.partition("@")
        if row_name.partition(":")[0] == row.kind and int(of_ranks) == ranks:
            other_kind, other = parts_of(row_name)
            known = choice.kernel in {tile.kernel for tile in tiles(row)}
            if other_kind == kind and other[1:] == sizes[1:] and known and fits(choice, row, ranks):
                near[name] = abs(math.log2(other[0] / sizes[0]))
    nearest = min(near, key=lambda name: (near[name], name), default=None)
    if nearest:
        return lowered(tuned[nearest]), f"as {nearest}"
    return default_choice(row, ranks, sms), "default"
