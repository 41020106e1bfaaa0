"""Finds the tensor descriptors that a launch can make for all thread blocks of a kernel, and has the kernel take them.

A call tl.make_tensor_descriptor(pointer, shape, strides, block_shape) makes a descriptor in each thread block, which
takes it a microsecond or two. Where the tensor is a parameter of the kernel, and its sizes follow from parameters and
constants, the host can make it once. Such a call becomes one of MAKER, on the same lines, with a parameter more: a
descriptor that the launch passes. The shape and strides are left where they are, and so is all that is known of them.
"""
import ast
import dataclasses

MAKER = "syncopate_descriptor"
RUNTIME_PREFIX = "syncopate_"  # of parameters that are no tensors or sizes of the kernel's own


@dataclasses.dataclass
class Descriptor:
    """Shape and strides as texts: integers, the kernel's parameters, + - * // %, cdiv, min and max."""
    parameter: str  # that the kernel has for it now
    pointer: str
    shape: list
    strides: list
    block: list


def hoist(text, function, types, constants):
    """(the text that takes descriptors, what it takes). `types`: of all parameters, Triton's names. `constants`: values
    of the constexpr ones and of the module's names."""
    kernel = next((node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == function),
                  None)
    arguments = kernel and kernel.args
    if not kernel or arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg:
        return text, []
    finder = Finder(kernel, types, constants)
    for statement in kernel.body:
        finder.visit(statement)
    edits = [edit for call, descriptor in finder.found for edit in call_edits(text, call, descriptor.parameter)]
    if finder.found:
        edits.append(parameters_edit(arguments, [descriptor.parameter for _, descriptor in finder.found]))
    return edited(text, edits), [descriptor for _, descriptor in finder.found]


class Unknown(Exception):
    """What an expression depends on is known neither when the kernel is compiled nor when it is launched."""


class Text(str):
    """An expression for the launch."""


BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
COMPUTE = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b,
    "%": lambda a, b: a % b, "cdiv": lambda a, b: -(-a // b), "min": min, "max": max,
}
COMPARE = {
    ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b, ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b, ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b,
}


