"""A matrix product for few tiles: c = a @ b, all row-major, with the sum over K split among `splits` programs.

A product with few rows makes fewer tiles than the GPU has SMs, but K is long. Each program sums a part of K and leaves
its part of the tile, in fp32, in `partial`; the last of them to arrive, which `arrivals` tells, adds the parts in their
order, so that results repeat bit for bit whoever is last. Launch it with cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N) * splits
programs; `partial` holds BLOCK_M * BLOCK_N fp32 for each of them; `arrivals` is a number for each tile, zero before the
first launch and never reset after, as long as `splits` stays the same.

This kernel is for one GPU: a tile that is finished by whichever program is last has no place in a tile order, so
Syncopate does not fuse it.
"""
import triton
import triton.language as tl


@triton.jit
def gemm_split_k(a_ptr, b_ptr, c_ptr, partial_ptr, arrivals_ptr, M, N, K, splits,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    pid = tl.program_id(0)
    part = pid % splits
    tile = pid // splits
    tiles_m = tl.cdiv(M, BLOCK_M)
    pid_m = tile % tiles_m
    pid_n = tile // tiles_m

    # Element offsets are 64-bit: a tensor may hold more than 2^31 elements.
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    a_rows = a_ptr + offs_m[:, None].to(tl.int64) * K
    b_columns = b_ptr + offs_n[None, :]

    steps = tl.cdiv(K, BLOCK_K)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(part * steps // splits, (part + 1) * steps // splits):
        offs_k = k * BLOCK_K + tl.arange(0, BLOCK_K)
        a_tile = tl.load(a_rows + offs_k[None, :], mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0)
        b_tile = tl.load(b_columns + offs_k[:, None].to(tl.int64) * N,
                         mask=(offs_k[:, None] < K) & (offs_n[None, :] < N), other=0.0)
        accumulator = tl.dot(a_tile, b_tile, accumulator)

    inside = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    parts = partial_ptr + tile.to(tl.int64) * splits * (BLOCK_M * BLOCK_N) + inside
    tl.store(parts + part * (BLOCK_M * BLOCK_N), accumulator)
    tl.debug_barrier()  # the arrival of one thread speaks for the stores of all
    arrived = tl.atomic_add(arrivals_ptr + tile, 1, sem="acq_rel", scope="gpu")
    if arrived % splits == splits - 1:
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for i in range(splits):
            total += tl.load(parts + i * (BLOCK_M * BLOCK_N))
        c_ptrs = c_ptr + offs_m[:, None].to(tl.int64) * N + offs_n[None, :]
        tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
