# Made by Syncopate from gemm_split_helper() of gemm_split_helper.py; generated, so change that file instead.
#
# The tile loop of gemm_split_helper_fused() walks this rank's tile order (syncopate_tiles) and waits, before each tile,
# for the chunks that the tile reads; the rest is gemm_split_helper() as written. Rank, schedule and sizes are in tables
# that the host passes, so every rank runs this file.
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
def gemm_split_helper_fused(x, w, y, rows, cols, depth,
                            TILE_R: tl.constexpr, TILE_C: tl.constexpr, TILE_D: tl.constexpr, BAND: tl.constexpr,
                            syncopate_rank, syncopate_world_size, syncopate_tiles, syncopate_tile_count,
                            syncopate_waits, syncopate_flags, syncopate_epoch, syncopate_record, syncopate_time_limit):
    x_desc = tl.make_tensor_descriptor(x, [rows, depth], [depth, 1], [TILE_R, TILE_D])
    w_desc = tl.make_tensor_descriptor(w, [depth, cols], [cols, 1], [TILE_D, TILE_C])
    y_desc = tl.make_tensor_descriptor(y, [rows, cols], [cols, 1], [TILE_R, TILE_C])

    syncopate_launch = tl.load(syncopate_epoch)
    syncopate_slot = tl.program_id(0)
    while syncopate_slot < syncopate_tile_count:
        syncopate_row = syncopate_tiles + tl.cast(syncopate_slot, tl.int64) * 4
        syncopate_ready = syncopate_wait_for_tile(syncopate_row + 2, syncopate_waits, syncopate_flags, syncopate_launch,
                                                  syncopate_slot, syncopate_record, syncopate_time_limit)
        tile_r = tl.load(syncopate_row).to(tl.int32) + syncopate_ready
        tile_c = tl.load(syncopate_row + 1).to(tl.int32) + syncopate_ready
        total = tl.zeros([TILE_R, TILE_C], dtype=tl.float32)
        for step in tl.range(0, depth, TILE_D):
            x_block = x_desc.load([tile_r * TILE_R, step])
            w_block = w_desc.load([step, tile_c * TILE_C])
            total = tl.dot(x_block, w_block, total)
        y_desc.store([tile_r * TILE_R, tile_c * TILE_C], total.to(y_desc.dtype))
        syncopate_slot += tl.num_programs(0)
