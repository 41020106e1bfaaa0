"""One rank of a scenario of gpu_test.py. Usage, on every rank: gpu_worker.py SCENARIO [--share] [--cache DIR]

Exits 0 if all was as expected; else says what was not.
"""
import argparse
import itertools
import os
import pathlib
import signal
import sys
import time

import torch
import torch.distributed as dist

import syncopate

OPERATORS = pathlib.Path(__file__).resolve().parents[2] / "operators"
NAN = float("nan")
SIZES = {"kernel.args.M": 1024, "kernel.args.N": 512, "kernel.args.K": 512}


def expect(holds, what):
    if not holds:
        raise AssertionError(f"rank {dist.get_rank()}: {what}")


def error_of(act, kind=syncopate.Error):
    try:
        act()
    except kind as error:
        expect(type(error) is kind, f"{kind.__name__} expected, got {type(error).__name__}: {error}")
        return str(error)
    raise AssertionError(f"rank {dist.get_rank()}: no error")


def everyone(item):
    items = [None] * dist.get_world_size()
    dist.all_gather_object(items, item)
    return items


def plan_of(name, settings=None):
    return syncopate.compile(OPERATORS / f"{name}.toml", SIZES | {"ranks": dist.get_world_size()} | (settings or {}))


class Problem:
    """An operator with inputs that change from call to call, and what must come of them. Every rank makes the inputs of
    all ranks, so that each can check its own result."""

    def __init__(self, name, options, settings=None):
        self.name, self.gathers = name, name.startswith("ag_")
        self.plan = plan_of(name, settings)
        self.operator = syncopate.Operator(self.plan, share=options.share, cache=options.cache,
                                           time_limit=options.time_limit)
        self.rank, self.ranks = self.operator.rank, self.plan.ranks
        self.device = self.operator.device

    def inputs(self, seed):
        """a and b of every rank: [(a, b)], for a gathering operator the same `a`, whole, for all."""
        generator = torch.Generator(self.device).manual_seed(1000 + seed)

        def random(shape):
            return torch.randn(shape, generator=generator, device=self.device).to(torch.bfloat16)

        a_shape, b_shape = self.plan.buffer("a").shape, self.plan.buffer("b").shape
        if self.gathers:
            a = random(a_shape)
            return [(a, random(b_shape)) for _ in range(self.ranks)]
        return [(random(a_shape), random(b_shape)) for _ in range(self.ranks)]

    def own(self, inputs):
        a, b = inputs[self.rank]
        return (a[self.plan.buffer("a").held[self.rank]] if self.gathers else a), b

    def poison(self):
        self.operator.output("c").fill_(NAN)

    def call(self, inputs):
        self.poison()
        a, b = self.own(inputs)
        return self.operator(a=a, b=b)

    def check(self, got, inputs, what):
        """Every element against fp64, within what rounding can do: each summand and each sum to bf16 (2^-9 of it), each
        product's additions in fp32 (2^-24 of the sum of magnitudes for each of K)."""
        expect(got.shape == self.operator.output("c").shape, f"{what}: shape {tuple(got.shape)}")
        pairs = [inputs[self.rank]] if self.gathers else inputs
        rows = self.plan.buffer("c").outputs[self.rank][0]
        exact, bound = 0, 0
        for a, b in pairs:
            a, b = a[rows].double(), b.double()
            product = a @ b
            exact = exact + product
            bound = bound + (2.0**-8 * product.abs() * len(pairs) + a.shape[1] * 2.0**-24 * (a.abs() @ b.abs()))
        error = (got.double() - exact).abs()
        wrong = ~(error <= bound)  # NaN is wrong too
        expect(not wrong.any(), f"{what}: {int(wrong.sum())} of {wrong.numel()} elements wrong, first at "
                                f"{wrong.nonzero()[0].tolist() if wrong.any() else None}")


# ------------------------------------------------------------------------------------------------- scenarios


