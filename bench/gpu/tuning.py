"""What an operator may choose for a size (tile, warps, stages, chunks, who initiates a transfer, thread blocks), the
file of measured choices, and the small search that fills it. Needs nothing but the standard library; the search is
handed the function that measures.
"""
import json
import math
import os
import pathlib
from dataclasses import asdict, dataclass, fields, replace

REDUCED_OR_GATHERED = {"ag": "a", "rs": "c"}  # the communicated tensor of each operator file
OPERATOR_FILES = {"ag": "ag_gemm.toml", "rs": "gemm_rs.toml"}
TUNED = pathlib.Path(__file__).with_name("tuned.json")


@dataclass(frozen=True)
class Choice:
    block_m: int = 128
    block_n: int = 256
    block_k: int = 64
    group_m: int = 8
    warps: int = 8
    stages: int = 3
    split: int = 2
    initiator: str = "push"
    workers: int = 132

    def overrides(self, row, ranks):
        """The values of the operator file that this choice, for this row, replaces."""
        tensor = REDUCED_OR_GATHERED[row.kind]
        return {
            "ranks": ranks,
            "kernel.args.M": row.M, "kernel.args.N": row.N, "kernel.args.K": row.K,
            "kernel.args.BLOCK_M": self.block_m, "kernel.args.BLOCK_N": self.block_n,
            "kernel.args.BLOCK_K": self.block_k,
            "kernel.args.GROUP_M": self.group_m,
            "launch.warps": self.warps, "launch.stages": self.stages, "launch.workers": self.workers,
            f"communicate.{tensor}.split": self.split, f"communicate.{tensor}.initiator": self.initiator,
        }

    @property
    def short_name(self):
        """What fits into a table."""
        return f"{self.block_m}x{self.block_n}, split {self.split}" + (", pull" if self.initiator == "pull" else "")

    @property
    def name(self):
        return (f"{self.block_m}x{self.block_n}x{self.block_k} group {self.group_m}, {self.warps} warps, "
                f"{self.stages} stages, split {self.split}, {self.initiator}, {self.workers} workers")


    @property
    def kernel(self):
        """What its machine code depends on, as a choice: chunks and workers are tables and numbers to a kernel."""
        return replace(self, split=1, initiator="push", workers=1)


def kernels_of(choices, walk=()):
    """All kernels that these choices, or a search along `walk` from them, can need: the axes of a kernel multiply."""
    kernels = {choice.kernel for choice in choices}
    for _, variations in walk:
        kernels |= {vary(kernel).kernel for kernel in kernels for vary in variations}
    return sorted(kernels, key=lambda kernel: kernel.name)


def tiles(row, choice):
    return math.ceil(row.M / choice.block_m) * math.ceil(row.N / choice.block_n)


def fits(choice, row, ranks):
    """A chunk thinner than a tile only makes tiles wait for several chunks."""
    return row.M // ranks // choice.split >= choice.block_m or choice.split == 1


