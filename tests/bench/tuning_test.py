"""Choices of an operator: what they override, the search on made-up times, the file of choices."""
import itertools
import json
import pathlib
import sys
import tempfile
import unittest
from dataclasses import replace

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"))
import rows
import tuning
from tuning import Choice

LARGE = rows.Row("ag", 8192, 14336, 8192, ())
SMALL = rows.Row("rs", 1024, 8192, 3584, ())


class Overrides(unittest.TestCase):
    def test_an_all_gather_sets_a_and_a_reduce_scatter_c(self):
        gather = Choice(split=4, initiator="pull").overrides(LARGE, 2)
        self.assertEqual((gather["communicate.a.split"], gather["communicate.a.initiator"]), (4, "pull"))
        self.assertEqual((gather["ranks"], gather["kernel.args.M"], gather["kernel.args.N"], gather["kernel.args.K"]),
                         (2, 8192, 14336, 8192))
        scatter = Choice(block_n=128, warps=4, stages=5, sms=128).overrides(SMALL, 2)
        self.assertEqual(scatter["communicate.c.split"], 2)
        self.assertNotIn("communicate.a.split", scatter)
        self.assertEqual((scatter["kernel.args.BLOCK_N"], scatter["launch.warps"], scatter["launch.stages"],
                          scatter["launch.workers"]), (128, 4, 5, 128))

    def test_tiles_of_two_widths_and_two_blocks_on_an_sm(self):
        choice = Choice(kernel="gemm_two_widths", block_n=128, extra_n=64, per_sm=2, sms=132)
        overrides = choice.overrides(LARGE, 2)
        self.assertEqual(overrides["kernel.args.EXTRA_N"], 64)
        self.assertEqual(overrides["launch.workers"], 264)
        self.assertNotIn("kernel.args.EXTRA_N", Choice().overrides(LARGE, 2))  # gemm.py has no such parameter
        self.assertEqual(choice.operator_file(LARGE), "ag_gemm_two_widths.toml")
        self.assertEqual(tuning.tiles(LARGE, choice), 64 * 75)
        self.assertEqual(choice.short_name, "128x192 by 2, split 2")

    def test_unlike_choices_have_unlike_names(self):
        choices = [Choice(), Choice(block_m=64), Choice(block_n=128), Choice(block_k=128), Choice(group_m=4),
                   Choice(warps=4), Choice(stages=4), Choice(split=1), Choice(initiator="pull"), Choice(sms=128),
                   Choice(kernel="gemm_two_widths"), Choice(extra_n=64), Choice(per_sm=2)]
        self.assertEqual(len({choice.name for choice in choices}), len(choices))


class Kernels(unittest.TestCase):
    def test_choices_that_differ_in_tables_only_share_a_kernel(self):
        choices = [Choice(split=1), Choice(split=4), Choice(initiator="pull"), Choice(sms=128), Choice(stages=4)]
        self.assertEqual(len(tuning.machine_codes_of(choices)), 2)

    def test_axes_by_name(self):
        self.assertEqual([name for name, _ in tuning.axes("ag", [132])], list(tuning.AXES))
        self.assertEqual([name for name, _ in tuning.axes("rs", [132], names=["split", "tile"])], ["tile", "split"])

    def test_all_that_a_search_can_meet(self):
        walk = tuning.axes("ag", [132, 128])
        kernels = set(tuning.machine_codes_of([Choice()], walk))
        # Tiles, two of which are one machine code of other numbers of blocks per SM or none, by groups.
        self.assertEqual(len(kernels), len({shape(Choice()).machine_code for shape in tuning.TILES}) * 3)
        met = []
        times = itertools.cycle([5.0, 4.0, 3.0, 2.0, 1.0, 6.0])
        tuning.search(Choice(), walk, lambda choice: True,
                      lambda choice: met.append(choice.machine_code) or next(times))
        self.assertGreater(len(set(met)), 6)
        self.assertLessEqual(set(met), kernels)