def right(options):
    """Every operator by every route: one call checked, then 200 back to back with changing inputs, each checked."""
    routes = list(itertools.product(("direct", "ring"), ("push", "pull")))
    for name, tensor in (("ag_gemm", "a"), ("gemm_rs", "c"), ("ag_gemm_pointers", "a"), ("gemm_rs_pointers", "c")):
        for algorithm, initiator in routes if name in ("ag_gemm", "gemm_rs") else routes[:1]:
            what = f"{name}, {algorithm}, {initiator}"
            problem = Problem(name, options, {f"communicate.{tensor}.algorithm": algorithm,
                                              f"communicate.{tensor}.initiator": initiator})
            inputs = [problem.inputs(seed) for seed in range(8)]
            problem.check(problem.call(inputs[0]), inputs[0], f"{what}, first call")
            kept = [problem.call(inputs[i % 8]).clone() for i in range(options.calls)]
            problem.operator.synchronize()
            for i, got in enumerate(kept):
                problem.check(got, inputs[i % 8], f"{what}, call {i + 2}")
            problem.operator.close()
            if dist.get_rank() == 0:
                print(f"{what}: {options.calls + 1} calls right", flush=True)


def ragged(options):
    """Sizes that tiles and chunks do not divide."""
    for name, tensor in (("ag_gemm", "a"), ("gemm_rs", "c")):
        problem = Problem(name, options, {"kernel.args.M": 1000, f"communicate.{tensor}.split": 3})
        for seed in range(5):
            inputs = problem.inputs(seed)
            problem.check(problem.call(inputs).clone(), inputs, f"{name}, ragged, call {seed + 1}")
        problem.operator.close()


def captured(options):
    """A call captured by torch.cuda.graph, replayed with changing inputs; then plain calls again."""
    for name in ("ag_gemm", "gemm_rs"):
        problem = Problem(name, options)
        inputs = [problem.inputs(seed) for seed in range(5)]
        own_a, own_b = (tensor.clone() for tensor in problem.own(inputs[0]))
        problem.operator(a=own_a, b=own_b)
        torch.cuda.synchronize()
        a = problem.operator.shard("a")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = problem.operator()
        for i in range(100):
            problem.poison()
            new_a, new_b = problem.own(inputs[i % 5])
            a.copy_(new_a)
            own_b.copy_(new_b)
            graph.replay()
            problem.check(out, inputs[i % 5], f"{name}, replay {i + 1}")
        problem.operator.check()
        problem.check(problem.call(inputs[3]), inputs[3], f"{name}, after the replays")
        torch.cuda.synchronize()
        del graph
        problem.operator.close()


def local(options):
    """The local kernel alone: over whole tensors as they lie, with no other rank, captured too."""
    for name in ("ag_gemm", "gemm_rs", "gemm_rs_pointers"):
        problem = Problem(name, options)
        op, rank = problem.operator, dist.get_rank()
        a, b = problem.inputs(0)[rank]  # a gathered input is whole here
        if "a" in op._local:
            op.local(a=a, b=b, **({} if "c" not in op._local else {"c": op.buffer("c")}))
        else:
            op.buffer("a").copy_(a)
            op.local(b=b)
        product, got = a.double() @ b.double(), op.buffer("c")

        def check(what):
            error = (got.double() - product).abs()
            bound = 2.0**-8 * product.abs() + a.shape[1] * 2.0**-24 * (a.double().abs() @ b.double().abs())
            expect(bool((error <= bound).all()), f"{name}, local kernel, {what}")

        check("alone")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            op.local()
        got.fill_(NAN)
        graph.replay()
        check("replayed")
        if rank == 0:  # not collective
            op.local()
        torch.cuda.synchronize()
        inputs = problem.inputs(1)
        problem.check(problem.call(inputs), inputs, f"{name}, a call after the local kernel")
        if "a" not in op._local:
            expect("tensor a lives in the operator's memory" in error_of(lambda: op.local(a=a, b=b)), "a was passed")
        expect("has no tensor 'd'" in error_of(lambda: op.local(d=b)), "an unknown tensor")
        torch.cuda.synchronize()
        del graph
        op.close()


