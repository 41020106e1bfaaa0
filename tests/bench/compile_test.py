"""Every choice that the benchmark may make is one that Syncopate compiles, and means what it says.

Usage: compile_test.py BINARY SOURCE_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(SOURCE / "bench/gpu"))
import gemm_kernels
import rows
import tuning


def settings(overrides):
    """As `--set` takes them."""
    words = []
    for key, value in overrides.items():
        words += ["--set", f"{key}={value}"]
    return words


class Compiles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def compiled(self, row, choice, ranks=2, built_for=None):
        file = SOURCE / "operators" / choice.operator_file(row.kind)
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

    def test_a_kernel_is_the_same_text_for_one_rank_and_for_several(self):
        """What is built ahead, as an operator of one rank, is what operators of several use."""
        for kind, kernel in tuning.OPERATOR_FILES:
            row, choice = rows.Row(kind, 1024, 512, 256, ()), tuning.Choice(kernel=kernel)
            for ranks in (2, 4):
                alone, together = (self.compiled(row, choice, of, ranks)["kernel"]["fused_source"] for of in (1, ranks))
                self.assertEqual(alone, together)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
