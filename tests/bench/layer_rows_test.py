"""Rows and choices of attention, experts, norms and embedding: figures worked out by hand, words, files of choices."""
import itertools
import pathlib
import sys
import tempfile
import unittest
from dataclasses import replace

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"))
import families
import layer_choices
import layer_rows
import rows
import tuning
from layer_choices import Choice

HEADS = layer_rows.Attention("heads", 8192, (), False, 32, 8, 128, True)
RING = layer_rows.Attention("ring", 8192, (), False, 16, 16, 128, False)
DISPATCH = layer_rows.Experts("moe", 4096, (), False, 1408, 2048, 64, 6)
COMBINE = layer_rows.Experts("moe_rs", 4096, (), False, 2048, 704, 64, 6)


class Rows(unittest.TestCase):
    def test_names_are_unlike_and_can_be_asked_for(self):
        every = families.all_rows(2)
        self.assertEqual(len({row.name for row in every}), len(every))
        for row in every:
            self.assertEqual(rows.select(every, [row.name]), [row])

    def test_every_row_can_be_split_over_two_and_four_ranks(self):
        for ranks in (2, 4):
            self.assertEqual([row.name for row in layer_rows.all_rows(ranks) if families.why_not(row, ranks)], [])
        self.assertIn("no multiple of 3 ranks", families.why_not(replace(HEADS, tokens=6144), 3))
        self.assertIn("no multiple of 6", families.why_not(HEADS, 3))
        self.assertIn("no multiple of 3 ranks", families.why_not(DISPATCH, 3))

    def test_what_a_rank_computes_and_receives(self):
        self.assertEqual(RING.flops(2), 4 * 8192 * 8192 * 16 * 128 // 2)
        self.assertEqual(HEADS.flops(2), 4 * (8192 * 8193 // 2) * 32 * 128 // 2)
        # Its own positions of the other's keys and values; a quarter of q, k, v in and half of its rows of o back.
        self.assertEqual(RING.link_bytes(2), 2 * 2 * 16 * 128 * 4096)
        self.assertEqual(HEADS.link_bytes(2), 2 * 4096 * 128 * (16 + 4 + 4 + 16))
        self.assertEqual(HEADS.link_bytes(4), 2 * 2048 * 128 * (24 + 6 + 6 + 24))

    def test_groups_have_a_quarter_more_rows_than_the_mean_in_whole_tiles(self):
        self.assertEqual(DISPATCH.capacity(2), 256)  # 4096 * 6 / 128 = 192; 240
        self.assertEqual(DISPATCH.link_bytes(2), 2 * 64 * 256 * 2048)
        self.assertEqual(COMBINE.link_bytes(4), 3 * 2 * 64 * 128 * 2048)

    def test_words(self):
        every = families.all_rows(2)
        self.assertFalse(any(row.long for row in rows.select(every, ["all", "heads", "moe"])))
        heads = rows.select(every, ["heads"])
        self.assertEqual(len(heads), 4 * 2 * 2)
        self.assertEqual({row.tokens for row in rows.select(every, ["heads+long"])}, {65536, 131072})
        self.assertTrue(all(row.causal for row in rows.select(every, ["heads+causal"])))
        self.assertEqual({row.kind for row in rows.select(every, ["Mixtral", "moe+OLMoE"])}, {"moe", "moe_rs"})
        self.assertEqual(rows.select(every, ["products"]), rows.all_rows(2))
        self.assertEqual({row.tokens for row in rows.select(every, ["norm_rs+tokens=8192"])}, {8192})
        with self.assertRaisesRegex(ValueError, "no row is called 'embedding\\+70C'"):
            rows.select(every, ["embedding+70C"])


class Choices(unittest.TestCase):
    def test_overrides_name_every_tensor_that_moves(self):
        found = layer_choices.default_choice(HEADS, 2, 132).overrides(HEADS, 2)
        self.assertEqual({key for key in found if key.endswith("split")}, {f"communicate.{x}.split" for x in "qkvo"})
        self.assertEqual((found["kernel.args.HEADS"], found["kernel.args.Q_LENGTH"], found["kernel.args.CAUSAL"]),
                         (16, 8192, True))
        self.assertEqual(found["launch.workers"], 264)
        found = layer_choices.default_choice(RING, 2, 132).overrides(RING, 2)
        self.assertEqual((found["communicate.k.algorithm"], found["kernel.args.HEADS"], found["kernel.args.Q_LENGTH"]),
                         ("ring", 16, 4096))
        causal = replace(RING, causal=True)
        choice = layer_choices.default_choice(causal, 2, 132)
        self.assertNotIn("kernel.args.Q_LENGTH", choice.overrides(causal, 2))
        self.assertEqual([choice.operator_file(row) for row in (RING, causal, replace(HEADS, causal=True))],
                         ["attention_sp.toml", "attention_sp_zigzag.toml", "attention_heads.toml"])

    def test_chunks_are_neither_thinner_than_a_tile_nor_under_4_mib(self):
        for row, ranks in itertools.product(layer_rows.all_rows(2), [2, 4, 8]):
            choice = layer_choices.default_choice(row, ranks, 132)
            self.assertTrue(layer_choices.fits(choice, row, ranks), row.name)
            tensors = len(layer_choices.COMMUNICATED[row.kind])
            chunk = row.link_bytes(ranks) // (ranks - 1) // tensors // choice.split
            self.assertTrue(choice.split == 1 or chunk >= 4 << 20, row.name)

    def test_a_search_walks_known_axes(self):
        for row in layer_rows.all_rows(2):
            walk = families.axes(row, [132, 128], {}, tuning.AXES)
            self.assertEqual([name for name, _ in walk], ["tile", "split", "initiator", "SMs"])
            self.assertIn(layer_choices.tiles(row)[0].machine_code,
                          tuning.machine_codes_of([layer_choices.default_choice(row, 2, 132)], walk))

    def test_choices_are_kept_beside_those_of_products(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tuned.json"
            mine = replace(layer_choices.tiles(HEADS)[1], split=4, initiator="pull")
            product = rows.Row("ag", 8192, 3584, 8192, ())
            found = {f"{HEADS.name}@2": (mine, 5.0), tuning.key(product, 2): (tuning.Choice(), 7.0)}
            tuning.write_tuned(found, "here", path)
            tuned = tuning.read_tuned(path)
            self.assertEqual(families.choose(HEADS, 2, 132, tuned), (mine, "measured"))
            self.assertEqual(families.choose(product, 2, 132, tuned), (tuning.Choice(), "measured"))
            # Of another length, but not of another mask or number of ranks.
            longer = replace(HEADS, tokens=16384)
            self.assertEqual(families.choose(longer, 2, 128, tuned), (replace(mine, sms=128), f"as {HEADS.name}@2"))
            self.assertEqual(families.choose(replace(longer, causal=False), 2, 132, tuned)[1], "default")
            self.assertEqual(families.choose(longer, 4, 132, tuned)[1], "default")
            # Nor of one that the kernel is too slow to plan for.
            self.assertEqual(families.choose(replace(HEADS, tokens=65536), 2, 132, tuned)[0].kernel, "attention_streamed")

    def test_unlike_choices_have_unlike_names(self):
        base = layer_choices.tiles(HEADS)[0]
        choices = [base, replace(base, warps=8), replace(base, stages=4), replace(base, sms=1), replace(base, per_sm=3),
                   replace(base, split=2), replace(base, initiator="pull"), replace(base, blocks=(("BLOCK_M", 1),)), replace(base, kernel="attention_streamed")]
        self.assertEqual(len({choice.name for choice in choices}), len(choices))


if __name__ == "__main__":
    unittest.main()
