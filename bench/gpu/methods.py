"""What is compared: each method computes one row's operator, as one call on the current stream, on every rank at once.

A method has `call()`, `output()` (the rank's result after a call; a tensor that the next call may overwrite),
`poison()` (NaN wherever a call must write) and `note` (a choice it made, "" if none). All read the inputs of one
Problem, where they stand: what an operator needs beyond that is part of its time.
"""
import functools
import pathlib

import torch
import torch.distributed as dist

import checks

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAN = float("nan")


class OneRank:
    """A group of one, for operators of one rank."""

    rank, size = 0, 1

    def all_gather(self, item):
        return [item]


class Built(Exception):
    """An operator's kernel is there."""


class Unmet:
    """A rank of a group that never meets: an operator that is made only to have its kernel built ends here."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def all_gather(self, item):
        _, error = item  # of the operator's own part
        raise RuntimeError(error) if error else Built()


class Method:
    """What most methods have in common. `out`: the rank's result; `more`: what else a call writes."""

    note = ""

    def __init__(self, problem, out, *more):
        self.problem, self.out, self.written = problem, out, (out, *more)

    def poison(self):
        for tensor in self.written:
            tensor.fill_(NAN)

    def output(self):
        return self.out


class Product(Method):
    """cuBLAS alone: the local product with everything in place. Where its result is reduced or sent on, there is nothing
    to compare."""

    def __init__(self, problem):
        super().__init__(problem, problem.empty(problem.row.M, problem.row.N))

    def call(self):
        torch.mm(self.problem.a, self.problem.b, out=self.out)

    def output(self):
        return self.out if self.problem.row.kind in ("ag", "a2a") else None


class SequentialGather(Method):
    """NCCL all-gather, in place (the shard stands where it is gathered), then cuBLAS."""

    def __init__(self, problem):
        super().__init__(problem, problem.empty(*problem.result_shape))

    def call(self):
        p = self.problem
        dist.all_gather_into_tensor(p.a, p.a_own)
        torch.mm(p.a, p.b, out=self.out)

    def poison(self):
        poison_gathered(self.problem)
        super().poison()


class SequentialScatter(Method):
    """cuBLAS, then NCCL reduce-scatter."""

    def __init__(self, problem):
        self.partial = problem.empty(problem.row.M, problem.row.N)
        super().__init__(problem, problem.empty(*problem.result_shape), self.partial)

    def call(self):
        torch.mm(self.problem.a, self.problem.b, out=self.partial)
        dist.reduce_scatter_tensor(self.out, self.partial)


class SequentialReduce(Method):
    """cuBLAS, then NCCL all-reduce, in place."""

    def __init__(self, problem):
        super().__init__(problem, problem.empty(*problem.result_shape))

    def call(self):
        torch.mm(self.problem.a, self.problem.b, out=self.out)
        dist.all_reduce(self.out)


class SequentialExchangeBefore(Method):
    """The columns of each rank are brought together, NCCL all-to-all, then cuBLAS."""

    def __init__(self, problem):
        shape = (problem.ranks, problem.shard_rows, problem.row.K)
        self.sent, self.received = problem.empty(*shape), problem.empty(*shape)
        super().__init__(problem, problem.empty(*problem.result_shape), self.sent, self.received)

    def call(self):
        p = self.problem
        self.sent.copy_(p.a_own.view(p.shard_rows, p.ranks, p.row.K).transpose(0, 1))
        dist.all_to_all_single(self.received, self.sent)
        torch.mm(self.received.view(p.row.M, p.row.K), p.b, out=self.out)


