"""Torch tensors as DLPack structs, and the reverse."""
import ctypes

from syncopate import _library
from syncopate.errors import Error

_NAMES = {"bool": "bool", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8",
          "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "fp8e4m3": "float8_e4m3fn",
          "fp8e5m2": "float8_e5m2", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_CODES = {"bool": (_BOOL, 8), "int8": (_INT, 8), "int16": (_INT, 16), "int32": (_INT, 32), "int64": (_INT, 64),
          "uint8": (_UINT, 8), "uint16": (_UINT, 16), "uint32": (_UINT, 32), "uint64": (_UINT, 64),
          "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8), "float16": (_FLOAT, 16), "bfloat16": (_BFLOAT, 16),
          "float32": (_FLOAT, 32), "float64": (_FLOAT, 64), "complex32": (_COMPLEX, 32), "complex64": (_COMPLEX, 64),
          "complex128": (_COMPLEX, 128)}

_PyCapsule_New = ctypes.pythonapi.PyCapsule_New
_PyCapsule_New.restype = ctypes.py_object
_PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def torch_dtype(name):
    """The torch dtype of a plan's element type."""
    import torch

    return getattr(torch, _NAMES[name])


def as_dlpack(name, tensor):
    """A DLTensor of a torch tensor. It refers to the tensor's memory and is for one call of the library."""
    try:
        dtype = str(tensor.dtype).removeprefix("torch.")
        device, shape, strides, address = tensor.device, tensor.shape, tensor.stride(), tensor.data_ptr()
    except (AttributeError, RuntimeError) as error:  # RuntimeError: a sparse tensor, say
        raise Error(f"tensor {name}: a dense torch tensor expected, got {type(tensor).__name__} ({error})") from error
    if dtype not in _CODES:
        raise Error(f"tensor {name}: dtype {tensor.dtype} has no counterpart in plans")
    described = _library.DLTensor()
    described.data = address
    # Anything that is neither a CUDA device nor the CPU is no better than the CPU here.
    described.device_type = _library.KDL_CUDA if device.type == "cuda" else _library.KDL_CPU
    described.device_id = device.index or 0
    described.ndim = len(shape)
    described.code, described.bits = _CODES[dtype]
    described.lanes = 1
    described.shape = (ctypes.c_int64 * len(shape))(*shape)
    described.strides = (ctypes.c_int64 * len(shape))(*strides)
    return described


def tensor_of(managed):
    """A torch tensor from a DLManagedTensor*, which it takes over."""
    import torch

    return torch.from_dlpack(_PyCapsule_New(managed, b"dltensor", None))