def name_defined(statement):
    """Of `name = value` and `name: tl.constexpr = value`."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign) and statement.value:
        target = statement.target
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


class Finder(ast.NodeVisitor):

    def __init__(self, kernel, types, constants):
        self.types, self.constants = types, constants
        self.parameters = {argument.arg for argument in kernel.args.args}
        self.found = []  # (call, Descriptor)
        self.stores = {}  # name -> nodes that give it a value
        for node in ast.walk(kernel):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self.stores.setdefault(node.id, []).append(node)
        self.definitions = {}  # of names that get a value once, before all loops and branches
        for statement in kernel.body:
            name = name_defined(statement)
            if name and len(self.stores[name]) == 1 and name not in self.parameters:
                self.definitions[name] = statement

    # --- where the calls are ---

    def visit_If(self, node):
        """Not in a branch that is not compiled, nor where a launch might have sizes of which no descriptor can be."""
        try:
            branch = node.body if self.constant(node.test) else node.orelse
        except Unknown:
            return
        for statement in branch:
            self.visit(statement)

    def visit_IfExp(self, node):
        pass

    def visit_Call(self, node):
        self.generic_visit(node)
        callee = node.func
        if not isinstance(callee, ast.Attribute) or callee.attr != "make_tensor_descriptor":
            return
        if callee.lineno != callee.end_lineno:
            return
        try:
            self.found.append((node, self.descriptor(node)))
        except Unknown:
            pass

    def descriptor(self, call):
        names = ["base", "shape", "strides", "block_shape", "padding_option"]
        given = dict(zip(names, call.args)) | {each.arg: each.value for each in call.keywords}
        if len(call.args) > len(names) or set(names[:4]) - set(given) or set(given) - set(names):
            raise Unknown
        if "padding_option" in given and self.value(given["padding_option"]) != "zero":
            raise Unknown
        base = given["base"]
        if not isinstance(base, ast.Name) or not self.is_own_parameter(base.id) or self.types[base.id][0] != "*":
            raise Unknown
        shape, strides, block = (self.integers(given[name]) for name in names[1:4])
        if strides[-1] != 1 or not all(isinstance(size, int) and size > 0 for size in block):
            raise Unknown
        return Descriptor(f"{RUNTIME_PREFIX}descriptor_{len(self.found)}", base.id, [str(each) for each in shape],
                          [str(each) for each in strides], block)

    def is_own_parameter(self, name):
        """Whether the name is a parameter's all through the kernel, and the plan knows its value."""
        return name in self.parameters and name not in self.stores and not name.startswith(RUNTIME_PREFIX)

    # --- what expressions are ---

    def integers(self, node):
        """Of a list: each a number or a Text."""
        if not isinstance(node, (ast.List, ast.Tuple)) or not node.elts:
            raise Unknown
        values = [self.value(each) for each in node.elts]
        if not all(isinstance(each, Text) or type(each) is int for each in values):
            raise Unknown
        return values

    def value(self, node):
        """A constant, or the Text of an integer."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.value_of_name(node)
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            return self.combined(BINARY[type(node.op)], [node.left, node.right], "({0} {op} {1})")
        if isinstance(node, ast.Call) and not node.keywords and len(node.args) == 2:
            return self.combined(self.function_name(node.func), node.args, "{op}({0}, {1})")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
            operand = self.constant(node.operand)
            return not operand if isinstance(node.op, ast.Not) else -operand
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARE:
            return COMPARE[type(node.ops[0])](self.constant(node.left), self.constant(node.comparators[0]))
        if isinstance(node, ast.BoolOp):
            # One after the other: the value of the rest may be of no consequence.
            for operand in node.values:
                value = self.constant(operand)
                if bool(value) == isinstance(node.op, ast.Or):
                    break
            return value
        raise Unknown

    def value_of_name(self, node):
        name = node.id
        if self.is_own_parameter(name):
            if self.types[name] in ("i32", "i64"):
                return Text(name)
            if name in self.constants:
                return self.constants[name]
        elif name in self.definitions and self.definitions[name].end_lineno < node.lineno:
            return self.value(self.definitions[name].value)
        elif name not in self.parameters and name not in self.stores and name in self.constants:
            return self.constants[name]
        raise Unknown

    def constant(self, node):
        value = self.value(node)
        if isinstance(value, Text):
            raise Unknown
        return value

    def combined(self, operation, operands, form):
        values = [self.value(each) for each in operands]
        if not all(isinstance(each, Text) or type(each) is int for each in values):
            raise Unknown
        if any(isinstance(each, Text) for each in values):
            return Text(form.format(*values, op=operation))
        if operation in ("//", "%", "cdiv") and values[1] <= 0:
            raise Unknown
        return COMPUTE[operation](*values)

    @staticmethod
    def function_name(node):
        """Of tl.cdiv, triton.cdiv, and of what Triton takes for min and max."""
        if isinstance(node, ast.Attribute) and node.attr == "cdiv":
            return "cdiv"
        if isinstance(node, ast.Name) and node.id in ("min", "max"):
            return node.id
        raise Unknown


# --- the text: edits are (line from 1, byte in it, bytes that go, bytes that come) ---


def call_edits(text, call, parameter):
    """MAKER instead of the function's name, and the descriptor before the arguments."""
    callee = call.func
    lines = text.encode().splitlines(keepends=True)
    line, at = callee.end_lineno, callee.end_col_offset
    yield line, callee.col_offset, at, MAKER
    while b"(" not in lines[line - 1][at:]:
        line, at = line + 1, 0
    at = lines[line - 1].index(b"(", at) + 1
    yield line, at, at, f"{parameter}, "


def parameters_edit(arguments, added):
    last = arguments.args[-1]
    default = "=None" if arguments.defaults else ""
    end = arguments.defaults[-1] if arguments.defaults else last
    return end.end_lineno, end.end_col_offset, end.end_col_offset, "".join(f", {name}{default}" for name in added)


def edited(text, edits):
    lines = text.encode().splitlines(keepends=True)
    for line, begin, end, new in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        old = lines[line - 1]
        lines[line - 1] = old[:begin] + new.encode() + old[end:]
    return b"".join(lines).decode()
