"""Operators that memory decides: residual and RMS norm of a sum over ranks, lookups in a table that is split by words.
Their inputs, what results must be, and what people use for them.

Norms. The sum s of the ranks' x has an error of at most d = 2^-8 ranks sum |x| (each addition rounds), h = s + residual
one of d + 2^-8 (|h| + d), y = h / rms(h) * weight one of |weight| / rms of h's, of |y| / rms times the root mean
square of h's in the row, and of 2^-8 |y|. Of integers sums and h are exact, and must be equal bit for bit. A lookup is exact.
"""
import functools

import torch
import torch.distributed as dist

import checks
from layers import LayerMethod, LayerProblem, LocalOperator, infinite_share, verdict
from methods import Streams

EPSILON = 1e-5
NOISE = 2.0**-18  # of sums in fp32 and an approximate root


class NormProblem(LayerProblem):
    """x: the rank's summand of all rows; residual: of the rows that the rank normalises."""

    def __init__(self, row, rank, ranks, device):
        super().__init__(row, rank, ranks, device)
        self.rows = slice(0, row.tokens) if row.kind == "norm_ar" else self.shard(row.tokens)
        self.own_rows = self.rows.stop - self.rows.start
        self.x = self.empty(row.tokens, row.width)
        self.residual, self.weight = self.empty(self.own_rows, row.width), self.empty(row.width)

    def fill(self, values, round_):
        self.values, self.round = values, round_
        self.fill_tensor(self.x, "x", self.rank)
        self.fill_tensor(self.residual, "residual", 0 if self.row.kind == "norm_ar" else self.rank)
        self.fill_tensor(self.weight, "weight", 0)

    def inputs(self):
        return {"x": self.x, "residual": self.residual, "weight": self.weight}

    def exact(self):
        return NormExpected(self)

    def reference(self):
        return NormExpected(self)

    def methods(self, name):
        return [lambda make=make: make(self) for make in METHODS.get(name, {}).get(self.row.kind, [])]


class NormExpected:
    def __init__(self, problem):
        p, self.problem = problem, problem
        shape = p.own_rows, p.row.width
        total, magnitude = (torch.zeros(*shape, dtype=torch.float64, device=p.device) for _ in range(2))
        for rank in range(p.ranks):
            x = p.filled("x", rank, *p.x.shape)[p.rows].double()
            total += x
            magnitude += x.abs()
        unit = 0 if p.values == checks.INTEGERS else checks.HALF_ULP
        self.h = total + p.residual.double()
        off = unit * p.ranks * magnitude
        self.h_bound = off + unit * (self.h.abs() + off)
        rms = (self.h.square().mean(1, keepdim=True) + EPSILON).sqrt()
        self.y = self.h / rms * p.weight.double()
        off_rms = self.h_bound.square().mean(1, keepdim=True).sqrt() / rms
        self.y_bound = checks.SLACK * (p.weight.double().abs() / rms * self.h_bound
                                       + (off_rms + checks.HALF_ULP + NOISE) * self.y.abs()) + 1e-30

    def wrong(self, output, ours):
        if self.problem.values == checks.INTEGERS:
            error = checks.difference_of_integers(output["h"], self.h.to(torch.bfloat16))
        else:
            error = verdict("h", infinite_share(output["h"].double() - self.h, self.h_bound))
        return error or verdict("y", infinite_share(output["y"].double() - self.y, self.y_bound))


# ---------------------------------------------------------------------------------------------------------- local norms


class TorchNorm:
    """An addition and PyTorch's fused RMS norm."""
    note = "torch"

    def __init__(self, problem, rows):
        self.problem = problem

    def __call__(self, x, residual, y, h):
        p = self.problem
        torch.add(x, residual, out=h)
        y.copy_(torch.nn.functional.rms_norm(h, (p.row.width,), p.weight, EPSILON))


class TorchNormAllocating(TorchNorm):
    """Without the copy, for a caller who takes what it allocates."""

    def __call__(self, x, residual, y, h):
        p = self.problem
        torch.add(x, residual, out=h)
        return torch.nn.functional.rms_norm(h, (p.row.width,), p.weight, EPSILON)


class OurNorm:
    """kernels/rms_norm.py alone, which does both in one pass."""
    note = "our kernel"

    def __init__(self, problem, rows):
        self.problem = problem
        self.kernel = LocalOperator(problem, "bench/gpu/rms_norm.toml", {"M": rows, "N": problem.row.width}, {})

    def __call__(self, x, residual, y, h):
        self.kernel(x=x, residual=residual, weight=self.problem.weight, y=y, h=h)


class NormMethod(LayerMethod):
    def __init__(self, problem, norm, *more):
        p = problem
        outputs = {name: p.empty(p.own_rows, p.row.width) for name in "yh"}
        super().__init__(p, outputs, *more, note=norm.note)
        self.norm, self.result = norm(p, p.own_rows), None

    def normalise(self, x):
        made = self.norm(x, self.problem.residual, self.outputs["y"], self.outputs["h"])
        self.result = self.outputs if made is None else {"y": made, "h": self.outputs["h"]}

    def output(self):
        return self.result


