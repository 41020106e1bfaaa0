# Made by Syncopate from gemm() of gemm.py; generated, so change that file instead.
#
# The tile loop of gemm_fused() walks this rank's tile order (syncopate_tiles) and waits, before each tile, for the
# chunks that the tile reads; the rest is gemm() as written. What it stores to c_ptr it adds to what other ranks have
# sent there. Rank, schedule and sizes are in tables that the host passes, so every rank runs this file.
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
def syncopate_tell_tma():
    """What the thread has seen by waits, or by the look at flags, TMA sees from now on; returns 0.

    Memory order: the acquire of a flag covers accesses of the generic proxy. The fence extends that to the asynchronous
    one, through which TMA works (PTX ISA, "Async proxy"), in global memory. Add the 0 to what TMA is told to touch.
    """
    return tl.inline_asm_elementwise(
        """
        {
            fence.proxy.async.global;
            and.b32                     $0, $1, 0;
        }
        """,
        constraints="=r,r,~{memory}", args=[0], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def syncopate_wait_in_place(work, entry, waits, flags, epoch, tile, record, time_limit):
    """syncopate_wait_to_add for sums in place, to which TMA adds; returns 0."""
    arrived = syncopate_wait_to_add(work, entry, waits, flags, epoch, tile, record, time_limit)
    return arrived + syncopate_tell_tma()


@triton.jit
def syncopate_add_in_place(descriptor, row, column, value, arrived):
    """Adds the tile's own value to the one summand of another rank, which stands where the tile stores.

    Of two terms the sum in the tensor's type is that in fp32 from +0, rounded once: fp32 has more than twice the digits
    of 16 bits. That from +0 nothing becomes -0 takes the addition of +0.0 to one of them.
    """
    syncopate_add_block(descriptor, row + arrived, column, value.to(descriptor.dtype) + 0.0)


@triton.jit
def syncopate_add_block(descriptor, row, column, value):
    """Adds a block to what stands at its place, by TMA: the addition takes place in the L2 cache of this device.

    Memory order: a copy engine or a peer has written the summand, through the same L2, before its flag; the wait for it
    and syncopate_tell_tma come before this. The reductions are relaxed, of device scope (PTX ISA,
    cp.reduce.async.bulk.tensor), and nobody else touches the place between the flag and the publication of the sum:
    whoever reads it does so after syncopate_publish, which waits for these as for stores, or after the kernel's end.
    """
    descriptor.atomic_add([row, column], value)


@triton.jit
def halves(block):
    """The left and the right half of a block's columns."""
    rows: tl.constexpr = block.shape[0]
    columns: tl.constexpr = block.shape[1]
    return tl.split(tl.permute(tl.reshape(block, (rows, 2, columns // 2)), (0, 2, 1)))


@triton.jit
def gemm_fused(a_ptr, b_ptr, c_ptr, M, N, K,
               BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
               syncopate_rank, syncopate_world_size, syncopate_tiles, syncopate_tile_count, syncopate_waits,
               syncopate_flags, syncopate_epoch, syncopate_record, syncopate_time_limit, syncopate_signals,
               syncopate_peers):
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, BLOCK_N])
    c = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N // 4])

    syncopate_launch = tl.load(syncopate_epoch)
    # Flattened with the K loop into one, so that the first loads of the next tile are issued before this one is stored.
    for syncopate_slot in tl.range(tl.program_id(0), syncopate_tile_count, tl.num_programs(0), flatten=True):
        syncopate_row = syncopate_tiles + tl.cast(syncopate_slot, tl.int64) * 16
        syncopate_entry = syncopate_row + 2
        syncopate_work = syncopate_load_work(syncopate_entry, syncopate_waits, syncopate_flags, syncopate_launch)
        syncopate_ready = syncopate_wait_for_tile(syncopate_row + 2, syncopate_waits, syncopate_flags, syncopate_launch,
                                                  syncopate_slot, syncopate_record, syncopate_time_limit)
        pid_m = tl.load(syncopate_row).to(tl.int32) + syncopate_ready
        pid_n = tl.load(syncopate_row + 1).to(tl.int32) + syncopate_ready

        row = pid_m * BLOCK_M
        column = pid_n * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, tl.cdiv(K, BLOCK_K)):
            a_tile = a.load([row, k * BLOCK_K])
            b_tile = b.load([k * BLOCK_K, column])
            accumulator = tl.dot(a_tile, b_tile, accumulator)

        # Store the quarters of the columns one after the other: the staging buffer in shared memory is then a quarter
        # as large, which leaves room for another stage of the loop above, or for another program on the SM.
        syncopate_raise_late(syncopate_work, syncopate_entry + 7, syncopate_signals, syncopate_peers)
        if syncopate_adds(syncopate_work):
            syncopate_arrived = syncopate_wait_in_place(syncopate_work, syncopate_entry, syncopate_waits,
                                                        syncopate_flags, syncopate_launch, syncopate_slot,
                                                        syncopate_record, syncopate_time_limit)
            left, right = halves(accumulator)
            first, second = halves(left)
            third, fourth = halves(right)
            syncopate_add_in_place(c, row, column, first.to(c.dtype), syncopate_arrived)
            syncopate_add_in_place(c, row, column + BLOCK_N // 4, second.to(c.dtype), syncopate_arrived)
            syncopate_add_in_place(c, row, column + BLOCK_N // 2, third.to(c.dtype), syncopate_arrived)
            syncopate_add_in_place(c, row, column + BLOCK_N // 4 * 3, fourth.to(c.dtype), syncopate_arrived)
        else:
            left, right = halves(accumulator)
            first, second = halves(left)
            third, fourth = halves(right)
            c.store([row, column], first.to(c.dtype))
            c.store([row, column + BLOCK_N // 4], second.to(c.dtype))
            c.store([row, column + BLOCK_N // 2], third.to(c.dtype))
            c.store([row, column + BLOCK_N // 4 * 3], fourth.to(c.dtype))
        syncopate_raise_early(syncopate_work, syncopate_entry + 9, syncopate_signals, syncopate_peers)
