"""Plans from Python: compile, save, load, verify, run, and every kind of mistake. Needs neither torch nor a GPU."""
import copy
import gc
import json
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import syncopate

SOURCE = pathlib.Path(__file__).resolve().parents[2]
AG_GEMM = SOURCE / "operators/ag_gemm.toml"
SMALL = {"ranks": 2, "kernel.args.M": 256, "kernel.args.N": 128, "kernel.args.K": 64}


def small(**settings):
    return syncopate.compile(AG_GEMM, SMALL | settings)


class Plans(unittest.TestCase):
    def test_importing_needs_no_torch(self):
        self.assertNotIn("torch", sys.modules)

    def test_what_a_plan_says_of_itself(self):
        plan = small()
        self.assertEqual((plan.operator, plan.ranks), ("ag_gemm", 2))
        self.assertEqual(repr(plan), "<syncopate.Plan ag_gemm on 2 ranks>")
        self.assertRegex(plan.communication, "all-gather")
        a, b, c = plan.buffers
        self.assertEqual((a.name, a.shape, a.dtype, a.symmetric, a.input, a.output, a.bindable),
                         ("a", (256, 64), "bf16", True, True, False, False))
        self.assertEqual((a.before, a.inside, a.after), ("shard(0)", "replicate", "replicate"))
        self.assertEqual(a.held, ((slice(0, 128), slice(0, 64)), (slice(128, 256), slice(0, 64))))
        self.assertEqual(a.outputs, (None, None))
        self.assertEqual((b.input, b.output, b.bindable), (True, False, True))
        self.assertEqual(c.outputs, ((slice(0, 256), slice(0, 128)),) * 2)
        self.assertEqual(c.held, (None, None))
        self.assertIs(plan.buffer("b"), b)
        with self.assertRaisesRegex(syncopate.Error, "the plan has no buffer 'd'; known: a, b, c"):
            plan.buffer("d")

    def test_the_wrong_kind_of_file(self):
        with self.assertRaisesRegex(syncopate.Error, r"x\.toml: this is an operator file, not a plan; compile it with syncopate\.compile\(\)"):
            syncopate.load("x.toml")
        with self.assertRaisesRegex(syncopate.Error, r"x\.json: this is a plan, not an operator file; read it with syncopate\.load\(\)"):
            syncopate.compile(pathlib.Path("x.json"))
        for function in (syncopate.load, syncopate.compile):
            with self.assertRaisesRegex(syncopate.Error, "there is a zero byte in the path"):
                function("a\0b")

    def test_a_reduced_output_is_the_ranks_rows(self):
        plan = syncopate.compile(SOURCE / "operators/gemm_rs.toml", {"ranks": 2, "communicate.c.sum": "staging"})
        c = plan.buffer("c")
        self.assertEqual((c.inside, c.after), ("partial(sum)", "shard(0)"))
        rows, columns = c.shape
        self.assertEqual(c.outputs, tuple((slice(r * rows // 2, (r + 1) * rows // 2), slice(0, columns)) for r in (0, 1)))
        self.assertEqual([buffer.name for buffer in plan.buffers if buffer.staging], [plan.buffers[-1].name])
        self.assertFalse(plan.buffers[-1].output)
        in_place = syncopate.compile(SOURCE / "operators/gemm_rs.toml", {"ranks": 2})
        self.assertEqual([buffer.name for buffer in in_place.buffers if buffer.staging], [])
        self.assertEqual(in_place.buffer("c").outputs, c.outputs)
        self.assertEqual([c.symmetric, in_place.buffer("c").symmetric], [False, True])
        self.assertFalse(in_place.buffer("c").bindable)

    def test_there_and_back(self):
        plan = small()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "plan.json"
            plan.save(path)
            loaded = syncopate.load(path)
        self.assertEqual(loaded.json(), plan.json())
        self.assertEqual(loaded.hash, plan.hash)
        self.assertEqual(syncopate.parse(plan.json()).buffers, plan.buffers)
        self.assertEqual(json.loads(plan.json())["ranks"], 2)
        self.assertIn("@triton.jit", plan.fused_source())
        self.assertIn("rank 1", plan.show())
        self.assertNotEqual(small(ranks=4).hash, plan.hash)

    def test_copies_outlive_the_plan(self):
        plan = syncopate.compile(AG_GEMM, {"ranks": 2})
        text, others = plan.json(), [copy.copy(plan), copy.deepcopy(plan), pickle.loads(pickle.dumps(plan))]
        del plan
        gc.collect()
        for other in others:
            self.assertEqual(other.json(), text)

    def test_settings_of_every_type(self):
        plan = syncopate.compile(str(AG_GEMM), SMALL | {"communicate.a": {"algorithm": "ring", "initiator": "pull", "split": 1}})
        self.assertIn("ring, pull, split 1", plan.communication)
        plan = small(**{"communicate.a.algorithm": "bidirectional_ring", "ranks": 4})
        self.assertIn("bidirectional_ring", plan.communication)
        with self.assertRaises(TypeError):
            small(ranks=object())
        with self.assertRaisesRegex(syncopate.Error, "ranks"):
            small(ranks=True)
        with self.assertRaises(syncopate.Error):
            small(ranks=2.5)
        with self.assertRaises(syncopate.Error):
            small(ranks='2" \n')

    def test_proofs(self):
        proof = small().verify()
        self.assertTrue(proof)
        self.assertIn("no deadlock: proven", str(proof))
        self.assertTrue(all(theorem.holds and theorem.evidence for theorem in proof.theorems))

    def test_runs(self):
        for name in ("ag_gemm", "gemm_rs"):
            plan = syncopate.compile(SOURCE / f"operators/{name}.toml", {"ranks": 3})
            for seed in range(3):
                report = plan.run(seed=seed, repeat=2, adversary=seed % 2 == 0, inputs="reals")
                self.assertTrue(report, report)
                self.assertGreater(report.bytes_moved, 0)
        with self.assertRaisesRegex(ValueError, "inputs is 'floats'"):
            plan.run(inputs="floats")
        for mistake in ({"repeat": 0}, {"repeat": 2**40}, {"seed": -1}, {"seed": 2**64}):
            (name, value), = mistake.items()
            with self.assertRaisesRegex(syncopate.Error, f"{name} is {value}; it must be from "):
                plan.run(**mistake)
        for mistake in ({"seed": 1.5}, {"seed": "1"}, {"repeat": True}, {"repeat": None}):
            (name, value), = mistake.items()
            with self.assertRaisesRegex(TypeError, f"{name} is an integer, not .*, of type {type(value).__name__}"):
                plan.run(**mistake)
        self.assertTrue(plan.run(seed=2**64 - 1))

    def test_plans_are_used_from_many_threads(self):
        plan, texts, reports = small(), [], []

        def use():
            texts.append(plan.json())
            reports.append(plan.run(seed=5))

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(texts)), 1)
        self.assertEqual(len(reports), 4)
        self.assertTrue(all(reports))
        self.assertEqual(len({report.steps for report in reports}), 1)


class Progress(unittest.TestCase):
    def test_it_is_called(self):
        seen = []
        small().run(repeat=3, progress=lambda done, all_of_them: seen.append((done, all_of_them)))
        self.assertTrue(seen)
        self.assertTrue(all(0 <= done <= all_of_them for done, all_of_them in seen))

    def test_what_it_raises_comes_out(self):
        def progress(done, all_of_them):
            raise ZeroDivisionError("mine")

        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            small().run(progress=progress)

    def test_control_c_ends_a_run(self):
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys, syncopate\n"
             f"plan = syncopate.compile({str(AG_GEMM)!r})\n"
             "print('running', flush=True)\n"
             "plan.run(repeat=1000000)\n"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline(), "running\n")
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
        self.assertNotEqual(child.returncode, 0)
        self.assertIn("KeyboardInterrupt", err)

    def test_control_c_on_the_way_into_the_callback(self):
        def interrupt(frame, event, _):
            if frame.f_code.co_name == "on_progress":
                raise KeyboardInterrupt

        before = sys.unraisablehook
        for progress in (None, lambda done, all_of_them: None):
            sys.settrace(interrupt)  # ends by itself when it raises
            try:
                with self.assertRaises(KeyboardInterrupt):
                    small().run(repeat=100, progress=progress)
            finally:
                sys.settrace(None)
        self.assertIs(sys.unraisablehook, before)
        self.assertTrue(small().run())


class Mistakes(unittest.TestCase):
    def error_of(self, act):
        with self.assertRaises(syncopate.Error) as caught:
            act()
        return caught.exception

    def test_files_that_are_not_there(self):
        self.assertIn("none.toml: no such file", str(self.error_of(lambda: syncopate.compile("none.toml"))))
        self.assertEqual(self.error_of(lambda: syncopate.load("none.json")).file, "none.json")

    def test_unknown_settings(self):
        error = self.error_of(lambda: small(rank=3))
        self.assertEqual(error.problem, "unknown key 'rank' in the operator file")
        self.assertIn("did you mean 'ranks'?", error.remedy)

    def test_settings_of_another_kind(self):
        for settings in (["ranks=2"], "ranks=2", 2, []):
            with self.assertRaisesRegex(TypeError, f"settings is a {type(settings).__name__}; use a dict"):
                syncopate.compile(AG_GEMM, settings)
        with self.assertRaisesRegex(TypeError, "a setting's name is a string, not 2, of type int"):
            syncopate.compile(AG_GEMM, {2: "ranks"})
        with self.assertRaisesRegex(syncopate.Error, "a zero byte in the setting's name"):
            syncopate.compile(AG_GEMM, {"ranks\0junk": 2})

    def test_places(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "operator.toml"
            path.write_text('operator = "x"\nranks = "two"\n')
            error = self.error_of(lambda: syncopate.compile(path))
        self.assertEqual((error.file, error.line), (str(path), 2))
        self.assertGreater(error.column, 0)
        self.assertTrue(str(error).startswith(f"{path}:2:{error.column}: "))

    def test_damaged_plans(self):
        text = small().json()
        self.assertIn("my plan:", str(self.error_of(lambda: syncopate.parse(text[:-20], name="my plan"))))
        self.assertIn("edited or damaged", str(self.error_of(lambda: syncopate.parse(text.replace("gathered", "gatherad", 1)))))

    def test_defects_are_of_another_type(self):
        self.assertFalse(issubclass(syncopate.InternalError, syncopate.Error))
        self.assertTrue(issubclass(syncopate.LaunchFailed, syncopate.Error))


if __name__ == "__main__":
    unittest.main()
