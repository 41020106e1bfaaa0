"""The parts of local.py, tune_gemm.py and counters.py that need no GPU: shapes, candidates, the table, reports."""
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"))
import counters
import gemm_shapes
import local
import tune_gemm
from gemm_kernels import Configuration, read_table

WIDE = Configuration("gemm", (128, 256, 64, 8), 8, 3)
TWO = Configuration("gemm_two_widths", (64, 256, 64, 64, 4), 4, 4)
POINTERS = Configuration("gemm_pointers", (64, 32, 128, 8), 4, 4, 2)


class Configurations(unittest.TestCase):
    def test_tiles(self):
        self.assertEqual([each.tile() for each in (WIDE, TWO, POINTERS)],
                         [(128, 256), (64, 320), (64, 32)])
        self.assertEqual(TWO.tiles(65, 321), 4)

    def test_settings_of_the_operator(self):
        settings = TWO.settings(2048, 1280, 8192, 132)
        self.assertEqual(settings["kernel.file"], "../kernels/gemm_two_widths.py")
        self.assertEqual([settings[f"kernel.args.{name}"] for name in ("M", "N", "K", "EXTRA_N", "GROUP_M")],
                         [2048, 1280, 8192, 64, 4])
        self.assertEqual((settings["launch.warps"], settings["launch.stages"], settings["launch.workers"]), (4, 4, 132))
        twice = Configuration("gemm", (128, 128, 64, 8), 4, 3, 2)
        self.assertEqual(twice.settings(256, 256, 256, 132)["launch.workers"], 264)
        # A program for each tile: workers are of no account, and must not be more than fit.
        self.assertEqual(POINTERS.settings(256, 256, 256, 132)["launch.workers"], 132)


class Shapes(unittest.TestCase):
    def test_every_one_once(self):
        self.assertEqual(len(gemm_shapes.shapes()), 295)
        self.assertEqual(len(set(gemm_shapes.shapes())), 295)

    def test_words(self):
        self.assertEqual(gemm_shapes.parse("2048x3072x4096"), (2048, 3072, 4096))
        for word in ("2048x3072", "axbxc", "1x2x3x4", "0x1x1", ""):
            with self.assertRaises(ValueError):
                gemm_shapes.parse(word)

    def test_those_below_and_those_not_measured(self):
        first, second, third = gemm_shapes.shapes()[:3]
        rows = [dict(zip("MNK", shape), ratio=ratio) for shape, ratio in ((first, 0.949), (second, 0.95))]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "figures.json"
            path.write_text(json.dumps({"rows": rows}))
            found = gemm_shapes.below(path, 0.95)
            self.assertIn(first, found)
            self.assertNotIn(second, found)
            self.assertIn(third, found)
            self.assertTrue(all(m >= 2048 for m, _, _ in gemm_shapes.below(path, 0.95, 2048)))


class Tuning(unittest.TestCase):
    def test_candidates_are_different_and_have_the_middle_group(self):
        candidates = tune_gemm.candidates()
        self.assertEqual(len(candidates), len(set(candidates)))
        middle = {each for each in candidates if each.constants()["GROUP_M"] == tune_gemm.MIDDLE_GROUP}
        for each in set(candidates) - middle:
            self.assertTrue(any(tune_gemm.is_regrouping(each, other) for other in middle), str(each))

    def test_shared_memory_holds_the_stages(self):
        for each in tune_gemm.candidates():
            rows, columns = each.tile()
            stages = 2 * (rows + columns) * each.constants()["BLOCK_K"] * each.stages
            self.assertLessEqual(each.per_sm * stages, 227 * 1024, str(each))

    def test_no_time_is_wasted(self):
        def kept(m, n):
            return tune_gemm.worth_trying([WIDE, TWO, POINTERS], m, n, 132)

        self.assertEqual(kept(8192, 8192), [WIDE])  # small tiles are too many; TWO is of another group
        self.assertEqual(kept(64, 1024), [POINTERS])
        self.assertEqual(kept(2048, 2048), [WIDE, POINTERS])

    def test_the_table_comes_back(self):
        table = {(8192, 7168, 4096): WIDE, (128, 3072, 4096): POINTERS, (1, 2, 3): TWO, (4096, 3072, 4096): WIDE}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "table.json"
            tune_gemm.write(path, table)
            self.assertEqual(read_table(path), table)
            document = json.loads(path.read_text())
            self.assertEqual(len(document["configurations"]), 3)
            self.assertEqual([choice[:3] for choice in document["choices"]],
                             [[128, 3072, 4096], [4096, 3072, 4096], [8192, 7168, 4096], [1, 2, 3]])


