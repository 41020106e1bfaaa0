"""What an operator may choose for a size (tile, warps, stages, chunks, who initiates a transfer, thread blocks), the
file of measured choices, and the small search that fills it. Needs nothing but the standard library; the search is
handed the function that measures.
"""
import json
import math
import os
import pathlib
import re
from dataclasses import asdict, dataclass, fields, replace

import gemm_kernels
import layer_choices
import rows

COMMUNICATED = {"ag": "a", "rs": "c", "ar": "c", "a2a": "a", "to_a2a": "c"}  # the tensor of each operator that crosses links
OPERATOR_FILES = {("ag", "gemm"): "ag_gemm.toml", ("ag", "gemm_two_widths"): "ag_gemm_two_widths.toml",
                  ("rs", "gemm"): "gemm_rs.toml", ("ar", "gemm"): "gemm_ar.toml", ("a2a", "gemm"): "a2a_gemm.toml",
                  ("to_a2a", "gemm"): "gemm_a2a.toml"}
TUNED = pathlib.Path(__file__).with_name("tuned.json")
LOCAL_PRODUCTS = pathlib.Path(__file__).with_name("gemm_table.json")


def place_of_sums(kind, ranks):
    """The override that says it, which changes a kernel's text: one summand is added by memory, several by tiles."""
    return {"communicate.c.sum": "in_place" if ranks <= 2 else "staging"} if kind in rows.REDUCED else {}


@dataclass(frozen=True)
class Choice:
    kernel: str = "gemm"  # of kernels/
    block_m: int = 128
    block_n: int = 256
    extra_n: int = 0  # gemm_two_widths has it, gemm has not
    block_k: int = 64
    group_m: int = 8
    warps: int = 8
    stages: int = 3
    sms: int = 132  # that the kernel takes
    per_sm: int = 1  # its thread blocks on each of them
    split: int = 2
    initiator: str = "push"

    @property
    def width(self):
        """Columns of a tile."""
        return self.block_n + self.extra_n

    def operator_file(self, row):
        return OPERATOR_FILES[row.kind, self.kernel]

    def overrides(self, row, ranks):
        """The values of the operator file that this choice, for this row, replaces."""
        tensor = COMMUNICATED[row.kind]
        extra = {"kernel.args.EXTRA_N": self.extra_n} if self.kernel == "gemm_two_widths" else {}
        return extra | {
            "ranks": ranks,
            "kernel.args.M": row.M, "kernel.args.N": row.N, "kernel.args.K": row.K,
            "kernel.args.BLOCK_M": self.block_m, "kernel.args.BLOCK_N": self.block_n,
            "kernel.args.BLOCK_K": self.block_k, "kernel.args.GROUP_M": self.group_m,
            "launch.warps": self.warps, "launch.stages": self.stages, "launch.workers": self.sms * self.per_sm,
            f"communicate.{tensor}.split": self.split, f"communicate.{tensor}.initiator": self.initiator,
        }

    @property
    def short_name(self):
        """What fits into a table."""
        return (f"{self.block_m}x{self.width}" + (f" by {self.per_sm}" if self.per_sm > 1 else "")
                + f", split {self.split}" + (", pull" if self.initiator == "pull" else ""))

    @property
    def name(self):
        width = f"{self.block_n}+{self.extra_n}" if self.extra_n else f"{self.block_n}"
        return (f"{self.kernel} {self.block_m}x{width}x{self.block_k} group {self.group_m}, {self.warps} warps, "
                f"{self.stages} stages, {self.per_sm} on each of {self.sms} SMs, split {self.split}, {self.initiator}")

    @property
    def machine_code(self):
        """What machine code depends on, as a choice: chunks and thread blocks are tables and numbers to a kernel."""
        return replace(self, split=1, initiator="push", sms=1, per_sm=1)


def machine_codes_of(choices, walk=()):
    """All that these choices, or a search along `walk` from them, can need: the axes that change a kernel multiply."""
    codes = {choice.machine_code for choice in choices}
    for _, variations in walk:
        codes |= {vary(code).machine_code for code in codes for vary in variations}
    return sorted(codes, key=lambda code: code.name)