def mistakes(options):
    """Every wrong argument is an error that says so, and harms nothing."""
    problem = Problem("ag_gemm", options)
    op, inputs = problem.operator, problem.inputs(0)
    a, b = problem.own(inputs)
    texts = {
        "tensor b was never passed": lambda: op(a=a),
        "has no tensor 'd'; it has a, b, c": lambda: op(a=a, b=b, d=b),
        "tensor b: dtype bf16 expected, got fp32": lambda: op(a=a, b=b.float()),
        "tensor b: shape 512 x 512 expected, got 512 x 256": lambda: op(a=a, b=b[:, :256].contiguous()),
        "tensor b: strides (512, 1) expected, got (1, 512)": lambda: op(a=a, b=b.t()),
        f"tensor b: device cuda:{op.device.index} expected, got the CPU": lambda: op(a=a, b=b.cpu()),
        "tensor b: address divisible by 16 expected": lambda: op(a=a, b=torch.empty(
            b.numel() + 1, dtype=b.dtype, device=b.device)[1:].view(b.shape)),
        "tensor b: a dense torch tensor expected, got list": lambda: op(a=a, b=[1]),
        "tensor a: dtype torch.bfloat16 expected, got torch.float32": lambda: op(a=a.float(), b=b),
        "tensor a: shape (512, 512) expected": lambda: op(a=inputs[0][0], b=b),
        "tensor a: device": lambda: op(a=a.cpu(), b=b),
        "tensor c is no input": lambda: op.shard("c"),
        "tensor b is no output": lambda: op.output("b"),
    }
    for text, act in texts.items():
        said = error_of(act)
        expect(text in said, f"'{text}' is not in: {said}")
    problem.check(problem.call(inputs), inputs, "after the mistakes")
    out = torch.full(problem.plan.buffer("c").shape, NAN, dtype=torch.bfloat16, device=op.device)
    expect(op(a=a, b=b, c=out).data_ptr() == out.data_ptr(), "the output that was passed is not what came back")
    problem.check(out, inputs, "an output that was passed")
    op.close()

    reduced = Problem("gemm_rs", options)
    said = error_of(lambda: reduced.operator(c=reduced.operator.buffer("c")))
    expect("tensor c lives in the operator's memory" in said, said)
    reduced.operator.close()

    rank, ranks = dist.get_rank(), dist.get_world_size()
    plan = plan_of("ag_gemm")
    alike = {
        f"the plan has {ranks + 1} ranks and the group {ranks} processes":
            lambda: syncopate.Operator(plan_of("ag_gemm", {"ranks": ranks + 1}), share=options.share, cache=options.cache),
        "rank 1 cannot prepare the operator:":
            lambda: syncopate.Operator(plan, share=options.share, cache=options.cache,
                                       python="/no/such/python" if rank == 1 else None),
        "ranks 0 and 1 have different plans":
            lambda: syncopate.Operator(plan_of("ag_gemm", {"kernel.args.N": 256 if rank == 1 else 512}),
                                       share=options.share, cache=options.cache),
    }
    if options.share:
        alike["ranks 0 and 1 are on the same GPU"] = lambda: syncopate.Operator(plan, cache=options.cache)
    for text, act in alike.items():
        said = everyone(error_of(act))
        expect(set(said) == {said[0]} and text in said[0], f"'{text}' expected on all ranks, got {said}")
    expect(torch.cuda.current_device() == options.device, "torch's current device was changed")


