"""Syncopate: kernels written for one GPU, fused with the communication around them.

    plan = syncopate.compile("operators/ag_gemm.toml", {"ranks": 2})
    assert plan.verify() and plan.run()
    operator = syncopate.Operator(plan)      # under torchrun, on every rank
    c = operator(a=my_rows, b=weight)

Plans need nothing but this package; Operator needs PyTorch, Triton and a GPU. docs/python.md says the rest.
"""
from syncopate._library import library as _loaded
from syncopate.errors import Error, InternalError, LaunchFailed
from syncopate.operator import Operator
from syncopate.plan import Buffer, Plan, Proof, RunReport, Theorem, compile, load, parse

__version__ = _loaded.syncopate_version().decode()
__all__ = ["Buffer", "Error", "InternalError", "LaunchFailed", "Operator", "Plan", "Proof", "RunReport", "Theorem",
           "compile", "load", "parse"]
