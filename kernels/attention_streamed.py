"""Attention, forward, whose blocks of keys may come in any order: o = softmax(q k^T * scale) v for each head, and the
logarithm of each row's sum of exponentials.

Tensors, parameters and results are those of attention.py: rows are positions and hold all heads side by side, GROUP
query heads in turn share a key head; with CAUSAL, row i attends to the keys up to q_start + i; a row that attends to
no key becomes 0, its lse -infinity. Lengths need not be multiples of blocks, row strides must be multiples of 16 bytes.
With TWO_STRETCHES the queries are two stretches of a sequence, one below the other and equally long: the first half of
the rows is at q_start + i, the second at q_second and on. The second comes later in the sequence.

What differs is the loop over keys. attention.py works scores out a block ahead, so that each iteration prepares the
next, and they must run as written. Here an iteration is complete in itself: it only adds to what there is, and a fused
kernel can walk the keys in the order in which they arrive. The first block that a row meets may be one whose keys it
does not see. So a row's peak begins at a finite number: hidden scores of -infinity then have weights of 0 and not of
NaN, whatever comes first.

Scores of a block and sums have one shape where BLOCK_N is HEAD_DIM, and so one layout in registers: with another width
one of them is converted in every iteration.
"""
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
NO_PEAK = tl.constexpr(-1.0e30)


@triton.jit
def attention_streamed(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, Q_LENGTH, KV_LENGTH, HEADS, q_start, scale,
                       BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, GROUP: tl.constexpr,
                       CAUSAL: tl.constexpr, TWO_STRETCHES: tl.constexpr = False, q_second=0):
    tl.static_assert(HEAD_DIM & (HEAD_DIM - 1) == 0 and HEAD_DIM <= 256, "HEAD_DIM is a power of two, at most 256")
    width = HEADS * HEAD_DIM
    kv_width = HEADS // GROUP * HEAD_DIM
    q = tl.make_tensor_descriptor(q_ptr, shape=[Q_LENGTH, width], strides=[width, 1], block_shape=[BLOCK_M, HEAD_DIM])
    k = tl.make_tensor_descriptor(k_ptr, shape=[KV_LENGTH, kv_width], strides=[kv_width, 1],
                                  block_shape=[BLOCK_N, HEAD_DIM])
    v = tl.make_tensor_descriptor(v_ptr, shape=[KV_LENGTH, kv_width], strides=[kv_width, 1],
                                  block_shape=[BLOCK_N, HEAD_DIM])
    o = tl.make_tensor_descriptor(o_ptr, shape=[Q_LENGTH, width], strides=[width, 1], block_shape=[BLOCK_M, HEAD_DIM])
    scale_of_two = scale * LOG2_E  # exponentials are of base 2

    # A head's tiles follow one another, so that its keys stay in the L2 cache; last rows first, which with a causal
    # mask have the most work.
    # syncopate: tile_size block=BLOCK_M
    tile = tl.program_id(0)
    blocks = tl.cdiv(Q_LENGTH, BLOCK_M)
    head = tile // blocks
    block = blocks - 1 - tile % blocks

    row = block * BLOCK_M
    column = head * HEAD_DIM
    kv_column = head // GROUP * HEAD_DIM
    rows = row + tl.arange(0, BLOCK_M)

    # Places in the sequence: of each row, of the tile's first row and of its last.
    last = min(row + BLOCK_M, Q_LENGTH) - 1
    places = q_start + rows
    first_place = q_start + row
    last_place = q_start + last
    if TWO_STRETCHES:
        half = Q_LENGTH // 2
        gap = q_second - q_start - half
        places = tl.where(rows < half, places, places + gap)
        first_place = tl.where(row < half, first_place, first_place + gap)
        last_place = tl.where(last < half, last_place, last_place + gap)

    # Keys from `end` on are seen by no row of the tile; blocks that end by `whole` are seen by all.
    end = KV_LENGTH
    whole = KV_LENGTH
    if CAUSAL:
        end = max(0, min(KV_LENGTH, last_place + 1))
        whole = min(KV_LENGTH, first_place + 1)

    peak = tl.full((BLOCK_M,), NO_PEAK, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    sums = tl.zeros((BLOCK_M, HEAD_DIM), dtype=tl.float32)
    queries = q.load([row, column])
    for first in range(0, end, BLOCK_N):  # syncopate: streamed_loop keys
        scores = tl.dot(queries, k.load([first, kv_column]).T)
        if first > whole - BLOCK_N:
            keys = first + tl.arange(0, BLOCK_N)[None, :]
            seen = keys < KV_LENGTH
            if CAUSAL:
                seen = seen & (keys <= places[:, None])
            scores = tl.where(seen, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, 1) * scale_of_two)
        weights = tl.exp2(scores * scale_of_two - new_peak[:, None])
        shrink = tl.exp2(peak - new_peak)
        total = total * shrink + tl.sum(weights, 1)
        sums = tl.dot(weights.to(o.dtype), v.load([first, kv_column]), sums * shrink[:, None])
        peak = new_peak

    divisor = tl.where(total > 0, total, 1.0)
    lse = tl.where(total > 0, (peak + tl.log2(divisor)) / LOG2_E, float("-inf"))
    tl.store(lse_ptr + head.to(tl.int64) * Q_LENGTH + rows, lse, mask=rows < Q_LENGTH)
    o.store([row, column], (sums / divisor[:, None]).to(o.dtype))
