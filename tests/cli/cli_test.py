"""The command line as a black box: exit codes, messages, and what is left on disk.

Usage: cli_test.py BINARY SOURCE_DIR
"""
import errno
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
AG_GEMM = str(SOURCE / "operators/ag_gemm.toml")
SMALL = ["--set", "kernel.args.M=256", "--set", "kernel.args.N=128", "--set", "kernel.args.K=64"]


def run(*arguments, **keywords):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=120, **keywords)


def all_that_is_read(terminal):
    """A terminal may hand out what was written in parts; at its end Linux answers with an error."""
    shown = b""
    try:
        while part := os.read(terminal, 65536):
            shown += part
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    return shown


class Cli(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.folder.name) / "out"

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(text)
        return str(path)

    def files(self):
        return sorted(str(p.relative_to(self.folder.name)) for p in pathlib.Path(self.folder.name).rglob("*") if p.is_file())

    def assert_user_error(self, result, *parts):
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    # ------------------------------------------------------------------------------------------- what works

    def test_compile_writes_two_files_and_a_summary(self):
        result = run("compile", AG_GEMM, "--out", str(self.out), *SMALL)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.files(), ["out/fused.py", "out/plan.json"])
        self.assertIn("a: shard(0) -> replicate, all-gather, direct, push, split 2", result.stdout)
        plan = json.loads((self.out / "plan.json").read_text())
        self.assertEqual(plan["ranks"], 4)
        self.assertEqual(plan["kernel"]["fused_source"], (self.out / "fused.py").read_text())
        compile((self.out / "fused.py").read_text(), "fused.py", "exec")

    def test_same_bytes_twice(self):
        first = pathlib.Path(self.folder.name) / "first"
        run("compile", AG_GEMM, "--out", str(first))
        run("compile", AG_GEMM, "--out", str(self.out))
        for name in ("plan.json", "fused.py"):
            self.assertEqual((first / name).read_bytes(), (self.out / name).read_bytes())

    def test_the_plan_alone_is_enough(self):
        run("compile", AG_GEMM, "--out", str(self.out), *SMALL)
        (self.out / "fused.py").unlink()
        plan = str(self.out / "plan.json")
        verified = run("verify", plan, cwd="/")
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.assertIn("no deadlock: proven", verified.stdout)
        ran = run("run", plan, "--seed", "3", "--adversary", "--repeat", "2", cwd="/")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertTrue(ran.stdout.endswith("result: bitwise equal to the unfused operator\n"), ran.stdout)
        self.assertIn("rank 3", run("show", plan).stdout)

    def test_set_overrides_anything(self):
        result = run("run", AG_GEMM, "--set", "ranks=8", "--set", "kernel.args.M=512", "--set", "communicate.a.split=4",
                     "--set", "communicate.a.algorithm=bidirectional_ring")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("ag_gemm on 8 ranks", result.stdout)
        self.assertIn("bidirectional_ring, push, split 4", result.stdout)

    def test_reals(self):
        result = run("run", AG_GEMM, "--inputs", "reals", *SMALL)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_help_everywhere_with_an_example(self):
        for command in ([], ["compile"], ["verify"], ["run"], ["profile"], ["show"], ["schedule"]):
            result = run(*command, "--help")
            self.assertEqual(result.returncode, 0)
            self.assertIn("Example:\n  syncopate ", result.stdout)

    def test_schedule_describes_draws_and_writes(self):
        result = run("schedule", "all-gather", "--ranks", "3", "--algorithm", "ring", "--shape", "6x4")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, """\
all_gather of a (6 x 4 bf16), shard(0) -> replicate, on 3 ranks: ring, push, split 1
  moves         6 transfers in 2 steps
  port 0        96 B
  busiest rank  32 B sent, 32 B received
  meaning       proven: replicate after it, in every order that its dependencies allow
chunks
  #0  a[0:2, 0:4]
  #1  a[2:4, 0:4]
  #2  a[4:6, 0:4]
step  rank 0  rank 1  rank 2
   0  #0 > 1  #1 > 2  #2 > 0
   1  #2 > 1  #0 > 2  #1 > 0
""")
        self.assertEqual(self.files(), [])

    def test_a_schedule_it_writes_is_one_that_operators_read(self):
        file = str(self.out.parent / "gather.json")
        for algorithm in (["recursive_doubling"], ["hierarchical", "--ranks-per-node", "2"], ["interleaved", "--shares", "3:1"]):
            written = run("schedule", "all_gather", "--shape", "256x64", "--split", "2", "--algorithm", *algorithm, "--out", file)
            self.assertEqual(written.returncode, 0, written.stderr)
            self.assertTrue(written.stdout.endswith(f"written {file}\n"), written.stdout)
            ran = run("run", AG_GEMM, *SMALL, "--set", f'communicate={{a={{schedule="{file}"}}}}')
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_a_bare_file_name_is_in_the_current_folder(self):
        result = run("schedule", "all_gather", "--out", "s.json", cwd=self.folder.name)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.files(), ["s.json"])

    def test_every_collective(self):
        for name, placements in (("reduce_scatter", "partial(sum) -> shard(0)"), ("all_reduce", "partial(sum) -> replicate"),
                                 ("all_to_all", "shard(0) -> shard(1)"), ("broadcast", "only(0) -> replicate"),
                                 ("shift", "shard(0) -> shard(0)+1")):
            result = run("schedule", name, "--ranks", "5", "--split", "2", "--initiator", "pull")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"{placements}, on 5 ranks: direct, pull, split 2\n", result.stdout)
        self.assertIn("up to 16 ranks only", run("schedule", "all_gather", "--ranks", "17").stdout)

    # ------------------------------------------------------------------------------------------- what is wrong

    def test_schedule_mistakes(self):
        for arguments, message in (
                (["gather"], "schedule: unknown collective 'gather'; "),
                (["all_gather", "--root", "1"], "--root: all_gather has no use for it; leave it out"),
                (["all_reduce", "--steps", "1"], "--steps: all_reduce has no use for it; leave it out"),
                (["shift", "--to-dim", "1"], "--to-dim: shift has no use for it; leave it out"),
                (["broadcast", "--root", "4"], "--root: rank 4 of 4; ranks count from 0 to 3"),
                (["all_gather", "--dim", "2"], "--dim: dimension 2 of a tensor of 2 dimensions; dimensions count from 0 to 1"),
                (["all_to_all", "--dim", "1"], "--to-dim: shard(1) -> shard(1) moves nothing; another dimension than --dim"),
                (["all_gather", "--shape", "4x"], "--shape: '4x' is not a shape; sizes of at least 1, such as 1024x512"),
                (["all_gather", "--shape", "0x4"], "--shape: '0x4' is not a shape"),
                (["all_gather", "--shape", "2x2x2x2x2x2"], "--shape: '2x2x2x2x2x2' has more than 5 dimensions; from 1 to 5"),
                (["all_gather", "--shape", "99999999999x99999999999"], "makes a tensor of more than 2^48 elements"),
                (["all_gather", "--tensor", ""], "--tensor: the tensor has an empty name"),
                (["all_gather", "--dtype", "bf17"], "--dtype: unknown dtype 'bf17'; known: "),
                (["all_gather", "--algorithm", "rings"], "--algorithm: unknown algorithm 'rings'; did you mean 'ring'? known: direct"),
                (["all_gather", "--shares", "1"], "--shares: '1' is not two shares; for example 3:1"),
                (["all_to_all", "--algorithm", "recursive"], "syncopate schedule: there is no all_to_all by recursive; one of direct"),
                (["all_gather", "--algorithm", "hierarchical"], "syncopate schedule: hierarchical needs to know how many ranks a node has; "),
                (["all_gather", "--split", "300"], "syncopate schedule: split is 300, but the largest shard of 'a' has 256 indices")):
            self.assert_user_error(run("schedule", *arguments), message)
        self.assertEqual(run("schedule").returncode, 2)
        self.assertEqual(run("schedule", "all_gather", "--ranks", "0").returncode, 2)
        self.assert_user_error(run("schedule", "all_gather", "--out", self.folder.name), self.folder.name)
        self.assert_user_error(run("schedule", "all_gather", "--out", ""), "--out: the name of the file is empty")

    def test_command_line_mistakes(self):
        self.assertEqual(run().returncode, 2)
        self.assert_user_error(run("frobnicate"), "unknown subcommand 'frobnicate'; known: compile, verify, run, profile, show")
        self.assert_user_error(run("verfy", AG_GEMM), "unknown subcommand 'verfy'; did you mean 'verify'?")
        self.assertEqual(run("run").returncode, 2)
        self.assertEqual(run("compile", AG_GEMM).returncode, 2)
        self.assertEqual(run("run", AG_GEMM, "--repeat", "0").returncode, 2)
        self.assertEqual(run("run", AG_GEMM, "--seed", "x").returncode, 2)
        self.assertEqual(run("profile", AG_GEMM, "--samples", "0").returncode, 2)
        for seed in ("-1", "18446744073709551616", "1.5", "7x"):
            result = run("run", AG_GEMM, f"--seed={seed}")
            self.assertEqual(result.returncode, 2, seed)
            self.assertIn(f"'{seed}' is not an integer from 0 to 2^64 - 1", result.stderr)
        self.assertEqual(run("run", AG_GEMM, *SMALL, "--seed", "18446744073709551615").returncode, 0)
        for option in (["--share"], ["--issue", "graph"], ["--delays", "0.1"], ["--time-limit", "1"], ["--python", "x"],
                       ["--cache", "x"]):
            for on in ([], ["--on", "cpu"]):
                self.assert_user_error(run("run", AG_GEMM, *option, *on),
                                       f"{option[0]}: CPU ranks have no use for it; leave it out, or add --on gpu")
        self.assert_user_error(run("run", AG_GEMM, "--set", "ranks"), "--set ranks: not of the form key=value")
        self.assert_user_error(run("show", AG_GEMM, "--set", "rank=2"), "--set rank=2: unknown key 'rank'", "did you mean 'ranks'?")

    def test_one_of_each_is_no_plural(self):
        result = run("run", AG_GEMM, "--set", "ranks=1", "--set", "kernel.args.M=64", "--set", "kernel.args.N=128",
                     "--set", "kernel.args.K=64")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"tiles +1 per rank .*, on 1 worker\n")
        self.assertRegex(result.stdout, r" 1 launch of gemm_fused on 1 CPU rank, seed 0\n +1 tile, 0 transfers, \d+ steps of the machine\n")
        self.assertNotRegex(result.stdout, r"(?<![\d.])1 (ranks|tiles|workers|transfers|launches|signals)\b")

    def test_a_terminal_sees_what_is_done_and_then_no_trace_of_it(self):
        for command, words in (("verify", (b"compiling ...", b"verifying ...")), ("run", (b"compiling ...", b"preparing the ranks ..."))):
            ours, theirs = pty.openpty()
            result = subprocess.run([BINARY, command, AG_GEMM, *SMALL], stdout=subprocess.PIPE, stderr=theirs, timeout=120)
            os.close(theirs)
            shown = all_that_is_read(ours)
            os.close(ours)
            self.assertEqual(result.returncode, 0)
            for word in words:
                self.assertIn(word, shown)
            self.assertTrue(shown.endswith(b"\r\x1b[K"), shown)
            self.assertNotIn(b"...", result.stdout)
        self.assertEqual(run("verify", AG_GEMM, *SMALL).stderr, "")

    def test_ctrl_c_leaves_nothing_half_written(self):
        for seconds in (0.0, 0.02, 0.05, 0.1, 0.2):
            child = subprocess.Popen([BINARY, "compile", AG_GEMM, "--out", str(self.out), "--set", "kernel.args.M=4096"],
                                     cwd=self.folder.name, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(seconds)
            child.send_signal(signal.SIGINT)
            child.communicate()
            self.assertIn(child.returncode, (0, 130, -signal.SIGINT))  # the last: before the program has begun
            self.assertIn(self.files(), ([], ["out/fused.py", "out/plan.json"]))

    def test_missing_and_unreadable_files(self):
        self.assert_user_error(run("show", "/dev/zero"), "/dev/zero: is no file but a device or a socket")
        self.assert_user_error(run("show", AG_GEMM, "--set", "kernel.file=/dev/zero"), "/dev/zero: is no file but a device")
        self.assert_user_error(run("show", AG_GEMM, "--set", r'kernel.file="a\u0000b"'), "a zero byte follows in the name")
        self.assert_user_error(run("run", "none.toml"), "none.toml: no such file")
        self.assert_user_error(run("verify", "none.json"), "none.json: no such file")
        self.assert_user_error(run("run", self.folder.name), "is a folder")
        operator = self.write("op.toml", pathlib.Path(AG_GEMM).read_text())
        self.assert_user_error(run("run", operator), "kernels/gemm.py: no such file")

    def test_plans_that_were_damaged(self):
        run("compile", AG_GEMM, "--out", str(self.out), *SMALL)
        text = (self.out / "plan.json").read_text()
        cut = run("verify", self.write("cut.json", text[: len(text) // 2]))
        self.assert_user_error(cut, "cut.json:", "not valid JSON")
        self.assertLess(len(cut.stderr), 300, cut.stderr)
        self.assert_user_error(run("run", self.write("old.json", text.replace('"syncopate_plan": 5', '"syncopate_plan": 0'))),
                               "old.json:2:21: this plan is of version 0")
        self.assert_user_error(run("run", self.write("edited.json", text.replace('"workers": 2', '"workers": 1', 1))),
                               "was edited or damaged; compile again; `syncopate verify` looks at it as it is")
        self.assert_user_error(run("run", str(self.out / "plan.json"), "--set", "ranks=2"), "a plan is complete")
        self.assert_user_error(run("compile", str(self.out / "plan.json"), "--out", "x"), "this is a plan, not an operator file")

    def test_verify_takes_edited_plans_as_they_are(self):
        run("compile", AG_GEMM, "--out", str(self.out), *SMALL)
        text = (self.out / "plan.json").read_text()
        harmless = run("verify", self.write("edited.json", text.replace('"operator": "', '"operator": "other_', 1)))
        self.assertEqual(harmless.returncode, 0, harmless.stdout)
        self.assertRegex(harmless.stdout, r"^warning: .*edited\.json:\d+:\d+: the plan does not have this hash: it was edited "
                         r"or damaged; this is about the plan as it is\n")
        # A tile that asks for one arrival fewer than there are.
        broken = re.sub(r'("signals": \[\s*\{[^}]*"per_launch": )(\d+)', lambda m: m[1] + str(int(m[2]) + 1), text, count=1)
        self.assertNotEqual(broken, text)
        result = run("verify", self.write("broken.json", broken))
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertTrue(result.stdout.startswith("warning: "), result.stdout)
        self.assertNotIn("warning", run("verify", str(self.out / "plan.json")).stdout)
        self.assert_user_error(run("show", str(pathlib.Path(self.folder.name) / "broken.json")), "was edited or damaged")

    def test_kernels_that_cannot_be_used(self):
        kernel = (SOURCE / "kernels/gemm.py").read_text()
        operator = pathlib.Path(AG_GEMM).read_text().replace("../kernels/gemm.py", "kernel.py")

        def error_of(text):
            self.write("kernel.py", text)
            return run("compile", self.write("op.toml", operator), "--out", str(self.out))

        self.assert_user_error(error_of(kernel.replace("accumulator = tl.zeros(", "accumulator = = tl.zeros(")), "kernel.py:")
        self.assert_user_error(error_of(kernel.replace("def gemm(", "def gem(")), "kernel.py", "gemm")
        self.assert_user_error(error_of(kernel.replace("accumulator = tl.zeros(", "with x: pass\n        accumulator = tl.zeros(")),
                               "kernel.py:")
        self.assertEqual(self.files(), ["kernel.py", "op.toml"])

    # ------------------------------------------------------------------------------------------- nothing is lost

    def test_failures_leave_nothing_and_lose_nothing(self):
        self.out.mkdir()
        (self.out / "plan.json").write_text("mine")
        result = run("compile", AG_GEMM, "--out", str(self.out), "--set", "communicate.a.split=100000")
        self.assert_user_error(result, "split is 100000")
        self.assertEqual((self.out / "plan.json").read_text(), "mine")
        self.assertEqual(self.files(), ["out/plan.json"])
        blocked = self.write("file", "x")
        self.assert_user_error(run("compile", AG_GEMM, "--out", blocked + "/deeper"), "file/deeper")
        self.assertEqual(self.files(), ["file", "out/plan.json"])

    def test_interrupt_is_clean(self):
        process = subprocess.Popen([BINARY, "run", AG_GEMM, "--repeat", "100000"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, cwd=self.folder.name)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130, out + err)
        self.assertIn("interrupted", err)
        self.assertEqual(self.files(), [])

    def test_full_disk_is_noticed(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        with open("/dev/full", "w") as full:
            result = subprocess.run([BINARY, "show", AG_GEMM], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("could not be written", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
