"""One rank of a plan on a GPU, called with torch tensors."""
import ctypes
import os
import pathlib
import sys
import tempfile
import weakref

from syncopate import _library
from syncopate._dlpack import as_dlpack, tensor_of, torch_dtype
from syncopate._group import group_of
from syncopate.errors import Error


def _default_cache():
    """Where the system keeps what can be made again."""
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return pathlib.Path(folder) / "syncopate"
    try:
        return pathlib.Path.home() / ".cache" / "syncopate"
    except RuntimeError:  # nobody's home
        return pathlib.Path(tempfile.gettempdir()) / "syncopate"


def _current_stream(torch):
    """A function from a GPU's number to the CUstream, as a number, that is torch's current one there."""
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # what Triton uses; the public way takes ten times as long
    return raw or (lambda device: torch.cuda.current_stream(device).cuda_stream)


def _agree(group, what, act):
    """Runs act() on every rank and returns all ranks' results; if it failed on any, raises the same error on all."""
    result, failure = None, None
    try:
        result = act()
    except Exception as exception:
        failure = exception
    outcomes = group.all_gather((result, None if failure is None else str(failure)))
    failures = [(rank, text) for rank, (_, text) in enumerate(outcomes) if text is not None]
    if not failures:
        return [result for result, _ in outcomes]
    texts = {text for _, text in failures}
    if len(failures) == group.size and len(texts) == 1:
        message = failures[0][1] if group.size == 1 else f"no rank can {what}: {failures[0][1]}"
    else:
        message = "\n".join(f"rank {rank} cannot {what}: {text}" for rank, text in failures)
    # Ours, if any, stays visible as the cause; a defect of Syncopate or of the caller keeps its type where it happened.
    if failure is not None and not isinstance(failure, (Error, MemoryError, OSError)):
        raise failure
    raise Error(message) from failure


