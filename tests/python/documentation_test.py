"""Runs the Python of docs/python.md in a copy of the tree's operators and kernels, and compiles what needs a GPU."""
import os
import pathlib
import re
import shutil
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]


class Documentation(unittest.TestCase):
    def test_blocks(self):
        text = (SOURCE / "docs/python.md").read_text()
        blocks = re.findall(r"^```python( gpu)?\n(.*?)^```$", text, re.M | re.S)
        self.assertGreaterEqual(sum(not gpu for gpu, _ in blocks), 2)
        self.assertGreaterEqual(sum(bool(gpu) for gpu, _ in blocks), 1)
        before, names = os.getcwd(), {}
        with tempfile.TemporaryDirectory() as folder:
            for name in ("kernels", "operators"):
                shutil.copytree(SOURCE / name, pathlib.Path(folder) / name)
            os.chdir(folder)
            try:
                for gpu, block in blocks:
                    code = compile(block, "docs/python.md", "exec")
                    if not gpu:
                        exec(code, names)
            finally:
                os.chdir(before)

    def test_every_public_name_is_there(self):
        import syncopate

        text = (SOURCE / "docs/python.md").read_text()
        for name in syncopate.__all__:
            if name not in ("Buffer", "Theorem", "Plan", "parse"):
                self.assertIn(name, text)
        for name in ("shard", "buffer", "output", "local", "check", "synchronize", "close"):
            self.assertTrue(callable(getattr(syncopate.Operator, name)))
            self.assertIn(f"operator.{name}(", text)


if __name__ == "__main__":
    unittest.main()
