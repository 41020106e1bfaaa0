"""Plans: fused operators, complete, as Syncopate's compiler makes them."""
import collections.abc
import contextlib
import ctypes
import dataclasses
import json
import os
import sys
import threading
import weakref

from syncopate import _library
from syncopate.errors import Error


@dataclasses.dataclass(frozen=True)
class Buffer:
    """One tensor of a plan: the same shape on every rank."""

    name: str
    shape: tuple
    stacked: bool  #: dimension 0 numbers the ranks' summands of an input that is summed; each rank fills its own
    dtype: str  #: "bf16", "fp32", ...
    symmetric: bool  #: peers read or write it
    bindable: bool  #: its memory may be the caller's; else it lives in the operator's, where transfers reach it
    input: bool
    output: bool
    staging: bool  #: the operator's own; callers have nothing to do with it
    purpose: str
    before: str  #: placements: "shard(0)", "zigzag(0)", "replicate", "partial(sum)"
    inside: str
    after: str
    held: tuple  #: per rank, what its caller fills: a tuple of slices, or None; of zigzag(d) two of these
    outputs: tuple  #: per rank, what launches leave for its caller: a tuple of slices, or None

    @property
    def zigzag(self):
        """The dimension of which callers fill two stretches, or None."""
        return int(self.before[len("zigzag("):-1]) if self.before.startswith("zigzag") else None


@dataclasses.dataclass(frozen=True)
class Theorem:
    name: str
    statement: str
    holds: bool
    evidence: str  #: if it holds: how much was checked
    counterexample: str  #: if not: the ranks, tiles and signals, and the order of events that breaks it


@dataclasses.dataclass(frozen=True)
class Proof:
    """True if the plan is proven right. str() of it is the report."""

    holds: bool
    theorems: tuple
    text: str

    def __bool__(self):
        return self.holds

    def __str__(self):
        return self.text


@dataclasses.dataclass(frozen=True)
class RunReport:
    """True if every output was bitwise equal to the unfused operator's."""

    right: bool
    outcome: str  #: "right", "deadlock", "race", "bad access", "wrong result"
    message: str  #: for anything but right: what happened, naming ranks, tile, transfer, signal
    tiles: int
    transfers: int
    bytes_moved: int
    steps: int

    def __bool__(self):
        return self.right


def _slices(region):
    return None if region is None else tuple(slice(begin, end) for begin, end in region)


def _buffer(about):
    zigzag = about["before"].startswith("zigzag")
    held = tuple(tuple(map(_slices, each)) if zigzag else _slices(each) for each in about["held"])
    return Buffer(**{**about, "shape": tuple(about["shape"]), "held": held,
                     "outputs": tuple(map(_slices, about["outputs"]))})


@contextlib.contextmanager
def _interrupts_kept(raised):
    """Collects what is raised in a callback outside its `try`: Ctrl-C may come as it is entered. ctypes can only report it
    to sys.unraisablehook, and makes up what the callback returns."""
    if threading.current_thread() is not threading.main_thread():  # only there Python handles signals
        yield
        return
    before, main = sys.unraisablehook, threading.get_ident()

    def keep(about):
        if threading.get_ident() == main and "ctypes callback" in (about.err_msg or ""):
            raised.append(about.exc_value)
        else:
            before(about)

    sys.unraisablehook = keep
    try:
        yield
    finally:
        sys.unraisablehook = before