def withheld(options):
    """A transfer that does not happen: every rank raises, in the same words, within the limit and a second."""
    limit = 2.0
    for name in ("ag_gemm", "gemm_rs"):
        plan = plan_of(name)
        rank = dist.get_rank()
        op = syncopate.Operator(plan, share=options.share, cache=options.cache, time_limit=limit,
                                withhold=(0, 0, 3) if rank == 0 else None)
        arguments = {buffer.name: torch.ones(op.shard(buffer.name).shape, dtype=torch.bfloat16, device=op.device)
                     for buffer in plan.buffers if buffer.input}
        for _ in range(2):
            op(**arguments)
        op.synchronize()
        dist.barrier()
        begin = time.monotonic()
        # Nothing withheld is missing on rank 0 itself, whose launch is complete; its next one waits for the others.
        for _ in range(2):
            op(**arguments)
        said = error_of(op.synchronize, syncopate.LaunchFailed)
        seconds = time.monotonic() - begin
        expect(seconds < limit + 1, f"{name}: it took {seconds:.2f} s with a limit of {limit}")
        torch.cuda.synchronize()  # nothing hangs
        said = everyone(said)
        expect(len(set(said)) == 1, f"{name}: different words: {said}")
        for part in ("rank ", "flag", "expected", "seen"):
            expect(part in said[0], f"'{part}' is not in: {said[0]}")
        expect(error_of(lambda: op(**arguments), syncopate.LaunchFailed) == said[0], "a further call says something else")
        expect(error_of(op.check, syncopate.LaunchFailed) == said[0], "check says something else")
        if rank == 0:
            print(f"{name}, {seconds:.2f} s with a limit of {limit}: {said[0]}", flush=True)
        op.close()


def killed(options):
    """Rank 1 dies; rank 0 raises, well within the time limit. Not under torchrun, which would end rank 0 as well."""
    problem = Problem("ag_gemm", options)
    inputs = problem.inputs(0)
    problem.check(problem.call(inputs), inputs, "before")
    problem.operator.synchronize()
    dist.barrier()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()

    def go_on():
        while time.monotonic() - begin < 20:
            problem.call(inputs)
            problem.operator.synchronize()

    said = error_of(go_on, syncopate.LaunchFailed)
    seconds = time.monotonic() - begin
    expect("rank 1: its process (" in said and "has died" in said, said)
    expect(seconds < 5, f"it took {seconds:.1f} s")
    print(f"{seconds:.2f} s: {said}", flush=True)
    os._exit(0)  # gloo would complain of its dead peer


def again(options):
    """Operators made and closed again and again leave no memory behind; one that goes by itself does not either."""
    def once(close):
        problem = Problem("gemm_rs", options)
        inputs = problem.inputs(0)
        problem.check(problem.call(inputs), inputs, "in the loop")
        if close:
            problem.operator.close()

    for i in range(3):
        once(close=True)
    torch.cuda.synchronize()
    dist.barrier()
    before = torch.cuda.mem_get_info()[0]
    for i in range(6):
        once(close=i % 2 == 0)
    dist.barrier()
    after = torch.cuda.mem_get_info()[0]
    expect(before - after < 64 << 20, f"{(before - after) >> 20} MiB of the GPU are gone")
    expect(not list(pathlib.Path("/dev/shm").glob(f"syncopate-{os.getpid()}-*")), "shared memory was left behind")


def cost(options):
    """Host time of a call, for people; a loose bar here, since machines differ."""
    problem = Problem("ag_gemm", options)
    inputs = problem.inputs(0)
    problem.call(inputs)
    problem.operator.synchronize()
    samples = []
    for _ in range(20):
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(20):
            problem.operator()
        samples.append((time.perf_counter() - begin) / 20 * 1e6)
        problem.operator.synchronize()
    median = sorted(samples)[len(samples) // 2]
    print(f"rank {dist.get_rank()}: {median:.1f} us of host time for a call from Python", flush=True)
    expect(median < 200, f"{median:.0f} us of host time for a call")


def main():
    parser = argparse.ArgumentParser()
    scenarios = [right, ragged, captured, local, mistakes, withheld, killed, again, cost]
    parser.add_argument("scenario", choices=[scenario.__name__ for scenario in scenarios])
    parser.add_argument("--share", action="store_true")
    parser.add_argument("--cache", required=True)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--time-limit", type=float, default=10.0)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    options.device = 0 if options.share else dist.get_rank()
    torch.cuda.set_device(options.device)
    next(scenario for scenario in scenarios if scenario.__name__ == options.scenario)(options)
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
