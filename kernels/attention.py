"""Attention, forward: o = softmax(q k^T * scale) v for each head, and the logarithm of each row's sum of exponentials.

Rows are positions, and a row holds all heads side by side: q and o [Q_LENGTH, HEADS * HEAD_DIM], k and v [KV_LENGTH,
HEADS / GROUP * HEAD_DIM], where GROUP query heads in turn share a key head; lse [HEADS, Q_LENGTH], fp32, natural
logarithm. That is how the projections before and after leave and take them, a chunk of a sequence is one piece of
memory, and a batch of B sequences stored as [position, B, heads, HEAD_DIM] is B times as many heads. With CAUSAL, row
i attends to the keys up to q_start + i: a rank that holds a part of the queries or of the keys passes the difference of
their places. A row that attends to no key becomes 0, its lse -infinity. KV_LENGTH is at least 1, scale is positive.

A tile is BLOCK_M rows of one head. Scores are worked out one block of keys ahead of their use, so that the next blocks
of k and v are fetched while the exponentials of this one are taken. What Triton 3.6 makes of it on Hopper has shaped
the rest:
- o is summed in parts of PART columns, as wide as a block of scores. Beside scores of another width the sums would
  change layout in the loop, and all products be serialised. So BLOCK_N is 64 or HEAD_DIM.
- A product whose result the loop uses is waited for at once, unless it is used in a branch. Hence the branch that is
  always taken: all products of an iteration are issued, and the wait for the last of them is the wait for all.
- No product runs on into the next iteration: that would be faster, but the registers from which it reads its weights
  are written over there, under it, and the results are wrong.
- warp_specialize gives wrong results with a mask, and with 3 stages. Two or more programs of 4 warps on an SM do what
  it is for: one takes exponentials while another multiplies.

Lengths need not be multiples of blocks: a descriptor reads zeros past the end of its tensor, the mask hides these, and
nothing is stored there. Row strides must be multiples of 16 bytes, as descriptors demand; a launch needs an allocator
for them (triton.set_allocator).
"""
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
# The least peak of a row: finite, so that a row with no key so far has weights of 0 and not of NaN.
NO_PEAK = tl.constexpr(-1.0e30)


@triton.jit
def masked(scores, rows, first, KV_LENGTH, q_start, CAUSAL: tl.constexpr):
    """Scores of the block of keys that begins at `first`, -infinity where a row does not attend to a key."""
    keys = first + tl.arange(0, scores.shape[1])[None, :]
    keep = keys < KV_LENGTH
    if CAUSAL:
        keep = keep & (keys <= q_start + rows[:, None])
    return tl.where(keep, scores, float("-inf"))


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, Q_LENGTH, KV_LENGTH, HEADS, q_start, scale,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, GROUP: tl.constexpr,
              CAUSAL: tl.constexpr):
    tl.static_assert(HEAD_DIM & (HEAD_DIM - 1) == 0 and HEAD_DIM <= 256, "HEAD_DIM is a power of two, at most 256")
    PART: tl.constexpr = min(HEAD_DIM, BLOCK_N)
    tl.static_assert(HEAD_DIM == PART or HEAD_DIM == 2 * PART, "BLOCK_N is at least half of HEAD_DIM")
    width = HEADS * HEAD_DIM
    kv_width = HEADS // GROUP * HEAD_DIM
    q = tl.make_tensor_descriptor(q_ptr, shape=[Q_LENGTH, width], strides=[width, 1], block_shape=[BLOCK_M, HEAD_DIM])
    k = tl.make_tensor_descriptor(k_ptr, shape=[KV_LENGTH, kv_width], strides=[kv_width, 1],
                                  block_shape=[BLOCK_N, HEAD_DIM])
    v = tl.make_tensor_descriptor(v_ptr, shape=[KV_LENGTH, kv_width], strides=[kv_width, 1],
                                  block_shape=[BLOCK_N, PART])
    o = tl.make_tensor_descriptor(o_ptr, shape=[Q_LENGTH, width], strides=[width, 1], block_shape=[BLOCK_M, PART])
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

    # Keys from `end` on are seen by no row of the tile; blocks that end by `whole` are seen by all. One block is always
    # looked at.
    end = KV_LENGTH
    whole = KV_LENGTH
    if CAUSAL:
        end = max(1, min(KV_LENGTH, q_start + row + BLOCK_M))
        whole = min(KV_LENGTH, q_start + row + 1)
    last = (end - 1) // BLOCK_N * BLOCK_N

    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    left = tl.zeros((BLOCK_M, PART), dtype=tl.float32)
    right = tl.zeros((BLOCK_M, PART), dtype=tl.float32)  # of no use where PART is HEAD_DIM
    queries = q.load([row, column])
    scores = tl.dot(queries, k.load([0, kv_column]).T)
    if BLOCK_N > whole:
        scores = masked(scores, rows, 0, KV_LENGTH, q_start, CAUSAL)
    peak = tl.maximum(tl.max(scores, 1) * scale_of_two, NO_PEAK)
    for first in range(0, last, BLOCK_N):
        weights = tl.exp2(scores * scale_of_two - peak[:, None])
        total += tl.sum(weights, 1)
        weights = weights.to(o.dtype)
        left = tl.dot(weights, v.load([first, kv_column]), left)
        if PART < HEAD_DIM:
            right = tl.dot(weights, v.load([first, kv_column + PART]), right)
        scores = tl.dot(queries, k.load([first + BLOCK_N, kv_column]).T)
        if first > whole - 2 * BLOCK_N:
            scores = masked(scores, rows, first + BLOCK_N, KV_LENGTH, q_start, CAUSAL)
        new_peak = tl.maximum(peak, tl.max(scores, 1) * scale_of_two)
        shrink = tl.exp2(peak - new_peak)
        peak = new_peak
        total *= shrink
        if first >= 0:  # always; see above
            left = left * shrink[:, None]
            if PART < HEAD_DIM:
                right = right * shrink[:, None]
    weights = tl.exp2(scores * scale_of_two - peak[:, None])
    total += tl.sum(weights, 1)
    weights = weights.to(o.dtype)
    left = tl.dot(weights, v.load([last, kv_column]), left)
    if PART < HEAD_DIM:
        right = tl.dot(weights, v.load([last, kv_column + PART]), right)

    seen = tl.where(total > 0, total, 1.0)
    lse = tl.where(total > 0, (peak + tl.log2(seen)) / LOG2_E, float("-inf"))
    tl.store(lse_ptr + head.to(tl.int64) * Q_LENGTH + rows, lse, mask=rows < Q_LENGTH)
    o.store([row, column], (left / seen[:, None]).to(o.dtype))
    if PART < HEAD_DIM:
        o.store([row, column + PART], (right / seen[:, None]).to(o.dtype))