def tiles(row, choice):
    return math.ceil(row.M / choice.block_m) * math.ceil(row.N / choice.width)


def fits(choice, row, ranks):
    """A chunk thinner than a tile only makes tiles wait for several chunks."""
    return row.M // ranks // choice.split >= choice.block_m or choice.split == 1


NARROW_COST = 1.05  # of an element in a tile of 128x128, of one in a tile of 128x256; measured on long products


def rounds_cost(row, choice):
    """What a product takes by its rounds of tiles alone: elements that a thread block computes, the last round counted as
    full."""
    rounds = math.ceil(tiles(row, choice) / (choice.sms * choice.per_sm))
    area = rounds * choice.block_m * choice.width * choice.per_sm
    return area * (NARROW_COST if choice.block_m * choice.width < 128 * 256 else 1)


def default_choice(row, ranks, sms):
    """Where nothing was measured: the tile whose rounds cost less, chunks of at least 16 MiB."""
    choice = min(Choice(sms=sms), Choice(block_n=128, warps=4, stages=5, sms=sms),
                 key=lambda choice: rounds_cost(row, choice))
    shard_bytes = row.link_bytes(ranks) // max(1, ranks - 1)
    splits = [split for split in (1, 2, 4)
              if shard_bytes // split >= 16 << 20 and fits(replace(choice, split=split), row, ranks)]
    return replace(choice, split=max(splits, default=1))


def vary(**changes):
    return lambda choice: replace(choice, **changes)


def tile(kernel, block_m, block_n, extra_n, block_k, warps, stages, per_sm=1):
    return vary(kernel=kernel, block_m=block_m, block_n=block_n, extra_n=extra_n, block_k=block_k, warps=warps,
                stages=stages, per_sm=per_sm)


TILES = [
    tile("gemm", 128, 256, 0, 64, 8, 3),
    tile("gemm", 128, 256, 0, 64, 8, 4),
    tile("gemm", 128, 128, 0, 64, 4, 5),
    tile("gemm", 128, 128, 0, 64, 4, 4),
    tile("gemm", 128, 128, 0, 64, 4, 3, per_sm=2),
    tile("gemm", 64, 256, 0, 64, 4, 5),
    tile("gemm_two_widths", 128, 256, 0, 64, 8, 4),
    tile("gemm_two_widths", 128, 128, 64, 64, 4, 5),
    tile("gemm_two_widths", 64, 256, 64, 64, 4, 4),
]


AXES = ("tile", "split", "group", "initiator", "SMs")


def axes(kind, sms, local=None, names=AXES):
    """What a search walks along, one axis after the other: (name, the variations of a choice to try). `sms`: the
    numbers of SMs to try; `local`: the tile of the fastest product alone, if one is known; `names`: of the axes."""
    known = TILES + ([local] if local else [])
    every = [
        ("tile", [shape for shape in known if (kind, shape(Choice()).kernel) in OPERATOR_FILES]),
        ("split", [vary(split=split) for split in (1, 2, 4, 8)]),
        ("group", [vary(group_m=group) for group in (4, 8, 16)]),
        ("initiator", [vary(initiator=initiator) for initiator in ("push", "pull")]),
        ("SMs", [vary(sms=count) for count in sms]),
    ]
    return [axis for axis in every if axis[0] in names]


def read_local_products(path=LOCAL_PRODUCTS):
    """{(M, N, K): tile}: what bench/gpu/tune_gemm.py found fastest for the product alone, where an operator can use
    it."""
    path = pathlib.Path(path)
    found = {}
    for size, configuration in (gemm_kernels.read_table(path) if path.exists() else {}).items():
        if configuration.kernel in ("gemm", "gemm_two_widths"):
            blocks = configuration.constants()
            found[size] = tile(configuration.kernel, blocks["BLOCK_M"], blocks["BLOCK_N"], blocks.get("EXTRA_N", 0),
                               blocks["BLOCK_K"], configuration.warps, configuration.stages, configuration.per_sm)
    return found


FINALISTS = 4


def finalists(tried, within=0.03):
    """Of what a search tried ({choice: us}), the fastest few that are close enough to the best for the order in which
    they were measured to have decided."""
    timed = sorted(((us, choice.name, choice) for choice, us in tried.items() if us is not None))
    return [choice for us, _, choice in timed[:FINALISTS] if us <= timed[0][0] * (1 + within)]


FAILURES = 4  # of a search with no success: what fails is not the choice


def search(start, walk, allowed, measure, ahead=lambda choices: None, least_gain=0.005):
    """Coordinate descent from `start`: along each axis of `walk` in turn, the best variation of the best choice so far
    is kept. `allowed(choice)` leaves out what cannot be good; `measure(choice)` gives microseconds, or None for a
    choice that failed; `ahead(choices)` hears which choices are measured next. A change must gain `least_gain` (a
    share), so that noise changes nothing. The search ends after FAILURES choices that all failed. Returns (choice, us,
    {choice: us of all tried}); us is None if nothing could be measured."""
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
        varied = dict.fromkeys(vary(best) for vary in variations)
        choices = [choice for choice in varied if choice not in tried and not hopeless() and allowed(choice)]
        ahead(choices)
        for choice in choices:
            if time_of(choice) < best_us * (1 - least_gain):
                best, best_us = choice, time_of(choice)
    return best, (None if math.isinf(best_us) else best_us), tried


# ------------------------------------------------------------------------------------------------ the file of choices


def key(row, ranks):
    return f"{row.name}@{ranks}"


def read_tuned(path=TUNED):
    """{key: Choice, or layer_choices.Choice}. A file of another format, or with fields that a choice does not have, is an error that says so."""
    path = pathlib.Path(path)
    if not path.exists():
        return {}
    document = json.loads(path.read_text())
    choices = {}
    for name, entry in document["choices"].items():
        is_product = name.partition(":")[0] in rows.KINDS
        names = {field.name for field in fields(Choice if is_product else layer_choices.Choice)}
        unknown = set(entry["choice"]) - names
        if unknown:
            raise ValueError(f"{path}: choice for '{name}' has unknown {', '.join(sorted(unknown))}; "
                             f"a choice has {', '.join(sorted(names))}")
        choices[name] = Choice(**entry["choice"]) if is_product else layer_choices.Choice.of(entry["choice"])
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
    return kind, tuple(int(part) for part in re.findall(r"\d+", size)), int(ranks)


def sort_key(name):
    kind, size, ranks = parse_key(name)
    return kind, ranks, size, name


def choose(row, ranks, sms, tuned):
    """The measured choice for this size, else that of the nearest measured size of the same operator and number of
    ranks (distance between the logarithms of M, N, K, at most a factor of two over all), unless its rounds cost more
    here than those of the default; else the default. Returns (choice, where it is from). `sms` are the most that a rank
    can have here: a choice with more was measured elsewhere, and is lowered."""

    def lowered(choice):
        return replace(choice, sms=min(choice.sms, sms))

    def distance(name):
        _, size, _ = parse_key(name)
        return math.dist([math.log2(x) for x in size], [math.log2(x) for x in (row.M, row.N, row.K)])

    if key(row, ranks) in tuned:
        return lowered(tuned[key(row, ranks)]), "measured"
    default = default_choice(row, ranks, sms)
    near = [name for name in tuned if parse_key(name)[0] == row.kind and parse_key(name)[2] == ranks]
    nearest = min(near, key=lambda name: (distance(name), name), default=None)
    if nearest and distance(nearest) <= 1 and fits(tuned[nearest], row, ranks):
        choice = lowered(tuned[nearest])
        if rounds_cost(row, choice) <= rounds_cost(row, default):
            return choice, f"as {nearest}"
    return default, "default"
