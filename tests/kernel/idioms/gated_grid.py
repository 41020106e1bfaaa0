"""A gated activation on a grid of three axes: batch, rows, columns. The second half of each row gates the first."""
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def gelu_tanh(x):
    return 0.5 * x * (1 + libdevice.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


@triton.jit
def gated(value, gate, activation):
    return value * activation(gate)


@triton.heuristics({"EVEN": lambda args: args["width"] % args["BLOCK_N"] == 0})
@triton.jit
def gated_grid(x_ptr, out_ptr, batches, rows, width, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
               GELU: tl.constexpr, EVEN: tl.constexpr):
    column_block = tl.program_id(0)
    row_block = tl.program_id(1)
    batch = tl.program_id(2)
    row = row_block * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.max_contiguous(tl.multiple_of(column_block * BLOCK_N + tl.arange(0, BLOCK_N), BLOCK_N), BLOCK_N)
    source = x_ptr + batch * rows * 2 * width + row[:, None] * (2 * width) + column[None, :]
    if EVEN:
        mask = (row < rows)[:, None]
    else:
        mask = (row < rows)[:, None] & (column < width)[None, :]
    halves = (tl.load(source, mask=mask, other=0.0).to(tl.float32),
              tl.load(source + width, mask=mask, other=0.0).to(tl.float32))
    if GELU:
        result = gated(halves[0], halves[1], gelu_tanh)
    else:
        result = gated(halves[0], halves[1], activation=silu)
    target = out_ptr + batch * rows * width + row[:, None] * width + column[None, :]
    tl.store(target, result.to(out_ptr.dtype.element_ty), mask=mask)
