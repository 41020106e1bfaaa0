"""gemm_two_widths.py with a third width: a tile is BLOCK_N + EXTRA_N + REST_N columns wide, c = a @ b, all row-major.

7392 columns, say, are 33 tiles of 224 = 128 + 64 + 32, and no tile of two powers of two divides them as well.
"""
import triton
import triton.language as tl


@triton.jit
def store_block(c_ptr, block, row, column, M, N, BLOCK_M: tl.constexpr, WIDTH: tl.constexpr):
    rows = row + tl.arange(0, BLOCK_M)
    columns = column + tl.arange(0, WIDTH)
    # Element offsets are 64-bit: a tensor may hold more than 2^31 elements.
    pointers = c_ptr + rows[:, None].to(tl.int64) * N + columns[None, :]
    tl.store(pointers, block.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def gemm_three_widths(a_ptr, b_ptr, c_ptr, M, N, K,
                      BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EXTRA_N: tl.constexpr, REST_N: tl.constexpr,
                      BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, BLOCK_N])
    b_extra = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, EXTRA_N])
    b_rest = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, REST_N])

    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N + EXTRA_N + REST_N)
    group_size = GROUP_M * tiles_n

    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        # Walk down the rows of a group before moving to the next column; the last group may be shorter.
        group = tile // group_size
        first_m = group * GROUP_M
        rows = min(tiles_m - first_m, GROUP_M)
        pid_m = first_m + (tile % group_size) % rows
        pid_n = (tile % group_size) // rows

        row = pid_m * BLOCK_M
        column = pid_n * (BLOCK_N + EXTRA_N + REST_N)
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        extra = tl.zeros((BLOCK_M, EXTRA_N), dtype=tl.float32)
        rest = tl.zeros((BLOCK_M, REST_N), dtype=tl.float32)
        for k in range(0, tl.cdiv(K, BLOCK_K)):
            a_tile = a.load([row, k * BLOCK_K])
            accumulator = tl.dot(a_tile, b.load([k * BLOCK_K, column]), accumulator)
            extra = tl.dot(a_tile, b_extra.load([k * BLOCK_K, column + BLOCK_N]), extra)
            rest = tl.dot(a_tile, b_rest.load([k * BLOCK_K, column + BLOCK_N + EXTRA_N]), rest)

        store_block(c_ptr, accumulator, row, column, M, N, BLOCK_M, BLOCK_N)
        store_block(c_ptr, extra, row, column + BLOCK_N, M, N, BLOCK_M, EXTRA_N)
        store_block(c_ptr, rest, row, column + BLOCK_N + EXTRA_N, M, N, BLOCK_M, REST_N)
