"""Runs what was carried to a machine with GPUs, and writes what came out. Usage: test.py BINARIES OUT [--quick]; see test.sh.

Every command has a time limit, and all together have one: what no time was left for is reported as not run. Exits 0 only
if the tests, the Python tests and at least one run were run, and nothing failed. A line is printed for each test that has
ended, so that whoever ends this knows how far it came.
"""
import itertools
import json
import os
import pathlib
import platform
import random
import re
import signal
import subprocess
import sys
import threading
import time

BINARIES, OUT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
QUICK = "--quick" in sys.argv
END = time.monotonic() + (170 if QUICK else 410)
TENSORS = {"ag_gemm": "a", "ag_gemm_pointers": "a", "ag_gemm_split_helper": "x", "gemm_rs": "c", "gemm_rs_pointers": "c"}
NOT_RUN = "not run: no time was left"
TEST_ENDED = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] |^(OK|FAILED)\b|(^|\.\.\. )(ok|FAIL|ERROR|skipped .*)$|^test_\w+ \(")


def call(seconds, *words, shows=None):
    """Exit code, output and duration of a command that may take so long; no code if there was no time for it. Lines of its
    output in which `shows` is found are printed as they come."""
    begin = time.monotonic()
    seconds = min(seconds, END - begin)
    if seconds < 3:
        return None, NOT_RUN, 0
    # A session of its own: at the limit all that it started must go, or the machine stays held.
    child = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             errors="replace", start_new_session=True)
    lines = []

    def read():
        for line in child.stdout:
            lines.append(line)
            if shows and shows.search(line):
                print(line, end="", flush=True)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        code = child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        code = 124
    reader.join(timeout=5)
    text = "".join(lines) + (f"\ndid not end within {seconds:.0f} s\n" if code == 124 else "")
    return code, text, round(time.monotonic() - begin, 1)


def settings(values):
    return itertools.chain.from_iterable(("--set", f"{key}={value}") for key, value in values.items())


def profiles(gpus):
    """Tables of `syncopate profile`: two ranks, on one GPU and on one each; a large and a small shape of both operators."""
    large = {"kernel.args.BLOCK_N": 256, "launch.warps": 8}
    shapes = [("ag_gemm", {"M": 1024, "N": 3584, "K": 8192}, {}), ("gemm_rs", {"M": 1024, "N": 8192, "K": 3584}, {}),
              ("ag_gemm", {"M": 8192, "N": 3584, "K": 8192}, large), ("gemm_rs", {"M": 8192, "N": 8192, "K": 3584}, large)]
    for share in [False, True] if gpus >= 2 else [True]:
        for operator, sizes, more in shapes[:2] if QUICK else shapes:
            values = {"ranks": 2, "launch.workers": 64 if share else 132, **more,
                      **{f"kernel.args.{name}": size for name, size in sizes.items()}}
            file = OUT / "profile.json"
            code, text, seconds = call(60, BINARIES / "syncopate", "profile", f"operators/{operator}.toml", "--json", file,
                                       *(["--share"] if share else []), *settings(values))
            yield {"operator": operator, **sizes, "gpus": 1 if share else 2, "exit_code": code, "seconds": seconds,
                   "text": text, "times": json.loads(file.read_text()) if code == 0 else None}
            file.unlink(missing_ok=True)


def cases():
    """Operator, algorithm, initiator, ranks, how launches are given; shuffled, so that the first of them are of all kinds."""
    ranks = [2, 4] if QUICK else [2, 3, 4, 8]
    algorithms = ["direct"] if QUICK else ["direct", "ring", "bidirectional_ring"]
    all_of_them = [*itertools.product(TENSORS, algorithms, ["push", "pull"], ranks, ["steps"]),
                   *itertools.product(["ag_gemm", "gemm_rs"], algorithms, ["push", "pull"], [2], ["graph", "captured"])]
    random.Random(0).shuffle(all_of_them)
    return all_of_them


def runs():
    for operator, algorithm, initiator, ranks, issue in cases():
        tensor = TENSORS[operator]
        values = {"ranks": ranks, f"communicate.{tensor}.algorithm": algorithm, f"communicate.{tensor}.initiator": initiator}
        code, text, seconds = call(30, BINARIES / "syncopate", "run", f"operators/{operator}.toml", "--on", "gpu", "--share",
                                   "--repeat", 20, "--inputs", "reals", "--issue", issue, "--delays", 0.0001, *settings(values))
        yield {"operator": operator, "algorithm": algorithm, "initiator": initiator, "ranks": ranks, "issue": issue,
               "exit_code": code, "seconds": seconds, "message": "" if code == 0 else text.strip()}