class LocalNorm(NormMethod):
    """The norm with the sum in place."""

    def poison(self):
        super().poison()
        p = self.problem
        self.x = sum(p.filled("x", rank, *p.x.shape)[p.rows].float() for rank in range(p.ranks)).to(torch.bfloat16)

    def call(self):
        self.normalise(self.x)


class SequentialReduce(NormMethod):
    """NCCL all-reduce in place, as after a product whose result is not needed any more; so calls that follow each other
    add up sums, which changes no time. Then the norm."""

    def __init__(self, problem, norm):
        super().__init__(problem, norm)
        self.x = problem.empty(*problem.x.shape)

    def poison(self):
        super().poison()
        self.x.copy_(self.problem.x)

    def call(self):
        dist.all_reduce(self.x)
        self.normalise(self.x)


class SequentialScatter(NormMethod):
    """NCCL reduce-scatter, then the norm."""

    def __init__(self, problem, norm):
        self.x = problem.empty(problem.own_rows, problem.row.width)
        super().__init__(problem, norm, self.x)

    def call(self):
        dist.reduce_scatter_tensor(self.x, self.problem.x)
        self.normalise(self.x)


class StreamsNorm(Streams):
    """Some rows are reduced on a stream of its own while those before them are normalised. A reduce-scatter of some needs
    those of all ranks together, which is where the producer is taken to have put them."""

    def __init__(self, problem, chunks, norm):
        p, self.reduces = problem, problem.row.kind == "norm_ar"
        shape = p.own_rows // chunks, p.row.width
        if p.own_rows % chunks:
            raise ValueError(f"{p.own_rows} rows are no multiple of {chunks} chunks")
        self.y, self.h, self.x = (p.empty(chunks, *shape) for _ in range(3))
        super().__init__(p, chunks, self.y, self.h, self.x)
        self.note += f", {norm.note}"
        self.norm, self.source = norm(p, shape[0]), None

    def poison(self):
        super().poison()
        p = self.problem
        if self.reduces:
            self.x.copy_(p.x.view(self.x.shape))
        else:
            self.source = p.x.view(p.ranks, self.chunks, -1, p.row.width).transpose(0, 1).contiguous()

    def call(self):
        p, current = self.problem, torch.cuda.current_stream()
        with self.forked(current):
            for chunk, (x, whole) in enumerate(zip(self.x, self.whole)):
                if self.reduces:
                    dist.all_reduce(x)
                else:
                    dist.reduce_scatter_tensor(x, self.source[chunk].view(-1, p.row.width))
                whole.record(self.stream)
        for x, y, h, residual, whole in zip(self.x, self.y, self.h, p.residual.chunk(self.chunks), self.whole):
            current.wait_event(whole)
            self.norm(x, residual, y, h)

    def output(self):
        return {"y": self.y.view(-1, self.problem.row.width), "h": self.h.view(-1, self.problem.row.width)}


class OneShot(NormMethod):
    """PyTorch's one-shot all-reduce on symmetric memory, where the producer is taken to have put x; then the norm."""

    def __init__(self, problem, norm):
        import torch.distributed._symmetric_memory as symmetric
        super().__init__(problem, norm)
        self.x = symmetric.empty(*problem.x.shape, dtype=torch.bfloat16, device=problem.device)
        self.group = dist.group.WORLD.group_name
        self.handle = symmetric.rendezvous(self.x, self.group)

    def poison(self):
        super().poison()
        self.x.copy_(self.problem.x)

    def call(self):
        self.normalise(torch.ops.symm_mem.one_shot_all_reduce(self.x, "sum", self.group))


# ------------------------------------------------------------------------------------------------------------ embedding


class EmbeddingProblem(LayerProblem):
    """ids: of all tokens; table: the rank's rows of it, and one of zeros after them that only torch's lookup reads."""

    def __init__(self, row, rank, ranks, device):
        super().__init__(row, rank, ranks, device)
        self.ids = self.empty(row.tokens, dtype=torch.int32)
        self.first = torch.full((1,), rank * row.rows, dtype=torch.int32, device=device)
        self.with_zeros = torch.zeros(row.rows + 1, row.width, dtype=torch.bfloat16, device=device)
        self.table = self.with_zeros[:row.rows]
        self.own_rows = row.tokens // ranks

    def fill(self, values, round_):
        self.values, self.round = values, round_
        self.fill_tensor(self.table, "table", self.rank)
        generator = torch.Generator(device=self.device).manual_seed(round_)
        torch.randint(0, self.row.rows * self.ranks, self.ids.shape, generator=generator, out=self.ids)

    def inputs(self):
        return {"ids": self.ids, "first": self.first, "table": self.table}

    def exact(self):
        return Looked(self)

    def reference(self):
        return Looked(self)

    def methods(self, name):
        return [lambda make=make: make(self) for make in METHODS.get(name, {}).get(self.row.kind, [])]


