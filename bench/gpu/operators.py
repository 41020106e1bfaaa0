#!/usr/bin/env python3
"""Fused operators beside what people use, all in one run: times, right results, a table.

    torchrun --nproc-per-node 2 bench/gpu/operators.py --search --json operators.json --markdown operators.md
    torchrun --nproc-per-node 2 bench/gpu/operators.py --share --rows table     # ranks on one GPU: ours and cuBLAS only

Columns: cuBLAS alone (the product with everything in place, one term of the bound), of rows that are no products local
alone (the fastest that people use on one GPU); sequential (NCCL, then that, or the other way round); streams (chunks on
two streams); AsyncTP (PyTorch's fused operators on symmetric memory); context parallel (its ring attention); by token
(of experts: each token travels once); ours. For each row, every method first computes integers, which must come out
equal bit for bit (checks.py; attention_rows.py, expert_rows.py, memory_rows.py for their kinds), then the random
numbers that it is timed on, held against fp64, each time into memory filled with NaN. A method that is wrong has no
time. Where a column has several candidates the fastest counts, and the cell says which.

A sample is a number of back-to-back calls between two events, at least --sample-ms long; before it the ranks meet and
one call runs untimed. Samples of all methods are taken in turn, so that they share the card's power and clocks. A
sample's time is that of the slowest rank; a method's, the median over its samples.

NVLink multicast is never used: this program turns it off in NCCL, PyTorch and NVSHMEM before it loads them.
"""
import os

os.environ.update(NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1", NVSHMEM_DISABLE_NVLS="1")
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # as syncopate does, which is imported after CUDA is used

import contextlib
import dataclasses
import datetime
import functools
import gc
import json
import math
import pathlib
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "python"))  # for a package built in place; one that is installed comes first

from needs import need
from operators_options import parse

if __name__ == "__main__":
    OPTIONS = parse(sys.argv[1:], __doc__)  # --help, and what is wrong with an option, where there is no torch
    need("torch")

import torch
import torch.distributed as dist

import checks
import families
import figures
import methods
import rows
import tuning
from session import Guarded, Session, text_of

FREE_SMS = 4  # what a GPU that several ranks share must keep free for copies; tried also where one rank has it
FAILURES = 3  # rows without a result of ours, from the first on, that end a run
BUILDERS = 8  # compilers that one rank runs at once
PLAY_OFF_SAMPLES = 5
HEAT_MS = 250  # of work before a play-off
LINK_BYTES = (64 << 20, 256 << 20)


