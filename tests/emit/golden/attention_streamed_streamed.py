# Made by Syncopate from attention_streamed() of attention_streamed.py; generated, so change that file instead.
#
# The tile loop of attention_streamed_fused() walks this rank's tile order (syncopate_tiles) and waits, before each
# tile, for the chunks that the tile reads; the rest is attention_streamed() as written. Its streamed loops are walked
# piece by piece (syncopate_steps), in the order in which chunks arrive. Rank, schedule and sizes are in tables that the
# host passes, so every rank runs this file.
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
NO_PEAK = tl.constexpr(-1.0e30)


@triton.jit
def syncopate_wait(flags, slot, expected, tile, record, time_limit):
    """Blocks until flags[slot] >= expected, or for `time_limit` nanoseconds, and returns 0.

    Memory order: every thread of the block polls with an acquire of system scope, so whatever the raiser of the flag
    wrote before its release is visible to every thread, on whichever device the raiser runs, without a barrier of the
    block. The fence then extends that to the asynchronous proxy, through which TMA reads. Nothing orders accesses
    before the wait.
    The 0 comes out of the counter itself (its top bit, never set). Add it to the address of what the wait guards: that
    dependence keeps the compiler, its software pipeliner included, from moving the guarded loads above the wait.

    A wait that misses its time limit claims `record`, if no other wait of this device has, and leaves in it
    1, tile, slot, expected, seen. From then on waits that would block return at once, so that the kernel soon ends; its
    results are worthless, and the host must look at record[0] after the launch.
    """
    return tl.inline_asm_elementwise(
        """
        {
            .reg .pred  done;
            .reg .b64   seen, now, deadline, claimed;

            ld.acquire.sys.global.u64   seen, [$1];
            setp.ge.u64                 done, seen, $2;
            @done bra                   leave;
            mov.u64                     deadline, %globaltimer;
            add.u64                     deadline, deadline, $3;
        poll:
            nanosleep.u32               32;
            ld.acquire.sys.global.u64   seen, [$1];
            setp.ge.u64                 done, seen, $2;
            @done bra                   leave;
            ld.relaxed.sys.global.u64   claimed, [$4];
            setp.ne.u64                 done, claimed, 0;
            @done bra                   leave;
            mov.u64                     now, %globaltimer;
            setp.lt.u64                 done, now, deadline;
            @done bra                   poll;

            atom.relaxed.sys.global.cas.b64   claimed, [$4], 0, 1;
            setp.ne.u64                 done, claimed, 0;
            @done bra                   leave;
            st.relaxed.sys.global.u64   [$4 + 8], $5;
            st.relaxed.sys.global.u64   [$4 + 16], $6;
            st.relaxed.sys.global.u64   [$4 + 24], $2;
            st.relaxed.sys.global.u64   [$4 + 32], seen;
        leave:
            bar.warp.sync               0xffffffff;
            fence.proxy.async;
            shr.u64                     seen, seen, 63;
            cvt.u32.u64                 $0, seen;
        }
        """,
        constraints="=r,l,l,l,l,l,l,~{memory}",
        args=[flags + slot, expected, tl.cast(time_limit, tl.int64), record, tl.cast(tile, tl.int64), slot],
        dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def syncopate_wait_for_tile(rows, waits, flags, epoch, tile, record, time_limit):
    """Performs all waits of one tile and returns 0, on which the addresses of what the tile reads must depend.

    `rows` points to the first and the past-the-last row of `waits` that are this tile's. A row holds a flag's slot, by
    how much that flag grows in a launch, and which part of this launch's growth to wait for. Flags are never reset:
    launches are numbered 1, 2, 3, ... by `epoch`, and a flag's value counts all launches so far.
    Memory order: that of syncopate_wait, for each of the flags.

    It is a `while` because Triton flattens a tile loop with its inner loop only where that is the one `for` in it.
    """
    ready = 0
    row = tl.load(rows)
    end = tl.load(rows + 1)
    while row < end:
        wait = waits + row * 3
        expected = tl.load(wait + 1) * (epoch - 1) + tl.load(wait + 2)
        ready += syncopate_wait(flags, tl.load(wait), expected, tile, record, time_limit)
        row += 1
    return ready


@triton.jit
def attention_streamed_fused(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, Q_LENGTH, KV_LENGTH, HEADS, q_start, scale,
                             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, GROUP: tl.constexpr,
                             CAUSAL: tl.constexpr, TWO_STRETCHES: tl.constexpr = False, q_second=0,
                             syncopate_rank=None, syncopate_world_size=None, syncopate_tiles=None,
                             syncopate_tile_count=None, syncopate_waits=None, syncopate_flags=None,
                             syncopate_epoch=None, syncopate_record=None, syncopate_time_limit=None,
                             syncopate_steps=None):
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

    syncopate_launch = tl.load(syncopate_epoch)
    syncopate_slot = tl.program_id(0)
    while syncopate_slot < syncopate_tile_count:
        syncopate_row = syncopate_tiles + tl.cast(syncopate_slot, tl.int64) * 6
        syncopate_ready = syncopate_wait_for_tile(syncopate_row + 2, syncopate_waits, syncopate_flags, syncopate_launch,
                                                  syncopate_slot, syncopate_record, syncopate_time_limit)
        head = tl.load(syncopate_row).to(tl.int32) + syncopate_ready
        block = tl.load(syncopate_row + 1).to(tl.int32) + syncopate_ready

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
        syncopate_step = tl.load(syncopate_row + 4)
        syncopate_past_step = tl.load(syncopate_row + 5)
        while syncopate_step < syncopate_past_step:
            syncopate_piece = syncopate_steps + syncopate_step * 4
            syncopate_ready = syncopate_wait_for_tile(syncopate_piece + 2, syncopate_waits, syncopate_flags,
                                                      syncopate_launch, syncopate_slot, syncopate_record,
                                                      syncopate_time_limit)
            syncopate_begin = tl.load(syncopate_piece).to(tl.int32) + syncopate_ready
            syncopate_end = tl.load(syncopate_piece + 1).to(tl.int32)
            for first in range(syncopate_begin * BLOCK_N, syncopate_end * BLOCK_N, BLOCK_N):
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
            syncopate_step += 1

        divisor = tl.where(total > 0, total, 1.0)
        lse = tl.where(total > 0, (peak + tl.log2(divisor)) / LOG2_E, float("-inf"))
        tl.store(lse_ptr + head.to(tl.int64) * Q_LENGTH + rows, lse, mask=rows < Q_LENGTH)
        o.store([row, column], (sums / divisor[:, None]).to(o.dtype))
        syncopate_slot += tl.num_programs(0)
