"""Statistics and tables of the operator benchmark, against figures worked out by hand."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"))
import figures
import report
import rows


def result(us, size=(8192, 3584, 8192), kind="ag", sources=("table",), link=None, errors=None, notes=None, host=None):
    made = {"row": dict(zip(("kind", "M", "N", "K", "sources"), (kind, *size, list(sources)))), "us": us,
            "host_us": host or {}, "errors": errors or {}, "notes": notes or {}}
    return made if link is None else made | {"link_us": link}


class Statistics(unittest.TestCase):
    def test_the_slowest_rank_sample_by_sample(self):
        self.assertEqual(figures.slowest_rank([[1, 9, 3], [4, 2, 5]]), [4, 9, 5])
        with self.assertRaisesRegex(ValueError, "unlike numbers"):
            figures.slowest_rank([[1, 2], [1]])

    def test_a_median_ignores_an_outlier(self):
        self.assertEqual(figures.median([10, 11, 12, 13, 1000]), 12)

    def test_spread_is_half_the_quartiles_distance_over_the_median(self):
        self.assertAlmostEqual(figures.spread([90, 95, 100, 105, 110]), (105 - 95) / 2 / 100)
        self.assertEqual(figures.spread([5]), 0)

    def test_geometric_mean(self):
        self.assertAlmostEqual(figures.geometric_mean([2, 8]), 4)
        self.assertAlmostEqual(figures.geometric_mean([0.5, 2]), 1)
        self.assertIsNone(figures.geometric_mean([]))

    def test_a_sample_is_long_enough_and_has_a_call(self):
        for one, calls in [(1, 2000), (100, 50), (99, 51), (5000, 1), (80000, 1), (0, 2000)]:
            self.assertEqual(figures.calls_per_sample(one), calls, one)
        self.assertEqual(figures.calls_per_sample(100, least_us=1000), 10)


class Ratios(unittest.TestCase):
    def test_the_bound_is_the_slower_of_product_and_link(self):
        self.assertEqual(figures.bound_us(result({"cublas": 700}, link=170)), 700)
        self.assertEqual(figures.bound_us(result({"cublas": 100}, link=170)), 170)
        self.assertEqual(figures.bound_us(result({"cublas": 100})), 100)
        self.assertIsNone(figures.bound_us(result({"ours": 100}, link=170)))

    def test_speedups_and_share_of_bound(self):
        row = result({"cublas": 600, "sequential": 900, "ours": 750})
        self.assertAlmostEqual(figures.speedup(row, "sequential"), 1.2)
        self.assertIsNone(figures.speedup(row, "async_tp"))
        self.assertAlmostEqual(figures.share_of_bound(row), 0.8)
        self.assertIsNone(figures.share_of_bound(result({"cublas": 600})))


class Summary(unittest.TestCase):
    results = [
        result({"cublas": 700, "sequential": 900, "async_tp": 800, "ours": 750}, (8192, 3584, 8192)),
        result({"cublas": 80, "sequential": 150, "async_tp": 97, "ours": 100}, (1024, 3584, 8192)),
        result({"cublas": 300, "sequential": 490, "ours": 500}, (4096, 3584, 8192)),
        result({"cublas": 300, "sequential": 400}, (2048, 3584, 8192), errors={"ours": "missed wait"}),
    ]

    def test_means_worst_rows_and_rows_below(self):
        s = figures.summary(self.results)
        self.assertEqual((s["rows"], s["rows_with_ours"]), (4, 3))
        self.assertAlmostEqual(s["over_sequential"], (1.2 * 1.5 * 0.98) ** (1 / 3))
        self.assertAlmostEqual(s["over_async_tp"], (800 / 750 * 0.97) ** 0.5)
        self.assertEqual(s["worst_over_sequential"], {"ratio": 0.98, "row": "ag:4096x3584x8192"})
        self.assertEqual(s["worst_over_async_tp"], {"ratio": 0.97, "row": "ag:1024x3584x8192"})
        self.assertEqual(s["worst_of_bound"]["row"], "ag:4096x3584x8192")
        self.assertEqual(s["below_sequential"], [])  # 0.98 itself is not below
        self.assertEqual(s["below_async_tp"], [{"ratio": 0.97, "row": "ag:1024x3584x8192"}])

    def test_nothing_measured(self):
        s = figures.summary([result({"cublas": 300})])
        self.assertIsNone(s["over_sequential"])
        self.assertIsNone(s["worst_of_bound"])
        self.assertEqual(figures.markdown_summary("T", [result({"cublas": 300})]), "T: no row has a time of ours.")

    def test_in_words(self):
        text = figures.markdown_summary("AG-GEMM, table", self.results)
        self.assertIn("AG-GEMM, table, 3 of 4 rows:", text)
        self.assertIn("over sequential: geometric mean 1.208, worst 0.980 (ag:4096x3584x8192); "
                      "rows below 0.98: none", text)
        self.assertIn("rows below 0.98: ag:1024x3584x8192 0.970", text)


class Tables(unittest.TestCase):
    def test_columns_of_what_was_tried_and_no_others(self):
        table = figures.markdown_table([
            result({"cublas": 700.4, "sequential": 900, "ours": 750}, link=170, notes={"ours": "128x256, split 2"}),
            result({"cublas": 80}, (1024, 3584, 8192), link=42.4, errors={"ours": "missed wait\nmore"})],
            with_sources=False)
        lines = table.splitlines()
        self.assertEqual(lines[0], "| M x N x K | cuBLAS alone | sequential | ours | link | bound | over sequential "
                                   "| over AsyncTP | of bound |")
        self.assertEqual(
            lines[2], "| 8192x3584x8192 | 700 | 900 | 750 (128x256, split 2) | 170 | 700 | 1.20 | - | 0.93 |")
        self.assertEqual(lines[3], "| 1024x3584x8192 | 80 | - | failed | 42 | 80 | - | - | - |")
        self.assertEqual({line.count("|") for line in lines}, {10})

    def test_no_link_column_where_none_was_measured(self):
        row = result({"cublas": 700, "ours": 750}, sources=("Llama-3 8B O",))
        table = figures.markdown_table([row], with_sources=True)
        self.assertNotIn("link", table)
        self.assertIn("| 8192x3584x8192 | Llama-3 8B O | 700 | 750 | 700 |", table)

    def test_a_row_of_table_and_model_stands_in_both_parts(self):
        both = result({"ours": 1}, kind="rs", sources=("table", "Llama-3 70B down"))
        only = result({"ours": 1}, kind="ag", sources=("Llama-3 8B QKV",))
        parts = figures.grouped([both, only], rows.KINDS, rows.TABLE)
        self.assertEqual([(title, len(part), sources) for title, part, sources in parts],
                         [("AG-GEMM, models", 1, True), ("GEMM-RS, table", 1, False), ("GEMM-RS, models", 1, True)])

    def test_who_waits_for_the_host(self):
        rows_of = [result({"async_tp": 490, "ours": 120}, (1024, 3584, 8192), host={"async_tp": 488, "ours": 15}),
                   result({"async_tp": 780, "ours": 700}, host={"async_tp": 480, "ours": 15}),
                   result({}, (2048, 3584, 8192), host={"ours": 15}, errors={"ours": "missed wait"})]
        self.assertEqual(figures.bound_by_host(rows_of), {"async_tp": ["ag:1024x3584x8192"]})
        document = {"title": "T", "machine": {}, "results": rows_of}
        self.assertIn("AsyncTP was bound by the host (issuing a call took at least 90% of its time) in 1 rows: "
                      "ag:1024x3584x8192", figures.markdown_report(document, rows.KINDS, rows.TABLE))

    def test_a_report_names_failures_and_rows_not_started(self):
        document = {"title": "2 ranks.", "machine": {"GPUs": "2 x X"}, "not_started": ["rs:1x2x3"],
                    "results": [result({"cublas": 80}, errors={"ours": "rank 1: missed wait\nmore"})]}
        report = figures.markdown_report(document, rows.KINDS, rows.TABLE)
        self.assertIn("- GPUs: 2 x X\n", report)
        self.assertIn("- ag:8192x3584x8192 ours: rank 1: missed wait\n", report)
        self.assertNotIn("more", report)
        self.assertIn("Rows not started within the time given: rs:1x2x3", report)


class Merged(unittest.TestCase):
    @staticmethod
    def document(results, ranks=2, **machine):
        return {"title": "T", "machine": machine, "ranks": ranks, "share": False, "results": results,
                "not_started": ["x"]}

    def test_the_last_run_wins_and_rows_stand_in_order(self):
        first = self.document([result({"ours": 1}, (1024, 8192, 3584), "rs"), result({"ours": 2}, (8192, 3584, 8192))],
                              driver="1", date="a")
        second = self.document([result({"ours": 3}, (8192, 3584, 8192)), result({"ours": 4}, (8192, 14336, 8192))],
                               driver="1", date="b")
        both = report.merged([first, second])
        self.assertEqual([(figures.name_of(each), each["us"]["ours"]) for each in both["results"]],
                         [("ag:8192x14336x8192", 4), ("ag:8192x3584x8192", 3), ("rs:1024x8192x3584", 1)])
        self.assertEqual(both["machine"], {"driver": "1", "date": "a", "date of run 2": "b"})
        self.assertEqual(both["not_started"], [])

    def test_unlike_runs_do_not_mix(self):
        with self.assertRaisesRegex(ValueError, "unlike numbers of ranks"):
            report.merged([self.document([]), self.document([], ranks=4)])


if __name__ == "__main__":
    unittest.main()
