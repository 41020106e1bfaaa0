"""What is compared: each method computes one row's operator, as one call on the current stream, on every rank at once.

A method has `call()`, `output()` (the rank's result after a call; a tensor that the next call may overwrite),
`poison()` (NaN wherever a call must write) and `note` (a choice it made, "" if none). All read the inputs of one
Problem, where they stand: what an operator needs beyond that is part of its time.
"""
import torch
import torch.distributed as dist

NAN = float("nan")


class Product:
    """cuBLAS alone: the local product with everything in place. Where its result is reduced or sent on, there is nothing
    to compare."""

    note = ""

    def __init__(self, problem):
        self.problem = problem
        self.out = torch.empty(problem.row.M, problem.row.N, dtype=torch.bfloat16, device=problem.device)

    def call(self):
        torch.mm(self.problem.a, self.problem.b, out=self.out)

    def poison(self):
        self.out.fill_(NAN)

    def output(self):
        return self.out if self.problem.row.kind in ("ag", "a2a") else None


class SequentialGather:
    """NCCL all-gather, in place (the shard stands where it is gathered), then cuBLAS."""

    note = ""

    def __init__(self, problem):
        self.problem = problem
        self.out = torch.empty(problem.result_shape, dtype=torch.bfloat16, device=problem.device)

    def call(self):
        p = self.problem
        dist.all_gather_into_tensor(p.a, p.a_own)
        torch.mm(p.a, p.b, out=self.out)

    def poison(self):
        poison_gathered(self.problem)
        self.out.fill_(NAN)

    def output(self):
        return self.out


class SequentialScatter:
    """cuBLAS, then NCCL reduce-scatter."""

    note = ""

    def __init__(self, problem):
        self.problem = problem
        self.partial = torch.empty(problem.row.M, problem.row.N, dtype=torch.bfloat16, device=problem.device)
        self.out = torch.empty(problem.result_shape, dtype=torch.bfloat16, device=problem.device)

    def call(self):
        torch.mm(self.problem.a, self.problem.b, out=self.partial)
        dist.reduce_scatter_tensor(self.out, self.partial)

    def poison(self):
        self.partial.fill_(NAN)
        self.out.fill_(NAN)

    def output(self):
        return self.out


class SequentialReduce:
    """cuBLAS, then NCCL all-reduce, in place."""

    note = ""

    def __init__(self, problem):
        self.problem = problem
        self.out = problem.empty(*problem.result_shape)

    def call(self):
        torch.mm(self.problem.a, self.problem.b, out=self.out)
        dist.all_reduce(self.out)

    def poison(self):
        self.out.fill_(NAN)

    def output(self):
        return self.out


class SequentialExchangeBefore:
    """The columns of each rank are brought together, NCCL all-to-all, then cuBLAS."""

    note = ""

    def __init__(self, problem):
        self.problem = problem
        shape = (problem.ranks, problem.shard_rows, problem.row.K)
        self.sent, self.received = problem.empty(*shape), problem.empty(*shape)
        self.out = problem.empty(*problem.result_shape)

    def call(self):
        p = self.problem
        self.sent.copy_(p.a_own.view(p.shard_rows, p.ranks, p.row.K).transpose(0, 1))
        dist.all_to_all_single(self.received, self.sent)
        torch.mm(self.received.view(p.row.M, p.row.K), p.b, out=self.out)

    def poison(self):
        for tensor in (self.sent, self.received, self.out):
            tensor.fill_(NAN)

    def output(self):
        return self.out