class Bench:
    """What is the same for all rows."""

    def __init__(self, session, options):
        self.session, self.options = session, options
        self.methods = options.methods
        sms = torch.cuda.get_device_properties(session.device).multi_processor_count
        shared = (sms - FREE_SMS) // session.ranks
        self.sms = [shared] if session.share else [sms, sms - FREE_SMS]  # that a rank may have
        self.local = tuning.read_local_products()
        self.tuned = tuning.read_tuned(options.tuned)
        self.found = {}  # by this run's searches
        self.plans = {}  # made ahead: (row, choice) -> plan
        self.broken = set()  # (kind, kernel) that do not compile
        self.link_rate = None  # bytes per second
        self.machine = {}  # for people: what all this was measured on

    # ------------------------------------------------------------------------------------------------- ours

    def compile(self, row, choice, ranks):
        import syncopate
        file = ROOT / "operators" / choice.operator_file(row)
        return syncopate.compile(str(file), families.settings(row, choice, ranks, self.session.ranks))

    def build_ahead(self, chosen):
        """Puts the kernels that the rows may need into Syncopate's cache, many at a time. A kernel's text is the same
        for all sizes, so each is built as a tiny operator."""
        session, begin = self.session, time.monotonic()
        needed = set()
        for row in chosen:
            walk = self.walk(row) if self.options.search else ()
            needed |= {self.job(row, code) for code in tuning.machine_codes_of([self.choice_for(row)[0]], walk)}
        jobs = sorted(needed, key=lambda job: (job[0].name, job[1], job[2].name))

        def build(job):
            try:
                self.build_alone(*job)
                return job, ""
            except Exception as exception:
                return job, text_of(exception)

        with ThreadPoolExecutor(BUILDERS) as pool:
            built = list(pool.map(build, jobs[session.rank::session.ranks]))
        built = [each for of_rank in session.of_all(built) for each in of_rank]
        good = {row.kind for (row, _, _), error in built if not error}
        for job, error in built:
            row, _, code = job
            if error:
                session.say(f"  {families.KINDS[row.kind]}, {code.name}: {error.splitlines()[0]}")
            # Where none of a kind was built it is not the kernels; let the rows say what it is.
            if error and row.kind in good:
                self.broken.add(job)
        session.say(f"{len(jobs) - len(self.broken)} of {len(jobs)} kernels built in {time.monotonic() - begin:.0f} s")

    def job(self, row, choice):
        """(row, ranks, choice) that stand for all that have the same machine code."""
        code = choice.machine_code
        return (*families.tiny(row, code, self.session.ranks), code)

    def build_alone(self, row, ranks, code):
        import syncopate
        group = methods.OneRank() if ranks == 1 else methods.Unmet(self.session.rank, ranks)
        with contextlib.suppress(methods.Built):
            syncopate.Operator(self.compile(row, code, ranks), group=group, device=self.session.device,
                               share=self.session.share and ranks > 1).close()

    def walk(self, row):
        return families.axes(row, self.sms, self.local, self.options.axes)

    def plan_ahead(self, row, choices):
        """Large plans take seconds. Errors are left for when the plan is asked for."""
        def compiled(choice):
            try:
                return self.compile(row, choice, self.session.ranks)
            except Exception:
                return None

        with ThreadPoolExecutor(BUILDERS) as pool:
            self.plans = {(row, choice): plan for choice, plan in zip(choices, pool.map(compiled, choices)) if plan}

    def operator(self, row, choice):
        import syncopate
        plan = self.plans.get((row, choice)) or self.compile(row, choice, self.session.ranks)
        return syncopate.Operator(plan, share=self.session.share, time_limit=self.options.time_limit)

    def choice_for(self, row):
        return families.choose(row, self.session.ranks, self.sms[0], self.tuned)

    def ours(self, problem):
        """With fewer thread blocks where so many as are chosen do not fit."""
        choice, _ = self.choice_for(problem.row)
        try:
            operator = self.operator(problem.row, choice)
        except Exception as error:  # the same on all ranks
            if choice.per_sm == 1:
                raise
            self.session.say(f"  {choice.name}: {str(error).splitlines()[0]}")
            choice = dataclasses.replace(choice, per_sm=1)
            operator = self.operator(problem.row, choice)
        return methods.Ours(problem, operator, choice.short_name, choice)

    def search(self, problem, reference):
        """The best choice for a row by measuring. Inputs are the random numbers of `reference`; a wrong result is no
        time."""
        session, row = self.session, problem.row

        def measure(choice):
            method, error = session.agreed(lambda: methods.Ours(problem, self.operator(row, choice)))
            us = None
            if not error:
                error = self.verdict(self.wrong, method, reference)
                if not error:
                    us, error = session.quick_us(method.call)
                self.release(method)
            session.say(f"    {choice.name}: " + (f"{us:.1f} us" if not error else error.splitlines()[0]))
            return us

        def allowed(choice):
            return (families.fits(choice, row, session.ranks) and self.job(row, choice) not in self.broken
                    and session.seconds() < self.options.seconds)

        start, _ = self.choice_for(row)
        ahead = functools.partial(self.plan_ahead, row)
        choice, us, tried = tuning.search(start, self.walk(row), allowed, measure, ahead)
        if us is None or session.seconds() > self.options.seconds:  # one that ran out of time may have missed the best
            return
        choice, us = self.play_off(problem, tuning.finalists(tried)) or (choice, us)
        self.tuned[tuning.key(row, session.ranks)] = choice
        self.found[tuning.key(row, session.ranks)] = (choice, us)
        session.say(f"  {row.name}: best of {len(tried)}: {choice.name}, {us:.1f} us")
        if session.rank == 0:
            tuning.write_tuned(self.found, torch.cuda.get_device_name(), self.options.tuned)

    def play_off(self, problem, choices):
        """(the fastest, its microseconds) of choices measured in turns, so that a clock that has moved since the first of
        a search was measured decides nothing; None where there is nothing to decide. The GPUs work for a while first: in
        a search they idle between candidates, and at the clock of a cool GPU another choice may be the fastest."""
        if len(choices) < 2:
            return None
        made, calls, counts = {}, {}, {}
        for choice in choices:
            method, error = self.session.agreed(
                lambda choice=choice: methods.Ours(problem, self.operator(problem.row, choice)))
            if error:
                continue
            one, error = self.session.quick_us(method.call, 1)
            if error:
                self.release(method)
            else:
                made[choice], calls[choice] = method, Guarded(method.call)
                counts[choice] = figures.calls_per_sample(one, self.options.sample_ms * 1000)
        self.samples_in_turn(calls, counts, math.ceil(HEAT_MS / self.options.sample_ms / max(1, len(calls))))
        samples = self.samples_in_turn(calls, counts, PLAY_OFF_SAMPLES)
        medians = {}
        for choice, method in made.items():
            of_ranks = figures.slowest_rank(self.session.of_all([us for us, _ in samples[choice]]))
            if not self.session.first_error(calls[choice].error):
                medians[choice] = figures.median(of_ranks)
            self.release(method)
        best = min(medians, key=lambda choice: (medians[choice], choice.name), default=None)
        return best and (best, medians[best])

    # ---------------------------------------------------------------------------------------------- methods

    def make(self, name, problem):
        """The fastest of a method's candidates; one that cannot be made or fails is passed over while others can."""
        if name == "ours":
            return self.ours(problem)
        best, least, errors = None, math.inf, []
        candidates = problem.methods(name)
        for candidate in candidates:
            method, error = self.session.agreed(candidate)
            us = 0.0
            if not error and len(candidates) > 1:
                _, error = self.session.agreed(method.poison)
                us, error = (None, error) if error else self.session.quick_us(method.call)
            if error:
                errors.append(error)
            elif us < least:
                best, least = method, us
        if best is None:
            raise RuntimeError("; ".join(errors))
        for error in errors:
            self.session.say(f"  {name}: {error.splitlines()[0]}")
        return best

    def release(self, method):
        """Collective: gives an operator back before the next is made; also one that has failed."""
        if isinstance(method, methods.Ours):
            self.session.agreed(method.operator.close)
        self.session.quiesce()

    def verdict(self, wrong, *arguments):
        """"" if every rank's result is right, else what is wrong, the same on all ranks."""
        text, error = self.session.agreed(wrong, *arguments)
        return error or self.session.first_error(text)

    def run_poisoned(self, method):
        self.session.quiesce()
        method.poison()
        self.session.quiesce()
        method.call()
        torch.cuda.synchronize()
        return method.output()

    def wrong(self, method, expected):
        """"" or what is wrong."""
        output = self.run_poisoned(method)
        return "" if output is None else expected.wrong(output, isinstance(method, methods.Ours))

    # ------------------------------------------------------------------------------------------------- a row

    def run(self, row):
        """Makes, checks and times every method. Returns the row's result (figures.py)."""
        session = self.session
        problem = families.problem(row, session.rank, session.ranks, session.device)
        result = {"row": row.about(),
                  "us": {}, "samples_us": {}, "spread": {}, "host_us": {}, "errors": {}, "notes": {}, "checked": {}}
        if self.link_rate:
            result["link_us"] = row.link_bytes(session.ranks) / self.link_rate * 1e6
        problem.fill(checks.REALS, 1)
        reference = problem.reference()
        if self.options.search and "ours" in self.methods and (
                self.options.search_again or tuning.key(row, session.ranks) not in self.tuned):
            self.search(problem, reference)

        made = {}
        for name in self.methods:
            if name != "ours" and not problem.methods(name):
                continue
            method, error = session.agreed(self.make, name, problem)
            self.keep(result, made, name, method, error)
        self.check_integers(problem, made, result)
        problem.fill(checks.REALS, 1)
        self.check_reals(reference, made, result)
        self.time(made, result)
        if "ours" in made:
            _, source = self.choice_for(row)
            result["choice"] = {"what": made["ours"].choice.name, "from": source}
        for method in made.values():
            self.release(method)
        return result

    def keep(self, result, made, name, method, error):
        """Methods without an error stay in `made`; the others are dropped on all ranks, with the reason."""
        if error:
            result["errors"][name] = error
            if made.pop(name, None) is not None:
                self.release(method)
            self.session.say(f"  {name}: {error.splitlines()[0]}")
        else:
            made[name] = method
            if method.note:
                result["notes"][name] = method.note

    def check_integers(self, problem, made, result):
        problem.fill(checks.INTEGERS, 2)
        expected = problem.exact()
        self.check_all(made, result, lambda method: self.wrong(method, expected))

    def check_reals(self, reference, made, result):
        self.check_all(made, result, lambda method: self.wrong(method, reference))

    def check_all(self, made, result, wrong):
        for name, method in list(made.items()):
            self.keep(result, made, name, method, self.verdict(wrong, method))
            result["checked"][name] = name not in result["errors"]

    def time(self, made, result):
        session = self.session
        calls = {}
        for name, method in list(made.items()):
            one, error = session.quick_us(method.call, 1)
            self.keep(result, made, name, method, error)
            if not error:
                calls[name] = figures.calls_per_sample(one, self.options.sample_ms * 1000)
        guarded = {name: Guarded(method.call) for name, method in made.items()}
        samples = self.samples_in_turn(guarded, calls, self.options.samples)
        for name, method in list(made.items()):
            of_ranks, host = (figures.slowest_rank(session.of_all(list(each))) for each in zip(*samples[name]))
            failed_later = session.agreed(method.operator.synchronize)[1] if name == "ours" else ""
            self.keep(result, made, name, method, session.first_error(guarded[name].error) or failed_later)
            if name in made:
                result["samples_us"][name] = [round(us, 3) for us in of_ranks]
                result["us"][name] = round(figures.median(of_ranks), 3)
                result["spread"][name] = round(figures.spread(of_ranks), 4)
                result["host_us"][name] = round(figures.median(host), 3)

    def samples_in_turn(self, calls_of, calls, count):
        """Round robin, each round beginning with another method."""
        samples = {name: [] for name in calls_of}
        names = list(calls_of)
        for turn in range(count):
            shift = turn % max(1, len(names))
            for name in names[shift:] + names[:shift]:
                samples[name].append(self.session.sample(calls_of[name], calls[name]))
        return samples

    # ------------------------------------------------------------------------------------------------ the link

    def measure_link(self):
        session = self.session
        best = 0.0
        for size in LINK_BYTES:
            push = methods.LinkPush(size, session.rank, session.ranks, session.device)
            us, error = session.quick_us(push.call, self.options.samples)
            if error:
                raise RuntimeError(error)
            best = max(best, size / us * 1e6)
        return best


