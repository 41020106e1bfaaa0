"""Every choice that the benchmark may make is one that Syncopate compiles, and means what it says.

Usage: compile_test.py BINARY SOURCE_DIR
"""
import dataclasses
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(SOURCE / "bench/gpu"))
import families
import fp8
import gemm_kernels
import layer_choices
import layer_rows
import rows
import tuning


LAYERS = [*(layer_rows.Attention(kind, 1024, (), False, 8, 2, 128, kind == "heads") for kind in layer_rows.ATTENTION),
          *(layer_rows.Experts(kind, 1024, (), False, 128, 64, 16, 2) for kind in layer_rows.EXPERTS),
          layer_rows.Norm("norm_ar", 256, (), False, 512), layer_rows.Norm("norm_rs", 256, (), False, 512),
          layer_rows.Embedding("embedding", 256, (), False, 1000, 512),
          *(layer_rows.Attention(kind, 1024, (), False, 8, 2, 128, True) for kind in ("sp", "ring"))]


def settings(overrides):
    """As `--set` takes them."""
    words = []
    for key, value in overrides.items():
        words += ["--set", f"{key}={json.dumps(value) if isinstance(value, (bool, list)) else value}"]
    return words


class Compiles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def compiled(self, row, choice, ranks=2, built_for=None):
        file = SOURCE / "operators" / choice.operator_file(row)
        overrides = choice.overrides(row, ranks) | tuning.place_of_sums(row.kind, built_for or ranks)
        return self.compiled_file(file, overrides, choice.name)

    def compiled_file(self, file, overrides, name):
        command = [BINARY, "compile", str(file), "--out", self.folder.name, *settings(overrides)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, f"{name}: {result.stderr}")
        return json.loads((pathlib.Path(self.folder.name) / "plan.json").read_text())

    def test_every_variation_of_a_search(self):
        for kind in rows.KINDS:
            row = rows.Row(kind, 2048, 512, 256, ())
            for _, variations in tuning.axes(kind, [132, 128]):
                for vary in variations:
                    choice = vary(tuning.Choice())
                    plan = self.compiled(row, choice)
                    kernel = plan["kernel"]
                    self.assertEqual((kernel["warps"], kernel["stages"]), (choice.warps, choice.stages))
                    tiles = tuning.tiles(row, choice)
                    self.assertEqual(plan["workers"], min(choice.sms * choice.per_sm, tiles))
                    transfers = [len(queue["transfers"]) for rank in plan["programs"] for queue in rank["queues"]]
                    # Each rank sends a block to the other; of an exchange it copies its own; sums are handed out again.
                    blocks = {"ag": 2, "rs": 2, "ar": 4, "a2a": 4, "to_a2a": 4}[kind]
                    self.assertEqual(sum(transfers), blocks * choice.split, kind)

    def test_the_default_of_every_row(self):
        for row in [row for row in rows.all_rows(2) if rows.TABLE in row.sources and row.M <= 2048]:
            self.compiled(row, tuning.default_choice(row, 2, 132))

    def test_all_reduces_of_few_rows_take_one_step(self):
        for row in [row for row in rows.all_rows(2) if row.kind == "ar" and row.M <= 1024]:
            choice = tuning.default_choice(row, 2, 132)
            file = SOURCE / "operators" / choice.operator_file(row)
            plan = self.compiled_file(file, families.settings(row, choice, 2, 2), row.name)
            self.assertEqual("one_shot" in plan["communication"], row.M <= families.MOST_ROWS_OF_ONE_SHOT, row.name)

    def test_every_product_of_the_table(self):
        """The operators that local.py makes."""
        for configuration in sorted(set(gemm_kernels.read_table(tuning.LOCAL_PRODUCTS).values()), key=str):
            settings = configuration.settings(512, 640, 256, 132)
            texts = {key: json.dumps(value) for key, value in settings.items()}
            plan = self.compiled_file(SOURCE / "operators/gemm.toml", texts, str(configuration))
            self.assertEqual(plan["kernel"]["function"], configuration.kernel)
            self.assertEqual(len(plan["tiles"]), configuration.tiles(512, 640))
            self.assertEqual((plan["kernel"]["warps"], plan["kernel"]["stages"]),
                             (configuration.warps, configuration.stages))

    def compiled_layer(self, row, choice, ranks):
        file = SOURCE / "operators" / choice.operator_file(row)
        return self.compiled_file(file, families.settings(row, choice, ranks, ranks), f"{row.name}, {choice.name}")

    def test_every_variation_of_a_search_of_other_rows(self):
        for row in LAYERS:
            start = layer_choices.default_choice(row, 2, 132)
            for axis, variations in families.axes(row, [132, 128], {}, tuning.AXES):
                for vary in variations:
                    choice = vary(start)
                    kernel = self.compiled_layer(row, choice, 2)["kernel"]
                    self.assertEqual((kernel["warps"], kernel["stages"]), (choice.warps, choice.stages))

    def test_tiny_rows_have_the_kernels_of_large_ones(self):
        for row in LAYERS:
            large = row if row.kind in layer_rows.NORMS else dataclasses.replace(row, tokens=2 * row.tokens)
            last = layer_choices.tiles(large)[-1]  # by heads of another kernel
            for ranks, tile in itertools.product((2, 4) if not families.why_not(large, 4) else (2,), (None, last)):
                choice = tile or layer_choices.default_choice(large, ranks, 132)
                tiny, of_ranks = families.tiny(large, choice.machine_code, ranks)
                texts = [self.compiled_layer(each, made, of)["kernel"]["fused_source"] for each, made, of in
                         ((large, choice, ranks), (tiny, choice.machine_code, of_ranks))]
                self.assertEqual(*texts, row.name)

    def test_tensors_have_the_shapes_that_problems_have(self):
        """Of one rank of two, as attention_rows.py and the others make or gather them."""
        attention, experts = LAYERS[0], LAYERS[3]
        groups = 2 * experts.experts * experts.capacity(2)
        expected = {"heads": {"q": [512, 1024], "k": [512, 256], "v": [512, 256], "o": [512, 1024]},
                    "sp": {"q": [512, 1024], "k": [1024, 256], "v": [1024, 256], "o": [512, 1024]},
                    "ring": {"q": [512, 1024], "k": [1024, 256], "v": [1024, 256], "o": [512, 1024]},
                    "moe": {"x": [groups, experts.K], "counts": [2 * experts.experts], "weights": [1],
                            "w": [experts.experts * experts.K, experts.N], "y": [groups, experts.N]},
                    "moe_rs": {"x": [groups, 64], "weights": [groups], "y": [groups, 128]},
                    "norm_ar": {"x": [2, 256, 512], "residual": [256, 512], "y": [256, 512], "h": [256, 512]},
                    "norm_rs": {"x": [1, 256, 512], "residual": [128, 512], "y": [128, 512], "h": [128, 512]},
                    "embedding": {"ids": [256], "first": [1], "table": [1000, 512], "out": [256, 512]}}
        self.assertEqual((attention.tokens, {row.kind for row in LAYERS}), (1024, set(expected)))
        for row in LAYERS:
            plan = self.compiled_layer(row, layer_choices.default_choice(row, 2, 132), 2)
            shapes = {buffer["name"]: buffer["shape"] for buffer in plan["buffers"]}
            self.assertEqual({name: shapes.get(name) for name in expected[row.kind]}, expected[row.kind], row.name)

    def test_kernels_that_are_launched_alone(self):
        for file, row, settings in (("bench/gpu/rms_norm.toml", LAYERS[5], {}), ("operators/embedding_rs.toml", LAYERS[7], {}),
                                    ("operators/grouped_gemm_rs.toml", LAYERS[4], {}),
                                    ("operators/grouped_gemm_rs.toml", LAYERS[3], {"tensors.weights.shape": [1]})):
            blocks = dict(layer_choices.default_choice(row, 2, 132).blocks)
            arguments = {f"kernel.args.{name}": value for name, value in (row.arguments(2) | blocks).items()}
            plan = self.compiled_file(SOURCE / file, arguments | {"ranks": 1} | settings, row.name)
            self.assertTrue(all(not queue["transfers"] for queue in plan["programs"][0]["queues"]), row.name)

    def test_every_candidate_of_8_bit_products(self):
        for configuration in fp8.CANDIDATES:
            for row_scales in (True, False):
                plan = self.compiled_file(SOURCE / "bench/gpu/gemm_fp8.toml",
                                          configuration.settings(512, 640, 512, row_scales, 132), str(configuration))
                self.assertEqual(plan["kernel"]["function"], "gemm_fp8")

    def test_a_kernel_is_the_same_text_for_one_rank_and_for_several(self):
        """What is built ahead, as an operator of one rank, is what operators of several use."""
        for kind, kernel in tuning.OPERATOR_FILES:
            row, choice = rows.Row(kind, 1024, 512, 256, ()), tuning.Choice(kernel=kernel)
            for ranks in (2, 4):
                alone, together = (self.compiled(row, choice, of, ranks)["kernel"]["fused_source"] for of in (1, ranks))
                self.assertEqual(alone, together)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
