"""Every program of bench/gpu tells its options where there is no torch, and names a mistake in them."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "gpu"


class WithoutTorch(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name in ("torch", "triton"):
            pathlib.Path(self.folder.name, f"{name}.py").write_text(f"raise ImportError('no {name} here')\n")

    def run_program(self, name, *arguments):
        environment = {**os.environ, "PYTHONPATH": self.folder.name, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([sys.executable, str(PROGRAMS / name), *arguments], capture_output=True, text=True,
                              env=environment, timeout=60)

    def test_help(self):
        for name in ("attention.py", "counters.py", "fp8.py", "local.py", "operators.py", "report.py", "tune_gemm.py"):
            with self.subTest(name):
                result = self.run_program(name, "--help")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertTrue(result.stdout.startswith(f"usage: {name} [-h]"), result.stdout)

    def test_what_is_missing_is_one_line(self):
        for name in ("attention.py", "operators.py", "tune_gemm.py"):
            with self.subTest(name):
                result = self.run_program(name)
                self.assertEqual(result.returncode, 1)
                self.assertEqual(result.stderr, "this benchmark needs torch, which cannot be imported (no torch here): "
                                                "python3 -m pip install torch\n")

    def test_mistakes(self):
        result = self.run_program("operators.py", "--methods", "ours,theirs")
        self.assertEqual(result.returncode, 2)
        self.assertIn("operators.py: error: unknown method theirs; there are cublas", result.stderr)
        result = self.run_program("report.py")
        self.assertEqual(result.returncode, 2)
        self.assertIn("the following arguments are required: results", result.stderr)


if __name__ == "__main__":
    unittest.main()
