"""Every method of every kind of row gives right results, on two processes with gloo on the CPU, where streams are nothing
and one thing happens after the other; and a wrong result is found. Skipped where there is no PyTorch.
"""
import contextlib
import pathlib
import sys
import tempfile
import unittest

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("skipped: no PyTorch")
    sys.exit(0)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"))
import checks
import expert_rows
import families
import layer_rows
import layers
import memory_rows
import rows

CPU = torch.device("cpu")
RANKS = 2


class Crowded(layer_rows.Experts):
    """More tokens for some experts than their groups hold."""

    def capacity(self, ranks):
        return 320


ROWS = [rows.Row(kind, 64, 32, 64, ()) for kind in rows.KINDS]
for each in layer_rows.ATTENTION:
    ROWS += [layer_rows.Attention(each, 256, (), False, 16, 8, 64, False),
             layer_rows.Attention(each, 512, (), False, 8, 8, 128, True)]
for each in layer_rows.EXPERTS:
    ROWS += [layer_rows.Experts(each, 256, (), False, 64, 128, 8, 2), Crowded(each, 2600, (), False, 16, 32, 16, 4)]
ROWS += [layer_rows.Norm("norm_ar", 64, (), False, 96), layer_rows.Norm("norm_rs", 64, (), False, 96),
         layer_rows.Embedding("embedding", 64, (), False, 100, 96)]
ON_GPUS_ONLY = ("async_tp",)
METHODS = ("cublas", "local", "sequential", "streams", "async_tp", "context_parallel", "by_token")


class Stream:
    def wait_event(self, event):
        pass

    def wait_stream(self, stream):
        pass


class Event:
    def record(self, stream):
        pass


class LocalOperator:
    """What our kernels compute, without them."""

    def __init__(self, problem, file, arguments, settings):
        self.problem, self.compute = problem, {"bench/gpu/rms_norm.toml": self.norm,
                                               "operators/embedding_rs.toml": self.lookup,
                                               "operators/grouped_gemm_rs.toml": self.product}[file]

    def __call__(self, **tensors):
        self.compute(**tensors)

    def norm(self, x, residual, weight, y, h):
        wide = x.float() + residual.float()
        h.copy_(wide)
        y.copy_(wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + memory_rows.EPSILON) * weight.float())

    def lookup(self, ids, first, table, out):
        here = (ids - first).long()
        known = (here >= 0) & (here < len(table))
        out.copy_(torch.where(known[:, None], table[here.clamp(0, len(table) - 1)], 0))

    def product(self, x, counts, w, weights, y):
        p = self.problem
        y.zero_()
        for group, count in enumerate(counts.tolist()):
            first = group * p.routing.capacity
            used = slice(first, first + count)
            made = x[used].float() @ p.experts_w[group % p.row.experts].float()
            y[used] = (made * weights[used, None] if p.combines else made).to(torch.bfloat16)


def all_to_all(received, sent):
    """gloo has none of lists."""
    whole = torch.stack([each.contiguous() for each in sent])
    made = torch.empty_like(whole)
    dist.all_to_all_single(made, whole)
    for target, part in zip(received, made):
        target.copy_(part)


def pretend():
    torch.cuda.Stream, torch.cuda.Event = Stream, Event
    torch.cuda.current_stream, torch.cuda.stream = Stream, lambda stream: contextlib.nullcontext()
    dist.all_to_all = all_to_all
    layers.LocalOperator = memory_rows.LocalOperator = expert_rows.LocalOperator = LocalOperator


def spoilt(output):
    """One element of a result is off."""
    named = output if isinstance(output, dict) else {"": output}
    name, made = next((name, each.clone()) for name, each in named.items() if torch.is_tensor(each))
    made.view(-1)[-1] += 4 * made.abs().max() + 4
    return named | {name: made} if isinstance(output, dict) else made


def found_by(problem, method):
    """(what is wrong, methods that a spoilt result was not found of), over integers, reals and other integers."""
    wrong, blind = [], []
    for values, round_ in ((checks.INTEGERS, 2), (checks.REALS, 1), (checks.INTEGERS, 3)):
        problem.fill(values, round_)
        expected = problem.exact() if values == checks.INTEGERS else problem.reference()
        method.poison()
        dist.barrier()
        method.call()
        output = method.output()
        if output is not None:
            wrong.append(expected.wrong(output, False))
            if not expected.wrong(spoilt(output), False):
                blind.append(values)
        dist.barrier()
    return [each for each in wrong if each], blind


def run(rank, folder, made):
    pretend()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    results = {}
    for row in ROWS:
        problem = families.problem(row, rank, RANKS, CPU)
        for name in METHODS:
            if name in ON_GPUS_ONLY:
                continue
            for number, candidate in enumerate(problem.methods(name)):
                results[row.name, name, number] = found_by(problem, candidate())
    torch.save(results, f"{made}.{rank}")
    dist.destroy_process_group()


class Methods(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder) / "results"
            torch.multiprocessing.spawn(run, (folder, made), RANKS)
            cls.results = [torch.load(f"{made}.{rank}") for rank in range(RANKS)]

    def test_results_are_right_and_wrong_ones_are_found(self):
        for rank, results in enumerate(self.results):
            for what, (wrong, blind) in results.items():
                self.assertEqual((wrong, blind), ([], []), (rank, what))

    def test_nothing_was_left_out(self):
        tried = {(row.partition(":")[0], name) for row, name, _ in self.results[0]}
        for kind in families.KINDS:
            self.assertIn((kind, "sequential"), tried)
            self.assertIn((kind, "streams"), tried)
            self.assertIn((kind, "cublas" if kind in rows.KINDS else "local"), tried)
        self.assertEqual({kind for kind, name in tried if name == "context_parallel"}, set(layer_rows.ATTENTION))
        self.assertEqual({kind for kind, name in tried if name == "by_token"}, set(layer_rows.EXPERTS))


class Inputs(unittest.TestCase):
    """Of every rank, what another makes anew of them."""

    def test_the_whole_sequence_is_that_of_the_ranks(self):
        for row in ROWS:
            if row.kind in layer_rows.ATTENTION:
                made = [families.problem(row, rank, RANKS, CPU) for rank in range(RANKS)]
                for problem in made:
                    problem.fill(checks.REALS, 1)
                whole = made[1].whole("k")
                self.assertTrue(torch.equal(whole[made[0].places(0)], made[0].k))
                self.assertTrue(torch.equal(whole[made[1].places(1)], made[1].k))
                self.assertFalse(torch.equal(made[0].k, made[1].k))

    def test_groups_hold_their_tokens_and_no_more(self):
        problem = families.problem(Crowded("moe", 2600, (), False, 16, 32, 16, 4), 1, RANKS, CPU)
        problem.fill(checks.REALS, 1)
        routing = problem.routing
        self.assertTrue((routing.counts <= routing.capacity).all())
        self.assertLess(int(routing.counts.sum()), 2600 * 4)  # some were dropped
        own = routing.token[1].view(-1)
        self.assertTrue(torch.equal(problem.x[own >= 0], problem.tokens[own[own >= 0] - 1300]))
        self.assertTrue(problem.x[own < 0].isnan().all())


if __name__ == "__main__":
    unittest.main()