def shown(name, code, text, seconds):
    """One part's outcome, on the screen while the others run, and in the results."""
    print(f"--- {name}: exit code {code}, {seconds:.0f} s\n{text[-5000:]}", flush=True)
    return {"exit_code": code, "seconds": seconds, "text": text[-20000:]}


def skipped_is_not_run(code, text, seconds):
    """The Python tests succeed, for a developer's sake, where torch is not installed or finds no GPU."""
    return (None if re.search(r"^skipped: ", text, re.MULTILINE) else code), text, seconds


def exit_code(results):
    """0 if nothing failed and what matters was run."""
    runs = [run["exit_code"] for run in results["runs"]]
    needed = [results["tests"]["exit_code"], results["python"]["exit_code"]]
    others = [results["launch_cost"]["exit_code"], *(each["exit_code"] for each in results["profiles"])]
    nothing_failed = not any([*needed, *others, *runs])
    return 0 if nothing_failed and None not in needed and 0 in runs else 1


def word(code):
    return "not run" if code is None else "right" if code == 0 else f"FAILED ({code})"


def markdown(results):
    lines = ["# On GPUs", "", "```", results["doctor"].rstrip(), "```", ""]
    for name in ("tests", "python"):
        lines.append(f"{name}: {word(results[name]['exit_code'])}, {results[name]['seconds']:.0f} s\n")
    for each in results["profiles"]:
        lines += [f"## {each['operator']} {each['M']}x{each['N']}x{each['K']} on {each['gpus']} GPU"
                  f"{'s' if each['gpus'] > 1 else ''}", "", "```", each["text"].rstrip(), "```", ""]
    lines += ["## What launches cost the host", "", "```", results["launch_cost"]["text"].rstrip(), "```", ""]
    columns = ["operator", "algorithm", "initiator", "ranks", "issue"]
    lines += ["## Runs", "", "| " + " | ".join([*columns, "outcome"]) + " |", "|---" * (len(columns) + 1) + "|"]
    lines += ["| " + " | ".join([*(str(run[column]) for column in columns), word(run["exit_code"])]) + " |"
              for run in results["runs"]]
    return "\n".join(lines) + "\n"


def main():
    begin = time.monotonic()
    doctor = call(20, BINARIES / "syncopate", "doctor")[1]
    print(doctor, flush=True)
    gpus = len(re.findall(r"^ *GPU \d+ .* SMs", doctor, re.MULTILINE))
    if gpus == 0:
        print("not run: there is no GPU")
        return 1
    results = {"machine": platform.platform(), "doctor": doctor, "profiles": []}
    filters = ["--gtest_filter=-*EveryAlgorithm*:*BackToBack*"] if QUICK else []
    results["tests"] = shown("tests", *call(170, BINARIES / "cuda_gpu_test", f"--gtest_output=xml:{OUT / 'tests.xml'}",
                                          *filters, shows=TEST_ENDED))
    names = ["OneGpuForBoth.test_right"] if QUICK else []
    results["python"] = shown("python", *skipped_is_not_run(*call(150, "scripts/gpu/test_python.sh", *names,
                                                                  shows=TEST_ENDED)))
    results["launch_cost"] = shown("launch cost", *call(20, BINARIES / "launch_cost"))
    for each in profiles(gpus):
        results["profiles"].append(each)
        shown(f"profile on {each['gpus']} GPU", each["exit_code"], each["text"], each["seconds"])
    results["runs"] = list(runs())
    (OUT / "results.json").write_text(json.dumps(results, indent=1))
    (OUT / "results.md").write_text(markdown(results))
    codes = [run["exit_code"] for run in results["runs"]]
    for run in [run for run in results["runs"] if run["exit_code"]][:10]:
        print(run)
    print(f"{codes.count(0)} runs right, {sum(1 for code in codes if code)} failed, {codes.count(None)} not run; "
          f"tests {word(results['tests']['exit_code'])}, python {word(results['python']['exit_code'])}, profiles "
          f"{', '.join(word(each['exit_code']) for each in results['profiles'])}; {time.monotonic() - begin:.0f} s")
    return exit_code(results)


if __name__ == "__main__":
    sys.exit(main())