class SequentialExchangeAfter:
    """cuBLAS, the columns of each rank are brought together, NCCL all-to-all."""

    note = ""

    def __init__(self, problem):
        self.problem = problem
        row, ranks = problem.row, problem.ranks
        self.local = problem.empty(row.M, row.N)
        self.sent = problem.empty(ranks, row.M, row.N // ranks)
        self.out = problem.empty(*problem.result_shape)

    def call(self):
        p = self.problem
        torch.mm(p.a, p.b, out=self.local)
        self.sent.copy_(self.local.view(p.row.M, p.ranks, p.row.N // p.ranks).transpose(0, 1))
        dist.all_to_all_single(self.out.view(self.sent.shape), self.sent)

    def poison(self):
        for tensor in (self.local, self.sent, self.out):
            tensor.fill_(NAN)

    def output(self):
        return self.out


class StreamsGather:
    """Overlap by streams: each chunk of the shards is gathered by NCCL on a stream of its own while another
    multiplies: own rows first, then each chunk's rows of each other rank, in place of the result, when an event says
    that they are there."""

    def __init__(self, problem, chunks):
        self.problem, self.chunks = problem, chunks
        self.note = f"{chunks} chunks" if chunks > 1 else "1 chunk"
        self.rows = problem.shard_rows // chunks
        self.out = torch.empty(problem.result_shape, dtype=torch.bfloat16, device=problem.device)
        shape = (chunks, problem.ranks, self.rows, problem.row.K)
        self.gathered = torch.empty(shape, dtype=torch.bfloat16, device=problem.device)
        self.stream = torch.cuda.Stream()
        self.begun = torch.cuda.Event()
        self.arrived = [torch.cuda.Event() for _ in range(chunks)]

    def call(self):
        p, current = self.problem, torch.cuda.current_stream()
        self.begun.record(current)
        self.stream.wait_event(self.begun)
        with torch.cuda.stream(self.stream):
            for chunk in range(self.chunks):
                shard = p.a_own[chunk * self.rows:(chunk + 1) * self.rows]
                dist.all_gather_into_tensor(self.gathered[chunk].view(-1, p.row.K), shard)
                self.arrived[chunk].record(self.stream)
        torch.mm(p.a_own, p.b, out=self.out[p.rows_of(p.rank)])
        for chunk in range(self.chunks):
            current.wait_event(self.arrived[chunk])
            for step in range(1, p.ranks):
                source = (p.rank + step) % p.ranks
                begin = source * p.shard_rows + chunk * self.rows
                torch.mm(self.gathered[chunk, source], p.b, out=self.out[begin:begin + self.rows])

    def poison(self):
        self.gathered.fill_(NAN)
        self.out.fill_(NAN)

    def output(self):
        return self.out


class StreamsScatter:
    """Overlap by streams: one chunk of every rank's rows is multiplied while NCCL reduce-scatters the chunk before it
    on a stream of its own."""

    def __init__(self, problem, chunks):
        self.problem, self.chunks = problem, chunks
        self.note = f"{chunks} chunks" if chunks > 1 else "1 chunk"
        self.rows = problem.shard_rows // chunks
        self.out = torch.empty(problem.result_shape, dtype=torch.bfloat16, device=problem.device)
        shape = (chunks, problem.ranks, self.rows, problem.row.N)
        self.partial = torch.empty(shape, dtype=torch.bfloat16, device=problem.device)
        self.stream = torch.cuda.Stream()
        self.multiplied = [torch.cuda.Event() for _ in range(chunks)]

    def call(self):
        p, current = self.problem, torch.cuda.current_stream()
        for chunk in range(self.chunks):
            for rank in range(p.ranks):
                begin = rank * p.shard_rows + chunk * self.rows
                torch.mm(p.a[begin:begin + self.rows], p.b, out=self.partial[chunk, rank])
            self.multiplied[chunk].record(current)
            self.stream.wait_event(self.multiplied[chunk])
            with torch.cuda.stream(self.stream):
                dist.reduce_scatter_tensor(self.out[chunk * self.rows:(chunk + 1) * self.rows],
                                           self.partial[chunk].view(-1, p.row.N))
        current.wait_stream(self.stream)

    def poison(self):
        self.partial.fill_(NAN)
        self.out.fill_(NAN)

    def output(self):
        return self.out


class StreamsProducer:
    """Overlap by streams where the product comes first: one chunk of its rows is multiplied while the chunk before it is
    reduced, or exchanged, on a stream of its own."""

    def __init__(self, problem, chunks):
        self.problem, self.chunks = problem, chunks
        self.note = f"{chunks} chunks" if chunks > 1 else "1 chunk"
        self.rows = problem.row.M // chunks
        self.local = problem.empty(problem.row.M, problem.row.N)
        if problem.row.kind == "ar":
            self.out, self.sent = self.local, None
        else:
            self.out = problem.empty(*problem.result_shape)
            self.sent = problem.empty(chunks, problem.ranks, self.rows, problem.row.N // problem.ranks)
        self.stream = torch.cuda.Stream()
        self.multiplied = [torch.cuda.Event() for _ in range(chunks)]

    def call(self):
        p, current = self.problem, torch.cuda.current_stream()
        for chunk in range(self.chunks):
            rows = slice(chunk * self.rows, (chunk + 1) * self.rows)
            torch.mm(p.a[rows], p.b, out=self.local[rows])
            self.multiplied[chunk].record(current)
            self.stream.wait_event(self.multiplied[chunk])
            with torch.cuda.stream(self.stream):
                if p.row.kind == "ar":
                    dist.all_reduce(self.out[rows])
                else:
                    self.exchange(chunk, rows)
        current.wait_stream(self.stream)

    def exchange(self, chunk, rows):
        p = self.problem
        self.sent[chunk].copy_(self.local[rows].view(self.rows, p.ranks, -1).transpose(0, 1))
        received = [self.out[rank * p.row.M + rows.start:rank * p.row.M + rows.stop] for rank in range(p.ranks)]
        dist.all_to_all(received, list(self.sent[chunk]))

    def poison(self):
        for tensor in (self.local, self.out, self.sent):
            if tensor is not None:
                tensor.fill_(NAN)

    def output(self):
        return self.out


class StreamsExchangeBefore:
    """Overlap by streams: a chunk of every rank's rows is exchanged on a stream of its own while the chunk before it is
    multiplied."""

    def __init__(self, problem, chunks):
        self.problem, self.chunks = problem, chunks
        self.note = f"{chunks} chunks" if chunks > 1 else "1 chunk"
        self.rows = problem.shard_rows // chunks
        shape = (chunks, problem.ranks, self.rows, problem.row.K)
        self.sent, self.received = problem.empty(*shape), problem.empty(*shape)
        self.out = problem.empty(*problem.result_shape)
        self.stream = torch.cuda.Stream()
        self.begun = torch.cuda.Event()
        self.arrived = [torch.cuda.Event() for _ in range(chunks)]

    def call(self):
        p, current = self.problem, torch.cuda.current_stream()
        self.begun.record(current)
        self.stream.wait_event(self.begun)
        with torch.cuda.stream(self.stream):
            for chunk in range(self.chunks):
                rows = p.a_own[chunk * self.rows:(chunk + 1) * self.rows]
                self.sent[chunk].copy_(rows.view(self.rows, p.ranks, p.row.K).transpose(0, 1))
                dist.all_to_all_single(self.received[chunk], self.sent[chunk])
                self.arrived[chunk].record(self.stream)
        for chunk in range(self.chunks):
            current.wait_event(self.arrived[chunk])
            for source in range(p.ranks):
                begin = source * p.shard_rows + chunk * self.rows
                torch.mm(self.received[chunk, source], p.b, out=self.out[begin:begin + self.rows])

    def poison(self):
        for tensor in (self.sent, self.received, self.out):
            tensor.fill_(NAN)

    def output(self):
        return self.out


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

    def __init__(self, problem, operator, note=""):
        self.problem, self.operator, self.note = problem, operator, note
        self.result = None
        bindable = {buffer.name for buffer in operator.plan.buffers if buffer.bindable}
        inputs = {"a": problem.a_own, "b": problem.b}
        self.tensors = {name: tensor for name, tensor in inputs.items() if name in bindable}
        self.placed = {name: tensor for name, tensor in inputs.items() if name not in bindable}
        if "c" in bindable:
            self.tensors["c"] = problem.empty(*problem.result_shape)

    def take_inputs(self):
        """After the problem was filled anew. Collective: no rank may have a call under way."""
        for name, tensor in self.placed.items():
            self.operator.shard(name).copy_(tensor)

    def call(self):
        self.result = self.operator(**self.tensors)

    def poison(self):
        """Collective, as take_inputs: peers write into what is gathered."""
        for name in self.placed:
            self.operator.buffer(name).fill_(NAN)
        self.take_inputs()
        self.operator.buffer("c").fill_(NAN)

    def output(self):
        return self.result


def poison_gathered(problem):
    """NaN in all rows of `a` but the rank's own."""
    for rank in range(problem.ranks):
        if rank != problem.rank:
            problem.a[problem.rows_of(rank)].fill_(NAN)


SEQUENTIAL = {"ag": SequentialGather, "rs": SequentialScatter, "ar": SequentialReduce, "a2a": SequentialExchangeBefore,
              "to_a2a": SequentialExchangeAfter}
STREAMS = {"ag": StreamsGather, "rs": StreamsScatter, "ar": StreamsProducer, "a2a": StreamsExchangeBefore,
           "to_a2a": StreamsProducer}
ASYNC_TP = ("ag", "rs")  # the operators that PyTorch has


def sequential(problem):
    return SEQUENTIAL[problem.row.kind](problem)


def streams(problem, chunks):
    return STREAMS[problem.row.kind](problem, chunks)


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
