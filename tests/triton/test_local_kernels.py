"""The shipped kernels run as plain Triton (in its interpreter) and compute a matrix product; annotations change nothing."""
import os
import pathlib
import tempfile
import unittest

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

import numpy as np

import kernels
from host_tensor import HostTensor

# M, N, K, then the tile BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M. Small integers and the sums of their products are exact
# in fp16, so results must be equal, not close.
DESCRIPTOR_SIZES = [
    (64, 64, 32, 32, 32, 16, 2),
    (96, 64, 48, 32, 32, 32, 8),  # the last K step is half empty
    (72, 80, 40, 32, 64, 16, 3),  # ragged on all axes, within what descriptors allow
]
POINTER_SIZES = DESCRIPTOR_SIZES + [(37, 51, 23, 16, 16, 16, 2), (1, 1, 1, 16, 16, 16, 1)]


def cdiv(a, b):
    return -(-a // b)


def operands(M, N, K, seed):
    generator = np.random.default_rng(seed)
    return (generator.integers(-2, 3, shape).astype(np.float16) for shape in ((M, K), (K, N)))


def run(function, sizes, persistent, programs=3):
    """The product that the kernel leaves in c, which starts out as NaN."""
    M, N, K, block_m, block_n = sizes[:5]
    a, b = operands(M, N, K, seed=M * N + K)
    c = HostTensor(np.full((M, N), np.nan, np.float16))
    grid = programs if persistent else cdiv(M, block_m) * cdiv(N, block_n)
    function[(grid,)](HostTensor(a), HostTensor(b), c, M, N, K, *sizes[3:])
    return c.array, a @ b


class LocalKernels(unittest.TestCase):

    def check(self, function, sizes, persistent):
        result, expected = run(function, sizes, persistent)
        np.testing.assert_array_equal(result, expected, err_msg=f"sizes {sizes}")

    def test_persistent_with_descriptors(self):
        for sizes in DESCRIPTOR_SIZES:
            self.check(kernels.local_kernel("gemm"), sizes, persistent=True)

    def test_indices_from_a_helper(self):
        for sizes in DESCRIPTOR_SIZES:
            self.check(kernels.local_kernel("gemm_split_helper"), sizes, persistent=True)

    def test_pointers_with_masks(self):
        for sizes in POINTER_SIZES:
            self.check(kernels.local_kernel("gemm_pointers"), sizes, persistent=False)

    def test_two_widths(self):
        function = kernels.local_kernel("gemm_two_widths")
        for M, N, K, *tile in ((64, 64, 32, 32, 32, 16, 16, 2), (72, 80, 40, 32, 32, 16, 16, 3),
                               (96, 64, 48, 32, 32, 0, 32, 8), (64, 200, 64, 32, 64, 16, 32, 2)):
            a, b = operands(M, N, K, seed=M * N + K)
            c = HostTensor(np.full((M, N), np.nan, np.float16))
            function[(3,)](HostTensor(a), HostTensor(b), c, M, N, K, *tile)
            np.testing.assert_array_equal(c.array, a @ b, err_msg=f"sizes {M, N, K}, tile {tile}")

    def test_annotations_change_nothing(self):
        text = (kernels.LOCAL / "gemm.py").read_text()
        first, last = "        group = tile // group_size\n", "        pid_n = (tile % group_size) // rows\n"
        self.assertIn(first, text)
        self.assertIn(last, text)
        text = text.replace(first, "        # syncopate: tile_scheduler begin\n" + first)
        text = text.replace(last, last + "        # syncopate: tile_scheduler end\n"
                            "        # syncopate: tile_index pid_m, pid_n\n"
                            "        # syncopate: tile_size pid_m=BLOCK_M, pid_n=BLOCK_N\n")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "gemm.py"
            path.write_text(text)
            annotated = kernels.load(path).gemm
            plain = kernels.local_kernel("gemm")
            for sizes in DESCRIPTOR_SIZES:
                np.testing.assert_array_equal(run(annotated, sizes, True)[0], run(plain, sizes, True)[0])


if __name__ == "__main__":
    unittest.main()
