"""A matrix product with one program per tile and plain pointers: c = a @ b for row-major a [M, K], b [K, N], c [M, N].

Masks on all three axes make every size work, whatever the tile. Launch it with cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)
programs.
"""
import triton
import triton.language as tl


@triton.jit
def gemm_pointers(a_ptr, b_ptr, c_ptr, M, N, K,
                  BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    # Programs go down GROUP_M tile rows before they move to the next tile column, for the L2 cache's sake.
    pid = tl.program_id(axis=0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    group_size = GROUP_M * tiles_n
    first_m = (pid // group_size) * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)
    pid_m = first_m + (pid % group_size) % rows
    pid_n = (pid % group_size) // rows

    # Element offsets are 64-bit: a tensor may hold more than 2^31 elements.
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    a_rows = a_ptr + offs_m[:, None].to(tl.int64) * K
    b_columns = b_ptr + offs_n[None, :]

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):  # syncopate: streamed_loop k
        offs_k = k * BLOCK_K + tl.arange(0, BLOCK_K)
        a_tile = tl.load(a_rows + offs_k[None, :],
                         mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0)
        b_tile = tl.load(b_columns + offs_k[:, None].to(tl.int64) * N,
                         mask=(offs_k[:, None] < K) & (offs_n[None, :] < N), other=0.0)
        accumulator = tl.dot(a_tile, b_tile, accumulator)

    c_ptrs = c_ptr + offs_m[:, None].to(tl.int64) * N + offs_n[None, :]
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
