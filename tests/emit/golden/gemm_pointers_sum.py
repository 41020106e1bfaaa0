# Made by Syncopate from gemm_pointers() of gemm_pointers.py; generated, so change that file instead.
#
# The tile loop of gemm_pointers_fused() walks this rank's tile order (syncopate_tiles) and waits, before each tile, for
# the chunks that the tile reads; the rest is gemm_pointers() as written. To what it stores to c_ptr it adds what other
# ranks have sent. Rank, schedule and sizes are in tables that the host passes, so every rank runs this file.
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
def syncopate_elements(pointers, base):
    """By how many elements each pointer is past `base`."""
    return (pointers.to(tl.int64) - base.to(tl.int64)) // (base.dtype.element_ty.primitive_bitwidth // 8)


@triton.jit
def syncopate_elsewhere(pointers, base, other):
    """Pointers that are as far past `other` as `pointers` are past `base`; all of one type."""
    size: tl.constexpr = base.dtype.element_ty.primitive_bitwidth // 8
    return pointers + (other.to(tl.int64) - base.to(tl.int64)) // size


@triton.jit
def syncopate_sum_at(value, pointers, base, inside, entry, arrived, staging, addends):
    """The sum of the slot's addends and the tile's own value, for what is stored through pointers past `base`.

    Adds in the order of the addends with the own value in its place, in fp32, from +0, and rounds once. A value that is
    smaller than the block of pointers stands for all its elements, as in a store.
    """
    value = tl.cast(value, base.dtype.element_ty)
    value = tl.where(syncopate_elements(pointers, base) >= 0, value, value)
    index = tl.load(entry + 4)
    own = tl.load(entry + 5)
    last = tl.load(entry + 6)
    if index < last:
        total = tl.zeros_like(value).to(tl.float32)
        while index < own:
            total += syncopate_load_at(pointers, base, inside, addends + index * 3, arrived, staging)
            index += 1
        total += value.to(tl.float32)
        while index < last:
            total += syncopate_load_at(pointers, base, inside, addends + index * 3, arrived, staging)
            index += 1
        value = total.to(value.dtype)
    return value


@triton.jit
def syncopate_load_at(pointers, base, inside, addend, arrived, staging):
    """One addend's summands, in fp32; 0 where it has none.

    Memory order: that of syncopate_load_rows. The mask is made of the addresses that are read, which differ from addend
    to addend: the compiler would keep what does not differ in registers, of which there are too few.
    """
    shift = tl.load(addend) + arrived
    places = syncopate_elsewhere(pointers, base, staging) + shift
    elements = syncopate_elements(places, staging)
    here = inside & (elements >= tl.load(addend + 1) + shift) & (elements < tl.load(addend + 2) + shift)
    return tl.load(places, mask=here, other=0.0, cache_modifier=".cg").to(tl.float32)


@triton.jit
def syncopate_kept(pointers, base, entry):
    """Which elements the slot keeps."""
    elements = syncopate_elements(pointers, base)
    return (elements >= tl.load(entry + 11)) & (elements < tl.load(entry + 12))


@triton.jit
def gemm_pointers_fused(a_ptr, b_ptr, c_ptr, M, N, K,
                        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
                        syncopate_rank, syncopate_world_size, syncopate_tiles, syncopate_tile_count, syncopate_waits,
                        syncopate_flags, syncopate_epoch, syncopate_record, syncopate_time_limit, syncopate_staging,
                        syncopate_addends, syncopate_signals, syncopate_peers, syncopate_cut: tl.constexpr):
    syncopate_launch = tl.load(syncopate_epoch)
    syncopate_slot = tl.program_id(0)
    while syncopate_slot < syncopate_tile_count:
        syncopate_row = syncopate_tiles + tl.cast(syncopate_slot, tl.int64) * 16
        syncopate_entry = syncopate_row + 2
        syncopate_work = syncopate_load_work(syncopate_entry, syncopate_waits, syncopate_flags, syncopate_launch)
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

        syncopate_raise_late(syncopate_work, syncopate_entry + 7, syncopate_signals, syncopate_peers)
        if syncopate_adds(syncopate_work):
            syncopate_arrived = syncopate_wait_to_add(syncopate_work, syncopate_entry, syncopate_waits, syncopate_flags,
                                                      syncopate_launch, syncopate_slot, syncopate_record,
                                                      syncopate_time_limit)
            c_ptrs = c_ptr + offs_m[:, None].to(tl.int64) * N + offs_n[None, :]
            syncopate_value = syncopate_sum_at(accumulator.to(c_ptr.dtype.element_ty), c_ptrs, c_ptr,
                                               (offs_m[:, None] < M) & (offs_n[None, :] < N), syncopate_entry,
                                               syncopate_arrived, syncopate_staging, syncopate_addends)
            if syncopate_cut:
                syncopate_kept_here = syncopate_kept(c_ptrs, c_ptr, syncopate_entry)
                tl.store(c_ptrs, syncopate_value,
                         mask=(offs_m[:, None] < M) & (offs_n[None, :] < N) & syncopate_kept_here)
            else:
                tl.store(c_ptrs, syncopate_value, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
        else:
            c_ptrs = c_ptr + offs_m[:, None].to(tl.int64) * N + offs_n[None, :]
            if syncopate_cut:
                syncopate_kept_here = syncopate_kept(c_ptrs, c_ptr, syncopate_entry)
                tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty),
                         mask=(offs_m[:, None] < M) & (offs_n[None, :] < N) & syncopate_kept_here)
            else:
                tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty),
                         mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
        syncopate_raise_early(syncopate_work, syncopate_entry + 9, syncopate_signals, syncopate_peers)
        syncopate_slot += tl.num_programs(0)
