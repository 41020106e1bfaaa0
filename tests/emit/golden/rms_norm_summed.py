# Made by Syncopate from rms_norm() of rms_norm.py; generated, so change that file instead.
#
# The tile loop of rms_norm_fused() walks this rank's tile order (syncopate_tiles) and waits, before each tile, for the
# chunks that the tile reads; the rest is rms_norm() as written. Rank, schedule and sizes are in tables that the host
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
def syncopate_load_sum_where(pointer, mask, other=0.0, summands: tl.constexpr = 1, distance: tl.constexpr = 0):
    """syncopate_load_sum where `mask` says so; `other` elsewhere."""
    own = tl.load(pointer, mask=mask, other=other, cache_modifier=".cg")
    total = own.to(tl.float32) + 0.0
    for summand in tl.static_range(1, summands):
        total += tl.load(pointer + summand * distance, mask=mask, other=0.0, cache_modifier=".cg").to(tl.float32)
    return total.to(own.dtype)


@triton.jit
def rms_norm_fused(x_ptr, residual_ptr, weight_ptr, y_ptr, h_ptr, M, N, eps,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                   syncopate_rank, syncopate_world_size, syncopate_tiles, syncopate_tile_count, syncopate_waits,
                   syncopate_flags, syncopate_epoch, syncopate_record, syncopate_time_limit):
    syncopate_launch = tl.load(syncopate_epoch)
    syncopate_slot = tl.program_id(0)
    while syncopate_slot < syncopate_tile_count:
        syncopate_row = syncopate_tiles + tl.cast(syncopate_slot, tl.int64) * 3
        syncopate_ready = syncopate_wait_for_tile(syncopate_row + 1, syncopate_waits, syncopate_flags, syncopate_launch,
                                                  syncopate_slot, syncopate_record, syncopate_time_limit)
        pid = tl.load(syncopate_row).to(tl.int32) + syncopate_ready
        rows = pid * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tl.arange(0, BLOCK_N)
        in_row = columns[None, :] < N
        exists = (rows[:, None] < M) & in_row
        places = rows[:, None].to(tl.int64) * N + columns[None, :]

        x = syncopate_load_sum_where(x_ptr + places, mask=exists, other=0.0,
            summands=4, distance=98304).to(tl.float32)
        h = x + tl.load(residual_ptr + places, mask=exists, other=0.0).to(tl.float32)
        tl.store(h_ptr + places, h.to(h_ptr.dtype.element_ty), mask=exists)

        weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(h * h, 1) / N + eps)
        y = h * scale[:, None] * weight[None, :]
        tl.store(y_ptr + places, y.to(y_ptr.dtype.element_ty), mask=exists)
        syncopate_slot += tl.num_programs(0)