def default_choice(row, ranks, workers):
    """Where nothing was measured: wide tiles where there are enough of them for two waves, chunks of at least 4 MiB."""
    wide = Choice(workers=workers)
    narrow = Choice(block_n=128, warps=4, stages=4, workers=workers)
    choice = wide if tiles(row, wide) >= 2 * workers else narrow
    shard_bytes = row.link_bytes(ranks) // max(1, ranks - 1)
    splits = [split for split in (1, 2, 4)
              if shard_bytes // split >= 4 << 20 and fits(replace(choice, split=split), row, ranks)]
    return replace(choice, split=max(splits, default=1))


def axes(kind, workers):
    """What a search walks along, one axis after the other: (name, the variations of a choice to try)."""

    def vary(**changes):
        return lambda choice: replace(choice, **changes)

    tile_shapes = [
        vary(block_m=128, block_n=256, block_k=64, warps=8, stages=3),
        vary(block_m=128, block_n=256, block_k=64, warps=8, stages=4),
        vary(block_m=128, block_n=128, block_k=64, warps=4, stages=4),
        vary(block_m=128, block_n=128, block_k=64, warps=4, stages=5),
        vary(block_m=128, block_n=128, block_k=128, warps=8, stages=3),
    ]
    return [
        ("tile", tile_shapes),
        ("split", [vary(split=split) for split in (1, 2, 4, 8)]),
        ("group", [vary(group_m=group) for group in (4, 8, 16)]),
        ("initiator", [vary(initiator=initiator) for initiator in ("push", "pull")]),
        ("workers", [vary(workers=count) for count in workers]),
    ]


FAILURES = 4  # of a search with no success: what fails is not the choice


def search(start, walk, allowed, measure, least_gain=0.005):
    """Coordinate descent from `start`: along each axis of `walk` in turn, the best variation of the best choice so far
    is kept. `allowed(choice)` leaves out what cannot be good; `measure(choice)` gives microseconds, or None for a
    choice that failed. A change must gain `least_gain` (a share), so that noise changes nothing. The search ends after
    FAILURES choices that all failed. Returns (choice, us, {choice: us of all tried}); us is None if nothing could be
    measured."""
    tried = {}

    def hopeless():
        return len(tried) >= FAILURES and all(us is None for us in tried.values())

    def time_of(choice):
        if choice not in tried:
            if hopeless():
                return math.inf
            tried[choice] = measure(choice)
        return math.inf if tried[choice] is None else tried[choice]

    best, best_us = start, time_of(start)
    for _, variations in walk:
        centre = best
        for vary in variations:
            choice = vary(centre)
            if choice != centre and allowed(choice) and time_of(choice) < best_us * (1 - least_gain):
                best, best_us = choice, time_of(choice)
    return best, (None if math.isinf(best_us) else best_us), tried


# ------------------------------------------------------------------------------------------------ the file of choices


def key(row, ranks):
    return f"{row.name}@{ranks}"


def read_tuned(path=TUNED):
    """{key: Choice}. A file of another format, or with fields that a choice does not have, is an error that says so."""
    path = pathlib.Path(path)
    if not path.exists():
        return {}
    document = json.loads(path.read_text())
    names = {field.name for field in fields(Choice)}
    choices = {}
    for name, entry in document["choices"].items():
        unknown = set(entry["choice"]) - names
        if unknown:
            raise ValueError(f"{path}: choice for '{name}' has unknown {', '.join(sorted(unknown))}; "
                             f"a choice has {', '.join(sorted(names))}")
        choices[name] = Choice(**entry["choice"])
    return choices


def write_tuned(found, machine, path=TUNED):
    """Adds `found` ({key: (Choice, us)}) to the file, which appears whole."""
    path = pathlib.Path(path)
    document = json.loads(path.read_text()) if path.exists() else {"choices": {}}
    for name, (choice, us) in found.items():
        document["choices"][name] = {"choice": asdict(choice), "us": round(us, 2), "machine": machine}
    document["choices"] = dict(sorted(document["choices"].items(), key=lambda item: sort_key(item[0])))
    entries = ",\n".join(f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in document["choices"].items())
    text = '{\n  "choices": {\n' + entries + "\n  }\n}\n" if entries else '{\n  "choices": {}\n}\n'
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(text)
    partial.replace(path)


def parse_key(name):
    kind, _, rest = name.partition(":")
    size, _, ranks = rest.partition("@")
    return kind, tuple(int(part) for part in size.split("x")), int(ranks)


def sort_key(name):
    kind, size, ranks = parse_key(name)
    return kind, ranks, size


def choose(row, ranks, workers, tuned):
    """The measured choice for this size, else that of the nearest measured size of the same operator and number of
    ranks (distance between the logarithms of M, N, K, at most a factor of two over all), else the default. Returns
    (choice, where it is from). `workers` is the most thread blocks that a rank can have here: fewer than a measured
    choice has mean that it was measured elsewhere, and it is lowered."""
    exact = tuned.get(key(row, ranks))
    if exact:
        return lowered(exact, workers), "measured"

    def distance(name):
        _, size, _ = parse_key(name)
        return math.dist([math.log2(x) for x in size], [math.log2(x) for x in (row.M, row.N, row.K)])

    near = [name for name in tuned if parse_key(name)[0] == row.kind and parse_key(name)[2] == ranks]
    nearest = min(near, key=lambda name: (distance(name), name), default=None)
    if nearest and distance(nearest) <= 1 and fits(tuned[nearest], row, ranks):
        return lowered(tuned[nearest], workers), f"as {nearest}"
    return default_choice(row, ranks, workers), "default"


def lowered(choice, workers):
    return replace(choice, workers=min(choice.workers, workers))
