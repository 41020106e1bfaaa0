"""Residual and RMS norm: h = x + residual, y = h / rms(h) * weight, row by row, of tensors [M, N].

Statistics are in fp32, of h before it is rounded. A program has BLOCK_M rows; BLOCK_N is the power of two that holds a
row, so rows of any length work.
"""
import triton
import triton.language as tl


@triton.jit
def rms_norm(x_ptr, residual_ptr, weight_ptr, y_ptr, h_ptr, M, N, eps,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    pid = tl.program_id(0)
    rows = pid * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    in_row = columns[None, :] < N
    exists = (rows[:, None] < M) & in_row
    places = rows[:, None].to(tl.int64) * N + columns[None, :]

    x = tl.load(x_ptr + places, mask=exists, other=0.0).to(tl.float32)
    h = x + tl.load(residual_ptr + places, mask=exists, other=0.0).to(tl.float32)
    tl.store(h_ptr + places, h.to(h_ptr.dtype.element_ty), mask=exists)

    weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(h * h, 1) / N + eps)
    y = h * scale[:, None] * weight[None, :]
    tl.store(y_ptr + places, y.to(y_ptr.dtype.element_ty), mask=exists)