# --------------------------------------------------------------------------------------------------------- the program


def machine_of(bench):
    def text_of(*words):
        try:
            return subprocess.run(words, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return "unknown"

    def version_of(module):
        try:
            return getattr(__import__(module), "__version__", "unknown")
        except ImportError:
            return "none"

    session = bench.session
    facts = {
        "GPUs": f"{1 if session.share else session.ranks} x {torch.cuda.get_device_name()}"
                + (f", shared by {session.ranks} ranks: times say nothing about several GPUs" if session.share else ""),
        "driver": text_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").splitlines()[0],
        "software": f"CUDA {torch.version.cuda}, PyTorch {torch.__version__}, Triton {version_of('triton')}, "
                    f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}, Syncopate {version_of('syncopate')}, "
                    f"Python {platform.python_version()}, {platform.platform()}",
        "commit": text_of("git", "-C", str(ROOT), "describe", "--always", "--dirty"),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "samples": f"{bench.options.samples} of at least {bench.options.sample_ms} ms, medians of the slowest rank, us",
        "numbers": "row-major bf16, normal random numbers, sums in fp32 (no reduced-precision reductions in cuBLAS)",
    }
    if bench.link_rate:
        facts["best link rate"] = f"{bench.link_rate / 1e9:.0f} GB/s (copy engines pushing, all ranks at once)"
    return facts


