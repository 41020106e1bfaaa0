"""What is compared: each method computes one row's operator, as one call on the current stream, on every rank at once.

A method has `call()`, `output()` (the rank's result after a call; a tensor that the next call may overwrite),
`poison()` (NaN wherever a call must write) and `note` (a choice it made, "" if none). All read the inputs of one
Problem, where they stand: what an operator needs beyond that is part of its time.
"""
import torch
import torch.distributed as dist

NAN = float("nan")


class Product:
    """cuBLAS alone: the local product with everything in place. For a reduce-scatter that is one summand and no
    result, so there is nothing to compare."""

    note = ""

    def __init__(self, problem):
        self.problem = problem
        self.out = torch.empty(problem.row.M, problem.row.N, dtype=torch.bfloat16, device=problem.device)

    def call(self):
        torch.mm(self.problem.a, self.problem.b, out=self.out)

    def poison(self):
        self.out.fill_(NAN)

    def output(self):
        return self.out if self.problem.row.kind == "ag" else None


class SequentialGather:
    """NCCL all-gather, in place (the shard stands where it is gathered), then cuBLAS."""

    note = ""

    def __init__(self, problem):
        self.problem = problem
        self.out = torch.empty(problem.result_shape, dtype=torch.bfloat16, device=problem.device)

    def call(self):
        p = self.problem
        dist.all_gather_into_tensor(p.a, p.a_shard)
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
                shard = p.a_shard[chunk * self.rows:(chunk + 1) * self.rows]
                dist.all_gather_into_tensor(self.gathered[chunk].view(-1, p.row.K), shard)
                self.arrived[chunk].record(self.stream)
        torch.mm(p.a_shard, p.b, out=self.out[p.rows_of(p.rank)])
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
            _, (self.out,) = torch.ops.symm_mem.fused_all_gather_matmul(p.a_shard, [p.b], 0, self.group, return_A=False)
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
    """A Syncopate operator. The gathered `a` stands in the operator's memory, where the caller's shard was put once; a
    reduced `c` is the operator's own too, and the result a view of it. All else is read and written where the caller
    has it."""

    def __init__(self, problem, operator, note=""):
        self.problem, self.operator, self.note = problem, operator, note
        self.result = None
        self.tensors = {"b": problem.b}
        if problem.row.kind == "ag":
            self.tensors["c"] = torch.empty(problem.result_shape, dtype=torch.bfloat16, device=problem.device)
        else:
            self.tensors["a"] = problem.a

    def take_inputs(self):
        """After the problem was filled anew. Collective: no rank may have a call under way."""
        if self.problem.row.kind == "ag":
            self.operator.shard("a").copy_(self.problem.a_shard)

    def call(self):
        self.result = self.operator(**self.tensors)

    def poison(self):
        """Collective, as take_inputs: peers write into what is gathered."""
        if self.problem.row.kind == "ag":
            self.tensors["c"].fill_(NAN)
            self.operator.buffer("a").fill_(NAN)
            self.take_inputs()
        else:
            self.operator.buffer("c").fill_(NAN)

    def output(self):
        return self.result


def poison_gathered(problem):
    """NaN in all rows of `a` but the rank's own."""
    for rank in range(problem.ranks):
        if rank != problem.rank:
            problem.a[problem.rows_of(rank)].fill_(NAN)


def sequential(problem):
    return SequentialGather(problem) if problem.row.kind == "ag" else SequentialScatter(problem)


def streams(problem, chunks):
    return StreamsGather(problem, chunks) if problem.row.kind == "ag" else StreamsScatter(problem, chunks)


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
