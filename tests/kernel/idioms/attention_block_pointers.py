"""Attention with one program per block of queries and head: tensors are [tokens, heads * D], K is read transposed by its
strides, and keys that a causal mask cuts are left out by the bounds of two calls of one helper.
"""
import triton
import triton.language as tl


@triton.jit
def attend(acc, total, peak, q, k_block, v_block, rows, scale, lo, hi, keys, MASKED: tl.constexpr,
           BLOCK_N: tl.constexpr):
    k_block = tl.advance(k_block, (0, lo))
    v_block = tl.advance(v_block, (lo, 0))
    for start in range(lo, hi, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        scores = tl.dot(q, tl.load(k_block, boundary_check=(1, ), padding_option="zero"))
        columns = start + tl.arange(0, BLOCK_N)
        if MASKED:
            seen = (rows[:, None] >= columns[None, :]) & (columns[None, :] < keys)
        else:
            seen = (rows[:, None] >= 0) & (columns[None, :] < keys)
        scores = scores * scale + tl.where(seen, 0.0, -1.0e6)
        new_peak = tl.maximum(peak, tl.max(scores, 1))
        weights = tl.math.exp2(scores - new_peak[:, None])
        shrink = tl.math.exp2(peak - new_peak)
        total = total * shrink + tl.sum(weights, axis=1)
        v = tl.load(v_block, boundary_check=(0, ), padding_option="zero")
        acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None])
        peak = new_peak
        k_block = tl.advance(k_block, (0, BLOCK_N))
        v_block = tl.advance(v_block, (BLOCK_N, 0))
    return acc, total, peak


@triton.jit
def attention_block_pointers(q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, queries, keys, stride, scale,
                             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    block = tl.program_id(0)
    head = tl.program_id(1)
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    column = head.to(tl.int64) * D
    q_block = tl.make_block_ptr(q_ptr + column, (queries, D), (stride, 1), (block * BLOCK_M, 0), (BLOCK_M, D), (1, 0))
    k_block = tl.make_block_ptr(k_ptr + column, (D, keys), (1, stride), (0, 0), (D, BLOCK_N), (0, 1))
    v_block = tl.make_block_ptr(v_ptr + column, (keys, D), (stride, 1), (0, 0), (BLOCK_N, D), (1, 0))
    o_block = tl.make_block_ptr(out_ptr + column, (queries, D), (stride, 1), (block * BLOCK_M, 0), (BLOCK_M, D), (1, 0))
    q = tl.load(q_block, boundary_check=(0, ), padding_option="zero")
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    peak = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    diagonal = block * BLOCK_M // BLOCK_N * BLOCK_N if CAUSAL else keys
    middle = min(diagonal, keys)
    acc, total, peak = attend(acc, total, peak, q, k_block, v_block, rows, scale, 0, middle, keys,
                              MASKED=False, BLOCK_N=BLOCK_N)
    if CAUSAL:
        acc, total, peak = attend(acc, total, peak, q, k_block, v_block, rows, scale, middle,
                                  min(keys, (block + 1) * BLOCK_M), keys, MASKED=True, BLOCK_N=BLOCK_N)
    tl.store(lse_ptr + head * queries + rows, peak + tl.math.log2(total), mask=rows < queries)
    tl.store(o_block, (acc / total[:, None]).to(out_ptr.dtype.element_ty), boundary_check=(0, ))