class Axes(unittest.TestCase):
    def tiles_of(self, kind, local=None):
        return [shape(Choice()) for shape in dict(tuning.axes(kind, [132], local))["tile"]]

    def test_a_reduce_scatter_has_one_kernel(self):
        self.assertEqual({choice.kernel for choice in self.tiles_of("rs")}, {"gemm"})
        self.assertEqual({choice.kernel for choice in self.tiles_of("ag")}, {"gemm", "gemm_two_widths"})

    def test_the_fastest_product_is_tried_too(self):
        local = tuning.tile("gemm", 64, 128, 0, 128, 4, 4)
        self.assertEqual(self.tiles_of("rs", local)[-1],
                         Choice(block_m=64, block_n=128, block_k=128, warps=4, stages=4))
        self.assertEqual(len(self.tiles_of("rs", local)), len(self.tiles_of("rs")) + 1)
        other = tuning.tile("gemm_two_widths", 64, 128, 0, 128, 4, 4)
        self.assertEqual(self.tiles_of("rs", other), self.tiles_of("rs"))

    def test_the_table_of_products_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "table.json"
            self.assertEqual(tuning.read_local_products(path), {})
            path.write_text(json.dumps({
                "configurations": [["gemm", [128, 256, 64, 4], 8, 3, 1], ["gemm_pointers", [64, 64, 128, 8], 4, 3, 2],
                                   ["gemm_two_widths", [64, 256, 64, 64, 8], 4, 4, 2]],
                "choices": [[8192, 1, 2, 0], [128, 3, 4, 1], [1024, 5, 6, 2]]}))
            products = tuning.read_local_products(path)
            self.assertEqual(set(products), {(8192, 1, 2), (1024, 5, 6)})
            self.assertEqual(products[1024, 5, 6](Choice()), Choice(kernel="gemm_two_widths", block_m=64, block_n=256,
                                                                   extra_n=64, block_k=64, warps=4, stages=4, per_sm=2))
        shipped = tuning.read_local_products()
        self.assertGreater(sum((row.M, row.N, row.K) in shipped for row in rows.all_rows(2)), 50)


class Defaults(unittest.TestCase):
    def test_the_tile_whose_rounds_cost_less(self):
        self.assertEqual(tuning.default_choice(LARGE, 2, 132).block_n, 256)
        self.assertEqual(tuning.default_choice(rows.Row("ag", 1024, 29568, 8192, ()), 2, 132).block_n, 128)

    def test_chunks_are_neither_thinner_than_a_tile_nor_under_16_mib(self):
        for row, ranks in itertools.product(rows.all_rows(2), [2, 4, 8]):
            choice = tuning.default_choice(row, ranks, 132)
            chunk = row.link_bytes(ranks) // (ranks - 1) // choice.split
            self.assertTrue(choice.split == 1 or chunk >= 16 << 20, row.name)
            self.assertTrue(tuning.fits(choice, row, ranks), row.name)
        self.assertEqual(tuning.default_choice(LARGE, 2, 132).split, 4)
        self.assertEqual(tuning.default_choice(rows.Row("ag", 1024, 3584, 1024, ()), 2, 132).split, 1)

    def test_fits(self):
        self.assertTrue(tuning.fits(Choice(split=4), SMALL, 2))
        self.assertFalse(tuning.fits(Choice(split=8), SMALL, 2))
        self.assertTrue(tuning.fits(Choice(split=1), rows.Row("ag", 64, 64, 64, ()), 2))