def write(path, text):
    """The file appears whole, so that a run that is cut off leaves its last state."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)


def save(bench, results, not_started):
    document = {"title": f"{bench.session.ranks} ranks, bf16.", "machine": bench.machine, "ranks": bench.session.ranks,
                "share": bench.session.share, "results": results, "not_started": not_started}
    if bench.options.json:
        write(bench.options.json, json.dumps(document, indent=1) + "\n")
    report = figures.markdown_report(document, families.KINDS, rows.TABLE)
    if bench.options.markdown:
        write(bench.options.markdown, report)
    return report


def line_of(result):
    times = [f"{figures.METHODS[name]} {figures.cell(result, name)}" for name in figures.METHODS
             if name in result["us"] or name in result["errors"]]
    ratios = [(f"over {figures.METHODS[name]}", figures.speedup(result, name)) for name in figures.BASELINES]
    ratios.append(("of bound", figures.share_of_bound(result)))
    times += [f"{label} {ratio:.2f}" for label, ratio in ratios if ratio]
    return f"{figures.name_of(result)}: " + ", ".join(times)


def leave(text):
    """Ends every rank; one of them says why."""
    sys.exit(text if os.environ.get("RANK", "0") == "0" else 1)


def main():
    options = OPTIONS
    if "RANK" not in os.environ:
        leave("start it with torchrun: torchrun --nproc-per-node 2 bench/gpu/operators.py")
    if not torch.cuda.is_available():
        leave("no GPU that PyTorch can use")
    ranks, gpus = int(os.environ["WORLD_SIZE"]), torch.cuda.device_count()
    if not options.share and gpus < ranks:
        leave(f"{ranks} ranks on {gpus} GPU{'s' if gpus != 1 else ''}; --share puts all ranks on one")
    try:
        chosen = rows.select(families.all_rows(ranks), options.rows.split(","))
        if options.skip:
            done = {figures.name_of(result) for result in json.loads(pathlib.Path(options.skip).read_text())["results"]}
            chosen = [row for row in chosen if row.name not in done]
    except (ValueError, OSError) as error:
        leave(str(error))
    for row in chosen:
        if why := families.why_not(row, ranks):
            leave(f"{row.name} cannot be split over {ranks} ranks, as NCCL demands: {why}")
    # The same arithmetic for all: sums of a product in fp32, also where cuBLAS splits them.
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    session = Session(options.share, timeout_s=120)
    bench = Bench(session, options)
    if not options.share:
        _, error = session.agreed(methods.enable_async_tensor_parallel, session.device.index)
        if error:
            session.say(error)
            bench.methods = [name for name in bench.methods if name != "async_tp"]
        else:
            bench.link_rate, error = session.agreed(bench.measure_link)
            if error:
                session.say(f"no link rate: {error}")
    link = f", link {bench.link_rate / 1e9:.0f} GB/s" if bench.link_rate else ""
    session.say(f"{len(chosen)} rows, {session.ranks} ranks{link}")

    bench.machine = machine_of(bench)
    if "ours" in bench.methods:
        bench.build_ahead(chosen)

    results = []
    failed = False
    for index, row in enumerate(chosen):
        if session.seconds() > options.seconds:
            break
        result = bench.run(row)
        gc.collect()
        torch.cuda.empty_cache()
        results.append(result)
        failed = failed or bool(result["errors"])
        session.say(line_of(result))
        if len(results) == FAILURES and all("ours" in each["errors"] for each in results):
            session.say(f"ours failed in each of the first {FAILURES} rows: no more are begun")
            break
        if session.rank == 0:
            save(bench, results, [left.name for left in chosen[index + 1:]])
    if session.rank == 0:
        print(save(bench, results, [left.name for left in chosen[len(results):]]), flush=True)
    dist.destroy_process_group()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