class SequentialExchangeAfter(Method):
    """cuBLAS, the columns of each rank are brought together, NCCL all-to-all."""

    def __init__(self, problem):
        row, ranks = problem.row, problem.ranks
        self.local = problem.empty(row.M, row.N)
        self.sent = problem.empty(ranks, row.M, row.N // ranks)
        super().__init__(problem, problem.empty(*problem.result_shape), self.local, self.sent)

    def call(self):
        p = self.problem
        torch.mm(p.a, p.b, out=self.local)
        self.sent.copy_(self.local.view(p.row.M, p.ranks, p.row.N // p.ranks).transpose(0, 1))
        dist.all_to_all_single(self.out.view(self.sent.shape), self.sent)


class Streams(Method):
    """What methods have in common that overlap by streams, in so many chunks: a stream for what is communicated, and an
    event for each chunk, when it is whole."""

    def __init__(self, problem, chunks, out, *more):
        super().__init__(problem, out, *more)
        self.chunks, self.note = chunks, f"{chunks} chunks" if chunks > 1 else "1 chunk"
        self.stream, self.begun = torch.cuda.Stream(), torch.cuda.Event()
        self.whole = [torch.cuda.Event() for _ in range(chunks)]

    def forked(self, current):
        """A context for what is communicated first, behind what `current` has by now."""
        self.begun.record(current)
        self.stream.wait_event(self.begun)
        return torch.cuda.stream(self.stream)


class StreamsGather(Streams):
    """Each chunk of the shards is gathered by NCCL on a stream of its own while another multiplies: own rows first, then
    each chunk's rows of each other rank, in place of the result, when an event says that they are there."""

    def __init__(self, problem, chunks):
        self.rows = problem.shard_rows // chunks
        self.gathered = problem.empty(chunks, problem.ranks, self.rows, problem.row.K)
        super().__init__(problem, chunks, problem.empty(*problem.result_shape), self.gathered)

    def call(self):
        p, current = self.problem, torch.cuda.current_stream()
        with self.forked(current):
            for chunk in range(self.chunks):
                shard = p.a_own[chunk * self.rows:(chunk + 1) * self.rows]
                dist.all_gather_into_tensor(self.gathered[chunk].view(-1, p.row.K), shard)
                self.whole[chunk].record(self.stream)
        torch.mm(p.a_own, p.b, out=self.out[p.rows_of(p.rank)])
        for chunk in range(self.chunks):
            current.wait_event(self.whole[chunk])
            for step in range(1, p.ranks):
                source = (p.rank + step) % p.ranks
                begin = source * p.shard_rows + chunk * self.rows
                torch.mm(self.gathered[chunk, source], p.b, out=self.out[begin:begin + self.rows])


class StreamsScatter(Streams):
    """One chunk of every rank's rows is multiplied while NCCL reduce-scatters the chunk before it on a stream of its
    own."""

    def __init__(self, problem, chunks):
        self.rows = problem.shard_rows // chunks
        self.partial = problem.empty(chunks, problem.ranks, self.rows, problem.row.N)
        super().__init__(problem, chunks, problem.empty(*problem.result_shape), self.partial)

    def call(self):
        p, current = self.problem, torch.cuda.current_stream()
        for chunk in range(self.chunks):
            for rank in range(p.ranks):
                begin = rank * p.shard_rows + chunk * self.rows
                torch.mm(p.a[begin:begin + self.rows], p.b, out=self.partial[chunk, rank])
            self.whole[chunk].record(current)
            self.stream.wait_event(self.whole[chunk])
            with torch.cuda.stream(self.stream):
                dist.reduce_scatter_tensor(self.out[chunk * self.rows:(chunk + 1) * self.rows],
                                           self.partial[chunk].view(-1, p.row.N))
        current.wait_stream(self.stream)


class StreamsReduce(Streams):
    """One chunk of rows is multiplied while NCCL all-reduces the chunk before it, in place, on a stream of its own."""

    def __init__(self, problem, chunks):
        super().__init__(problem, chunks, problem.empty(*problem.result_shape))

    def call(self):
        p, current = self.problem, torch.cuda.current_stream()
        for chunk, (rows, sums) in enumerate(zip(p.a.chunk(self.chunks), self.out.chunk(self.chunks))):
            torch.mm(rows, p.b, out=sums)
            self.whole[chunk].record(current)
            self.stream.wait_event(self.whole[chunk])
            with torch.cuda.stream(self.stream):
                dist.all_reduce(sums)
        current.wait_stream(self.stream)


class StreamsExchangeAfter(Streams):
    """One chunk of rows is multiplied while the chunk before it is exchanged on a stream of its own."""

    def __init__(self, problem, chunks):
        row, ranks = problem.row, problem.ranks
        self.local = problem.empty(row.M, row.N)
        self.sent = problem.empty(chunks, ranks, row.M // chunks, row.N // ranks)
        super().__init__(problem, chunks, problem.empty(*problem.result_shape), self.local, self.sent)

    def call(self):
        p, current = self.problem, torch.cuda.current_stream()
        of_ranks = [rows.chunk(self.chunks) for rows in self.out.chunk(p.ranks)]
        for chunk, (rows, product) in enumerate(zip(p.a.chunk(self.chunks), self.local.chunk(self.chunks))):
            torch.mm(rows, p.b, out=product)
            self.whole[chunk].record(current)
            self.stream.wait_event(self.whole[chunk])
            with torch.cuda.stream(self.stream):
                self.sent[chunk].copy_(product.view(product.shape[0], p.ranks, -1).transpose(0, 1))
                dist.all_to_all([received[chunk] for received in of_ranks], list(self.sent[chunk]))
        current.wait_stream(self.stream)


class StreamsExchangeBefore(Streams):
    """A chunk of every rank's rows is exchanged on a stream of its own while the chunk before it is multiplied."""

    def __init__(self, problem, chunks):
        self.rows = problem.shard_rows // chunks
        shape = (chunks, problem.ranks, self.rows, problem.row.K)
        self.sent, self.received = problem.empty(*shape), problem.empty(*shape)
        super().__init__(problem, chunks, problem.empty(*problem.result_shape), self.sent, self.received)

    def call(self):
        p, current = self.problem, torch.cuda.current_stream()
        with self.forked(current):
            for chunk in range(self.chunks):
                rows = p.a_own[chunk * self.rows:(chunk + 1) * self.rows]
                self.sent[chunk].copy_(rows.view(self.rows, p.ranks, p.row.K).transpose(0, 1))
                dist.all_to_all_single(self.received[chunk], self.sent[chunk])
                self.whole[chunk].record(self.stream)
        for chunk in range(self.chunks):
            current.wait_event(self.whole[chunk])
            for source in range(p.ranks):
                begin = source * p.shard_rows + chunk * self.rows
                torch.mm(self.received[chunk, source], p.b, out=self.out[begin:begin + self.rows])


class AsyncTensorParallel:
    """PyTorch's fused operators on symmetric memory. They allocate their results; the freed NaN tensors of poison()
    are what the allocator has at hand for them."""

    note = ""

    def __init__(self, problem):
        self.problem, self.out = problem, None
        self.group = dist.group.WORLD.group_name

    def call(self):
        p = self.problem
        if p.row.kind == "ag":
            _, (self.out,) = torch.ops.symm_mem.fused_all_gather_matmul(p.a_own, [p.b], 0, self.group, return_A=False)
        else:
            self.out = torch.ops.symm_mem.fused_matmul_reduce_scatter(p.a, p.b, "sum", 0, self.group)

    def poison(self):
        self.out = None
        for rows in {self.problem.row.M, self.problem.shard_rows}:
            for width in {self.problem.row.N, self.problem.row.K}:
                torch.full((rows, width), NAN, dtype=torch.bfloat16, device=self.problem.device)

    def output(self):
        return self.out


class Ours:
    """A Syncopate operator. What transfers reach stands in the operator's memory: of inputs, the caller's part was put
    there once; an output is a view of it. All else is read and written where the caller has it."""

    def __init__(self, problem, operator, note="", choice=None):
        self.problem, self.operator, self.note, self.choice = problem, operator, note, choice
        self.result = None
        bindable = {buffer.name for buffer in operator.plan.buffers if buffer.bindable}
        self.outputs = [buffer.name for buffer in operator.plan.buffers if buffer.output]
        inputs = problem.inputs()
        self.tensors = {name: tensor for name, tensor in inputs.items() if name in bindable}
        self.placed = {name: tensor for name, tensor in inputs.items() if name not in bindable}

    def take_inputs(self):
        """After the problem was filled anew. Collective: no rank may have a call under way."""
        for name, tensor in self.placed.items():
            shards = self.operator.shard(name)
            shards = shards if isinstance(shards, tuple) else (shards,)  # of a zigzag input two, side by side in `tensor`
            for shard, part in zip(shards, tensor.split([len(shard) for shard in shards])):
                shard.copy_(part)

    def call(self):
        self.result = self.operator(**self.tensors)

    def poison(self):
        """Collective, as take_inputs: peers write into what is gathered."""
        for name in self.placed:
            self.operator.buffer(name).fill_(NAN)
        self.take_inputs()
        for name in self.outputs:
            self.operator.buffer(name).fill_(NAN)

    def output(self):
        results = (self.result,) if len(self.outputs) == 1 else self.result
        return self.problem.taken(dict(zip(self.outputs, results)))


def poison_gathered(problem):
    """NaN in all rows of `a` but the rank's own."""
    for rank in range(problem.ranks):
        if rank != problem.rank:
            problem.a[problem.rows_of(rank)].fill_(NAN)


SEQUENTIAL = {"ag": SequentialGather, "rs": SequentialScatter, "ar": SequentialReduce, "a2a": SequentialExchangeBefore,
              "to_a2a": SequentialExchangeAfter}
STREAMS = {"ag": StreamsGather, "rs": StreamsScatter, "ar": StreamsReduce, "a2a": StreamsExchangeBefore,
           "to_a2a": StreamsExchangeAfter}
ASYNC_TP = ("ag", "rs")  # the operators that PyTorch has


STREAM_CHUNKS = (1, 2, 4)


class ProductProblem(checks.Problem):
    """With what a run asks of a problem of any kind."""

    def inputs(self):
        return {"a": self.a_own, "b": self.b}

    def taken(self, outputs):
        """Of an operator's, what methods give and checks take."""
        return outputs["c"]

    def exact(self):
        return checks.Exact(self)

    def reference(self):
        return checks.Reference(self)

    def methods(self, name):
        """Functions that make each a candidate for a column, of which the fastest counts."""
        kind = self.row.kind
        if name == "streams":
            return [functools.partial(STREAMS[kind], self, chunks) for chunks in STREAM_CHUNKS
                    if self.shard_rows % chunks == 0]
        makers = {"cublas": Product, "sequential": SEQUENTIAL[kind]}
        if kind in ASYNC_TP:
            makers["async_tp"] = AsyncTensorParallel
        return [functools.partial(makers[name], self)] if name in makers else []


def enable_async_tensor_parallel(device_index):
    """Symmetric memory for the default group; refuses if PyTorch would use NVLink multicast, which must stay off."""
    from torch._C._autograd import DeviceType
    from torch._C._distributed_c10d import _SymmetricMemory
    from torch.distributed._symmetric_memory import enable_symm_mem_for_group
    if _SymmetricMemory.has_multicast_support(DeviceType.CUDA, device_index):
        raise RuntimeError("PyTorch would use NVLink multicast in spite of TORCH_SYMM_MEM_DISABLE_MULTICAST=1; "
                           "AsyncTP is left out")
    enable_symm_mem_for_group(dist.group.WORLD.group_name)


class LinkPush:
    """Copy-engine pushes to the next rank, of `size` bytes, all ranks at once: what a link gives at best."""

    def __init__(self, size, rank, ranks, device):
        import torch.distributed._symmetric_memory as symmetric
        self.source = torch.ones(size, dtype=torch.uint8, device=device)
        self.target = symmetric.empty(size, dtype=torch.uint8, device=device)
        handle = symmetric.rendezvous(self.target, dist.group.WORLD.group_name)
        self.peer = handle.get_buffer((rank + 1) % ranks, (size,), torch.uint8)

    def call(self):
        self.peer.copy_(self.source)