class Report(unittest.TestCase):
    @staticmethod
    def row(m, ratio):
        return {"M": m, "N": 4096, "K": 512, "ratio": ratio, "cublas_us": 10.0, "configuration": "gemm"}

    def test_the_bar(self):
        lines, passed = local.report([self.row(128, 0.9), self.row(2048, 1.1)])
        self.assertTrue(passed)
        self.assertIn("| 128 | 1 | 0.900 | 0.900 | 1 |", lines)
        self.assertIn("| all | 2 | 0.995 | 0.900 | 1 |", lines)
        lines, passed = local.report([self.row(2048, 0.949), self.row(128, 1.2)])
        self.assertFalse(passed)
        self.assertEqual(lines[-1], "below the bar: 2048x4096x512 0.949, cuBLAS 10.0 us, gemm")
        self.assertFalse(local.report([self.row(128, 0.969)])[1])
        self.assertFalse(local.report([])[1])

    def test_samples_stay_short(self):
        self.assertEqual(local.calls_of_a_sample(128, 4096, 512), 20)
        self.assertEqual(local.calls_of_a_sample(8192, 53248, 16384), 2)
        self.assertEqual(local.calls_of_a_sample(8192, 8192, 8192), 6)


class Counters(unittest.TestCase):
    METRICS = {"ns": "gpu__time_duration.sum", "active": "sm__cycles_active.avg", "waves": "launch__waves"}
    TEXT = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","Block Size","Grid Size","gpu__time_duration.sum","sm__cycles_active.avg"
"","","","","","us","cycle"
"0","7","gemm_two_widths","(128, 1, 1)","(128, 1, 1)","12.5","20,000.5"
"1","7","nvjet_tst_128x160","(384, 1, 1)","(132, 1, 1)","10","18,000"
"2","7","splitKreduce","(384, 1, 1)","(132, 1, 1)","2","n/a"
"""

    def kernel(self, name, us, elapsed, active, tensor):
        return {"kernel": name, "ns": us * 1000, "elapsed": elapsed, "active": active, "tensor": tensor,
                "l2_to_sm_bytes": 1000.0, "multiprocessors": 2, "l2_percent": 50.4, "dram_percent": None,
                "l2_hit_percent": 90.0}

    def test_metrics_that_are_known(self):
        names = {"a": ["x.sum", "y.avg"], "b": ["z.avg"], "c": ["launch__w"]}
        self.assertEqual(counters.known_metrics(names, {"y", "q"}), {"a": "y.avg", "c": "launch__w"})

    def test_a_report_is_read(self):
        kernels = counters.read_report(self.TEXT, self.METRICS)
        self.assertEqual([kernel["ns"] for kernel in kernels], [12500, 10000, 2000])
        self.assertEqual([kernel["active"] for kernel in kernels], [20000.5, 18000, None])
        self.assertEqual([kernel["waves"] for kernel in kernels], [None] * 3)
        with self.assertRaisesRegex(ValueError, "no table"):
            counters.read_report("==ERROR== no permission", self.METRICS)

    def test_kernels_are_paired(self):
        kernels = counters.read_report(self.TEXT, self.METRICS)
        [(shape, ours, theirs)] = counters.pairs(kernels, [(1, 2, 3)])
        self.assertEqual((shape, ours["kernel"], len(theirs)), ((1, 2, 3), "gemm_two_widths", 2))
        for wrong in (kernels[:1], kernels[1:], kernels + kernels):
            with self.assertRaisesRegex(ValueError, "pairs of kernels"):
                counters.pairs(wrong, [(1, 2, 3)])

    def test_parts_add_up_and_the_worst_is_named(self):
        # The tensor cores' counter is the sum over the four of an SM.
        ours = self.kernel("gemm", 20, 20000, 18000, 40000)
        theirs = self.kernel("nvjet", 16, 16000, 15000, 40000)
        parts = counters.parts([ours])
        self.assertEqual(parts, {"us": 20, "tensor cores": 10, "blocks without them": 8, "no block": 2, "cycles": 20,
                                 "GHz": 1})
        self.assertEqual(counters.verdict(parts, counters.parts([theirs])), "blocks without them: +3.0 of +4.0 us")
        self.assertEqual(counters.verdict(counters.parts([theirs]), parts), "nothing: alone it is 4.0 us faster")
        slow = counters.parts([self.kernel("gemm", 25, 20000, 18000, 40000)])
        self.assertEqual(counters.verdict(slow, parts), "clock: +5.0 of +5.0 us")
        text = counters.table([{"shape": (8, 16, 32), "ours": ours, "cublas": [theirs, theirs]}])
        self.assertIn("| 8x16x32 | ours | `gemm` | 20.0 | 1.00 | 20.0 | 10.0 | 8.0 | 2.0 | 0 | 50% |  | 90% |", text)
        self.assertIn("| cuBLAS | `nvjet and 1 more` | 32.0 |", text)
        self.assertEqual({line.count("|") for line in text.splitlines()}, {15})


if __name__ == "__main__":
    unittest.main()
