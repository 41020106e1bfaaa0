"""Builds the wheel, installs it into an environment of its own, and uses it from there."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
USE = """
import sys, syncopate
assert sys.prefix in syncopate.__file__, syncopate.__file__
plan = syncopate.compile(sys.argv[1] + "/operators/ag_gemm.toml", {"ranks": 2, "kernel.args.M": 256})
assert plan.verify()
report = plan.run(seed=3, adversary=True)
assert report, report
try:
    syncopate.compile(sys.argv[1] + "/operators/ag_gemm.toml", {"rank": 2})
except syncopate.Error as error:
    assert "did you mean 'ranks'" in str(error), error
print(syncopate.__version__, report.outcome)
"""


def run(*words):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=1100, env=environment)
    if result.returncode != 0:
        raise AssertionError(f"{words}\n{result.stdout}{result.stderr}")
    return result.stdout


class Wheel(unittest.TestCase):
    def test_it_installs_and_works(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            run(SOURCE / "scripts/wheel.sh", folder / "wheel")
            wheel, = (folder / "wheel").glob("*.whl")
            self.assertIn("-py3-none-", wheel.name)
            self.assertLess(wheel.stat().st_size, 20 << 20)
            names = zipfile.ZipFile(wheel).namelist()
            self.assertIn("syncopate/libsyncopate.so", names)
            self.assertEqual([name for name in names if name.endswith((".a", ".h", ".cpp"))], [])
            run(sys.executable, "-m", "venv", folder / "venv")
            python = folder / "venv/bin/python"
            run(python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", wheel)
            output = run(python, "-c", USE, SOURCE)
            self.assertRegex(output, r"^\d+\.\d+\.\d+ right\n$")


if __name__ == "__main__":
    unittest.main()