class Plan:
    """A fused operator. Made by compile(), load() and parse(); immutable."""

    def __init__(self, handle):
        self._handle = handle
        self._finalizer = weakref.finalize(self, _library.library.syncopate_plan_free, handle)
        about = json.loads(_library.text_of("plan_describe", handle))
        self.operator = about["operator"]
        self.hash = about["hash"]  #: equal plans have equal hashes
        self.ranks = about["ranks"]
        self.workers = about["workers"]  #: thread blocks per rank
        self.tiles = about["tiles"]
        self.communication = about["communication"]
        self.extra_bytes = about["extra_bytes"]  #: per rank, beyond what the caller supplies, by kind
        self.buffers = tuple(map(_buffer, about["buffers"]))

    # Immutable: a copy is the plan itself, so that no two objects own what is freed once.
    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return parse, (self.json(),)

    def __repr__(self):
        return f"<syncopate.Plan {self.operator} on {self.ranks} rank{'s' if self.ranks != 1 else ''}>"

    def buffer(self, name):
        """The Buffer of that name. Raises Error, with the names that there are."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise Error(f"the plan has no buffer {name!r}; known: {', '.join(buffer.name for buffer in self.buffers)}")

    def json(self):
        """The plan as text, which parse() reads: same plan, same text."""
        return _library.text_of("plan_json", self._handle)

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.json())

    def fused_source(self):
        """The fused kernel as Triton source."""
        return _library.text_of("plan_fused_source", self._handle)

    def show(self):
        """The plan in words: schedule, tile order, waits."""
        return _library.text_of("plan_show", self._handle)

    def verify(self):
        """Proves the plan, or finds a counter-example: a Proof, true if it holds."""
        report = json.loads(_library.text_of("plan_verify", self._handle))
        return Proof(report["holds"], tuple(Theorem(**theorem) for theorem in report["theorems"]), report["text"])

    def run(self, *, seed=0, repeat=1, adversary=False, inputs="integers", progress=None):
        """Executes the plan on CPU ranks and compares with the unfused operator: a RunReport, true if right.

        `inputs` is "integers" (exact sums) or "reals". `progress(done, all)` is called now and then with tiles.
        """
        if inputs not in ("integers", "reals"):
            raise ValueError(f"inputs is {inputs!r}; use 'integers' or 'reals'")
        raised = []

        # Also without a `progress` of the caller: it is where Python gets to see Ctrl-C.
        @_library.Progress
        def on_progress(_, done, all_of_them):
            try:
                if progress is not None and not raised:
                    progress(done, all_of_them)
                return 1 if raised else 0
            except BaseException as exception:  # it must not pass through C; raised again below
                raised.append(exception)
                return 1

        options = _library.RunOptions()
        _library.library.syncopate_run_options_init(ctypes.byref(options))
        options.seed, options.repeat = _integer("seed", seed, 0, 2**64 - 1), _integer("repeat", repeat, 1, 1000000)
        options.adversary, options.reals = bool(adversary), inputs == "reals"
        options.progress = on_progress
        text = None
        with _interrupts_kept(raised), contextlib.suppress(_library.Stopped):
            text = _library.text_of("plan_run", self._handle, ctypes.byref(options))
        if raised or text is None:
            raise raised[0] if raised else KeyboardInterrupt
        return RunReport(**json.loads(text))


def _integer(name, value, least, most):
    """`value`, if it is an integer in that range: ctypes takes any, and drops what does not fit."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is an integer, not {value!r}, of type {type(value).__name__}")
    value = value.__index__()
    if not least <= value <= most:
        raise Error(f"{name} is {value}; it must be from {least} to {most}")
    return value


def _toml(value):
    """A Python value as TOML text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(str(key))} = {_toml(item)}" for key, item in value.items()) + "}"
    raise TypeError(f"a setting cannot be {value!r}, of type {type(value).__name__}")


def _path(path):
    """A path as bytes, for C, which would take it to end at a zero byte."""
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise Error(f"there is a zero byte in the path {os.fspath(path)!r}; remove it")
    return encoded


def compile(operator_file, settings=None):
    """Compiles an operator file (.toml). `settings` maps dotted keys to values that override the file's:
    {"ranks": 8, "kernel.args.M": 8192, "communicate.a.algorithm": "ring"}. Raises Error with the place of a mistake."""
    path = _path(operator_file)
    if path.endswith(b".json"):
        raise Error(f"{os.fsdecode(path)}: this is a plan, not an operator file; read it with syncopate.load()")
    settings = {} if settings is None else settings
    if not isinstance(settings, collections.abc.Mapping):
        raise TypeError(f"settings is a {type(settings).__name__}; use a dict, such as {{'ranks': 2}}")
    for key in settings:
        if not isinstance(key, str):
            raise TypeError(f"a setting's name is a string, not {key!r}, of type {type(key).__name__}")
        if "\0" in key:
            raise Error(f"there is a zero byte in the setting's name {key!r}; remove it")
    overrides = (_library.Override * len(settings))()
    for override, (key, value) in zip(overrides, settings.items()):
        override.key, override.value = key.encode(), _toml(value).encode()
    handle = ctypes.c_void_p()
    _library.call("plan_compile", path, overrides, len(settings), ctypes.byref(handle))
    return Plan(handle)


def load(path):
    """Reads a plan from a file (.json)."""
    path = _path(path)
    if path.endswith(b".toml"):
        raise Error(f"{os.fsdecode(path)}: this is an operator file, not a plan; compile it with syncopate.compile()")
    handle = ctypes.c_void_p()
    _library.call("plan_load", path, ctypes.byref(handle))
    return Plan(handle)


def parse(text, name="plan"):
    """Reads a plan from JSON text; `name` is what messages call it."""
    handle = ctypes.c_void_p()
    data = text.encode()
    _library.call("plan_parse", name.encode(), data, len(data), ctypes.byref(handle))
    return Plan(handle)
