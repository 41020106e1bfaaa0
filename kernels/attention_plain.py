"""Attention in its plainest form: o = softmax(scale * q k^T) v for each head, over blocks of keys with a running maximum.

Tensors hold a token per row, its heads side by side: q and o [Q_LENGTH, HEADS * HEAD_DIM], k and v [LENGTH, HEADS // GROUP *
HEAD_DIM], where GROUP heads of q share one of k and v. With CAUSAL a token sees those up to its own place; the first row
of q is token Q_START. Every length works, whatever the blocks. One program per head and block of BLOCK_M tokens: launch
HEADS * cdiv(Q_LENGTH, BLOCK_M) programs.

The loop over keys may run its blocks in any order: the first one may be hidden from a row altogether. So hidden scores
are a large negative number and not -inf: a row that has seen hidden keys only forgets them when the first visible one
comes.
"""
import triton
import triton.language as tl


@triton.jit
def attention_plain(q_ptr, k_ptr, v_ptr, o_ptr, scale, Q_LENGTH, LENGTH, HEADS, Q_START,
                    HEAD_DIM: tl.constexpr, GROUP: tl.constexpr, CAUSAL: tl.constexpr,
                    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    pid = tl.program_id(0)
    blocks = tl.cdiv(Q_LENGTH, BLOCK_M)
    head = pid // blocks
    block = pid % blocks

    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD_DIM)
    q_places = rows[:, None].to(tl.int64) * (HEADS * HEAD_DIM) + head * HEAD_DIM + dims[None, :]
    row_exists = rows[:, None] < Q_LENGTH
    q = tl.load(q_ptr + q_places, mask=row_exists, other=0.0)
    kv_width = HEADS // GROUP * HEAD_DIM
    kv_column = head // GROUP * HEAD_DIM

    hidden = -1.0e30
    maximum = tl.full((BLOCK_M,), hidden, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    accumulator = tl.zeros((BLOCK_M, HEAD_DIM), dtype=tl.float32)
    scale_log2 = scale * 1.4426950408889634
    end = LENGTH
    if CAUSAL:
        end = min(LENGTH, Q_START + (block + 1) * BLOCK_M)
    for start in range(0, end, BLOCK_N):  # syncopate: streamed_loop sequence
        columns = start + tl.arange(0, BLOCK_N)
        kv_places = columns[:, None].to(tl.int64) * kv_width + kv_column + dims[None, :]
        exists = columns[:, None] < LENGTH
        k = tl.load(k_ptr + kv_places, mask=exists, other=0.0)
        v = tl.load(v_ptr + kv_places, mask=exists, other=0.0)
        visible = columns[None, :] < LENGTH
        if CAUSAL:
            visible = visible & (columns[None, :] <= Q_START + rows[:, None])
        scores = tl.where(visible, tl.dot(q, tl.trans(k)) * scale_log2, hidden)
        new_maximum = tl.maximum(maximum, tl.max(scores, 1))
        weights = tl.exp2(scores - new_maximum[:, None])
        shrink = tl.exp2(maximum - new_maximum)
        total = total * shrink + tl.sum(weights, 1)
        accumulator = tl.dot(weights.to(v.dtype), v, accumulator * shrink[:, None])
        maximum = new_maximum

    tl.store(o_ptr + q_places, (accumulator / total[:, None]).to(o_ptr.dtype.element_ty), mask=row_exists)
