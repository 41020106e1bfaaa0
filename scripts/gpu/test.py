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
OPERATORS = {"ag_gemm": "a", "ag_gemm_pointers": "a", "ag_gemm_split_helper": "x"}
SECONDS = 120  # for one command: a defect of ours must not hold the machine


def call(*words):
    begin = time.monotonic()
    try:
        result = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=SECONDS)
        code, text = result.returncode, result.stdout + result.stderr
    except subprocess.TimeoutExpired as expired:
        code, text = 124, f"did not end within {SECONDS} s\n{(expired.stdout or b'').decode(errors='replace')}"
    return code, text, time.monotonic() - begin


def run_all():
    ranks = [2, 4] if QUICK else [2, 3, 4, 5, 6, 7, 8]
    algorithms = ["direct"] if QUICK else ["direct", "ring", "bidirectional_ring"]
    for name, algorithm, initiator, count in itertools.product(OPERATORS, algorithms, ["push", "pull"], ranks):
        tensor = OPERATORS[name]
        code, text, seconds = call(
            BINARIES / "syncopate", "run", f"operators/{name}.toml", "--on", "gpu", "--share", "--repeat", 5,
            "--inputs", "reals", "--set", f"ranks={count}", "--set", f"communicate.{tensor}.algorithm={algorithm}",
            "--set", f"communicate.{tensor}.initiator={initiator}")
        yield {"operator": name, "algorithm": algorithm, "initiator": initiator, "ranks": count, "right": code == 0,
               "seconds": round(seconds, 2), "message": "" if code == 0 else text.strip()}


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
    lines = ["| operator | algorithm | initiator | ranks | right |", "|---|---|---|---|---|"]
    lines += [f"| {r['operator']} | {r['algorithm']} | {r['initiator']} | {r['ranks']} | {r['right']} |" for r in runs]
    (OUT / "runs.md").write_text("\n".join(lines) + f"\n\n```\n{doctor}```\n")
    for run in wrong[:10]:
        print(run)
    print(f"{len(runs) - len(wrong)} of {len(runs)} runs right; tests exit code {code}, {seconds:.0f} s")
    return 1 if wrong or code else 0


if __name__ == "__main__":
    sys.exit(main())
