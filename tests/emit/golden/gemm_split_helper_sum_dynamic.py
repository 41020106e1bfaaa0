# Made by Syncopate from gemm_split_helper() of gemm_split_helper.py; generated, so change that file instead.
#
# The tile loop of gemm_split_helper_fused() walks this rank's tile order (syncopate_tiles) and waits, before each tile,
# for the chunks that the tile reads; the rest is gemm_split_helper() as written. Programs choose among the tiles: one
# takes a tile, which it marks so (syncopate_claims), when those chunks are there. To what it stores to y it adds what
# other ranks have sent. Rank, schedule and sizes are in tables that the host passes, so every rank runs this file.
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
def syncopate_is_missing(flags, slot, expected):
    """1 if flags[slot] < expected as far as is known now, else 0; does not block.

    Memory order: where it is 0, that of syncopate_wait, except that TMA is not told: what has arrived is read by
    ordinary loads; in place by TMA, after syncopate_tell_tma. The threads of a warp agree, even if they should have
    seen different values: they branch on it.
    """
    return tl.inline_asm_elementwise(
        """
        {
            .reg .pred  missing;
            .reg .b64   seen;

            ld.acquire.sys.global.u64   seen, [$1];
            setp.lt.u64                 missing, seen, $2;
            vote.sync.any.pred          missing, missing, 0xffffffff;
            selp.b32                    $0, 1, 0, missing;
        }
        """,
        constraints="=r,l,l,~{memory}", args=[flags + slot, expected], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def syncopate_load_work(entry, waits, flags, epoch):
    """What the slot does. If all that it waits for before it adds has arrived already, it need not wait.

    That is asked for at the beginning of the tile, where tensor cores have work, so that nothing is waited for at its
    end, where they have none.
    """
    work = tl.load(entry + 13)
    row = tl.load(entry + 2)
    end = tl.load(entry + 3)
    if work & 16:
        missing = 0
        while (row < end) & (missing == 0):
            wait = waits + row * 3
            expected = tl.load(wait + 1) * (epoch - 1) + tl.load(wait + 2)
            missing += syncopate_is_missing(flags, tl.load(wait), expected)
            row += 1
        if missing == 0:
            work -= 16
    return work


@triton.jit
def syncopate_publish():
    """Makes what the block has stored so far visible to whoever sees a flag that the block raises later; returns 0.

    Memory order: every thread waits for all stores that it has issued through TMA, for their writes, not only for their
    reads of shared memory. PTX puts a fence between the asynchronous proxy and all others behind the completion of such
    a store, so none is needed here. After the barrier of the block one thread's release covers the stores of all, those
    of earlier tiles, too, for which nothing was raised. Add the 0 to the slot of the flag: so the raise stays behind.
    The barrier is in the assembly because Triton does not pipeline loops that hold one of its own. It is not of the
    aligned kind, since a compiler that knows nothing of it may let a warp's threads come to it by several paths.
    """
    return tl.inline_asm_elementwise(
        """
        {
            cp.async.bulk.wait_group    0;
            barrier.sync                0;
            and.b32                     $0, $1, 0;
        }
        """,
        constraints="=r,r,~{memory}", args=[0], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def syncopate_raise(peers, home, slot):
    """Adds 1 to flag `slot` of rank `home`, once for the whole block, and returns 0.

    Memory order: a release of system scope by one thread. With syncopate_publish before it, whoever sees the new value
    by an acquire sees all that the block stored before, on whichever device it runs. The scope is that of the system
    even for flags of this device, since others read them: copy engines and the front end of the device.
    """
    flag = tl.load(peers + home).to(tl.pointer_type(tl.int64)) + slot
    return tl.inline_asm_elementwise(
        """
        {
            .reg .pred  first;
            .reg .b32   thread;

            mov.u32                                 thread, %tid.x;
            setp.eq.u32                             first, thread, 0;
            @first red.release.sys.global.add.u64   [$1], 1;
            and.b32                                 $0, thread, 0;
        }
        """,
        constraints="=r,l,~{memory}", args=[flag], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def syncopate_raise_all(rows, signals, peers):
    """Publishes what the block has stored and raises signals; `rows` points to the first and the past-the-last row."""
    signal = tl.load(rows)
    last = tl.load(rows + 1)
    published = syncopate_publish()
    while signal < last:
        slot = tl.load(signals + signal * 2 + 1) + published
        # A step that the compiler does not know keeps it from unrolling the loop.
        signal += 1 + syncopate_raise(peers, tl.load(signals + signal * 2), slot)


@triton.jit
def syncopate_raise_late(work, rows, signals, peers):
    """Raises the signals of the slot before, where the tile order puts that off until here.

    `rows` is that of syncopate_raise_all.
    By now that slot's stores are long complete, where waiting for them at once would have stalled the block. This
    stands ahead of all that uses the tile's accumulators: so tensor cores still work on them meanwhile.
    """
    if work & 2:
        syncopate_raise_all(rows, signals, peers)


@triton.jit
def syncopate_raise_early(work, rows, signals, peers):
    """Raises the slot's signals, if the tile order does not put that off until the program's next slot."""
    if work & 4:
        syncopate_raise_all(rows, signals, peers)
    # Triton 3.6 fuses a flattened tile loop with its inner loop wrongly if a branch is the last thing in it.
    tl.assume(work >= -(1 << 62))


@triton.jit
def syncopate_adds(work):
    """Whether the slot may have to wait for summands or to add any."""
    return (work & 1) != 0


@triton.jit
def syncopate_wait_to_add(work, entry, waits, flags, epoch, tile, record, time_limit):
    """Performs the waits before adding, where syncopate_load_work has not found that there is nothing to wait for."""
    arrived = 0
    if work & 16:
        arrived = syncopate_wait_for_tile(entry + 2, waits, flags, epoch, tile, record, time_limit)
    return arrived


@triton.jit
def syncopate_load_addend(addend, exists):
    """A row of the addends: shift, begin, end; zeros if it does not exist, which is for no element."""
    return (tl.load(addend, mask=exists, other=0), tl.load(addend + 1, mask=exists, other=0),
            tl.load(addend + 2, mask=exists, other=0))


@triton.jit
def syncopate_first_addend(work, entry, addends):
    """The slot's first addend, or zeros if it has none. Where it is known to be for all, nothing is loaded."""
    if work & 32:
        shift = work >> 6
        begin = tl.cast(0, tl.int64)
        end = tl.cast(1 << 62, tl.int64)
    else:
        first = tl.load(entry + 4)
        shift, begin, end = syncopate_load_addend(addends + first * 3, first < tl.load(entry + 6))
    return shift, begin, end


@triton.jit
def syncopate_first_summands(descriptor, row, column, addend, arrived, staging):
    """The summands of the slot's first addend for a block that a descriptor stores.

    They are apart from syncopate_sum_block so that the loads for all blocks of a tile can be under way together.
    """
    if descriptor.block_shape[0] * descriptor.block_shape[1] > 8192:
        return 0  # unused: there would be too few registers
    else:
        return syncopate_load_rows(descriptor, descriptor.block_shape[1], row, column, addend, arrived, staging)


@triton.jit
def syncopate_sum_block(value, first, descriptor, row, column, addend, work, entry, arrived, staging, addends):
    """The sum of the slot's addends and the tile's own value, for a block that a descriptor stores.

    `addend` is of syncopate_first_addend, `first` of syncopate_first_summands. A large block is added in two parts,
    which need half the registers.
    """
    value = value.to(descriptor.dtype)
    height: tl.constexpr = descriptor.block_shape[0]
    width: tl.constexpr = descriptor.block_shape[1]
    if height * width > 8192:
        half: tl.constexpr = width // 2
        left, right = tl.split(tl.permute(tl.reshape(value, (height, 2, half)), (0, 2, 1)))
        first = syncopate_load_rows(descriptor, half, row, column, addend, arrived, staging)
        left = syncopate_sum_rows(left, first, descriptor, row, column, work, entry, arrived, staging, addends)
        column += half
        first = syncopate_load_rows(descriptor, half, row, column, addend, arrived, staging)
        right = syncopate_sum_rows(right, first, descriptor, row, column, work, entry, arrived, staging, addends)
        return tl.reshape(tl.permute(tl.join(left, right), (0, 2, 1)), (height, width))
    else:
        return syncopate_sum_rows(value, first, descriptor, row, column, work, entry, arrived, staging, addends)


@triton.jit
def syncopate_sum_rows(value, first, descriptor, row, column, work, entry, arrived, staging, addends):
    """syncopate_sum_block of a block that is small enough."""
    if work & 8:
        value = syncopate_sum_of_two(value, first)
    else:
        value = syncopate_sum_of_many(value, first, descriptor, row, column, entry, arrived, staging, addends)
    return value


@triton.jit
def syncopate_sum_of_two(value, first):
    """What adding both in fp32, from +0, and rounding once gives.

    Of values of 16 bits it is the same as one addition in their own type, which goes two at a time: fp32 has more than
    twice their digits, so that rounding to it first changes nothing. The last addition turns -0 into +0.
    """
    if value.dtype.primitive_bitwidth == 16:
        return value + first + 0.0
    else:
        return (value.to(tl.float32) + first.to(tl.float32) + 0.0).to(value.dtype)


@triton.jit
def syncopate_sum_of_many(value, first, descriptor, row, column, entry, arrived, staging, addends):
    """The sum of any number of addends, none included.

    Adds in the order of the addends with the own value in its place, in fp32, from +0, and rounds once. The summands of
    the first addend are added first even where the own value comes before them: +0 + a + b is +0 + b + a.
    """
    index = tl.load(entry + 4) + 1
    own = tl.load(entry + 5)
    last = tl.load(entry + 6)
    if index <= last:
        total = tl.zeros_like(value).to(tl.float32) + first.to(tl.float32)
        while index < own:
            total += syncopate_load_rows(descriptor, value.shape[1], row, column,
                                         syncopate_load_addend(addends + index * 3, True), arrived,
                                         staging).to(tl.float32)
            index += 1
        total += value.to(tl.float32)
        while index < last:
            total += syncopate_load_rows(descriptor, value.shape[1], row, column,
                                         syncopate_load_addend(addends + index * 3, True), arrived,
                                         staging).to(tl.float32)
            index += 1
        value = total.to(value.dtype)
    return value


@triton.jit
def syncopate_load_rows(descriptor, width: tl.constexpr, row, column, addend, arrived, staging):
    """One addend's summands of `width` columns of a block; 0 in rows that it has none for.

    Rows of the output are added as wholes, and begin at multiples of 16 bytes, as TMA demands. Places are counted from
    the block's first row: so they are the same for all blocks and addends, which takes fewer registers.
    Memory order: `arrived` came out of the waits for the summands, or what says that there are none to make out of the
    look at their flags, so the loads stay behind. They bypass the L1 cache:
    peers write the staging buffer while the kernel runs, and nothing is read twice.
    """
    base = tl.cast(row, tl.int64) * descriptor.strides[0]
    shift = tl.multiple_of(addend[0] + arrived + base, 128 // descriptor.dtype.primitive_bitwidth)
    end = tl.minimum(addend[2], tl.cast(descriptor.shape[0], tl.int64) * descriptor.strides[0])
    lines = tl.arange(0, descriptor.block_shape[0])[:, None].to(tl.int64) * descriptor.strides[0]
    columns = tl.arange(0, width)[None, :]
    here = (columns < descriptor.shape[1] - column) & (lines >= addend[1] - base) & (lines < end - base)
    return tl.load(staging + (shift + column) + (lines + columns), mask=here, other=0.0, cache_modifier=".cg")


@triton.jit
def syncopate_cuts_block(descriptor, row, entry, cut: tl.constexpr):
    """Whether the slot keeps only some of the rows of a block."""
    if cut:
        begin = tl.cast(row, tl.int64) * descriptor.strides[0]
        end = tl.minimum(row + descriptor.block_shape[0], descriptor.shape[0]).to(tl.int64) * descriptor.strides[0]
        return (begin < tl.load(entry + 11)) | (end > tl.load(entry + 12))
    else:
        return False


@triton.jit
def syncopate_store_kept(base, value, descriptor, row, column, entry):
    """Stores those rows of a block that the slot keeps."""
    rows = row + tl.arange(0, descriptor.block_shape[0])
    lines = rows[:, None].to(tl.int64) * descriptor.strides[0]
    columns = column + tl.arange(0, descriptor.block_shape[1])[None, :]
    kept = (columns < descriptor.shape[1]) & (lines >= tl.load(entry + 11)) & (lines < tl.load(entry + 12))
    tl.store(base + lines + columns, value, mask=kept)


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
def gemm_split_helper_fused(x, w, y, rows, cols, depth,
                            TILE_R: tl.constexpr, TILE_C: tl.constexpr, TILE_D: tl.constexpr, BAND: tl.constexpr,
                            syncopate_rank, syncopate_world_size, syncopate_tiles, syncopate_tile_count,
                            syncopate_waits, syncopate_flags, syncopate_epoch, syncopate_record, syncopate_time_limit,
                            syncopate_claims, syncopate_lookahead, syncopate_staging, syncopate_addends,
                            syncopate_signals, syncopate_peers, syncopate_cut: tl.constexpr):
    x_desc = tl.make_tensor_descriptor(x, [rows, depth], [depth, 1], [TILE_R, TILE_D])
    w_desc = tl.make_tensor_descriptor(w, [depth, cols], [cols, 1], [TILE_D, TILE_C])
    y_desc = tl.make_tensor_descriptor(y, [rows, cols], [cols, 1], [TILE_R, TILE_C])

    syncopate_launch = tl.load(syncopate_epoch)
    syncopate_slot = syncopate_take(syncopate_claims, syncopate_lookahead, syncopate_tiles + 2, 16,
                                    syncopate_tile_count, syncopate_waits, syncopate_flags, syncopate_launch,
                                    syncopate_record, syncopate_time_limit)
    while syncopate_slot < syncopate_tile_count:
        syncopate_row = syncopate_tiles + tl.cast(syncopate_slot, tl.int64) * 16
        syncopate_entry = syncopate_row + 2
        syncopate_work = syncopate_load_work(syncopate_entry, syncopate_waits, syncopate_flags, syncopate_launch)
        syncopate_ready = syncopate_wait_for_tile(syncopate_row + 2, syncopate_waits, syncopate_flags, syncopate_launch,
                                                  syncopate_slot, syncopate_record, syncopate_time_limit)
        tile_r = tl.load(syncopate_row).to(tl.int32) + syncopate_ready
        tile_c = tl.load(syncopate_row + 1).to(tl.int32) + syncopate_ready
        total = tl.zeros([TILE_R, TILE_C], dtype=tl.float32)
        for step in tl.range(0, depth, TILE_D):
            x_block = x_desc.load([tile_r * TILE_R, step])
            w_block = w_desc.load([step, tile_c * TILE_C])
            total = tl.dot(x_block, w_block, total)
        syncopate_raise_late(syncopate_work, syncopate_entry + 7, syncopate_signals, syncopate_peers)
        if syncopate_adds(syncopate_work):
            syncopate_arrived = syncopate_wait_to_add(syncopate_work, syncopate_entry, syncopate_waits, syncopate_flags,
                                                      syncopate_launch, syncopate_slot, syncopate_record,
                                                      syncopate_time_limit)
            syncopate_addend = syncopate_first_addend(syncopate_work, syncopate_entry, syncopate_addends)
            syncopate_value = total.to(y_desc.dtype)
            syncopate_first = syncopate_first_summands(y_desc, tile_r * TILE_R, tile_c * TILE_C, syncopate_addend,
                                                       syncopate_arrived, syncopate_staging)
            syncopate_value = syncopate_sum_block(syncopate_value, syncopate_first, y_desc, tile_r * TILE_R,
                                                  tile_c * TILE_C, syncopate_addend, syncopate_work, syncopate_entry,
                                                  syncopate_arrived, syncopate_staging, syncopate_addends)
            if syncopate_cuts_block(y_desc, tile_r * TILE_R, syncopate_entry, syncopate_cut):
                syncopate_store_kept(y, syncopate_value, y_desc, tile_r * TILE_R, tile_c * TILE_C, syncopate_entry)
            else:
                y_desc.store([tile_r * TILE_R, tile_c * TILE_C], syncopate_value)
        else:
            if syncopate_cuts_block(y_desc, tile_r * TILE_R, syncopate_entry, syncopate_cut):
                syncopate_store_kept(y, total.to(y_desc.dtype), y_desc, tile_r * TILE_R, tile_c * TILE_C,
                                     syncopate_entry)
            else:
                y_desc.store([tile_r * TILE_R, tile_c * TILE_C], total.to(y_desc.dtype))
        syncopate_raise_early(syncopate_work, syncopate_entry + 9, syncopate_signals, syncopate_peers)
        syncopate_slot = syncopate_take(syncopate_claims, syncopate_lookahead, syncopate_tiles + 2, 16,
                                        syncopate_tile_count, syncopate_waits, syncopate_flags, syncopate_launch,
                                        syncopate_record, syncopate_time_limit)
