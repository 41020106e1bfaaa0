"""Operators under torchrun: two and three processes that share a GPU, and, where there are two, one each (gpu_worker.py has
the scenarios). Skips with a message where there is no GPU or no torch."""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

WORKER = pathlib.Path(__file__).with_name("gpu_worker.py")
SECONDS = 400
CACHE = tempfile.TemporaryDirectory()  # of compiled kernels, for all tests: it goes with this process


def gpus():
    """How many there are, or why none can be used."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    return torch.cuda.device_count() or "there is no GPU"


class Launcher:
    """Scenarios as processes."""

    layout = []
    processes = 2

    def arguments(self, scenario):
        return [str(WORKER), scenario, "--cache", CACHE.name, *self.layout]

    def torchrun(self, scenario):
        # A session of its own: at the limit the ranks are to go with torchrun.
        child = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.processes}",
             *self.arguments(scenario)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            output, _ = child.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            output = child.communicate()[0]
            self.fail(f"{scenario} did not end within {SECONDS} s\n{output[-4000:]}")
        print(output[-2000:], flush=True)
        self.assertEqual(child.returncode, 0, output[-6000:])

    def killed(self):
        """Rank 1 kills itself, which torchrun would not let the others survive."""
        with socket.socket() as finder:
            finder.bind(("127.0.0.1", 0))
            port = finder.getsockname()[1]
        ranks = [subprocess.Popen([sys.executable, *self.arguments("killed")], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True,
                                  env=os.environ | {"RANK": str(rank), "WORLD_SIZE": str(self.processes),
                                                    "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                                                    "MASTER_PORT": str(port)})
                 for rank in range(self.processes)]
        try:
            for rank in ranks[:1] + ranks[2:]:
                output = rank.communicate(timeout=SECONDS)[0]
                print(output[-2000:], flush=True)
                self.assertEqual(rank.returncode, 0, output[-6000:])
            self.assertEqual(ranks[1].wait(timeout=10), -9)
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()


class Scenarios(Launcher):
    """The same for both layouts."""

    def test_right(self):
        self.torchrun("right")

    def test_ragged(self):
        self.torchrun("ragged")

    def test_captured(self):
        self.torchrun("captured")

    def test_local(self):
        self.torchrun("local")

    def test_mistakes(self):
        self.torchrun("mistakes")

    def test_withheld(self):
        self.torchrun("withheld")

    def test_again(self):
        self.torchrun("again")

    def test_cost(self):
        self.torchrun("cost")

    def test_killed(self):
        self.killed()


FOUND = gpus()


@unittest.skipIf(isinstance(FOUND, str), FOUND)
class OneGpuForBoth(Scenarios, unittest.TestCase):
    layout = ["--share"]


@unittest.skipIf(isinstance(FOUND, str), FOUND)
class ThreeOnOneGpu(Launcher, unittest.TestCase):
    layout = ["--share", "--calls", "20"]
    processes = 3

    def test_right(self):
        self.torchrun("right")

    def test_withheld(self):
        self.torchrun("withheld")

    def test_killed(self):
        self.killed()


@unittest.skipIf(isinstance(FOUND, str) or FOUND < 2, "fewer than two GPUs")
class OneGpuEach(Scenarios, unittest.TestCase):
    pass


if __name__ == "__main__":
    if isinstance(FOUND, str):
        print(f"skipped: {FOUND}")
        sys.exit(0)
    unittest.main(verbosity=2)
