"""A persistent matrix product with what layers do to it afterwards: c = activation(a @ b + bias) + residual, or, gated,
c = activation(a @ b_left + bias_left) * (a @ b_right + bias_right) + residual; all row-major, c of a's or any float type.

a is [M, K], c and residual [M, N], bias [columns of b]. b is [K, N], or, gated, [K, 2 N] with the gate in the left half.
ACTIVATION: 0 none, 1 SiLU, 2 GELU in its tanh form. What a launch does not use (bias, residual) may point to anything.
Everything after the product is computed in fp32.
"""
import triton
import triton.language as tl


@triton.jit
def activated(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == 1:
        x = x * tl.sigmoid(x)
    elif ACTIVATION == 2:
        # 0.5 x (1 + tanh(u)) = x sigmoid(2 u)
        x = x * tl.sigmoid(2 * 0.7978845608028654 * (x + 0.044715 * x * x * x))
    return x


@triton.jit
def with_bias(x, bias_ptr, columns, limit, HAS_BIAS: tl.constexpr):
    if HAS_BIAS:
        x += tl.load(bias_ptr + columns, mask=columns < limit, other=0.0).to(tl.float32)[None, :]
    return x


@triton.jit
def halves(block):
    """The left and the right half of a block's columns."""
    rows: tl.constexpr = block.shape[0]
    columns: tl.constexpr = block.shape[1]
    return tl.split(tl.permute(tl.reshape(block, (rows, 2, columns // 2)), (0, 2, 1)))


@triton.jit
def finish(value, right, c_ptr, bias_ptr, residual_ptr, row, column, M, N, ACTIVATION: tl.constexpr,
           GATED: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr):
    """Stores a block of c at (row, column)."""
    offs_m = row + tl.arange(0, value.shape[0])
    offs_n = column + tl.arange(0, value.shape[1])
    value = activated(with_bias(value, bias_ptr, offs_n, N, HAS_BIAS), ACTIVATION)
    if GATED:
        value *= with_bias(right, bias_ptr + N, offs_n, N, HAS_BIAS)
    # Element offsets are 64-bit: a tensor may hold more than 2^31 elements.
    offsets = offs_m[:, None].to(tl.int64) * N + offs_n[None, :]
    inside = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    if HAS_RESIDUAL:
        value += tl.load(residual_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    tl.store(c_ptr + offsets, value.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def gemm_epilogue(a_ptr, b_ptr, c_ptr, bias_ptr, residual_ptr, M, N, K,
                  BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
                  ACTIVATION: tl.constexpr, GATED: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr):
    b_width = 2 * N if GATED else N
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b = tl.make_tensor_descriptor(b_ptr, shape=[K, b_width], strides=[b_width, 1], block_shape=[BLOCK_K, BLOCK_N])
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    group_size = GROUP_M * tiles_n

    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        # Walk down the rows of a group before moving to the next column; the last group may be shorter.
        group = tile // group_size
        first_m = group * GROUP_M
        rows = min(tiles_m - first_m, GROUP_M)
        pid_m = first_m + (tile % group_size) % rows
        pid_n = (tile % group_size) // rows

        row = pid_m * BLOCK_M
        column = pid_n * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        if GATED:
            right = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, tl.cdiv(K, BLOCK_K)):
            a_tile = a.load([row, k * BLOCK_K])
            accumulator = tl.dot(a_tile, b.load([k * BLOCK_K, column]), accumulator)
            if GATED:
                right = tl.dot(a_tile, b.load([k * BLOCK_K, N + column]), right)

        # One half after the other: addresses and residual of a whole tile would not fit into registers.
        first, second = halves(accumulator)
        if GATED:
            first_right, second_right = halves(right)
        else:
            first_right, second_right = first, second  # not used
        finish(first, first_right, c_ptr, bias_ptr, residual_ptr, row, column, M, N, ACTIVATION, GATED, HAS_BIAS,
               HAS_RESIDUAL)
        finish(second, second_right, c_ptr, bias_ptr, residual_ptr, row, column + BLOCK_N // 2, M, N, ACTIVATION, GATED,
               HAS_BIAS, HAS_RESIDUAL)
