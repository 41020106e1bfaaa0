# Made by Syncopate from gemm_pointers() of gemm_pointers.py; generated, so change that file instead.
#
# The tile loop of gemm_pointers_fused() walks this rank's tile order (syncopate_tiles) and waits, before each tile, for
# the chunks that the tile reads; the rest is gemm_pointers() as written. It says when it has stored to c_ptr, which is
# sent to other ranks. Rank, schedule and sizes are in tables that the host passes, so every rank runs this file.
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
def syncopate_add_up(own, result, summands, additions, count, tiles, waits, flags, epoch, rank, record, time_limit,
                     ranks: tl.constexpr, multiple: tl.constexpr):
    """The program's share of a one-shot sum, when it has taken its tiles.

    Row a of `additions` is for program a % num_programs: first and past-the-last row of the waits, first and
    past-the-last element of `result`, and how far apart summands are; these three are multiples of `multiple`. An
    element is the sum of what all ranks' tiles have stored for it: this rank's in `own`, the others' in `summands`, one
    after the other, this rank left out. Adds in the order of the ranks, in fp32, from +0, and rounds once. All summands
    of a part are asked for before any is added.
    Memory order: syncopate_publish orders what the program's own tiles have stored, by TMA or not, before the loads of
    all its threads. What other programs have stored and peers have sent is waited for, and the address of every load
    depends on that. The loads bypass the L1 cache, since both came while the kernel ran.
    """
    part: tl.constexpr = 2048
    published = syncopate_publish()
    addition = tl.program_id(0) + published
    while addition < count:
        row = additions + tl.cast(addition, tl.int64) * 5
        arrived = syncopate_wait_for_tile(row, waits, flags, epoch, tiles + addition, record, time_limit)
        begin = tl.load(row + 2) + arrived
        end = tl.multiple_of(tl.load(row + 3), multiple)
        distance = tl.multiple_of(tl.load(row + 4), multiple)
        while begin < end:
            elements = tl.multiple_of(begin + arrived, multiple) + tl.arange(0, part)
            here = elements < end
            mine = tl.load(own + elements, mask=here, other=0.0, cache_modifier=".cg")
            total = tl.zeros((part,), dtype=tl.float32)
            for source in tl.static_range(ranks):
                place = tl.cast(source - (source > rank), tl.int64) * distance
                theirs = tl.load(summands + place + elements, mask=here & (source != rank), other=0.0,
                                 cache_modifier=".cg")
                total += tl.where(source == rank, mine, theirs).to(tl.float32)
            tl.store(result + elements, total.to(mine.dtype), mask=here)
            begin += part
        addition += tl.num_programs(0)


@triton.jit
def gemm_pointers_fused(a_ptr, b_ptr, c_ptr, M, N, K,
                        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
                        syncopate_rank, syncopate_world_size, syncopate_tiles, syncopate_tile_count, syncopate_waits,
                        syncopate_flags, syncopate_epoch, syncopate_record, syncopate_time_limit, syncopate_signals,
                        syncopate_peers, syncopate_result, syncopate_summands, syncopate_additions,
                        syncopate_addition_count):
    syncopate_launch = tl.load(syncopate_epoch)
    syncopate_slot = tl.program_id(0)
    while syncopate_slot < syncopate_tile_count:
        syncopate_row = syncopate_tiles + tl.cast(syncopate_slot, tl.int64) * 9
        syncopate_entry = syncopate_row + 2
        syncopate_work = tl.load(syncopate_entry + 6)
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
        syncopate_raise_late(syncopate_work, syncopate_entry + 2, syncopate_signals, syncopate_peers)
        tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
        syncopate_raise_early(syncopate_work, syncopate_entry + 4, syncopate_signals, syncopate_peers)
        syncopate_slot += tl.num_programs(0)
    syncopate_add_up(c_ptr, syncopate_result, syncopate_summands, syncopate_additions, syncopate_addition_count,
                     syncopate_tile_count, syncopate_waits, syncopate_flags, syncopate_launch, syncopate_rank,
                     syncopate_record, syncopate_time_limit, ranks=4, multiple=8)
