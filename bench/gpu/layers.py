"""What problems and methods of layer_rows.py have in common: seeds, and how far results may be off.

A problem is what checks.Problem is to a product: a row's inputs on one rank. It has `fill(values, round)`, `inputs()`
({tensor of the operator: this rank's part of it}), exact() and reference(), what integers and reals must come to:
`wrong(output, ours)` of these is "" or what is wrong; and methods(name): functions that make each a candidate for a
method's column, of which the fastest counts. A method's output is a dictionary of the tensors it has made.
"""
import torch

import checks
import layer_choices
from methods import Method, OneRank, ROOT


def infinite_share(error, bound):
    """The largest |error| / bound; infinity where one is not a number."""
    share = torch.where(error == 0, 0.0, error.abs() / bound)
    return share.nan_to_num(nan=float("inf"), posinf=float("inf")).max().item() if share.numel() else 0.0


def verdict(name, worst):
    return "" if worst <= 1 else f"{name}: an element is {worst:.3g} times the bound away from the fp64 result"


class LayerProblem:
    def __init__(self, row, rank, ranks, device):
        if why := row.why_not(ranks):
            raise ValueError(f"{row.name}: {why}")
        self.row, self.rank, self.ranks, self.device = row, rank, ranks, device
        self.values, self.round = None, 0

    def taken(self, outputs):
        """Of an operator's outputs, what checks take."""
        return outputs

    def empty(self, *shape, dtype=torch.bfloat16):
        return torch.empty(*shape, dtype=dtype, device=self.device)

    def filled(self, name, rank, *shape):
        """A rank's part of a tensor, made anew: equal on every rank."""
        made = self.empty(*shape)
        self.fill_tensor(made, name, rank)
        return made

    def fill_tensor(self, tensor, name, rank):
        seed = 100000 * self.round + 1000 * (sum(map(ord, name)) % 97) + rank
        checks.fill(tensor, self.values, seed)

    def shard(self, rows, rank=None):
        """Of so many rows, those of a rank."""
        rank = self.rank if rank is None else rank
        return slice(rank * (rows // self.ranks), (rank + 1) * (rows // self.ranks))


class LocalOperator:
    """One of our kernels, alone on this rank's GPU, through an operator of one rank, with the constants that the row's
    operator has by default. `file` is in the project; `arguments` are the kernel's others; `settings` what else differs from the file."""

    def __init__(self, problem, file, arguments, settings):
        import syncopate
        sms = torch.cuda.get_device_properties(problem.device).multi_processor_count
        choice = layer_choices.default_choice(problem.row, problem.ranks, sms)
        arguments = {f"kernel.args.{name}": value for name, value in (arguments | dict(choice.blocks)).items()}
        plan = syncopate.compile(str(ROOT / file), arguments | settings | {
            "ranks": 1, "launch.warps": choice.warps, "launch.stages": choice.stages,
            "launch.workers": choice.sms * choice.per_sm})
        self.operator = syncopate.Operator(plan, group=OneRank(), device=problem.device)

    def __call__(self, **tensors):
        self.operator.local(**tensors)


class LayerMethod(Method):
    """`outputs`: what a call leaves; `more`: what else it writes that must be NaN before."""

    def __init__(self, problem, outputs, *more, note=""):
        super().__init__(problem, None, *more)
        self.outputs, self.note = outputs, note

    def poison(self):
        for tensor in [*self.outputs.values(), *self.written]:
            if tensor is not None and tensor.is_floating_point():
                tensor.fill_(float("nan"))

    def output(self):
        return self.outputs
