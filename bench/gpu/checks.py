"""Right results: inputs that every rank can make for every other, and the references that outputs are held against.

Two kinds of input. *Integers*: a few small ones, so that every sum in fp32 is exact in any order, and the only
roundings are those to bf16: results must be equal bit for bit. *Reals*: normal random numbers, on which the times are
taken too; each element of a result must be within a bound of the product in fp64.

The bound. Write p for an exact element of a product, a row of a times a column of b. Products of bf16 are exact in
fp32. A tensor core adds 16 of them at a time to the sum so far, and each of the 17 addends loses less than 2^-23 of
the largest of them; K / 16 times. The sum so far of numbers of random sign stays below 8 times its final deviation s =
sqrt(sum of (a b)^2) (eight sigma: in no element of any run). So the fp32 sum is off by at most
    e = K / 16 * 17 * 2^-23 * 8 s.
Rounding to bf16 adds 2^-8 of the value. Where nothing is reduced it is rounded once: |c - p| <= e + 2^-8 (|p| + e). A
reduction over W ranks rounds each rank's summand, and a sum at most W - 1 times: |c - sum p| <= sum e + 2^-8 W
sum(|p| + e), and a little for second-order terms. A block of 64 products missing from the sum is 8 standard deviations
of a product, which is above the bound in nearly every element.
"""
import torch

from rows import REDUCED

HALF_ULP = 2.0**-8  # bf16 has 8 significant bits
STEP = 17 / 16 * 2.0**-23 * 8
SLACK = 1.05  # s comes from a product of squares in bf16; second-order terms of the bound
INTEGERS, REALS = "integers", "reals"
COLUMNS = 4096  # of a slice of the reference


def fill(tensor, values, seed):
    """The same numbers for the same seed on every rank, whoever owns the tensor."""
    generator = torch.Generator(device=tensor.device).manual_seed(seed)
    if values == INTEGERS:
        small = torch.randint(-2, 3, tensor.shape, generator=generator, device=tensor.device, dtype=torch.int8)
        tensor.copy_(small)
    else:
        tensor.normal_(generator=generator)


def seed_of(round_, name, rank):
    return 1000 * round_ + 2 * rank + (name == "b")


