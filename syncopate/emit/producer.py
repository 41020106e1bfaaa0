# The helpers of fused kernels whose outputs leave their rank, most of them as sums over ranks, and of those with inputs
# that are sums, after those of prelude.py. Embedded in the same way; an emitted file holds those that its kernel needs.
#
# `entry` is the part of a slot's row of the tile order that follows the index variables. Its columns: 0, 1 the waits
# before the tile; 2, 3 the waits before it adds; 4 the first addend, 5 the addend before which the tile's own value is
# added, 6 past the last addend, where sums are not in place; 7, 8 the signals to raise before the slot stores; 9, 10
# those to raise after it has; 11, 12 the elements of the output that the slot keeps; 13 what it does (`work`), a sum
# of: 1 it may have to wait or to add; 2 it raises signals before it stores; 4 it raises signals after it has; 8 it has
# exactly one addend; 16 it may have to wait before it adds; 32 it has one addend, for all that the tile stores, and 64
# times the shift of that one is in the sum, too.
import triton
import triton.language as tl


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
def syncopate_load_sum(pointer, summands: tl.constexpr, distance: tl.constexpr):
    """A load from an input that is a sum over ranks: of each summand, `distance` elements from one to the next.

    Adds in the order of the ranks, in fp32, from +0, and rounds once. All summands are asked for before any is added.
    Memory order: the tile's wait for the summands is part of its indices, so the loads stay behind. They bypass the L1
    cache, since peers write the summands while the kernel runs.
    """
    own = tl.load(pointer, cache_modifier=".cg")
    total = own.to(tl.float32) + 0.0
    for summand in tl.static_range(1, summands):
        total += tl.load(pointer + summand * distance, cache_modifier=".cg").to(tl.float32)
    return total.to(own.dtype)


@triton.jit
def syncopate_load_sum_where(pointer, mask, other=0.0, summands: tl.constexpr = 1, distance: tl.constexpr = 0):
    """syncopate_load_sum where `mask` says so; `other` elsewhere."""
    own = tl.load(pointer, mask=mask, other=other, cache_modifier=".cg")
    total = own.to(tl.float32) + 0.0
    for summand in tl.static_range(1, summands):
        total += tl.load(pointer + summand * distance, mask=mask, other=0.0, cache_modifier=".cg").to(tl.float32)
    return total.to(own.dtype)


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