class Search(unittest.TestCase):
    """Times are made up: a product of what each part of a choice costs."""

    def setUp(self):
        self.measured = []

    def time(self, choice):
        self.measured.append(choice)
        cost = {(256, 3): 1.0, (256, 4): 1.3, (128, 4): 0.9, (128, 5): 0.8, (128, 3): 1.1, (256, 5): 1.2}[
            choice.block_n, choice.stages] + choice.extra_n / 100
        cost *= {1: 1.2, 2: 1.0, 4: 0.7, 8: 0.9}[choice.split]
        cost *= {4: 1.0, 8: 0.9, 16: 1.0}[choice.group_m]
        return 100 * cost * (1.5 if choice.initiator == "pull" else 1.0) * (1.03 if choice.sms == 128 else 1.0)

    def test_finds_the_best_of_each_axis_and_measures_nothing_twice(self):
        best, us, tried = tuning.search(Choice(), tuning.axes("ag", [132, 128]), lambda choice: True, self.time)
        self.assertEqual(best, Choice(block_n=128, warps=4, stages=5, split=4))
        self.assertAlmostEqual(us, 100 * 0.8 * 0.7 * 0.9)
        self.assertEqual(len(self.measured), len(set(self.measured)))
        self.assertEqual(set(self.measured), set(tried))

    def test_says_ahead_what_it_measures(self):
        announced = [Choice()]
        tuning.search(Choice(), tuning.axes("ag", [132, 128]), lambda choice: True, self.time, announced.extend)
        self.assertEqual(announced, self.measured)

    def test_leaves_out_what_is_not_allowed(self):
        best, _, tried = tuning.search(Choice(split=1), tuning.axes("ag", [132]), lambda choice: choice.split < 4,
                                       self.time)
        self.assertEqual(best.split, 2)
        self.assertTrue(all(choice.split < 4 for choice in tried))

    def test_a_choice_that_fails_is_passed_over(self):
        def measure(choice):
            return None if choice.block_n == 128 else self.time(choice)

        best, us, _ = tuning.search(Choice(), tuning.axes("rs", [132]), lambda choice: True, measure)
        self.assertEqual(best, Choice(split=4))
        self.assertAlmostEqual(us, 100 * 0.7 * 0.9)

    def test_a_start_that_fails_does_not_end_it(self):
        best, us, _ = tuning.search(Choice(), tuning.axes("rs", [132]), lambda choice: True,
                                    lambda choice: None if choice == Choice() else self.time(choice))
        self.assertEqual(best, Choice(block_n=128, warps=4, stages=5, split=4))
        self.assertIsNotNone(us)

    def test_gives_up_where_everything_fails(self):
        best, us, tried = tuning.search(Choice(), tuning.axes("rs", [132, 128]), lambda choice: True,
                                        lambda choice: None)
        self.assertEqual((best, us, len(tried)), (Choice(), None, tuning.FAILURES))

    def test_noise_changes_nothing(self):
        noise = itertools.cycle([100.0, 99.7, 100.2, 99.6])
        best, _, _ = tuning.search(Choice(), tuning.axes("ag", [132, 128]), lambda choice: True,
                                   lambda choice: next(noise))
        self.assertEqual(best, Choice())


class Finalists(unittest.TestCase):
    def test_the_fastest_few_that_are_near_the_best_and_no_failures(self):
        times = [104, 100, None, 102, 101, 102.5, 102.9]
        tried = {Choice(split=i + 1): us for i, us in enumerate(times)}
        self.assertEqual([choice.split for choice in tuning.finalists(tried)], [2, 5, 4, 6])
        self.assertEqual([choice.split for choice in tuning.finalists(tried, within=0.01)], [2, 5])
        self.assertEqual(tuning.finalists({Choice(): None}), [])


