"""Attention of a sequence that is cut over the ranks: its inputs, what its results must be, and what people use for it.

Two checks. *Integers*: every key is a code of its position in +-1, every query 64 times the code of the key that it is
to find, so that the weight of any other is below e^-40 and each row of the result is a row of v, small integers: all
queries, keys and values are seen. *Reals*: tiles here and there against fp64, with the bound of attention_checks.py,
twice it for methods that add up results that were rounded before.
"""
import contextlib
import functools
import random

import torch
import torch.distributed as dist
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

import attention_checks
import checks
import layer_rows
from layers import LayerMethod, LayerProblem, infinite_share, verdict
from methods import Streams

SAMPLED_TILES, TILE_ROWS = 24, 128
QUERY = 64.0
NEARLY = 2.0**-10  # of a result that is found: far below one, far above what the other keys weigh


class Problem(LayerProblem):
    """q, k and v [this rank's positions, heads, head_dim]. A rank has one stretch of the sequence; under a causal mask,
    where ranks attend for their own positions, one from the front and one from the back, which balances their work."""

    def __init__(self, row, rank, ranks, device):
        super().__init__(row, rank, ranks, device)
        self.positions = row.tokens // ranks
        self.group = row.heads // row.kv_heads
        self.q = self.empty(self.positions, row.heads, row.head_dim)
        self.k, self.v = (self.empty(self.positions, row.kv_heads, row.head_dim) for _ in "kv")

    def fill(self, values, round_):
        self.values, self.round = values, round_
        for name, tensor in (("q", self.q), ("k", self.k), ("v", self.v)):
            self.fill_positions(name, tensor, self.rank)

    def fill_positions(self, name, tensor, rank):
        places = self.places(rank)
        if self.values == checks.REALS or name == "v":
            self.fill_tensor(tensor, name, rank)
        elif name == "k":
            tensor.copy_(self.code(places)[:, None, :].expand_as(tensor))
        else:
            for head in range(self.row.heads):
                tensor[:, head] = QUERY * self.code(self.found(places, head))

    def places(self, rank):
        """The positions of a rank, in its order."""
        every = torch.arange(self.row.tokens, device=self.device)
        if not self.row.is_zigzag:
            return every.chunk(self.ranks)[rank]
        stretches = every.chunk(2 * self.ranks)
        return torch.cat([stretches[rank], stretches[2 * self.ranks - 1 - rank]])

    def code(self, places):
        """+-1 for the bits of a position, again and again."""
        bits = max(1, (self.row.tokens - 1).bit_length())
        shifts = torch.arange(self.row.head_dim, device=self.device) % bits
        return (((places[:, None] >> shifts[None, :]) & 1) * 2 - 1).to(torch.bfloat16)

    def found(self, places, head):
        """The key that each position looks for, one that it may see."""
        seen = places + 1 if self.row.causal else torch.full_like(places, self.row.tokens)
        return (places * 7919 + head * 104729 + 31) % seen

    def whole(self, name):
        """Of all ranks, by position, made anew from the seeds."""
        part = torch.empty_like({"q": self.q, "k": self.k, "v": self.v}[name])
        whole = self.empty(self.row.tokens, *part.shape[1:])
        for rank in range(self.ranks):
            self.fill_positions(name, part, rank)
            whole[self.places(rank)] = part
        return whole

    def inputs(self):
        return {name: tensor.view(self.positions, -1) for name, tensor in (("q", self.q), ("k", self.k), ("v", self.v))}

    def result_of(self, output):
        """(o [rows, heads, head_dim], the positions of its rows)"""
        o = output["o"]
        places = output.get("places")
        by_head = o.view(o.shape[0], self.row.heads, self.row.head_dim)
        return by_head, self.places(self.rank) if places is None else places

    def exact(self):
        return Found(self)

    def reference(self):
        return Tiles(self)

    def methods(self, name):
        return [lambda make=make: make(self) for make in METHODS.get(name, {}).get(self.row.kind, [])]

    def of_heads(self, backend, q, k, v):
        """o of whole sequences of some heads, [length, heads, head_dim]."""
        return attention(backend, q, k, v, self.row.causal, self.row.scale)

    def of_positions(self, backend, q, k, v):
        """o of this rank's queries, of some heads, and all keys, by position."""
        if not self.row.causal:
            return attention(backend, q, k, v, False, self.row.scale)
        if backend == "cuDNN":
            raise ValueError("torch has no cuDNN attention whose last query sees the last of more keys than queries")
        length = self.positions // 2
        ends = [(self.rank + 1) * length, (2 * self.ranks - self.rank) * length]
        return torch.cat([attention(backend, part, k[:end], v[:end], True, self.row.scale)
                          for part, end in zip(q.chunk(2), ends)])

    def by_position(self, gathered):
        """Of what was gathered, rank after rank: itself, or a copy in the sequence's order."""
        if not self.row.is_zigzag:
            return gathered
        stretches = gathered.chunk(2 * self.ranks)  # the first of rank 0, its last, the second, ...
        return torch.cat([*stretches[0::2], *reversed(stretches[1::2])])


