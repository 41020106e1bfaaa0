"""Which tensor descriptors are hoisted out of a kernel, with what sizes, and what is left of its text. Needs no Triton."""
import ast
import pathlib
import sys
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "syncopate" / "cuda"))
from hoist import MAKER, hoist

TYPES = {"x_ptr": "*bf16", "y_ptr": "*fp16", "M": "i32", "N": "i64", "scale": "fp32", "flag": "u1", "B": "constexpr",
         "MODE": "constexpr", "syncopate_rank": "i32", "syncopate_staging": "*bf16"}
CONSTANTS = {"B": 64, "MODE": "wide", "WIDTH": 32, "FACTOR": 2.0}
HEAD = "@triton.jit\ndef kernel(x_ptr, y_ptr, M, N, scale, flag, B: tl.constexpr, MODE, syncopate_rank, syncopate_staging):\n"
MADE = "d = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [B, B])"


def hoisted(body, head=HEAD):
    return hoist(head + textwrap.indent(textwrap.dedent(body), "    "), "kernel", TYPES, CONSTANTS)


class Hoist(unittest.TestCase):

    def descriptor(self, arguments, before=""):
        """What becomes of one call."""
        _, found = hoisted(f"{before}\nd = tl.make_tensor_descriptor({arguments})\n")
        self.assertLessEqual(len(found), 1)
        return found[0] if found else None

    def expect_sizes(self, size, expected, before=""):
        found = self.descriptor(f"x_ptr, [{size}, N], [N, 1], [B, B]", before)
        self.assertIsNotNone(found, size)
        self.assertEqual(found.shape, [expected, "N"])

    def expect_left(self, body):
        text, found = hoisted(body)
        self.assertEqual(found, [], body)
        self.assertNotIn(MAKER, text)

    def test_a_call_takes_its_descriptor_from_a_parameter(self):
        text, found = hoisted(f"{MADE}\nd.load([0, 0])\n")
        self.assertEqual(text, HEAD.replace("syncopate_staging)", "syncopate_staging, syncopate_descriptor_0)") +
                         "    d = syncopate_descriptor(syncopate_descriptor_0, x_ptr, [M, N], [N, 1], [B, B])\n"
                         "    d.load([0, 0])\n")
        self.assertEqual(vars(found[0]), {"parameter": "syncopate_descriptor_0", "pointer": "x_ptr", "shape": ["M", "N"],
                                          "strides": ["N", "1"], "block": [64, 64]})

    def test_each_call_has_its_own_in_order(self):
        text, found = hoisted("""
            x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [B, B])
            for i in range(4):
                y = triton.language.make_tensor_descriptor(base=y_ptr, shape=(N,), strides=(1,), block_shape=(B // 2,),
                                                           padding_option="zero",)
            """)
        self.assertEqual([(each.parameter, each.pointer, each.block) for each in found],
                         [("syncopate_descriptor_0", "x_ptr", [64, 64]), ("syncopate_descriptor_1", "y_ptr", [32])])
        self.assertIn("y = syncopate_descriptor(syncopate_descriptor_1, base=y_ptr, shape=(N,)", text)
        self.assertIn("syncopate_staging, syncopate_descriptor_0, syncopate_descriptor_1):", text)

    def test_lines_stay_where_they_are(self):
        body = f"""
            "ümlauts: columns are counted in bytes"; {MADE}
            e = tl.make_tensor_descriptor  (  # why
                x_ptr,
                [M, N],

                [N, 1], [B,
                B])
            end = 1
            """
        before, (after, found) = HEAD + textwrap.indent(textwrap.dedent(body), "    "), hoisted(body)
        self.assertEqual(len(found), 2)
        self.assertEqual(before.count("\n"), after.count("\n"))
        statements = [[(each.lineno, each.end_lineno) for each in ast.parse(text).body[0].body]
                      for text in (before, after)]
        self.assertEqual(statements[0], statements[1])
        self.assertIn('"ümlauts: columns are counted in bytes"; d = syncopate_descriptor(syncopate_descriptor_0, x_ptr', after)

    def test_parameters_with_defaults_stay_before_those_added(self):
        head = "@triton.jit\ndef kernel(x_ptr, M, N,\n           B: tl.constexpr = 64,\n           MODE=None,  # last\n):\n"
        text, found = hoisted(f"{MADE}\n", head)
        self.assertEqual(len(found), 1)
        self.assertIn("MODE=None, syncopate_descriptor_0=None,  # last\n):", text)
        ast.parse(text)

    def test_sizes_are_expressions_of_the_kernels_integers(self):
        self.expect_sizes("M", "M")
        self.expect_sizes("7", "7")
        self.expect_sizes("M * N + 2 - M // 4 % 3", "(((M * N) + 2) - ((M // 4) % 3))")
        self.expect_sizes("B * 2 + M", "(128 + M)")
        self.expect_sizes("tl.cdiv(M, B)", "cdiv(M, 64)")
        self.expect_sizes("triton.cdiv(130, B)", "3")
        self.expect_sizes("min(M, 5) * max(3, B)", "(min(M, 5) * 64)")
        self.expect_sizes("M * WIDTH", "(M * 32)")

    def test_names_with_one_definition_are_what_they_are_defined_as(self):
        self.expect_sizes("width", "(M * 64)", "half = B // 2\nwidth = M * (2 * half)")
        self.expect_sizes("width", "(M * 4)", "width: tl.constexpr = M * 4")
        for before in ("width = M\nwidth += 1", "for width in range(4):\n    pass", "if M > 4:\n    width = M",
                       "width = width + 1", "width, other = M, N", "width = tl.load(x_ptr)", "width = scale", ""):
            self.assertIsNone(self.descriptor("x_ptr, [width, N], [N, 1], [B, B]", before), before)

    def test_a_definition_that_comes_later_is_none(self):
        self.expect_left("d = tl.make_tensor_descriptor(x_ptr, [width, N], [N, 1], [B, B])\nwidth = M")

    def test_what_is_known_only_inside_the_kernel_is_left_there(self):
        for arguments in (
                "x_ptr + M, [M, N], [N, 1], [B, B]", "pointer, [M, N], [N, 1], [B, B]", "M, [M, N], [N, 1], [B, B]",
                "syncopate_staging, [M, N], [N, 1], [B, B]", "x_ptr, [syncopate_rank, N], [N, 1], [B, B]",
                "x_ptr, [tl.program_id(0), N], [N, 1], [B, B]", "x_ptr, [scale, N], [N, 1], [B, B]",
                "x_ptr, [flag, N], [N, 1], [B, B]", "x_ptr, [M / 2, N], [N, 1], [B, B]", "x_ptr, sizes, [N, 1], [B, B]",
                "x_ptr, [M * FACTOR, N], [N, 1], [B, B]", "x_ptr, [M, N], [1, M], [B, B]", "x_ptr, [M, N], [N, M], [B, B]",
                "x_ptr, [M, N], [N, 1], [B, M]", "x_ptr, [M, N], [N, 1], [B, 0]", "x_ptr, [M // 0 + B // 0, N], [N, 1], [B, B]",
                'x_ptr, [M, N], [N, 1], [B, B], "nan"', "x_ptr, [M, N], [N, 1], [B, B], padding_option=MODE",
                "x_ptr, [M, N], [N, 1]", "*everything", "x_ptr, [M, N], [N, 1], block_shape=[B, B], more=1",
                "x_ptr, [M, N], [N, 1], [MODE, B]", "x_ptr, [], [], []", "x_ptr, [M, N], [N, True], [B, B]"):
            self.assertIsNone(self.descriptor(arguments), arguments)

    def test_a_parameter_that_gets_another_value_is_left(self):
        for change in ("x_ptr += 4", "M = M * 2", "N, other = 3, 4", "for M in range(3):\n    pass", "B = 32",
                       "x_ptr = y_ptr if flag else x_ptr", "while M > (M := 3):\n    pass", "del N"):
            self.expect_left(f"{MADE}\n{change}\n")
            self.expect_left(f"{change}\n{MADE}\n")

    def test_a_name_of_a_parameter_may_be_the_descriptors(self):
        _, found = hoisted("M = tl.make_tensor_descriptor(x_ptr, [N, N], [N, 1], [B, B])\n")
        self.assertEqual([each.shape for each in found], [["N", "N"]])

    def test_of_branches_only_what_is_compiled_counts(self):
        taken, other = MADE, MADE.replace("x_ptr", "y_ptr")
        for condition in ("B > 32", "B == 64 and MODE == 'wide'", "not B != 64", "B < 0 or WIDTH >= 32", "MODE == 'wide'",
                          "B > 0 or M > 0", "B"):
            _, found = hoisted(f"if {condition}:\n    {taken}\nelse:\n    {other}\n")
            self.assertEqual([each.pointer for each in found], ["x_ptr"], condition)
            _, found = hoisted(f"if not ({condition}):\n    {taken}\nelse:\n    {other}\n")
            self.assertEqual([each.pointer for each in found], ["y_ptr"], condition)

    def test_a_branch_that_a_launch_decides_keeps_its_descriptors(self):
        for condition in ("M % 8 == 0", "scale > 0", "flag", "M > 0 and B > 0", "tl.load(x_ptr) > 0", "1 < B < 100"):
            self.expect_left(f"if {condition}:\n    {MADE}\nelse:\n    {MADE}\n")
        self.expect_left("d = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [B, B]) if M > 4 else 0\n")

    def test_kernels_without_descriptors_and_other_functions_stay_as_they_are(self):
        self.expect_left("tl.store(x_ptr, 1)\n")
        text = f"@triton.jit\ndef helper(x_ptr, M, N, B):\n    {MADE}\n{HEAD}    helper(x_ptr, M, N, B)\n"
        self.assertEqual(hoist(text, "kernel", TYPES, CONSTANTS), (text, []))
        self.assertEqual(hoist(text, "missing", TYPES, CONSTANTS), (text, []))
        for parameters in ("x_ptr, M, N, *, B", "x_ptr, M, N, B, *more", "x_ptr, M, N, /, B", "x_ptr, M, N, B, **more"):
            _, found = hoisted(MADE, f"def kernel({parameters}):\n")
            self.assertEqual(found, [], parameters)

    def test_the_products_of_this_repository(self):
        sizes = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8, "EXTRA_N": 64}
        for name, changed, pointers in (("gemm", {}, "abc"), ("gemm_two_widths", {}, "abb"),
                                        ("gemm_two_widths", {"EXTRA_N": 0}, "ab"),
                                        ("gemm_pointers", {}, "")):
            text = (ROOT / "kernels" / f"{name}.py").read_text()
            names = {"a_ptr": "*bf16", "b_ptr": "*bf16", "c_ptr": "*bf16", "M": "i32", "N": "i32", "K": "i32"}
            types = dict.fromkeys(sizes, "constexpr") | names
            _, found = hoist(text, name, types, sizes | changed)
            self.assertEqual([each.pointer for each in found], [f"{each}_ptr" for each in pointers], name)
            shapes = {"a_ptr": ["M", "K"], "b_ptr": ["K", "N"], "c_ptr": ["M", "N"]}
            for each in found:
                self.assertEqual((each.shape, each.strides), (shapes[each.pointer], [each.shape[1], "1"]))


if __name__ == "__main__":
    unittest.main()
