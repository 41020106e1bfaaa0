"""Compiles one kernel as request.json in this folder says, and leaves result.json beside it. Run by compile.cpp."""
import importlib.util
import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True
request = json.loads(pathlib.Path("request.json").read_text())

import triton
import triton.language as tl
from hoist import MAKER, hoist
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime import JITFunction

triton.knobs.cache.dir = "triton"  # in this folder, which goes away: ours is the cache

asked = {parameter["name"]: parameter for parameter in request["parameters"]}


@tl.core.builtin
def descriptor_of_launch(given, base, shape, strides, block_shape, padding_option="zero", _semantic=None):
    """What a hoisted call of tl.make_tensor_descriptor has become: that, with the descriptor itself from the launch."""
    made = tl.make_tensor_descriptor(base, shape, strides, block_shape, padding_option, _semantic=_semantic)
    made.handle = given.handle
    return made


def load():
    """(the function as Python sees it, its module)"""
    spec = importlib.util.spec_from_file_location("kernel", "kernel.py")
    module = importlib.util.module_from_spec(spec)
    setattr(module, MAKER, descriptor_of_launch)
    spec.loader.exec_module(module)
    function = getattr(module, request["function"])
    while not isinstance(function, JITFunction):  # @triton.autotune, @triton.heuristics
        function = function.fn
    return function, module


def unwrapped(value):
    return value.value if isinstance(value, tl.constexpr) else value


def constants_of(function, module):
    values = {name: unwrapped(value) for name, value in vars(module).items()}
    for parameter in function.params:
        about = asked[parameter.name]
        if about["type"] == "constexpr":
            values[parameter.name] = unwrapped(about.get("value", parameter.default))
    return {name: value for name, value in values.items() if isinstance(value, (bool, int, float, str))}


def take_descriptors(function, module):
    """(the function with descriptors as parameters, these)"""
    source = pathlib.Path("kernel.py")
    types = {name: about["type"] for name, about in asked.items()}
    text, descriptors = hoist(source.read_text(), request["function"], types, constants_of(function, module))
    for each in descriptors:
        type_name = f"tensordesc<{asked[each.pointer]['type'][1:]}[{', '.join(map(str, each.block))}]>"
        asked[each.parameter] = {"name": each.parameter, "type": type_name, "divisible_by_16": False}
    source.write_text(text)
    return load()[0], descriptors


def compiled(function):
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
    return kernel, [name for name, kind in signature.items() if kind != "constexpr"]


def check_layout(kernel, parameters, descriptors):
    """That a descriptor is passed as compile.h says: other versions of Triton may want it otherwise."""
    ranks = {each.parameter: len(each.block) for each in descriptors}
    expected = []
    for name in parameters:
        expected += [".b8"] + [".u32"] * ranks[name] + [".u64"] * ranks[name] if name in ranks else [None]
    expected += [".u64"] * 2
    entry = re.search(r"\.entry\s+\w+\((.*?)\)", kernel.asm["ptx"], re.DOTALL).group(1)
    found = re.findall(r"\.param\s+(?:\.align\s+64\s+)?(\.\w+)", entry)
    if len(found) != len(expected) or any(want not in (None, got) for want, got in zip(expected, found)):
        sys.exit(f"the parameters of a kernel that takes descriptors are {found}")


def described(kernel, descriptors):
    """What a launch must know to make them: the box of a transfer and its layout in shared memory are Triton's choice."""
    about = getattr(kernel.metadata, "tensordesc_meta", None) or []
    if len(about) != len(descriptors):
        sys.exit(f"{len(descriptors)} descriptors, but Triton describes {len(about)}")
    return [{"pointer": each.pointer, "shape": each.shape, "strides": each.strides,
             "box": list(layout["block_size"]), "swizzle": int(layout["swizzle"]),
             "element_bytes": int(layout["elem_size"])} for each, layout in zip(descriptors, about)]


function, module = load()
descriptors = []
if request["hoist"]:
    function, descriptors = take_descriptors(function, module)
kernel, parameters = compiled(function)
metadata = kernel.metadata
if getattr(metadata, "num_ctas", 1) != 1:
    sys.exit("clusters of thread blocks are not supported")
if getattr(metadata, "profile_scratch_size", 0):
    sys.exit("instrumented kernels are not supported")
if descriptors:
    check_layout(kernel, parameters, descriptors)
result = {
    "name": metadata.name,
    "warps": metadata.num_warps,
    "shared_bytes": metadata.shared,
    "scratch_bytes": getattr(metadata, "global_scratch_size", 0) or 0,
    "parameters": parameters[:len(parameters) - len(descriptors)],
    "descriptors": described(kernel, descriptors),
    "hoist_refused": 0 if request["hoist"] else 1,
    "image": kernel.asm["cubin"].hex(),
}
pathlib.Path("result.json").write_text(json.dumps(result))
