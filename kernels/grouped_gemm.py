"""A persistent grouped matrix product, as mixtures of experts need it: y[g] = x[g] @ w[g % EXPERTS] for each group g of
rows, of which the first counts[g] are in use.

x is [GROUPS * CAPACITY, K], y [GROUPS * CAPACITY, N], w [EXPERTS * K, N], all row-major; counts holds one int32 for
each group. The groups are those of EXPERTS experts, source after source: group g is what source g // EXPERTS has for
expert g % EXPERTS. Rows past a group's count need not hold anything (NaNs do no harm), and their products are zeros. A
block of rows without any that is in use reads nothing and costs its zeros.

With HAS_WEIGHTS row r of y is multiplied by weights[r], a float of CAPACITY rows for each group, before it is rounded.
A count above CAPACITY is a mistake: the kernel takes it as CAPACITY, and CPU ranks report it.
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
def rows_in_use(counts_ptr, group, CAPACITY):
    count = tl.load(counts_ptr + group)
    tl.device_assert((count >= 0) & (count <= CAPACITY), "a group cannot have this many rows in use")
    return tl.minimum(count, CAPACITY)


@triton.jit
def grouped_gemm(x_ptr, counts_ptr, w_ptr, y_ptr, weights_ptr, GROUPS, EXPERTS, N, K, CAPACITY: tl.constexpr,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, HAS_WEIGHTS: tl.constexpr):
    # Three dimensions, so that a block ends with its group or its expert.
    x = tl.make_tensor_descriptor(x_ptr, shape=[GROUPS, CAPACITY, K], strides=[CAPACITY * K, K, 1],
                                  block_shape=[1, BLOCK_M, BLOCK_K])
    w = tl.make_tensor_descriptor(w_ptr, shape=[EXPERTS, K, N], strides=[K * N, N, 1],
                                  block_shape=[1, BLOCK_K, BLOCK_N])
    y = tl.make_tensor_descriptor(y_ptr, shape=[GROUPS * CAPACITY, N], strides=[N, 1],
                                  block_shape=[BLOCK_M, BLOCK_N // 4])
    tiles_m = tl.cdiv(CAPACITY, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)

    for tile in tl.range(tl.program_id(0), GROUPS * tiles_m * tiles_n, tl.num_programs(0)):
        # Down the rows of a group first: they share the columns of its expert.
        group = tile // (tiles_m * tiles_n)
        pid_n = tile % (tiles_m * tiles_n) // tiles_m
        pid_m = tile % tiles_m

        count = rows_in_use(counts_ptr, group, CAPACITY)
        row = pid_m * BLOCK_M
        column = pid_n * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        if row < count:
            for k in range(0, tl.cdiv(K, BLOCK_K)):
                x_tile = x.load([group, row, k * BLOCK_K]).reshape(BLOCK_M, BLOCK_K)
                w_tile = w.load([group % EXPERTS, k * BLOCK_K, column]).reshape(BLOCK_K, BLOCK_N)
                accumulator = tl.dot(x_tile, w_tile, accumulator)

        rows = row + tl.arange(0, BLOCK_M)
        first_row = group * CAPACITY
        if HAS_WEIGHTS:
            weights = tl.load(weights_ptr + first_row + rows, mask=rows < CAPACITY, other=0.0)
            accumulator = accumulator * weights[:, None]
        # Not a product with zero: rows that are not in use may hold NaNs.
        accumulator = tl.where((rows < count)[:, None], accumulator, 0.0)

        # Quarter by quarter of the columns: a whole tile takes a large staging buffer, or many addresses.
        left, right = halves(accumulator)
        first, second = halves(left)
        third, fourth = halves(right)
        if CAPACITY % BLOCK_M == 0:
            y.store([first_row + row, column], first.to(y.dtype))
            y.store([first_row + row, column + BLOCK_N // 4], second.to(y.dtype))
            y.store([first_row + row, column + BLOCK_N // 2], third.to(y.dtype))
            y.store([first_row + row, column + BLOCK_N // 4 * 3], fourth.to(y.dtype))
        else:
            # A block of y would go on in the next group. Element offsets are 64-bit: it may hold more than 2^31.
            inside = (rows < CAPACITY)[:, None]
            columns = column + tl.arange(0, BLOCK_N // 4)[None, :]
            here = y_ptr + (first_row + rows).to(tl.int64)[:, None] * N + columns
            tl.store(here, first.to(y.dtype), mask=inside & (columns < N))
            columns += BLOCK_N // 4
            tl.store(here + BLOCK_N // 4, second.to(y.dtype), mask=inside & (columns < N))
            columns += BLOCK_N // 4
            tl.store(here + BLOCK_N // 2, third.to(y.dtype), mask=inside & (columns < N))
            columns += BLOCK_N // 4
            tl.store(here + BLOCK_N // 4 * 3, fourth.to(y.dtype), mask=inside & (columns < N))