class Looked:
    def __init__(self, problem):
        p = problem
        ids = p.ids[p.shard(p.row.tokens)].long()
        self.value = p.empty(p.own_rows, p.row.width)
        for rank in range(p.ranks):
            here = ids // p.row.rows == rank
            self.value[here] = p.filled("table", rank, p.row.rows, p.row.width)[ids[here] - rank * p.row.rows]

    def wrong(self, output, ours):
        return checks.difference_of_integers(output["out"], self.value)


class TorchLookup:
    """Ids of other ranks' rows become that of the row of zeros."""
    note = "torch"

    def __init__(self, problem, tokens):
        self.problem = problem

    def __call__(self, ids, out):
        p = self.problem
        here = ids - p.first
        here = torch.where((here >= 0) & (here < p.row.rows), here, p.row.rows)
        torch.index_select(p.with_zeros, 0, here, out=out)


class OurLookup:
    """kernels/embedding.py alone."""
    note = "our kernel"

    def __init__(self, problem, tokens):
        self.problem = problem
        arguments = problem.row.arguments(problem.ranks) | {"TOKENS": tokens}
        self.kernel = LocalOperator(problem, "operators/embedding_rs.toml", arguments, {})

    def __call__(self, ids, out):
        self.kernel(ids=ids, first=self.problem.first, table=self.problem.table, out=out)


class LocalLookup(LayerMethod):
    """All tokens in the rank's rows of the table: what is left to be summed."""

    def __init__(self, problem, lookup):
        p = problem
        self.partial = p.empty(p.row.tokens, p.row.width)
        super().__init__(p, {}, self.partial, note=lookup.note)
        self.lookup = lookup(p, p.row.tokens)

    def call(self):
        self.lookup(self.problem.ids, self.partial)

    def output(self):
        return None


class SequentialLookup(LocalLookup):
    """The lookup, then NCCL reduce-scatter."""

    def __init__(self, problem, lookup):
        super().__init__(problem, lookup)
        self.outputs = {"out": problem.empty(problem.own_rows, problem.row.width)}

    def call(self):
        super().call()
        dist.reduce_scatter_tensor(self.outputs["out"], self.partial)

    def output(self):
        return self.outputs


class StreamsLookup(Streams):
    """Some of every rank's tokens are looked up while NCCL reduces those before them on a stream of its own. Ids are in
    that order before."""

    def __init__(self, problem, chunks, lookup):
        p = problem
        if p.own_rows % chunks:
            raise ValueError(f"{p.own_rows} tokens are no multiple of {chunks} chunks")
        self.partial = p.empty(chunks, p.row.tokens // chunks, p.row.width)
        super().__init__(p, chunks, p.empty(p.own_rows, p.row.width), self.partial)
        self.note += f", {lookup.note}"
        self.lookup, self.ids = lookup(p, p.row.tokens // chunks), None

    def poison(self):
        super().poison()
        self.ids = self.problem.ids.view(self.problem.ranks, self.chunks, -1).transpose(0, 1).reshape(self.chunks, -1)

    def call(self):
        current = torch.cuda.current_stream()
        for ids, partial, sums, whole in zip(self.ids, self.partial, self.out.chunk(self.chunks), self.whole):
            self.lookup(ids, partial)
            whole.record(current)
            self.stream.wait_event(whole)
            with torch.cuda.stream(self.stream):
                dist.reduce_scatter_tensor(sums, partial)
        current.wait_stream(self.stream)

    def output(self):
        return {"out": self.out}


# ----------------------------------------------------------------------------------------------------------- candidates


def each(make, locals_):
    return [lambda problem, local=local: make(problem, local) for local in locals_]


def of_chunks(make, locals_):
    return [lambda problem, chunks=chunks, local=local: make(problem, chunks, local)
            for chunks in (2, 4) for local in locals_]


NORMS, LOOKUPS = (TorchNormAllocating, OurNorm), (TorchLookup, OurLookup)
METHODS = {
    "local": {"norm_ar": each(LocalNorm, NORMS), "norm_rs": each(LocalNorm, NORMS),
              "embedding": each(LocalLookup, LOOKUPS)},
    "sequential": {"norm_ar": each(SequentialReduce, NORMS), "norm_rs": each(SequentialScatter, NORMS),
                   "embedding": each(SequentialLookup, LOOKUPS)},
    "streams": {"norm_ar": of_chunks(StreamsNorm, (TorchNorm, OurNorm)),
                "norm_rs": of_chunks(StreamsNorm, (TorchNorm, OurNorm)),
                "embedding": of_chunks(StreamsLookup, LOOKUPS)},
    "async_tp": {"norm_ar": each(OneShot, NORMS)},
}
