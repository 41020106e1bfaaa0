"""A persistent product of 8-bit floats (e4m3) with scales: c = (a @ b^T) * a_scale * b_scale.

a is [M, K] and b [N, K], both row-major, as the tensor cores take 8-bit operands; c is [M, N] in any float type. ROW_SCALES:
a_scale is [M] and b_scale [N], a factor for each row of a and of b; else both hold one number for the whole tensor.
Products are added in fp32 as precisely as the tensor cores do.
"""
import triton
import triton.language as tl


@triton.jit
def gemm_fp8(a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, M, N, K,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
             ROW_SCALES: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_N, BLOCK_K])
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    group_size = GROUP_M * tiles_n

    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        # Walk down the rows of a group before moving to the next column; the last group may be shorter.
        group = tile // group_size
        first_m = group * GROUP_M
        rows = min(tiles_m - first_m, GROUP_M)
        pid_m = first_m + (tile % group_size) % rows
        pid_n = (tile % group_size) // rows

        row = pid_m * BLOCK_M
        column = pid_n * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, tl.cdiv(K, BLOCK_K)):
            a_tile = a.load([row, k * BLOCK_K])
            b_tile = b.load([column, k * BLOCK_K])
            accumulator = tl.dot(a_tile, b_tile.T, accumulator)

        offs_m = row + tl.arange(0, BLOCK_M)
        offs_n = column + tl.arange(0, BLOCK_N)
        if ROW_SCALES:
            a_scale = tl.load(a_scale_ptr + offs_m, mask=offs_m < M, other=0.0)
            b_scale = tl.load(b_scale_ptr + offs_n, mask=offs_n < N, other=0.0)
            accumulator *= a_scale[:, None] * b_scale[None, :]
        else:
            accumulator *= tl.load(a_scale_ptr) * tl.load(b_scale_ptr)
        # Element offsets are 64-bit: a tensor may hold more than 2^31 elements.
        tl.store(c_ptr + offs_m[:, None].to(tl.int64) * N + offs_n[None, :], accumulator.to(c_ptr.dtype.element_ty),
                 mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
