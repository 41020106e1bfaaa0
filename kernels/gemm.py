"""A persistent matrix product on tensor descriptors: c = a @ b for row-major a [M, K], b [K, N], c [M, N].

Every program takes each num_programs-th tile of c, in an order that keeps a group of GROUP_M tile rows together, so that
the tiles that run at the same time share rows of a and columns of b in the L2 cache. Tiles at the ragged edge need no
masks: a descriptor reads zeros outside its tensor and drops what is stored there. Row strides must be multiples of 16
bytes, as descriptors demand; a launch needs an allocator for them (triton.set_allocator).
"""
import triton
import triton.language as tl


@triton.jit
def halves(block):
    """The left and the right half of a block's columns."""
    rows: tl.constexpr = block.shape[0]
    columns: tl.constexpr = block.shape[1]
    return tl.split(tl.permute(tl.reshape(block, (rows, 2, columns // 2)), (0, 2, 1)))


@triton.jit
def gemm(a_ptr, b_ptr, c_ptr, M, N, K,
         BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, BLOCK_N])
    c = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N // 4])

    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    num_tiles = tiles_m * tiles_n
    group_size = GROUP_M * tiles_n

    # Flattened with the K loop into one, so that the first loads of the next tile are issued before this one is stored.
    for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0), flatten=True):
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
            b_tile = b.load([k * BLOCK_K, column])
            accumulator = tl.dot(a_tile, b_tile, accumulator)

        # Store the quarters of the columns one after the other: the staging buffer in shared memory is then a quarter
        # as large, which leaves room for another stage of the loop above, or for another program on the SM.
        left, right = halves(accumulator)
        first, second = halves(left)
        third, fourth = halves(right)
        c.store([row, column], first.to(c.dtype))
        c.store([row, column + BLOCK_N // 4], second.to(c.dtype))
        c.store([row, column + BLOCK_N // 2], third.to(c.dtype))
        c.store([row, column + BLOCK_N // 4 * 3], fourth.to(c.dtype))
