"""Compiles one kernel as request.json in this folder says, and leaves result.json beside it. Run by compile.cpp."""
import importlib.util
import json
import sys

sys.dont_write_bytecode = True
with open("request.json") as file:
    request = json.load(file)

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime import JITFunction

triton.knobs.cache.dir = "triton"  # in this folder, which goes away: ours is the cache

spec = importlib.util.spec_from_file_location("kernel", "kernel.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
function = getattr(module, request["function"])
while not isinstance(function, JITFunction):  # @triton.autotune, @triton.heuristics
    function = function.fn

asked = {parameter["name"]: parameter for parameter in request["parameters"]}
signature, constants, attributes = {}, {}, {}
for i, parameter in enumerate(function.params):
    about = asked[parameter.name]
    signature[parameter.name] = about["type"]
    if about["type"] == "constexpr":
        constants[(i,)] = about["value"] if "value" in about else parameter.default
    if about["divisible_by_16"]:
        attributes[(i,)] = [["tt.divisibility", 16]]

kernel = triton.compile(ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes),
                        target=GPUTarget("cuda", request["capability"], 32),
                        options={"num_warps": request["warps"], "num_stages": request["stages"]})
metadata = kernel.metadata
if getattr(metadata, "num_ctas", 1) != 1:
    sys.exit("clusters of thread blocks are not supported")
if getattr(metadata, "profile_scratch_size", 0):
    sys.exit("instrumented kernels are not supported")
result = {
    "name": metadata.name,
    "warps": metadata.num_warps,
    "shared_bytes": metadata.shared,
    "scratch_bytes": getattr(metadata, "global_scratch_size", 0) or 0,
    "parameters": [name for name, kind in signature.items() if kind != "constexpr"],
    "image": kernel.asm["cubin"].hex(),
}
with open("result.json", "w") as file:
    json.dump(result, file)
