"""A tensor in host memory, just enough of one for Triton's interpreter; so the tests need no framework.

The interpreter calls data_ptr() and dtype of each tensor argument, and copies storages to and from "the device"; here
both are the same numpy array. Of 16-bit types the tests use fp16: the interpreter of Triton 3.6 multiplies the bits
of bf16 operands as if they were integers.
"""
import numpy as np


class HostTensor:
    """A contiguous numpy array of a type that Triton knows by the same name, e.g. float16 or int64."""

    def __init__(self, array):
        self.array = np.ascontiguousarray(array)
        self.dtype = self.array.dtype.name

    def data_ptr(self):
        return self.array.ctypes.data

    # What follows is the interpreter's view of device memory.
    def untyped_storage(self):
        return self

    def cpu(self):
        return self

    def new_empty(self, *_, **__):
        return HostTensor(self.array)

    def set_(self, storage, *_):
        self.array = storage.array

    def storage_offset(self):
        return 0

    def size(self):
        return self.array.shape

    def stride(self):
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def copy_(self, other):
        assert other.array is self.array