class Problem:
    """A row's inputs on one rank: `a` and `b` as the local product reads them, and `a_own`, what the rank has of `a`
    before the operator: its rows, in an all-gather GEMM a view of them; in an all-to-all GEMM with the columns of all."""

    def __init__(self, row, rank, ranks, device):
        if row.M % ranks or (row.kind == "to_a2a" and row.N % ranks):
            raise ValueError(f"{row.name}: what is split must be a multiple of {ranks} ranks, as NCCL demands")
        self.row, self.rank, self.ranks, self.device = row, rank, ranks, device
        self.a = self.empty(row.M, row.K)
        self.b = self.empty(row.K, row.N)
        self.a_own = {"ag": lambda: self.a[self.rows_of(rank)],
                      "a2a": lambda: self.empty(self.shard_rows, row.K * ranks)}.get(row.kind, lambda: self.a)()

    def empty(self, *shape):
        return torch.empty(*shape, dtype=torch.bfloat16, device=self.device)

    @property
    def shard_rows(self):
        return self.row.M // self.ranks

    def rows_of(self, rank):
        return slice(rank * self.shard_rows, (rank + 1) * self.shard_rows)

    @property
    def result_shape(self):
        row, ranks = self.row, self.ranks
        return {"rs": (self.shard_rows, row.N), "to_a2a": (row.M * ranks, row.N // ranks)}.get(row.kind, (row.M, row.N))

    @property
    def is_reduced(self):
        return self.row.kind in REDUCED

    def fill(self, values, round_):
        """New inputs; equal arguments give equal inputs."""
        self.values, self.round = values, round_
        self.fill_a(self.a, self.rank)
        if self.row.kind == "a2a":
            fill(self.a_own, values, seed_of(round_, "a", self.rank))
        fill(self.b, values, seed_of(round_, "b", self.rank))

    def fill_a(self, a, rank):
        """`a` as `rank` reads it. The parts of one that is communicated have a seed each."""
        if self.row.kind == "ag":
            for shard in range(self.ranks):
                fill(a[self.rows_of(shard)], self.values, seed_of(self.round, "a", shard))
        elif self.row.kind == "a2a":
            rows = torch.empty_like(self.a_own)
            for shard in range(self.ranks):
                fill(rows, self.values, seed_of(self.round, "a", shard))
                a[self.rows_of(shard)] = rows[:, rank * self.row.K:(rank + 1) * self.row.K]
        else:
            fill(a, self.values, seed_of(self.round, "a", rank))

    def products(self):
        """(rows of this rank's result, a, b) of the products that make it up, those of the same rows as a sum in the order
        of ranks; made anew from the seeds and not from what was communicated."""
        for rank in range(self.ranks) if self.is_reduced or self.row.kind == "to_a2a" else [self.rank]:
            a, b = torch.empty_like(self.a), torch.empty_like(self.b)
            self.fill_a(a, rank)
            fill(b, self.values, seed_of(self.round, "b", rank))
            rows = slice(None)
            if self.row.kind == "rs":
                a = a[self.rows_of(self.rank)].clone()
            elif self.row.kind == "to_a2a":
                rows = slice(rank * self.row.M, (rank + 1) * self.row.M)
                b = b[:, self.rank * self.row.N // self.ranks:(self.rank + 1) * self.row.N // self.ranks].contiguous()
            yield rows, a, b


def slices(size):
    return [slice(begin, min(begin + COLUMNS, size)) for begin in range(0, size, COLUMNS)]


def expected_integers(problem):
    """The one right result for integer inputs: products exact, summands rounded to bf16, added in rank order (exact in
    fp32), rounded once."""
    total = torch.zeros(problem.result_shape, dtype=torch.float32, device=problem.device)
    for rows, a, b in problem.products():
        wide = a.double()
        for columns in slices(b.shape[1]):
            total[rows, columns] += (wide @ b[:, columns].double()).to(torch.bfloat16)
    return total.to(torch.bfloat16)


class Reference:
    """The result in fp64 and the bound of every element's error, for the problem's inputs as they are now."""

    def __init__(self, problem):
        self.value = torch.zeros(problem.result_shape, dtype=torch.float64, device=problem.device)
        e, magnitude = torch.zeros_like(self.value), torch.zeros_like(self.value)
        for rows, a, b in problem.products():
            wide, squared = a.double(), a.square()
            for columns in slices(b.shape[1]):
                product = wide @ b[:, columns].double()
                self.value[rows, columns] += product
                magnitude[rows, columns] += product.abs()
                e[rows, columns] += problem.row.K * STEP * (squared @ b[:, columns].square()).double().sqrt()
        roundings = problem.ranks if problem.is_reduced else 1
        self.bound = SLACK * (e + HALF_ULP * roundings * (magnitude + e))

    def worst(self, output):
        """The largest |error| / bound over all elements, infinity if one is not a number. At most 1 is right."""
        worst = 0.0
        for columns in slices(self.value.shape[1]):
            share = (output[:, columns].double() - self.value[:, columns]).abs() / self.bound[:, columns]
            worst = max(worst, share.nan_to_num(nan=float("inf"), posinf=float("inf")).max().item())
        return worst

    def wrong(self, output, ours):
        """"" or what is wrong."""
        worst = self.worst(output)
        return "" if worst <= 1 else f"an element is {worst:.3g} times the bound away from the fp64 result"


class Exact:
    """What integers must come to. NCCL adds in bf16: with more than two ranks its sums are within the bound, not equal."""

    def __init__(self, problem):
        self.expected = expected_integers(problem)
        self.reference = Reference(problem) if problem.ranks > 2 and problem.is_reduced else None

    def wrong(self, output, ours):
        if self.reference and not ours:
            return self.reference.wrong(output, ours)
        return difference_of_integers(output, self.expected)


def difference_of_integers(output, expected):
    """"" if equal, else how many elements are not and the first of them."""
    wrong = ~(output == expected)
    if not wrong.any():
        return ""
    row, column = wrong.nonzero()[0].tolist()
    return (f"{int(wrong.sum())} of {output.numel()} elements are wrong, the first at [{row}, {column}]: "
            f"{output[row, column].item()} instead of {expected[row, column].item()}")
