"""Inputs, references and the bound, on small sizes on the CPU. Skipped where there is no PyTorch."""
import pathlib
import sys
import unittest

try:
    import torch
except ImportError:
    print("skipped: no PyTorch")
    sys.exit(0)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"))
import checks
import rows

CPU = torch.device("cpu")
GATHER = rows.Row("ag", 96, 96, 1024, ())
SCATTER = rows.Row("rs", 96, 96, 1024, ())
REDUCE = rows.Row("ar", 96, 96, 1024, ())
EXCHANGE_BEFORE = rows.Row("a2a", 96, 96, 1024, ())
EXCHANGE_AFTER = rows.Row("to_a2a", 96, 96, 1024, ())
KINDS = [rows.Row(kind, 96, 96, 1024, ()) for kind in rows.KINDS]


def problems(row, ranks, values):
    made = [checks.Problem(row, rank, ranks, CPU) for rank in range(ranks)]
    for problem in made:
        problem.fill(values, 1)
    return made


def product(problem):
    """As a GPU does it: sums in fp32, rounded once."""
    return (problem.a.float() @ problem.b.float()).to(torch.bfloat16)


def results(made):
    """Of every rank, from every rank's own product."""
    kind, ranks = made[0].row.kind, len(made)
    if kind in ("ag", "a2a"):
        return [product(problem) for problem in made]
    if kind == "to_a2a":
        return [torch.cat([product(problem).chunk(ranks, 1)[rank] for problem in made]) for rank in range(ranks)]
    summands = [product(problem).float() for problem in made]
    if kind == "ar":
        return [sum(summands).to(torch.bfloat16)] * ranks
    return [sum(summand[problem.rows_of(problem.rank)] for summand in summands).to(torch.bfloat16) for problem in made]


class Inputs(unittest.TestCase):
    def test_every_rank_gathers_the_same_and_has_a_weight_of_its_own(self):
        first, second = problems(GATHER, 2, checks.REALS)
        self.assertTrue(torch.equal(first.a, second.a))
        self.assertFalse(torch.equal(first.b, second.b))
        self.assertFalse(torch.equal(first.a[:48], first.a[48:]))
        self.assertTrue(torch.equal(second.a_own, first.a[48:]))

    def test_summands_of_a_scatter_are_unlike(self):
        first, second = problems(SCATTER, 2, checks.REALS)
        self.assertFalse(torch.equal(first.a, second.a))
        self.assertFalse(torch.equal(first.b, second.b))

    def test_an_exchange_gives_each_rank_its_columns_of_all_rows(self):
        made = problems(EXCHANGE_BEFORE, 3, checks.REALS)
        whole = torch.cat([problem.a_own for problem in made])
        self.assertEqual(whole.shape, (96, 3 * 1024))
        for problem in made:
            self.assertTrue(torch.equal(problem.a, whole[:, problem.rank * 1024:(problem.rank + 1) * 1024]))

    def test_another_round_is_other_numbers_and_the_same_round_the_same(self):
        problem = problems(GATHER, 2, checks.REALS)[0]
        before = problem.a.clone()
        problem.fill(checks.REALS, 2)
        self.assertFalse(torch.equal(problem.a, before))
        problem.fill(checks.REALS, 1)
        self.assertTrue(torch.equal(problem.a, before))

    def test_rows_that_ranks_do_not_divide_are_refused(self):
        with self.assertRaisesRegex(ValueError, "multiple of 5 ranks"):
            checks.Problem(GATHER, 0, 5, CPU)
        with self.assertRaisesRegex(ValueError, "multiple of 5 ranks"):
            checks.Problem(rows.Row("to_a2a", 100, 96, 64, ()), 0, 5, CPU)


class Integers(unittest.TestCase):
    def test_right_results_are_equal(self):
        for row in KINDS:
            for ranks in (1, 2, 3, 4):
                made = problems(row, ranks, checks.INTEGERS)
                for problem, output in zip(made, results(made)):
                    self.assertEqual(checks.difference_of_integers(output, checks.expected_integers(problem)), "")

    def test_one_wrong_element_is_named(self):
        problem = problems(GATHER, 2, checks.INTEGERS)[0]
        output = product(problem)
        expected = checks.expected_integers(problem)
        output[7, 9] = float("nan")
        self.assertRegex(checks.difference_of_integers(output, expected),
                         r"1 of 9216 elements are wrong, the first at \[7, 9\]: nan instead of ")


class Reals(unittest.TestCase):
    def test_right_results_are_well_within_the_bound(self):
        for row in KINDS:
            for ranks in (1, 2, 4):
                made = problems(row, ranks, checks.REALS)
                for problem, output in zip(made, results(made)):
                    self.assertLessEqual(checks.Reference(problem).worst(output), 1)

    def test_one_wrong_element_and_one_that_is_no_number_are_found(self):
        problem = problems(GATHER, 2, checks.REALS)[0]
        reference, output = checks.Reference(problem), product(problem)
        row, column = divmod(int(output.abs().argmin()), output.shape[1])
        output[row, column] += 2
        self.assertGreater(reference.worst(output), 1)
        output[row, column] = float("nan")
        self.assertEqual(reference.worst(output), float("inf"))

    def test_a_block_of_64_products_left_out_of_one_tile_is_found(self):
        problem = problems(GATHER, 2, checks.REALS)[0]
        wide = problem.a.float()
        wide[:16, 512:576] = 0
        output = (wide @ problem.b.float()).to(torch.bfloat16)
        output[16:] = product(problem)[16:]
        reference = checks.Reference(problem)
        self.assertGreater(reference.worst(output), 4)
        off = ((output[:16].double() - reference.value[:16]).abs() > reference.bound[:16]).double().mean()
        self.assertGreater(off, 0.9)

    def test_a_summand_of_the_round_before_is_found(self):
        made = problems(SCATTER, 2, checks.REALS)
        reference = checks.Reference(made[0])
        made[1].fill(checks.REALS, 2)
        self.assertGreater(reference.worst(results(made)[0]), 10)

    def test_slices_cover_all_columns(self):
        for size in (1, checks.COLUMNS, checks.COLUMNS + 1, 3 * checks.COLUMNS - 5):
            covered = [column for part in checks.slices(size) for column in range(part.start, part.stop)]
            self.assertEqual(covered, list(range(size)))


if __name__ == "__main__":
    unittest.main()
