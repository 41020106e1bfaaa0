"""Shapes, the table of choices, the report; where PyTorch is, the checks, on the CPU."""
import math
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"))
import fp8

try:
    import torch
except ImportError:
    torch = None


class Table(unittest.TestCase):
    def test_shapes_are_those_of_the_models_once(self):
        self.assertEqual(len(fp8.shapes()), len(set(fp8.shapes())))
        self.assertIn((8192, 3072, 4096), fp8.shapes())  # 8B QKV on two ranks
        self.assertIn((512, 16384, 26624), fp8.shapes())  # 405B down

    def test_what_is_written_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "table.json"
            self.assertEqual(fp8.read_table(path), {})
            table = {(512, 64, 128, True): fp8.CANDIDATES[3], (512, 64, 128, False): fp8.DEFAULT}
            fp8.write_table(path, table)
            self.assertEqual(fp8.read_table(path), table)

    def test_settings(self):
        made = fp8.CANDIDATES[3].settings(512, 64, 128, False, 100)
        self.assertEqual((made["launch.workers"], made["tensors.a_scale.shape"], made["kernel.args.ROW_SCALES"]),
                         (200, [1], False))
        self.assertNotIn("tensors.a_scale.shape", fp8.DEFAULT.settings(512, 64, 128, True, 100))
        self.assertEqual(len({str(each) for each in fp8.CANDIDATES}), len(fp8.CANDIDATES))

    def test_report(self):
        def row(ours, scales="row"):
            return {"shape": [512, 64, 128], "scales": scales, "configuration": "tile", "errors": {},
                    "us": {"torch": 9.0, "precise": 12.0, "ours": ours}, "ratio": 9 / ours}

        text, met = fp8.report([row(9.0), row(10.0)])
        self.assertTrue(met)
        self.assertIn("| 512x64x128 | row | 9.0 | 12.0 | 10.0 | 0.900 | 1 | tile |", text)
        self.assertIn("scales by row: 2 shapes, geometric mean 0.949, least 0.900, 0 below 0.9", text)
        self.assertFalse(fp8.report([row(9.0), row(18.0, "tensor")])[1])
        self.assertFalse(fp8.report([])[1])
        failed = row(9.0) | {"us": {"torch": 9.0}}
        failed.pop("ratio")
        self.assertIn("| 9.0 | failed | failed | - | - |", fp8.report([failed])[0])


@unittest.skipUnless(torch, "no PyTorch")
class Checks(unittest.TestCase):
    def made(self, problem, wide=None):
        """What a tensor core would."""
        a, b = (each.float() for each in (problem.a, problem.b))
        a_scale, b_scale = problem.scales()
        return ((a if wide is None else wide) @ b.t() * a_scale * b_scale).to(torch.bfloat16)

    def test_right_results_pass_and_wrong_ones_do_not(self):
        for row_scales in (True, False):
            problem = fp8.Problem(96, 80, 512, row_scales, "cpu")
            fp8.check(problem, lambda: self.made(problem), lambda: None)
            problem.fill(True)
            off = self.made(problem)
            off[5, 7] += 1
            self.assertRegex(problem.wrong_integers(off), "1 of 7680 elements")
            problem.fill(False)
            short = problem.a.float()
            short[:, 128:256] = 0  # a step of K that is missing
            self.assertIn("differs from fp64", problem.wrong_reals(self.made(problem, short)))
            self.assertNotEqual(problem.wrong_reals(torch.full_like(off, math.nan)), "")

    def test_pytorch_itself_passes(self):
        problem = fp8.Problem(96, 80, 512, False, "cpu")  # on a CPU it has scales by tensor only
        fp8.check(problem, problem.torch_call(False), lambda: None)


if __name__ == "__main__":
    unittest.main()
