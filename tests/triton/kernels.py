"""The kernels under test and where they are: the local ones that we ship, and the golden files of the emitter."""
import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCAL = ROOT / "kernels"
FUSED = ROOT / "tests" / "emit" / "golden"

# Name of both the file and the function.
NAMES = ("gemm", "gemm_pointers", "gemm_split_helper")


def load(path):
    """Imports a kernel file by its path. Triton needs the source, so it can't be executed from text."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def local_kernel(name):
    return getattr(load(LOCAL / f"{name}.py"), name)


def fused_module(name):
    return load(FUSED / f"{name}.py")


def dynamic_module(name, kind=""):
    """The fused kernel whose programs choose among tiles; `kind` is that of a golden file."""
    return load(FUSED / f"{name}{kind}_dynamic.py")


def sent_module(name):
    """The fused kernel whose output is sent to other ranks as it is."""
    return load(FUSED / f"{name}_sent.py")


def sum_module(name):
    """The fused kernel whose output is a sum over ranks."""
    return load(FUSED / f"{name}_sum.py")


def one_shot_module(name):
    """The fused kernel whose output is a one-shot sum of four ranks."""
    return load(FUSED / f"{name}_one_shot.py")


def in_place_module(name):
    """The fused kernel that adds to what stands in its output."""
    return load(FUSED / f"{name}_sum_in_place.py")
