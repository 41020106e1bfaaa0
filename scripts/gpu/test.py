"""Runs the carried binaries on a GPU and writes what came out. Usage: test.py BINARIES OUT [--quick]; see test.sh."""
import itertools
import json
import pathlib
import platform
import subprocess
import sys
import time

BINARIES, OUT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
QUICK = "--quick" in sys.argv
OPERATORS = {"ag_gemm": "a", "ag_gemm_pointers": "a", "ag_gemm_split_helper": "x", "gemm_rs": "c", "gemm_rs_pointers": "c"}
SECONDS = 120  # for one command: a defect of ours must not hold the machine


def call(*words):
    begin = time.monotonic()
    try:
        result = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=SECONDS)
        code, text = result.returncode, result.stdout + result.stderr
    except subprocess.TimeoutExpired as expired:
        code, text = 124, f"did not end within {SECONDS} s\n{(expired.stdout or b'').decode(errors='replace')}"
    return code, text, time.monotonic() - begin


def cases():
    """Operator, algorithm, initiator, ranks, how launches are given."""
    ranks = [2, 4] if QUICK else [2, 3, 4, 8]
    algorithms = ["direct"] if QUICK else ["direct", "ring", "bidirectional_ring"]
    yield from itertools.product(OPERATORS, algorithms, ["push", "pull"], ranks, ["steps"])
    yield from itertools.product(["ag_gemm", "gemm_rs"], algorithms, ["push", "pull"], [2], ["graph", "captured"])


def run_all():
    for name, algorithm, initiator, count, issue in cases():
        tensor = OPERATORS[name]
        code, text, seconds = call(
            BINARIES / "syncopate", "run", f"operators/{name}.toml", "--on", "gpu", "--share", "--repeat", 20,
            "--inputs", "reals", "--issue", issue, "--delays", 0.0001, "--set", f"ranks={count}",
            "--set", f"communicate.{tensor}.algorithm={algorithm}",
            "--set", f"communicate.{tensor}.initiator={initiator}")
        yield {"operator": name, "algorithm": algorithm, "initiator": initiator, "ranks": count, "issue": issue,
               "right": code == 0, "seconds": round(seconds, 2), "message": "" if code == 0 else text.strip()}


def main():
    doctor = call(BINARIES / "syncopate", "doctor")[1]
    print(doctor, flush=True)
    code, text, seconds = call(BINARIES / "cuda_gpu_test", f"--gtest_output=xml:{OUT / 'tests.xml'}")
    print(text[-6000:], flush=True)
    runs = list(run_all())
    wrong = [run for run in runs if not run["right"]]
    (OUT / "runs.json").write_text(json.dumps(
        {"machine": platform.node() and platform.platform(), "doctor": doctor, "tests_exit_code": code,
         "tests_seconds": round(seconds, 1), "runs": runs}, indent=1))
    columns = ["operator", "algorithm", "initiator", "ranks", "issue", "right"]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(str(run[column]) for column in columns) + " |" for run in runs]
    (OUT / "runs.md").write_text("\n".join(lines) + f"\n\n```\n{doctor}```\n")
    for run in wrong[:10]:
        print(run)
    print(f"{len(runs) - len(wrong)} of {len(runs)} runs right; tests exit code {code}, {seconds:.0f} s")
    return 1 if wrong or code else 0


if __name__ == "__main__":
    sys.exit(main())
