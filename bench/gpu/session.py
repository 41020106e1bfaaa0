"""One process among the ranks: what they agree on, and how a sample is taken."""
import datetime
import os
import time
import traceback

import torch
import torch.distributed as dist

import figures

DEFECTS = (TypeError, AttributeError, NameError, LookupError, AssertionError)  # more likely ours than the machine's


class Guarded:
    """A call that never raises, so that the ranks stay in step: after the first error, which it keeps, it does
    nothing."""

    def __init__(self, call):
        self.inner, self.error = call, ""

    def __call__(self):
        if not self.error:
            try:
                self.inner()
            except Exception as exception:
                self.error = text_of(exception)


def text_of(exception):
    if isinstance(exception, DEFECTS):
        traceback.print_exception(exception)
    return f"{type(exception).__name__}: {exception}"


class Session:
    """This process among the ranks."""

    def __init__(self, share, timeout_s):
        self.share = share
        torch.cuda.set_device(0 if share else int(os.environ["LOCAL_RANK"]))
        self.device = torch.device("cuda", torch.cuda.current_device())
        # NCCL refuses two ranks on one GPU. What is not a tensor goes over gloo in both cases.
        limit = datetime.timedelta(seconds=timeout_s)
        dist.init_process_group("gloo" if share else "cpu:gloo,cuda:nccl", timeout=limit)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.begin = time.monotonic()
        self.token = torch.zeros(1, device="cpu" if share else self.device)

    def say(self, text):
        if self.rank == 0:
            print(f"[{time.monotonic() - self.begin:5.0f} s] {text}", flush=True)

    def of_all(self, value):
        """The values of all ranks, by rank."""
        values = [None] * self.ranks
        dist.all_gather_object(values, value)
        return values

    def seconds(self):
        """Since the start, by rank 0's clock, the same on every rank."""
        return self.of_all(time.monotonic() - self.begin)[0]

    def quiesce(self):
        """No rank has anything under way."""
        torch.cuda.synchronize()
        self.of_all(None)

    def meet(self):
        """The ranks' streams begin what follows together, as nearly as they can."""
        if self.share:
            torch.cuda.synchronize()
        dist.all_reduce(self.token)

    def first_error(self, error):
        """The error of the lowest rank that has one, with its name; "" if none has. Collective, as agreed() and
        quick_us()."""
        return next((f"rank {rank}: {each}" for rank, each in enumerate(self.of_all(error)) if each), "")

    def agreed(self, what, *arguments):
        """(result, "") of a function that all ranks call, or (None, error) on all of them if it failed on any.
        Collectives in it must come before what may fail on one rank alone."""
        result, error = None, ""
        try:
            result = what(*arguments)
        except Exception as exception:
            error = text_of(exception)
        error = self.first_error(error)
        return (None, error) if error else (result, "")

    def sample(self, call, calls):
        """Microseconds of one of `calls` back-to-back calls, on this rank's GPU and on its host, which only issues."""
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        call()
        self.meet()
        begin.record()
        host = time.perf_counter()
        for _ in range(calls):
            call()
        host = time.perf_counter() - host
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / calls, host * 1e6 / calls

    def sample_us(self, call, calls):
        return self.sample(call, calls)[0]

    def quick_us(self, call, samples=3, least_us=3000.0):
        """(us, "") or (None, error), the same on all ranks: the median of a few samples of the slowest rank after a
        warm-up, for choosing."""
        guarded = Guarded(call)
        for _ in range(2):
            guarded()
        one = max(self.of_all(self.sample_us(guarded, 2)))
        calls = figures.calls_per_sample(one, least_us)
        taken = figures.slowest_rank(self.of_all([self.sample_us(guarded, calls) for _ in range(samples)]))
        error = self.first_error(guarded.error)
        return (None, error) if error else (figures.median(taken), "")
