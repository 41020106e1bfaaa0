# Made by Syncopate from attention_plain() of attention_plain.py; generated, so change that file instead.
#
# The tile loop of attention_plain_fused() walks this rank's tile order (syncopate_tiles) and waits, before each tile,
# for the chunks that the tile reads; the rest is attention_plain() as written. Its streamed loops are walked piece by
# piece (syncopate_steps), in the order in which chunks arrive. Rank, schedule and sizes are in tables that the host
# passes, so every rank runs this file.
import triton
import triton.language as tl


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
def attention_plain_fused(q_ptr, k_ptr, v_ptr, o_ptr, scale, Q_LENGTH, LENGTH, HEADS, Q_START,
                          HEAD_DIM: tl.constexpr, GROUP: tl.constexpr, CAUSAL: tl.constexpr,
                          BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                          syncopate_rank, syncopate_world_size, syncopate_tiles, syncopate_tile_count, syncopate_waits,
                          syncopate_flags, syncopate_epoch, syncopate_record, syncopate_time_limit, syncopate_steps):
    syncopate_launch = tl.load(syncopate_epoch)
    syncopate_slot = tl.program_id(0)
    while syncopate_slot < syncopate_tile_count:
        syncopate_row = syncopate_tiles + tl.cast(syncopate_slot, tl.int64) * 6
        syncopate_ready = syncopate_wait_for_tile(syncopate_row + 2, syncopate_waits, syncopate_flags, syncopate_launch,
                                                  syncopate_slot, syncopate_record, syncopate_time_limit)
        head = tl.load(syncopate_row).to(tl.int32) + syncopate_ready
        block = tl.load(syncopate_row + 1).to(tl.int32) + syncopate_ready

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
        syncopate_step = tl.load(syncopate_row + 4)
        syncopate_past_step = tl.load(syncopate_row + 5)
        while syncopate_step < syncopate_past_step:
            syncopate_piece = syncopate_steps + syncopate_step * 4
            syncopate_ready = syncopate_wait_for_tile(syncopate_piece + 2, syncopate_waits, syncopate_flags,
                                                      syncopate_launch, syncopate_slot, syncopate_record,
                                                      syncopate_time_limit)
            syncopate_begin = tl.load(syncopate_piece).to(tl.int32) + syncopate_ready
            syncopate_end = tl.load(syncopate_piece + 1).to(tl.int32)
            for start in range(syncopate_begin * BLOCK_N, syncopate_end * BLOCK_N, BLOCK_N):
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
            syncopate_step += 1

        tl.store(o_ptr + q_places, (accumulator / total[:, None]).to(o_ptr.dtype.element_ty), mask=row_exists)
        syncopate_slot += tl.num_programs(0)