class Found:
    def __init__(self, problem):
        self.problem, self.v = problem, problem.whole("v")

    def wrong(self, output, ours):
        problem = self.problem
        o, places = problem.result_of(output)
        for head in range(problem.row.heads):
            expected = self.v[problem.found(places, head), head // problem.group].double()
            off = ~((o[:, head].double() - expected).abs() <= NEARLY)
            if off.any():
                at = off.nonzero()[0]
                return (f"{int(off.sum())} of {off.numel()} elements of head {head} are wrong, the first at position "
                        f"{int(places[at[0]])}, column {int(at[1])}: {o[at[0], head, at[1]].item()} instead of "
                        f"{expected[at[0], at[1]].item()}")
        return ""


class Tiles:
    def __init__(self, problem):
        row, self.problem = problem.row, problem
        self.q, self.k, self.v = map(problem.whole, "qkv")
        self.shape = AsShape(row)
        blocks = -(-problem.positions // TILE_ROWS)
        every = [(head, block) for head in range(row.heads) for block in range(blocks)]
        drawn = random.Random(1).sample(every, min(SAMPLED_TILES, len(every)))
        self.tiles = [every[0], every[-1], *drawn]

    def wrong(self, output, ours):
        o, places = self.problem.result_of(output)
        if not o.isfinite().all():
            return f"{int((~o.isfinite()).sum())} elements are no numbers"
        parts = 1 if "parts" not in output else output["parts"]
        worst = 0.0
        for head, block in self.tiles:
            rows = slice(block * TILE_ROWS, (block + 1) * TILE_ROWS)
            exact, _, bound, _ = attention_checks.reference(self.shape, self.q, self.k, self.v, head, places[rows])
            worst = max(worst, infinite_share(o[rows, head].double() - exact, bound * parts))
        return verdict("o", worst)


class AsShape:
    """A row as attention_checks.py sees it: the whole sequence, on one rank."""

    def __init__(self, row):
        self.q_length = self.kv_length = row.tokens
        self.q_start, self.causal, self.scale, self.head_dim = 0, row.causal, row.scale, row.head_dim
        self.group = row.heads // row.kv_heads


# ------------------------------------------------------------------------------------------------------ local attention


def backends():
    """Of torch's, those that are fast on a GPU; on a CPU, where this is only tried, its own choice."""
    if not torch.cuda.is_available():
        return {"torch": contextlib.nullcontext}
    return {"cuDNN": functools.partial(sdpa_kernel, SDPBackend.CUDNN_ATTENTION),
            "flash": functools.partial(sdpa_kernel, SDPBackend.FLASH_ATTENTION)}


BACKENDS = backends()


def attention(backend, q, k, v, causal, scale):
    """o [length, heads, head_dim] of operands laid out like it, of whichever strides. With `causal` the last query sees
    the last key."""
    mask = causal_lower_right(len(q), len(k)) if causal and len(q) != len(k) else None
    with BACKENDS[backend]():
        o = torch.nn.functional.scaled_dot_product_attention(
            *(each.transpose(0, 1)[None] for each in (q, k, v)), attn_mask=mask, is_causal=causal and mask is None,
            scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    return o[0].transpose(0, 1)


class Local(LayerMethod):
    """torch's attention with everything in place: the whole sequence of the rank's heads, or the rank's queries and all
    keys. It allocates its result."""

    def __init__(self, problem, backend):
        super().__init__(problem, {}, note=backend)
        self.backend, self.operands, self.o = backend, None, None

    def poison(self):
        p = self.problem
        if p.row.kind == "heads":
            def own(name):
                whole = p.whole(name)
                return whole[:, p.shard(whole.shape[1])].contiguous()
            self.operands = [own(name) for name in "qkv"]
        else:
            self.operands = [p.q, p.whole("k"), p.whole("v")]

    def call(self):
        p = self.problem
        self.o = (p.of_heads if p.row.kind == "heads" else p.of_positions)(self.backend, *self.operands)

    def output(self):
        return None if self.problem.row.kind == "heads" else {"o": self.o.contiguous()}


# ------------------------------------------------------------------------------------------------------------ by heads


class HeadChunk:
    """Exchange, attention and exchange back of some key heads of every rank, with the query heads that share them."""

    def __init__(self, problem, chunk, chunks):
        p, row, self.problem = problem, problem.row, problem
        self.kv = row.kv_heads // p.ranks // chunks
        self.heads = self.kv * p.group
        self.chunk = chunk
        widths = [count * row.head_dim for count in (self.heads, self.kv, self.kv)]
        self.sent, self.received = (p.empty(p.ranks, p.positions, sum(widths)) for _ in range(2))
        self.parts = [slice(sum(widths[:i]), sum(widths[:i + 1])) for i in range(3)]
        self.back = p.empty(p.ranks, p.positions, widths[0])
        self.o = None

    def of_every_rank(self, tensor):
        """[ranks, positions, heads of this chunk * head_dim], of a tensor with all heads."""
        p = self.problem
        by_rank = tensor.view(p.positions, p.ranks, -1, self.kv * (tensor.shape[1] // p.row.kv_heads) * p.row.head_dim)
        return by_rank[:, :, self.chunk].transpose(0, 1)

    def exchange(self):
        p = self.problem
        for part, tensor in zip(self.parts, (p.q, p.k, p.v)):
            self.sent[:, :, part].copy_(self.of_every_rank(tensor))
        dist.all_to_all_single(self.received, self.sent)

    def attend(self, backend):
        p = self.problem
        whole = self.received.view(p.row.tokens, -1)
        q, k, v = (whole[:, part].unflatten(1, (-1, p.row.head_dim)) for part in self.parts)
        self.o = p.of_heads(backend, q, k, v).contiguous()

    def exchange_back(self, out):
        p = self.problem
        dist.all_to_all_single(self.back, self.o.view(p.ranks, p.positions, -1))
        self.of_every_rank(out).copy_(self.back)


class SequentialHeads(LayerMethod):
    """The parts of each rank's heads are brought together, NCCL all-to-all, torch's attention, NCCL all-to-all."""

    def __init__(self, problem, backend):
        self.whole, self.backend = HeadChunk(problem, 0, 1), backend
        out = problem.empty(problem.positions, problem.row.heads, problem.row.head_dim)
        super().__init__(problem, {"o": out}, self.whole.sent, self.whole.received, self.whole.back, note=backend)

    def call(self):
        self.whole.exchange()
        self.whole.attend(self.backend)
        self.whole.exchange_back(self.outputs["o"])


class StreamsHeads(Streams):
    """Some heads at a time: the next are exchanged on another stream while these are worked on, and go back on it."""

    def __init__(self, problem, chunks, backend):
        self.parts, self.backend = [HeadChunk(problem, chunk, chunks) for chunk in range(chunks)], backend
        out = problem.empty(problem.positions, problem.row.heads, problem.row.head_dim)
        buffers = [tensor for part in self.parts for tensor in (part.sent, part.received, part.back)]
        super().__init__(problem, chunks, out, *buffers)
        self.note += f", {backend}"
        self.done = [torch.cuda.Event() for _ in range(chunks)]

    def call(self):
        current = torch.cuda.current_stream()
        with self.forked(current):
            for part, whole in zip(self.parts, self.whole):
                part.exchange()
                whole.record(self.stream)
        for part, whole, done in zip(self.parts, self.whole, self.done):
            current.wait_event(whole)
            part.attend(self.backend)
            done.record(current)
            self.stream.wait_event(done)
            with torch.cuda.stream(self.stream):
                part.exchange_back(self.out)
        current.wait_stream(self.stream)

    def output(self):
        return {"o": self.out}


# --------------------------------------------------------------------------------------------------------- by positions


class SequentialPositions(LayerMethod):
    """NCCL all-gather of keys and of values, where the mask is causal a copy in the sequence's order, then torch's
    attention."""

    def __init__(self, problem, backend):
        row = problem.row
        self.k, self.v = (problem.empty(row.tokens, row.kv_heads, row.head_dim) for _ in "kv")
        super().__init__(problem, {}, self.k, self.v, note=backend)
        self.backend, self.o = backend, None

    def call(self):
        p = self.problem
        dist.all_gather_into_tensor(self.k, p.k)
        dist.all_gather_into_tensor(self.v, p.v)
        self.o = p.of_positions(self.backend, p.q, p.by_position(self.k), p.by_position(self.v))

    def output(self):
        return {"o": self.o.contiguous()}


class StreamsPositions(Streams):
    """Keys and values of some heads are gathered on a stream of its own while those before them are worked on."""

    def __init__(self, problem, chunks, backend):
        p, row, self.backend = problem, problem.row, backend
        self.heads = row.kv_heads // chunks
        self.sent = p.empty(chunks, 2, p.positions, self.heads, row.head_dim)
        self.gathered = p.empty(chunks, 2, row.tokens, self.heads, row.head_dim)
        super().__init__(p, chunks, p.empty(p.positions, row.heads, row.head_dim), self.sent, self.gathered)
        self.note += f", {backend}"

    def call(self):
        p, current = self.problem, torch.cuda.current_stream()
        with self.forked(current):
            for chunk, whole in enumerate(self.whole):
                for which, tensor in enumerate((p.k, p.v)):
                    self.sent[chunk, which].copy_(tensor[:, chunk * self.heads:(chunk + 1) * self.heads])
                    dist.all_gather_into_tensor(self.gathered[chunk, which], self.sent[chunk, which])
                whole.record(self.stream)
        for chunk, whole in enumerate(self.whole):
            current.wait_event(whole)
            heads = slice(chunk * self.heads * p.group, (chunk + 1) * self.heads * p.group)
            keys, values = map(p.by_position, self.gathered[chunk])
            self.out[:, heads].copy_(p.of_positions(self.backend, p.q[:, heads], keys, values))

    def output(self):
        return {"o": self.out}


class ContextParallel(LayerMethod):
    """PyTorch's ring attention (torch.distributed.tensor.experimental, context_parallel), called below its dispatcher.
    With a causal mask its ranks have a stretch from the front and one from the back of the sequence each, as it
    balances them; inputs are in that order before."""

    def __init__(self, problem, name, kernel):
        from torch.distributed.tensor.experimental import _attention as context_parallel
        super().__init__(problem, {}, note=name)
        self.ring, self.kernel, self.o = context_parallel, kernel, None
        self.operands, self.places = None, None

    def poison(self):
        p = self.problem
        if not p.row.causal or p.row.is_zigzag:
            self.operands = p.q, p.k, p.v
            return
        stretches = torch.arange(p.row.tokens, device=p.device).chunk(2 * p.ranks)
        self.places = torch.cat([stretches[p.rank], stretches[2 * p.ranks - 1 - p.rank]])
        self.operands = [p.whole(name)[self.places] for name in "qkv"]

    def call(self):
        row = self.problem.row
        self.ring._cp_options.enable_load_balance = row.causal
        q, k, v = (each.transpose(0, 1)[None] for each in self.operands)
        self.o = self.ring._templated_ring_attention(dist.group.WORLD, 2, self.kernel, q, k, v, is_causal=row.causal,
                                                     scale=row.scale)[0]

    def output(self):
        o = self.o[0].transpose(0, 1).contiguous()
        return {"o": o, "parts": 2} | ({} if self.places is None else {"places": self.places})


def ring_kernels():
    """The operators that PyTorch's ring attention has for these backends."""
    aten = torch.ops.aten
    if not torch.cuda.is_available():
        return {"torch": aten._scaled_dot_product_flash_attention_for_cpu}

    def cudnn(q, k, v, is_causal, scale):
        return aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, is_causal, False, scale=scale)

    return {"cuDNN": cudnn, "flash": aten._scaled_dot_product_flash_attention}


# ----------------------------------------------------------------------------------------------------------- candidates


def of_backends(make):
    return [lambda problem, backend=backend: make(problem, backend) for backend in BACKENDS]


def of_chunks(make):
    """Chunks that the heads of keys cannot be cut into are an error that says so, which drops the candidate."""
    def made(problem, chunks, backend):
        heads = problem.row.kv_heads // (problem.ranks if problem.row.kind == "heads" else 1)
        if heads % chunks:
            raise ValueError(f"{heads} heads of keys are no multiple of {chunks} chunks")
        return make(problem, chunks, backend)

    return [lambda problem, chunks=chunks, backend=backend: made(problem, chunks, backend)
            for chunks in (1, 2, 4) for backend in BACKENDS]


def rings():
    return [lambda problem, name=name, kernel=kernel: ContextParallel(problem, name, kernel)
            for name, kernel in ring_kernels().items()]


BY_POSITIONS = ("sp", "ring")
METHODS = {
    "local": dict.fromkeys(layer_rows.ATTENTION, of_backends(Local)),
    "sequential": {"heads": of_backends(SequentialHeads)}
                  | dict.fromkeys(BY_POSITIONS, of_backends(SequentialPositions)),
    "streams": {"heads": of_chunks(StreamsHeads)} | dict.fromkeys(BY_POSITIONS, of_chunks(StreamsPositions)),
    "context_parallel": dict.fromkeys(layer_rows.ATTENTION, rings()),
}