class TunedFile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name) / "tuned.json"

    def test_what_is_written_is_read(self):
        first = {tuning.key(LARGE, 2): (Choice(split=4), 2500.125)}
        second = {tuning.key(SMALL, 2): (Choice(block_n=128, warps=4), 120.0),
                  tuning.key(LARGE, 2): (Choice(split=8), 2400.0)}
        tuning.write_tuned(first, "X", self.path)
        tuning.write_tuned(second, "Y", self.path)
        self.assertEqual(tuning.read_tuned(self.path), {"ag:8192x14336x8192@2": Choice(split=8),
                                                        "rs:1024x8192x3584@2": Choice(block_n=128, warps=4)})
        entry = json.loads(self.path.read_text())["choices"]["ag:8192x14336x8192@2"]
        self.assertEqual((entry["us"], entry["machine"]), (2400.0, "Y"))
        self.assertEqual([path.name for path in pathlib.Path(self.folder.name).iterdir()], ["tuned.json"])

    def test_a_missing_file_holds_nothing_and_a_strange_one_is_an_error(self):
        self.assertEqual(tuning.read_tuned(self.path), {})
        self.path.write_text('{"choices": {"ag:1x1x1@2": {"choice": {"splits": 2}}}}')
        with self.assertRaisesRegex(ValueError, "unknown splits; a choice has block_k"):
            tuning.read_tuned(self.path)

    def test_the_file_we_ship_is_read_and_names_rows(self):
        for name in tuning.read_tuned():
            kind, (M, N, K), ranks = tuning.parse_key(name)
            self.assertIn((kind, M, N, K), {(row.kind, row.M, row.N, row.K) for row in rows.all_rows(ranks)})

    def test_a_row_takes_its_own_choice_then_the_nearest_then_the_default(self):
        tuned = {"ag:8192x3584x8192@2": Choice(split=8), "ag:2048x3584x8192@2": Choice(split=1),
                 "rs:8192x3584x8192@2": Choice(split=4), "ag:8192x3584x8192@4": Choice(stages=7)}

        def chosen(M, N, K, ranks=2, kind="ag"):
            return tuning.choose(rows.Row(kind, M, N, K, ()), ranks, 132, tuned)

        self.assertEqual(chosen(8192, 3584, 8192), (Choice(split=8), "measured"))
        self.assertEqual(chosen(8192, 4096, 8192), (Choice(split=8), "as ag:8192x3584x8192@2"))
        self.assertEqual(chosen(2048, 4096, 8192), (Choice(split=1), "as ag:2048x3584x8192@2"))
        self.assertEqual(chosen(8192, 53248, 16384)[1], "default")
        self.assertEqual(chosen(8192, 3584, 8192, kind="rs"), (Choice(split=4), "measured"))
        self.assertEqual(chosen(8192, 3584, 8192, ranks=8)[1], "default")
        # Half the rows: nearest would be chunks of 8 per shard of 256 rows, thinner than a tile.
        tuned = {"ag:1024x3584x8192@2": Choice(split=4)}
        self.assertEqual(chosen(512, 3584, 8192)[1], "default")

    def test_a_neighbour_whose_rounds_cost_more_is_not_followed(self):
        # 116 x 8 tiles of 128x256 are 7 rounds of 132 and 4 more; 231 x 8 of 128x128 are 14 rounds.
        narrow = rows.Row("ag", 1024, 29568, 8192, ())
        self.assertEqual(tuning.rounds_cost(narrow, Choice()), 8 * 128 * 256)
        self.assertEqual(tuning.rounds_cost(narrow, Choice(block_n=128)), 14 * 128 * 128 * tuning.NARROW_COST)
        near = {"ag:1024x28672x8192@2": Choice(split=2)}
        choice, source = tuning.choose(narrow, 2, 132, near)
        self.assertEqual((choice.block_n, choice.warps, source), (128, 4, "default"))
        wide = rows.Row("ag", 1024, 28000, 8192, ())
        self.assertEqual(tuning.choose(wide, 2, 132, near), (Choice(split=2), "as ag:1024x28672x8192@2"))

    def test_fewer_sms_than_measured_lower_a_choice(self):
        tuned = {tuning.key(LARGE, 2): Choice(sms=132)}
        self.assertEqual(tuning.choose(LARGE, 2, 64, tuned)[0], Choice(sms=64))
        self.assertEqual(tuning.choose(LARGE, 2, 148, tuned)[0], Choice(sms=132))
        self.assertEqual(tuning.choose(SMALL, 2, 64, {})[0].sms, 64)


if __name__ == "__main__":
    unittest.main()
