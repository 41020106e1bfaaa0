"""The rows of the operator tables, against sizes written out by hand."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"))
import rows


def size(row):
    return row.kind, row.M, row.N, row.K


class Rows(unittest.TestCase):
    def test_the_tables_come_first_and_in_their_order(self):
        found = [size(row) for row in rows.all_rows(2)]
        self.assertEqual(found[0], ("ag", 8192, 14336, 8192))
        self.assertEqual(found[6], ("ag", 1024, 3584, 8192))
        self.assertEqual(found[7], ("rs", 8192, 8192, 14336))
        self.assertEqual(found[13], ("rs", 8192, 4096, 7168))

    def test_projections_of_two_ranks(self):
        by_name = {model: {name: (kind, N, K) for kind, name, N, K in rows.projections(model, 2)}
                   for model in rows.MODELS}
        self.assertEqual(by_name["Llama-3 8B"], {"QKV": ("ag", 3072, 4096), "gate+up": ("ag", 14336, 4096),
                                                 "O": ("rs", 4096, 2048), "down": ("rs", 4096, 7168)})
        self.assertEqual(by_name["Llama-3 70B"], {"QKV": ("ag", 5120, 8192), "gate+up": ("ag", 28672, 8192),
                                                  "O": ("rs", 8192, 4096), "down": ("rs", 8192, 14336)})
        self.assertEqual(by_name["Llama-3 405B"], {"QKV": ("ag", 9216, 16384), "gate+up": ("ag", 53248, 16384),
                                                   "O": ("rs", 16384, 8192), "down": ("rs", 16384, 26624)})
        self.assertEqual(by_name["Qwen2-72B"], {"QKV": ("ag", 5120, 8192), "gate+up": ("ag", 29568, 8192),
                                                "O": ("rs", 8192, 4096), "down": ("rs", 8192, 14784)})

    def test_each_size_once_with_all_its_sources(self):
        every = rows.all_rows(2)
        self.assertEqual(len({size(row) for row in every}), len(every))
        by_size = {size(row): row for row in every}
        self.assertEqual(by_size["ag", 4096, 5120, 8192].sources, ("Llama-3 70B QKV", "Qwen2-72B QKV"))
        self.assertEqual(by_size["rs", 8192, 8192, 14336].sources, ("table", "Llama-3 70B down"))
        # 14 of the tables; 4 models x 4 projections x 4 sizes, of which 8 are twice among models and 2 are in a table.
        self.assertEqual(sum(row.kind in ("ag", "rs") for row in every), 14 + 64 - 8 - 2)
        # 4 models x 2 projections x 4 sizes, or x 2 sizes; two models have the same QKV and O.
        self.assertEqual(sum(row.kind == "ar" for row in every), 32 - 4)
        self.assertEqual(sum(row.kind in ("a2a", "to_a2a") for row in every), 16 - 4)
        self.assertIn(("ar", 128, 8192, 4096), by_size)
        self.assertEqual(by_size["to_a2a", 1024, 10240, 8192].sources, ("Llama-3 70B QKV", "Qwen2-72B QKV"))
        self.assertIn(("a2a", 2048, 8192, 4096), by_size)

    def test_bytes_over_the_link(self):
        # An all-gather receives the other ranks' rows of a; a reduce-scatter sends its summands of the others' rows.
        self.assertEqual(rows.Row("ag", 8192, 3584, 8192, ()).link_bytes(2), 4096 * 8192 * 2)
        self.assertEqual(rows.Row("rs", 8192, 4096, 7168, ()).link_bytes(2), 4096 * 4096 * 2)
        self.assertEqual(rows.Row("ag", 8192, 3584, 8192, ()).link_bytes(8), 7 * 1024 * 8192 * 2)
        self.assertEqual(rows.Row("ag", 8192, 3584, 8192, ()).link_bytes(1), 0)
        self.assertEqual(rows.Row("ar", 8192, 4096, 7168, ()).link_bytes(2), 2 * 4096 * 4096 * 2)
        self.assertEqual(rows.Row("a2a", 8192, 4096, 2048, ()).link_bytes(2), 4096 * 2048 * 2)
        self.assertEqual(rows.Row("to_a2a", 4096, 6144, 4096, ()).link_bytes(2), 4096 * 3072 * 2)


class Select(unittest.TestCase):
    every = rows.all_rows(2)

    def chosen(self, *patterns):
        return rows.select(self.every, patterns)

    def test_all_and_kinds_and_tables(self):
        self.assertEqual(self.chosen("all"), self.every)
        self.assertEqual(len(self.chosen("table")), 14)
        self.assertEqual([row.kind for row in self.chosen("rs+table")], ["rs"] * 7)
        self.assertEqual(sum(len(self.chosen(kind)) for kind in rows.KINDS), len(self.every))
        self.assertEqual(self.chosen("ag+table", "rs+table"), self.chosen("table"))

    def test_models_projections_and_sizes(self):
        self.assertEqual({row.sources for row in self.chosen("8B")},
                         {("Llama-3 8B QKV",), ("Llama-3 8B gate+up",), ("Llama-3 8B O",), ("Llama-3 8B down",),
                          ("table", "Llama-3 8B down")})
        self.assertEqual({row.N for row in self.chosen("gate+up")}, {14336, 28672, 53248, 29568})
        self.assertEqual([size(row) for row in self.chosen("405b+gate+up+M=2048")], [("ag", 2048, 53248, 16384)])
        self.assertEqual([size(row) for row in self.chosen("8192x3584x8192")], [("ag", 8192, 3584, 8192)])
        self.assertEqual([size(row) for row in self.chosen("rs:1024x8192x3584")], [("rs", 1024, 8192, 3584)])
        self.assertNotIn(("table",), {row.sources for row in self.chosen("models")})

    def test_a_word_for_nothing_is_an_error(self):
        for pattern in ["9B", "rs:8192x3584x8192", "ag+rs", ""]:
            with self.assertRaisesRegex(ValueError, "no row is called"):
                self.chosen("table", pattern)


if __name__ == "__main__":
    unittest.main()