class Operator:
    """A plan, prepared on this rank. The constructor is collective over `group`.

    `group`: a torch.distributed process group (None: the default group, or one rank alone where there is none), or any
    object with `rank`, `size` and `all_gather(object) -> list`. `device`: a CUDA device (None: torch's current
    one). `share`: all ranks of the group use one GPU; a number: so many of them do. `time_limit`: seconds that one wait
    may take. `python`: an interpreter that has Triton (this one). `cache`: folder of compiled kernels.

    Calls are collective too: every rank makes the same number of them. They return at once, like any work on a GPU.
    """

    def __init__(self, plan, group=None, device=None, share=False, time_limit=10.0, python=None, cache=None,
                 withhold=None):
        """`withhold`, for tests: (queue, transfer, launch) of this rank that does not happen."""
        try:
            import torch
        except ImportError as error:
            raise Error("operators take torch tensors, and torch is not installed here; "
                        "install it with: pip install torch") from error

        self.plan = plan
        self._torch = torch
        group = group_of(group)
        self.rank = group.rank
        if group.size != plan.ranks:
            raise Error(f"the plan has {plan.ranks} rank{'s' if plan.ranks != 1 else ''} and the group {group.size} "
                        f"process{'es' if group.size != 1 else ''}; compile it with {{'ranks': {group.size}}}")
        options = _library.OperatorOptions()
        _library.library.syncopate_operator_options_init(ctypes.byref(options))
        options.rank = group.rank
        options.ranks_on_device = (group.size if share else 1) if isinstance(share, bool) else share
        options.time_limit = time_limit
        options.python = os.fsencode(python or sys.executable)
        options.cache = os.fsencode(cache or _default_cache())
        if withhold is not None:
            options.withheld_queue, options.withheld_transfer, options.withheld_launch = withhold

        self._handle = None
        try:
            handles = _agree(group, "prepare the operator", lambda: self._prepare(options, device))
            _agree(group, "join the others", lambda: self._connect(handles))
        except BaseException:
            self.close()
            raise
        self._local_is_prepared = False
        self._call = _library.library.syncopate_operator_call
        self._error, self._current_stream = ctypes.c_void_p(), _current_stream(torch)
        self._error_place = ctypes.byref(self._error)
        self._returned = None  # what calls return, until a tensor is bound
        self._bound = {}  # name -> (what identifies the memory, tensor): what the operator uses stays alive
        self._views = {}
        self._buffers = {buffer.name: buffer for buffer in plan.buffers if not buffer.staging}
        self._local = {name for name, buffer in self._buffers.items() if buffer.bindable}
        self._outputs = [buffer.name for buffer in plan.buffers if buffer.output]

    def _prepare(self, options, device):
        torch = self._torch
        if not torch.cuda.is_available():
            raise Error("torch finds no GPU here; without one, plan.run() executes a plan on CPU ranks")
        device = torch.device("cuda", torch.cuda.current_device()) if device is None else torch.device(device)
        if device.type != "cuda":
            raise Error(f"device {device} is no CUDA device; operators run on GPUs")
        self.device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
        options.device = self.device.index
        operator = ctypes.c_void_p()
        _library.call("operator_create", self.plan._handle, ctypes.byref(options), ctypes.byref(operator))
        self._handle = operator
        self._finalizer = weakref.finalize(self, _library.library.syncopate_operator_destroy, operator)
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        _library.call("operator_handle", operator, ctypes.byref(text), ctypes.byref(size))
        return ctypes.string_at(text, size.value)

    def _connect(self, handles):
        texts = (ctypes.c_char_p * len(handles))(*handles)
        sizes = (ctypes.c_size_t * len(handles))(*map(len, handles))
        _library.call("operator_connect", self._handle, texts, sizes, len(handles))

    def __reduce__(self):
        raise Error("an operator lives on its GPU and is neither copied nor pickled; make another one of its plan")

    def __repr__(self):
        return f"<syncopate.Operator {self.plan.operator}, rank {self.rank} of {self.plan.ranks}, on {self.device}>"

    # ---------------------------------------------------------------------------------------------- tensors

    def _known(self, name):
        try:
            return self._buffers[name]
        except KeyError:
            raise Error(f"operator {self.plan.operator} has no tensor '{name}'; it has "
                        f"{', '.join(self._buffers)}") from None

    def _view(self, name, part):
        view = self._views.get((name, part))
        if view is None:
            managed = ctypes.c_void_p()
            _library.call("operator_view", self._handle, name.encode(), part, ctypes.byref(managed))
            view = self._views[name, part] = tensor_of(managed)
        return view

    def buffer(self, name):
        """All of a tensor on this rank: in the operator's memory, or what was passed last; a local tensor to which
        nothing was passed yet gets memory, not initialised."""
        buffer = self._known(name)
        if name not in self._local:
            return self._view(name, _library.WHOLE)
        if name not in self._bound:
            self._bind(name, self._torch.empty(buffer.shape, dtype=torch_dtype(buffer.dtype), device=self.device))
        return self._bound[name][1]

    def shard(self, name):
        """The part of an input that this rank fills before each call; of a symmetric one it lies in the operator's memory.
        Of an input in zigzag(d) a pair, its two stretches."""
        buffer = self._known(name)
        if buffer.zigzag is not None:
            whole = self.buffer(name)
            return tuple(whole[:0] if box is None else whole[box] for box in buffer.held[self.rank])
        part = self._part(name, buffer.held, "is no input: nobody fills it")
        return part[0] if buffer.stacked else part

    def output(self, name):
        """The part of an output that launches leave for this rank. The next call overwrites it."""
        return self._part(name, self._known(name).outputs, "is no output: launches leave nothing in it")

    def _part(self, name, regions, otherwise):
        if all(region is None for region in regions):
            raise Error(f"tensor {name} {otherwise}")
        whole, region = self.buffer(name), regions[self.rank]
        return whole[:0] if region is None else whole[region]

    def _bind(self, name, tensor):
        described = as_dlpack(name, tensor)
        _library.call("operator_bind", self._handle, name.encode(), ctypes.byref(described))
        self._bound[name] = (self._identity(tensor), tensor)
        self._returned = None

    @staticmethod
    def _identity(tensor):
        return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device

    def _fill(self, name, tensor):
        buffer = self._known(name)
        if not buffer.input:
            raise Error(f"tensor {name} lives in the operator's memory, where transfers reach it; "
                        "take what the call returns")
        if buffer.zigzag is not None:
            for shard, part in zip(self.shard(name), self._stretches(buffer, tensor)):
                if shard.numel() or part.numel():
                    self._copy(name, part, shard)
        else:
            self._copy(name, tensor, self.shard(name))

    def _stretches(self, buffer, given):
        """What is passed for an input in zigzag(d): its two stretches, or one tensor that has them one after the other."""
        shards, d = self.shard(buffer.name), buffer.zigzag
        if isinstance(given, (tuple, list)):
            if len(given) != len(shards):
                raise Error(f"tensor {buffer.name}: {len(given)} tensors for two stretches; pass both, or one tensor that "
                            "has them one after the other")
            return given
        shape = list(buffer.shape)
        shape[d] = sum(shard.shape[d] if shard.numel() else 0 for shard in shards)
        if list(given.shape) != shape:
            raise Error(f"tensor {buffer.name}: shape {tuple(shape)} expected (the two stretches of rank {self.rank}, one "
                        f"after the other), got {tuple(given.shape)}; pass what this rank has of it")
        first = shards[0].shape[d] if shards[0].numel() else 0
        return given.narrow(d, 0, first), given.narrow(d, first, shape[d] - first)

    def _copy(self, name, tensor, shard):
        if tensor.dtype != shard.dtype:
            raise Error(f"tensor {name}: dtype {shard.dtype} expected, got {tensor.dtype}; convert it")
        if tensor.shape != shard.shape:
            raise Error(f"tensor {name}: shape {tuple(shard.shape)} expected (the rows of rank {self.rank}), got "
                        f"{tuple(tensor.shape)}; pass what this rank has of it")
        if tensor.device != shard.device:
            raise Error(f"tensor {name}: device {shard.device} expected, got {tensor.device}; move it there")
        shard.copy_(tensor)

    # ---------------------------------------------------------------------------------------------- calls

    def __call__(self, **tensors):
        """One launch on torch's current stream. A symmetric input that is passed is copied into place; one that is not is
        taken as it lies in shard(); for one in zigzag(d) a pair of tensors, or one that has both stretches one after the
        other. Local inputs are used where they are, and kept for the next call. Outputs of local
        tensors may be passed as well. Returns the output, or a tuple of them in the plan's order; the same tensors every
        time, unless others are passed.
        """
        # The host's time counts here, to the microsecond.
        for name, tensor in tensors.items():
            if name in self._local:
                self._use(name, tensor)
            else:
                self._fill(name, tensor)
        if len(self._bound) < len(self._local):
            self._bind_outputs()
        code = self._call(self._handle, self._current_stream(self.device.index), self._error_place)
        if code != _library.OK:
            raise _library.taken(self._error)
        if self._returned is None:
            outputs = tuple(self.output(name) for name in self._outputs)
            self._returned = outputs[0] if len(outputs) == 1 else outputs
        return self._returned

    def local(self, **tensors):
        """One launch of the local kernel alone on torch's current stream, over the whole tensors as they lie in buffer():
        nothing is gathered before and nothing summed up after. Not collective. Tensors that are not symmetric may be passed,
        as to a call. The first launch compiles the kernel or takes it from the cache, so make one before a capture.
        """
        for name, tensor in tensors.items():
            if self._known(name) and name not in self._local:
                raise Error(f"tensor {name} lives in the operator's memory, where transfers reach it; "
                            f"fill buffer('{name}') and do not pass it")
            self._use(name, tensor)
        self._bind_outputs()
        if not self._local_is_prepared:
            _library.call("operator_prepare_local", self._handle)
            self._local_is_prepared = True
        _library.call("operator_call_local", self._handle, self._current_stream(self.device.index))

    def _use(self, name, tensor):
        bound = self._bound.get(name)
        if bound is None or bound[1] is not tensor or bound[0] != self._identity(tensor):
            self._bind(name, tensor)

    def _bind_outputs(self):
        """Gives local outputs that were never passed memory of torch's."""
        for name in self._local:
            if name not in self._bound:
                if self._buffers[name].input:
                    raise Error(f"tensor {name} was never passed; pass it, or fill buffer('{name}')")
                self.buffer(name)

    def check(self):
        """Raises LaunchFailed if any rank's launch is known to have failed. Waits for nothing."""
        _library.call("operator_status", self._handle)

    def synchronize(self):
        """Waits for this rank's calls, and raises LaunchFailed if a launch has failed."""
        _library.call("operator_synchronize", self._handle)

    def close(self):
        """Frees what the operator holds, once its views are gone too. Collective; happens by itself when it is garbage."""
        self._views, self._bound, self._returned = {}, {}, None
        if self._handle is not None:
            self._finalizer()
            self._handle = None
