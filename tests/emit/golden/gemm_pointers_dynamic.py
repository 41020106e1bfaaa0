# Made by Syncopate from gemm_pointers() of gemm_pointers.py; generated, so change that file instead.
#
# The tile loop of gemm_pointers_fused() walks this rank's tile order (syncopate_tiles) and waits, before each tile, for
# the chunks that the tile reads; the rest is gemm_pointers() as written. Programs choose among the tiles: one takes a
# tile, which it marks so (syncopate_claims), when those chunks are there. Rank, schedule and sizes are in tables that
# the host passes, so every rank runs this file.
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
def syncopate_take(claims, lookahead, rows, columns: tl.constexpr, count, waits, flags, epoch, record, time_limit):
    """Takes a slot that no block has taken in this launch and whose waits are satisfied; `count` if all are taken.

    `claims` holds for each slot the last launch in which it was taken, then a word that says how many slots at the
    beginning of the order are known to be: as the flags it counts those of all launches before, too, so nothing is ever
    reset. A slot is taken by an atomic maximum with the launch's number: whoever raised the word has it. Only the first
    slots of those that are left are looked at, `lookahead` of them, a thread of the first warp at each; the lowest that
    is ready is tried first. `rows` points to where the numbers of the waits of the first slot stand in the tile order,
    whose rows have `columns` columns. The other warps learn the slot by counting barriers, 5 bits at a time.

    Memory order: none. All is relaxed: what the tile reads is ordered by its waits, which follow and find their flags
    raised, and what is stored to by one block only needs no order.

    If nothing is ready for `time_limit` nanoseconds, `record` gets what the first slot that is left waits for, as by
    syncopate_wait. From then on slots are taken that are not ready, so that the kernel soon ends.
    """
    return tl.inline_asm_elementwise(
        """
        {
            .reg .pred  outside, inside, free, ready, mine, some;
            .reg .b32   thread, first, slot, frees, picks, lowest, digit, shift, taken;
            .reg .b64   deadline, now, before, done, hint_at, hint, place, claim_at, claim, at, row, last;
            .reg .b64   flag, growth, expected, seen;

            mov.u32                         thread, %tid.x;
            mov.u32                         slot, 0;
            setp.ge.u32                     outside, thread, 32;
            @outside bra                    tell;
            mov.u64                         deadline, %globaltimer;
            add.u64                         deadline, deadline, $10;
            sub.u64                         before, $8, 1;
            cvt.u64.u32                     done, $5;
            mul.lo.u64                      done, done, before;
            mad.wide.u32                    hint_at, $5, 8, $1;
        look:
            ld.relaxed.gpu.global.u64       hint, [hint_at];
            sub.s64                         hint, hint, done;
            max.s64                         hint, hint, 0;
            cvt.u32.u64                     first, hint;
        further:
            add.u32                         slot, first, thread;
            setp.lt.u32                     inside, slot, $5;
            setp.lt.and.u32                 inside, thread, $2, inside;
            mad.wide.u32                    claim_at, slot, 8, $1;
            mov.u64                         claim, $8;
            @inside ld.relaxed.gpu.global.u64   claim, [claim_at];
            setp.lt.and.u64                 free, claim, $8, inside;
            vote.sync.ballot.b32            frees, free, 0xffffffff;
            setp.ne.u32                     some, frees, 0;
            @some bra                       left;
            add.u32                         first, first, $2;
            setp.lt.u32                     some, first, $5;
            @some bra                       further;
            mov.u32                         slot, $5;
            bra                             tell;
        left:
            brev.b32                        lowest, frees;
            clz.b32                         lowest, lowest;
            setp.eq.u32                     mine, thread, lowest;
            cvt.u64.u32                     place, slot;
            setp.gt.and.u64                 mine, place, hint, mine;
            add.u64                         place, place, done;
            @mine red.relaxed.gpu.global.max.u64   [hint_at], place;

            setp.ne.u32                     ready, thread, thread;
            @!free bra                      looked;
            mad.wide.u32                    at, slot, $4, $3;
            ld.global.u64                   row, [at];
            ld.global.u64                   last, [at + 8];
        wait:
            setp.ge.u64                     ready, row, last;
            @ready bra                      looked;
            mad.lo.u64                      at, row, 24, $6;
            ld.global.u64                   flag, [at];
            ld.global.u64                   growth, [at + 8];
            ld.global.u64                   expected, [at + 16];
            mad.lo.u64                      expected, growth, before, expected;
            mad.lo.u64                      at, flag, 8, $7;
            ld.relaxed.sys.global.u64       seen, [at];
            add.u64                         row, row, 1;
            setp.ge.u64                     some, seen, expected;
            @some bra                       wait;
        looked:
            bar.warp.sync                   0xffffffff;
            vote.sync.ballot.b32            picks, ready, 0xffffffff;
            setp.ne.u32                     some, picks, 0;
            @some bra                       try;

            mov.u32                         picks, frees;
            ld.relaxed.sys.global.u64       claim, [$9];
            setp.ne.u64                     some, claim, 0;
            vote.sync.any.pred              some, some, 0xffffffff;
            @some bra                       try;
            nanosleep.u32                   32;
            mov.u64                         now, %globaltimer;
            setp.lt.u64                     some, now, deadline;
            vote.sync.all.pred              some, some, 0xffffffff;
            @some bra                       look;

            setp.eq.u32                     mine, thread, lowest;
            mov.u64                         claim, 1;
            @mine atom.relaxed.sys.global.cas.b64   claim, [$9], 0, 1;
            setp.eq.and.u64                 mine, claim, 0, mine;
            cvt.u64.u32                     place, slot;
            @mine st.relaxed.sys.global.u64 [$9 + 8], place;
            @mine st.relaxed.sys.global.u64 [$9 + 16], flag;
            @mine st.relaxed.sys.global.u64 [$9 + 24], expected;
            @mine st.relaxed.sys.global.u64 [$9 + 32], seen;
            bar.warp.sync                   0xffffffff;
            bra                             look;
        try:
            brev.b32                        lowest, picks;
            clz.b32                         lowest, lowest;
            setp.eq.u32                     mine, thread, lowest;
            mov.u64                         claim, $8;
            @mine atom.relaxed.gpu.global.max.u64   claim, [claim_at], $8;
            setp.lt.and.u64                 mine, claim, $8, mine;
            vote.sync.any.pred              some, mine, 0xffffffff;
            @some bra                       won;
            sub.u32                         digit, picks, 1;
            and.b32                         picks, picks, digit;
            setp.ne.u32                     some, picks, 0;
            @some bra                       try;
            bra                             look;
        won:
            add.u32                         slot, first, lowest;
        tell:
            mov.u32                         taken, 0;
            mov.u32                         shift, 0;
        next:
            shr.u32                         digit, slot, shift;
            and.b32                         digit, digit, 31;
            setp.lt.u32                     some, thread, digit;
            barrier.red.popc.u32            digit, 0, some;
            shl.b32                         digit, digit, shift;
            or.b32                          taken, taken, digit;
            add.u32                         shift, shift, 5;
            shr.u32                         digit, $5, shift;
            setp.ne.u32                     some, digit, 0;
            @some bra                       next;
            mov.u32                         $0, taken;
        }
        """,
        constraints="=r,l,r,l,r,r,l,l,l,l,l,~{memory}",
        args=[claims, lookahead, rows, columns * 8, count, waits, flags, epoch, record, tl.cast(time_limit, tl.int64)],
        dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def gemm_pointers_fused(a_ptr, b_ptr, c_ptr, M, N, K,
                        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
                        syncopate_rank, syncopate_world_size, syncopate_tiles, syncopate_tile_count, syncopate_waits,
                        syncopate_flags, syncopate_epoch, syncopate_record, syncopate_time_limit, syncopate_claims,
                        syncopate_lookahead):
    syncopate_launch = tl.load(syncopate_epoch)
    syncopate_slot = syncopate_take(syncopate_claims, syncopate_lookahead, syncopate_tiles + 2, 4, syncopate_tile_count,
                                    syncopate_waits, syncopate_flags, syncopate_launch, syncopate_record,
                                    syncopate_time_limit)
    while syncopate_slot < syncopate_tile_count:
        syncopate_row = syncopate_tiles + tl.cast(syncopate_slot, tl.int64) * 4
        syncopate_ready = syncopate_wait_for_tile(syncopate_row + 2, syncopate_waits, syncopate_flags, syncopate_launch,
                                                  syncopate_slot, syncopate_record, syncopate_time_limit)
        pid_m = tl.load(syncopate_row).to(tl.int32) + syncopate_ready
        pid_n = tl.load(syncopate_row + 1).to(tl.int32) + syncopate_ready

        # Element offsets are 64-bit: a tensor may hold more than 2^31 elements.
        offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        a_rows = a_ptr + offs_m[:, None].to(tl.int64) * K
        b_columns = b_ptr + offs_n[None, :]

        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, tl.cdiv(K, BLOCK_K)):
            offs_k = k * BLOCK_K + tl.arange(0, BLOCK_K)
            a_tile = tl.load(a_rows + offs_k[None, :],
                             mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0)
            b_tile = tl.load(b_columns + offs_k[:, None].to(tl.int64) * N,
                             mask=(offs_k[:, None] < K) & (offs_n[None, :] < N), other=0.0)
            accumulator = tl.dot(a_tile, b_tile, accumulator)

        c_ptrs = c_ptr + offs_m[:, None].to(tl.int64) * N + offs_n[None, :]
        tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
        syncopate_slot = syncopate_take(syncopate_claims, syncopate_lookahead, syncopate_tiles + 2, 4,
                                        syncopate_tile_count, syncopate_waits, syncopate_flags, syncopate_launch,
                                        syncopate_record, syncopate_time_limit)
