"""Dispatch and combine of mixtures of experts: inputs, what results must be, and what people use for them.

Every token goes to top_k experts, drawn evenly from the seed, so all ranks know the groups of all. A group is what one
rank has for one expert: `capacity` rows, of which the first counts[group] are in use; what does not fit is dropped.
torch._grouped_mm wants the rows of one expert together and none between them ("compact"): row numbers for that are made
before, as counts are.

Results are compared in the layout that a method leaves them in: padded groups, compact rows, or sums by token. Integers
must be equal bit for bit, reals within the bound of checks.py, times a row's weight.
"""
import functools

import torch
import torch.distributed as dist

import checks
from layers import LayerMethod, LayerProblem, LocalOperator, infinite_share, verdict
from methods import Streams

NAN = float("nan")


class Routing:
    """Which tokens each group has. Groups stand source after source, expert after expert."""

    def __init__(self, row, ranks, device):
        self.experts, self.capacity, self.ranks = row.experts, row.capacity(ranks), ranks
        tokens = row.tokens // ranks
        generator = torch.Generator().manual_seed(1)
        self.token = torch.full((ranks, row.experts, self.capacity), -1)  # of all ranks' tokens; -1 where not in use
        self.counts = torch.zeros(ranks, row.experts, dtype=torch.int32)
        for source in range(ranks):
            drawn = torch.rand(tokens, row.experts, generator=generator).topk(row.top_k).indices
            for expert in range(row.experts):
                found = (drawn == expert).any(1).nonzero()[:self.capacity, 0]
                self.token[source, expert, :len(found)] = found + source * tokens
                self.counts[source, expert] = len(found)
        self.token, self.counts = self.token.to(device), self.counts.to(device)

    def compact(self, experts):
        """(padded rows in use, experts' ends among them) of some experts, whose groups alone are counted."""
        chosen = self.token[:, experts]
        numbers = torch.arange(chosen.numel(), device=chosen.device).view(chosen.shape).transpose(0, 1)
        ends = self.counts[:, experts].sum(0).cumsum(0).to(torch.int32)
        return numbers[chosen.transpose(0, 1) >= 0], ends

    def expert_rows(self, expert):
        """Padded rows of an expert that are in use, of all groups."""
        first = torch.arange(self.ranks, device=self.token.device)[:, None] * self.experts + expert
        rows = first * self.capacity + torch.arange(self.capacity, device=self.token.device)
        return rows[self.token[:, expert] >= 0]


