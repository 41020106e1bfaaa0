"""The table of measured choices covers every shape of the benchmark, with constants that the kernels have."""
import sys
import unittest

import kernels

sys.path.insert(0, str(kernels.ROOT / "bench" / "gpu"))

from gemm_kernels import read_table
from gemm_shapes import shapes

TABLE = read_table(kernels.ROOT / "bench" / "gpu" / "gemm_table.json")


class GemmTable(unittest.TestCase):

    def test_has_every_shape(self):
        self.assertEqual(set(TABLE), set(shapes()))
        self.assertEqual(len(shapes()), len(set(shapes())))

    def test_constants_are_those_of_the_kernels(self):
        for configuration in set(TABLE.values()):
            function = kernels.local_kernel(configuration.kernel)
            named = [parameter.name for parameter in function.params if parameter.is_constexpr]
            self.assertEqual(list(configuration.constants()), named, str(configuration))


if __name__ == "__main__":
    unittest.main()
