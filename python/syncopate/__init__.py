"""Syncopate: kernels written for one GPU, fused with the communication around them.

    plan = syncopate.compile("operators/ag_gemm.toml", {"ranks": 2})
    assert plan.verify() and plan.run()
    operator = syncopate.Operator(plan)      # under torchrun, on every rank
    c = operator(a=my_rows, b=weight)

Plans need nothing but this package; Operator needs PyTorch, Triton and a GPU. docs/python.md says the rest.
"""
import os as _os

# Read by the driver when CUDA is first used: streams that wait for each other need hardware queues of their own. A user's
# own setting stays.
_os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

from syncopate._library import library as _loaded
from syncopate.errors import Error, InternalError, LaunchFailed
from syncopate.operator import Operator
from syncopate.plan import Buffer, Plan, Proof, RunReport, Theorem, compile, load, parse

__version__ = _loaded.syncopate_version().decode()
__all__ = ["Buffer", "Error", "InternalError", "LaunchFailed", "Operator", "Plan", "Proof", "RunReport", "Theorem",
           "compile", "load", "parse"]
