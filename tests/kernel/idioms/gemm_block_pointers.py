"""C = A @ B through block pointers: advanced along K, checked where a tile may leave its matrix, stored in C's type."""
import triton
import triton.language as tl


@triton.jit
def grouped(pid, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr = 4):
    """Row and column of a tile: groups of rows, column by column."""
    rows, columns = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    return tl.swizzle2d(pid // columns, pid % columns, rows, columns, GROUP_M)


@triton.jit
def gemm_block_pointers(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                        BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr = False, PRECISION: tl.constexpr = "tf32"):
    tl.static_assert(BLOCK_K >= 16, "tensor cores take 16 elements of K at least")
    pid = tl.program_id(axis=0)
    pid_m, pid_n = grouped(pid, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    a_block = tl.make_block_ptr(base=a_ptr, shape=(M, K), strides=(K, 1), offsets=(pid_m * BLOCK_M, 0),
                                block_shape=(BLOCK_M, BLOCK_K), order=(1, 0))
    b_block = tl.make_block_ptr(base=b_ptr, shape=(K, N), strides=(N, 1), offsets=(0, pid_n * BLOCK_N),
                                block_shape=(BLOCK_K, BLOCK_N), order=(1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in tl.range(0, tl.cdiv(K, BLOCK_K), num_stages=3, disallow_acc_multi_buffer=True):
        if EVEN_K:
            a = tl.load(a_block, boundary_check=(0, ))
            b = tl.load(b_block, boundary_check=(1, ))
        else:
            a = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
            b = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=tl.float32)
        a_block = tl.advance(a_block, (0, BLOCK_K))
        b_block = tl.advance(b_block, (BLOCK_K, 0))
    c_block = tl.make_block_ptr(base=c_ptr, shape=(M, N), strides=(N, 1), offsets=(pid_m * BLOCK_M, pid_n * BLOCK_N),
                                block_shape=(BLOCK_M, BLOCK_N), order=(1, 0))
    tl.store(c_block, acc.to(c_ptr.dtype.element_ty), boundary_check=(0, 1))