class Problem(LayerProblem):
    """tokens: x as the router sees it; x: the rank's part of it in groups, or all groups, of its columns (combine)."""

    def __init__(self, row, rank, ranks, device):
        super().__init__(row, rank, ranks, device)
        self.routing = Routing(row, ranks, device)
        self.combines = row.kind == "moe_rs"
        self.group_rows = row.experts * self.routing.capacity  # of one rank
        self.all_rows = self.group_rows * ranks
        self.token_of = self.routing.token.view(-1)  # of each padded row
        self.used = self.token_of >= 0
        self.counts = self.routing.counts.view(-1)
        self.w = self.empty(row.experts * row.K, row.N)
        self.x = self.empty(self.all_rows if self.combines else self.group_rows, row.K)
        self.weights = torch.empty(self.all_rows if self.combines else 1, dtype=torch.float32, device=device)
        self.tokens = None if self.combines else self.empty(row.tokens // ranks, row.K)

    def fill(self, values, round_):
        self.values, self.round = values, round_
        if not self.combines:
            self.fill_tensor(self.tokens, "tokens", self.rank)
        self.fill_x(self.x, self.rank)
        self.fill_tensor(self.w, "w", self.rank)
        generator = torch.Generator(device=self.device).manual_seed(round_)
        if values == checks.INTEGERS:
            self.weights.copy_(torch.randint(1, 3, self.weights.shape, generator=generator, device=self.device))
        else:
            self.weights.uniform_(0.1, 1.0, generator=generator)

    def fill_x(self, x, rank):
        """Of a rank; NaN in rows that are not in use."""
        if self.combines:
            self.fill_tensor(x, "x", rank)
            x[~self.used] = NAN
        else:
            tokens = self.filled("tokens", rank, self.row.tokens // self.ranks, self.row.K)
            own = self.routing.token[rank].view(-1)
            x.copy_(tokens[(own - rank * len(tokens)).clamp_min(0)])
            x[own < 0] = NAN

    def whole_x(self):
        """Of all groups, made anew."""
        parts = self.empty(self.ranks, self.group_rows, self.row.K)
        for rank, part in enumerate(parts):
            self.fill_x(part, rank)
        return parts.view(self.all_rows, self.row.K)

    def inputs(self):
        return {"x": self.x, "counts": self.counts, "w": self.w, "weights": self.weights}

    def exact(self):
        return Expected(self)

    def reference(self):
        return Expected(self)

    def methods(self, name):
        return [lambda make=make: make(self) for make in METHODS.get(name, {}).get(self.row.kind, [])]

    @property
    def experts_w(self):
        return self.w.view(self.row.experts, self.row.K, self.row.N)

    def ranks_inputs(self):
        """(x of all groups, w) of the ranks whose products make up this rank's result, one after the other."""
        for rank in range(self.ranks) if self.combines else [self.rank]:
            x = self.filled("x", rank, self.all_rows, self.row.K) if self.combines else self.whole_x()
            yield x, self.filled("w", rank, *self.w.shape)


class Expected:
    """Of every row in use, in fp64, with its bound: |error| <= e + 2^-8 roundings (|p| + e), summed over ranks, times
    the row's weight. Integers, which are exact in any order, have a bound of nothing; each summand is rounded to bf16
    though, as is its sum. It holds the rows of this rank's result."""

    def __init__(self, problem):
        p, row = problem, problem.row
        self.problem = p
        rows = slice(p.rank * p.group_rows, (p.rank + 1) * p.group_rows) if p.combines else slice(0, p.all_rows)
        self.rows, self.used = rows, p.used[rows]
        size = (rows.stop - rows.start, row.N)
        self.value = torch.zeros(size, dtype=torch.float32, device=p.device)
        self.bound = torch.zeros(size, dtype=torch.float32, device=p.device)
        for x, w in p.ranks_inputs():
            for expert in range(row.experts):
                self.add(x, w.view(row.experts, row.K, row.N)[expert], p.routing.expert_rows(expert))
        if p.values == checks.INTEGERS:
            self.value = self.value.to(torch.bfloat16).float()

    def add(self, x, w, rows):
        p = self.problem
        rows = rows[(rows >= self.rows.start) & (rows < self.rows.stop)]
        a, b = x[rows].double(), w.double()
        weight = p.weights[rows].double()[:, None] if p.combines else 1.0
        product = (a @ b) * weight
        here = rows - self.rows.start
        if p.values == checks.INTEGERS:
            self.value[here] += product.to(torch.bfloat16).float()
            return
        e = p.row.K * checks.STEP * (a.square() @ b.square()).sqrt() * weight
        roundings = p.ranks + 1 if p.combines else 1  # the baselines round a product before its weight, too
        self.value[here] += product.float()  # loses 2^-25 of it, of the bound's 2^-8
        self.bound[here] += (checks.SLACK * (e + checks.HALF_ULP * roundings * (product.abs() + e))).float()

    def wrong(self, output, ours):
        if "y" in output:
            y = output["y"]
            if (y[~self.used] != 0).any():
                return "a row that is not in use is not zero"
            return self.difference(y[self.used], self.value[self.used], self.bound[self.used])
        if "compact" in output:
            rows, _ = self.problem.routing.compact(slice(None))
            return self.difference(output["compact"], self.value[rows], self.bound[rows])
        return self.difference(output["tokens"], *self.by_token())

    def by_token(self):
        """Sums over the rows of each of this rank's tokens, each of which may be rounded."""
        p = self.problem
        count = p.row.tokens // p.ranks
        token = p.token_of[self.rows][self.used] - p.rank * count
        value, bound, size = (torch.zeros(count, p.row.N, device=p.device) for _ in range(3))
        value.index_add_(0, token, self.value[self.used])
        bound.index_add_(0, token, self.bound[self.used])
        size.index_add_(0, token, self.value[self.used].abs())
        return value, bound + checks.HALF_ULP * (p.row.top_k + p.ranks) * size

    def difference(self, result, value, bound):
        if self.problem.values == checks.INTEGERS and (bound == 0).all():
            return checks.difference_of_integers(result, value.to(torch.bfloat16))
        return verdict("y", infinite_share(result.float() - value, bound))


# ------------------------------------------------------------------------------------------------------- local products


def experts_of_chunks(row, chunks):
    each = row.experts // chunks
    return [slice(chunk * each, (chunk + 1) * each) for chunk in range(chunks)]


def grouped_mm(x, w, ends):
    return torch._grouped_mm(x, w, offs=ends)


class OurProduct:
    """kernels/grouped_gemm.py alone, on all groups."""

    def __init__(self, problem):
        settings = {} if problem.combines else {"tensors.weights.shape": [1]}
        self.problem = problem
        arguments = problem.row.arguments(problem.ranks)
        self.kernel = LocalOperator(problem, "operators/grouped_gemm_rs.toml", arguments, settings)

    def __call__(self, x, y):
        p = self.problem
        self.kernel(x=x, counts=p.counts, w=p.w, weights=p.weights, y=y)


class LocalTorch(LayerMethod):
    """grouped_mm with rows in its order already; for a combine, times the weights. It allocates its result."""

    def __init__(self, problem):
        super().__init__(problem, {}, note="grouped_mm")
        self.rows, self.ends = problem.routing.compact(slice(None))
        self.x, self.y = None, None

    def poison(self):
        p = self.problem
        self.x = (p.x if p.combines else p.whole_x())[self.rows]
        self.weights = p.weights[self.rows].to(torch.bfloat16)[:, None] if p.combines else None

    def call(self):
        self.y = grouped_mm(self.x, self.problem.experts_w, self.ends)
        if self.weights is not None:
            self.y *= self.weights

    def output(self):
        return None if self.problem.combines else {"compact": self.y}


class LocalOurs(LayerMethod):
    def __init__(self, problem):
        self.y = problem.empty(problem.all_rows, problem.row.N)
        super().__init__(problem, {}, self.y, note="ours")
        self.product, self.x = OurProduct(problem), None

    def poison(self):
        super().poison()
        self.x = self.problem.x if self.problem.combines else self.problem.whole_x()

    def call(self):
        self.product(self.x, self.y)

    def output(self):
        return None if self.problem.combines else {"y": self.y}


# ------------------------------------------------------------------------------------------------------------- dispatch


class SequentialDispatchTorch(LayerMethod):
    """NCCL all-gather of the groups, rows brought together by expert, grouped_mm."""

    def __init__(self, problem):
        self.x = problem.empty(problem.all_rows, problem.row.K)
        super().__init__(problem, {}, self.x, note="grouped_mm")
        self.rows, self.ends = problem.routing.compact(slice(None))
        self.y = None

    def call(self):
        dist.all_gather_into_tensor(self.x, self.problem.x)
        self.y = grouped_mm(self.x[self.rows], self.problem.experts_w, self.ends)

    def output(self):
        return {"compact": self.y}


class SequentialDispatchOurs(LayerMethod):
    """NCCL all-gather of the groups, then our kernel alone."""

    def __init__(self, problem):
        self.x = problem.empty(problem.all_rows, problem.row.K)
        super().__init__(problem, {"y": problem.empty(problem.all_rows, problem.row.N)}, self.x, note="our kernel")
        self.product = OurProduct(problem)

    def call(self):
        dist.all_gather_into_tensor(self.x, self.problem.x)
        self.product(self.x, self.outputs["y"])


class StreamsDispatch(Streams):
    """Groups of some experts are gathered on a stream of its own while those before them are multiplied."""

    def __init__(self, problem, chunks):
        p, row = problem, problem.row
        self.own_rows = p.group_rows // chunks
        self.gathered = p.empty(chunks, p.ranks * self.own_rows, row.K)
        super().__init__(p, chunks, None, self.gathered)
        self.experts = experts_of_chunks(row, chunks)
        self.compact = [p.routing.compact(experts) for experts in self.experts]
        self.parts = []

    def poison(self):
        self.gathered.fill_(NAN)

    def call(self):
        p, current = self.problem, torch.cuda.current_stream()
        with self.forked(current):
            for chunk, whole in enumerate(self.whole):
                own = p.x[chunk * self.own_rows:(chunk + 1) * self.own_rows]
                dist.all_gather_into_tensor(self.gathered[chunk], own)
                whole.record(self.stream)
        self.parts = []
        for x, whole, experts, (rows, ends) in zip(self.gathered, self.whole, self.experts, self.compact):
            current.wait_event(whole)
            self.parts.append(grouped_mm(x[rows], p.experts_w[experts], ends))

    def output(self):
        return {"compact": torch.cat(self.parts)}


class DispatchByToken(LayerMethod):
    """NCCL all-gather of each token once, not of its copies in the groups; a row for each of its experts; grouped_mm."""

    def __init__(self, problem):
        self.tokens = problem.empty(problem.row.tokens, problem.row.K)
        super().__init__(problem, {}, self.tokens)
        rows, self.ends = problem.routing.compact(slice(None))
        self.token, self.y = problem.token_of[rows], None

    def call(self):
        dist.all_gather_into_tensor(self.tokens, self.problem.tokens)
        self.y = grouped_mm(self.tokens[self.token], self.problem.experts_w, self.ends)

    def output(self):
        return {"compact": self.y}


# -------------------------------------------------------------------------------------------------------------- combine


class CombineInput:
    """x by expert, as grouped_mm takes it and as a dispatch with it has left it; weights likewise."""

    def __init__(self, problem, experts=slice(None)):
        p = self.problem = problem
        rows, self.ends = p.routing.compact(experts)
        numbers = torch.arange(p.all_rows, device=p.device).view(p.ranks, p.row.experts, -1)[:, experts]
        self.rows, self.places, self.experts = numbers.reshape(-1)[rows], rows, experts
        self.padded_rows = numbers.numel()

    def take(self):
        self.x = self.problem.x[self.rows]
        self.weights = self.problem.weights[self.rows].to(torch.bfloat16)[:, None]

    def product(self):
        return grouped_mm(self.x, self.problem.experts_w[self.experts], self.ends).mul_(self.weights)


class SequentialCombineTorch(LayerMethod):
    """grouped_mm, weights, rows put back into their groups, NCCL reduce-scatter. Rows that are not in use stay zero."""

    def __init__(self, problem):
        p = problem
        super().__init__(p, {"y": p.empty(p.group_rows, p.row.N)}, note="grouped_mm")
        self.input, self.partial = CombineInput(p), torch.zeros_like(p.empty(p.all_rows, p.row.N))

    def poison(self):
        super().poison()
        self.input.take()
        self.partial[self.input.rows] = NAN

    def call(self):
        self.partial.index_copy_(0, self.input.places, self.input.product())
        dist.reduce_scatter_tensor(self.outputs["y"], self.partial)


class SequentialCombineOurs(LayerMethod):
    """Our kernel alone, then NCCL reduce-scatter."""

    def __init__(self, problem):
        p = problem
        self.partial = p.empty(p.all_rows, p.row.N)
        super().__init__(p, {"y": p.empty(p.group_rows, p.row.N)}, self.partial, note="our kernel")
        self.product = OurProduct(p)

    def call(self):
        self.product(self.problem.x, self.partial)
        dist.reduce_scatter_tensor(self.outputs["y"], self.partial)


class StreamsCombine(Streams):
    """Groups of some experts are multiplied while those before them are reduced and scattered on another stream."""

    def __init__(self, problem, chunks):
        p, row = problem, problem.row
        super().__init__(p, chunks, p.empty(p.group_rows, row.N))
        self.inputs = [CombineInput(p, experts) for experts in experts_of_chunks(row, chunks)]
        self.partial = [torch.zeros_like(p.empty(each.padded_rows, row.N)) for each in self.inputs]

    def poison(self):
        super().poison()
        for each in self.inputs:
            each.take()

    def call(self):
        current = torch.cuda.current_stream()
        for each, partial, whole, sums in zip(self.inputs, self.partial, self.whole, self.out.chunk(self.chunks)):
            partial.index_copy_(0, each.places, each.product())
            whole.record(current)
            self.stream.wait_event(whole)
            with torch.cuda.stream(self.stream):
                dist.reduce_scatter_tensor(sums, partial)
        current.wait_stream(self.stream)

    def output(self):
        return {"y": self.out}


class CombineByToken(LayerMethod):
    """grouped_mm, weights, the rows of each token added up, then NCCL reduce-scatter of one row for each token."""

    def __init__(self, problem):
        p = problem
        super().__init__(p, {"tokens": p.empty(p.row.tokens // p.ranks, p.row.N)})
        self.input = CombineInput(p)
        self.of_token = self.rows_of_tokens(p.token_of[self.input.rows])

    def rows_of_tokens(self, token):
        """[tokens, top_k]: a token's compact rows; where one was dropped, the row after the last, which is zero."""
        p = self.problem
        order = token.argsort(stable=True)
        sorted_tokens = token[order]
        nth = torch.arange(len(token), device=p.device) - torch.searchsorted(sorted_tokens, sorted_tokens)
        found = torch.full((p.row.tokens, p.row.top_k), len(token), device=p.device)
        found[sorted_tokens, nth] = order
        return found

    def poison(self):
        super().poison()
        self.input.take()
        self.zero = torch.zeros(1, self.problem.row.N, dtype=torch.bfloat16, device=self.problem.device)

    def call(self):
        rows = torch.cat([self.input.product(), self.zero])
        sums = rows[self.of_token].sum(1)
        dist.reduce_scatter_tensor(self.outputs["tokens"], sums)


# ----------------------------------------------------------------------------------------------------------- candidates


def of_chunks(make):
    return [functools.partial(make, chunks=chunks) for chunks in (1, 2, 4)]


LOCAL = [LocalTorch, LocalOurs]
METHODS = {
    "local": {"moe": LOCAL, "moe_rs": LOCAL},
    "sequential": {"moe": [SequentialDispatchTorch, SequentialDispatchOurs],
                   "moe_rs": [SequentialCombineTorch, SequentialCombineOurs]},
    "streams": {"moe": of_chunks(StreamsDispatch), "moe_rs": of_chunks(StreamsCombine)},
    "by_token": {"moe": [DispatchByToken], "moe_rs": [CombineByToken]},
}
