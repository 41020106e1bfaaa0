# The helpers of fused kernels whose outputs leave their rank, most of them as sums over ranks, after those of prelude.py. Embedded in the same way;
# an emitted file holds those that its kernel needs.
#
# `entry` is the part of a slot's row of the tile order that follows the index variables. Its columns: 0, 1 the waits
# before the tile; 2, 3 the waits before it adds; 4 the first addend, 5 the addend before which the tile's own value is
# added, 6 past the last addend; 7, 8 the signals to raise before the slot stores; 9, 10 those to raise after it has;
# 11, 12 the elements of the output that the slot keeps. `work` is 4 to 10 of these, loaded.
import triton
import triton.language as tl


@triton.jit
def syncopate_publish():
    """Makes what the block has stored so far visible to whoever sees a flag that the block raises later; returns 0.

    Memory order: every thread waits for the stores that it has issued through TMA (for their writes, not only for their
    reads of shared memory); the fence then orders the asynchronous proxy's accesses with all others. The sum over
    values of all threads is a barrier of the block (in a block of one warp, bar.warp.sync is), after which one thread's
    release covers the stores of all. It is a sum and not a plain barrier because Triton does not pipeline loops that
    hold a barrier. Add the 0 to the slot of the flag: so the raise stays behind.
    """
    done = tl.inline_asm_elementwise(
        """
        {
            cp.async.bulk.wait_group    0;
            fence.proxy.async;
            bar.warp.sync               0xffffffff;
            and.b32                     $0, $4, 0;
            and.b32                     $1, $5, 0;
            and.b32                     $2, $6, 0;
            and.b32                     $3, $7, 0;
        }
        """,
        constraints="=r,=r,=r,=r,r,r,r,r,~{memory}", args=[tl.arange(0, 1024)], dtype=tl.int32, is_pure=False, pack=4)
    return tl.sum(done, axis=0)


@triton.jit
def syncopate_raise(peers, home, slot):
    """Adds 1 to flag `slot` of rank `home`, once for the whole block.

    Memory order: a release of system scope by one thread. With syncopate_publish before it, whoever sees the new value
    by an acquire sees all that the block stored before, on whichever device it runs.
    """
    flag = tl.load(peers + home).to(tl.pointer_type(tl.int64)) + slot
    tl.atomic_add(flag, 1, sem="release", scope="sys")


@triton.jit
def syncopate_raise_all(signal, last, signals, peers):
    """Publishes what the block has stored and raises the signals from row `signal` to row `last`, if there are any."""
    if signal < last:
        published = syncopate_publish()
        while signal < last:
            syncopate_raise(peers, tl.load(signals + signal * 2), tl.load(signals + signal * 2 + 1) + published)
            signal += 1
    # Triton 3.6 fuses a flattened tile loop with its inner loop wrongly if a branch is the last thing in it.
    tl.assume(signal >= 0)


@triton.jit
def syncopate_load_raises(entry):
    """Of a kernel that adds nothing: the rows of signals to raise before the slot stores, and after it has.

    `entry` points to the last four columns of the slot's row of the tile order, which are loaded at once.
    """
    return (tl.load(entry).to(tl.int32), tl.load(entry + 1).to(tl.int32), tl.load(entry + 2).to(tl.int32),
            tl.load(entry + 3).to(tl.int32))


@triton.jit
def syncopate_load_work(entry):
    """What the slot adds and raises: at once, so that one load does not wait for another. Rows fit in 32 bits."""
    return (tl.load(entry + 4).to(tl.int32), tl.load(entry + 5).to(tl.int32), tl.load(entry + 6).to(tl.int32),
            tl.load(entry + 7).to(tl.int32), tl.load(entry + 8).to(tl.int32), tl.load(entry + 9).to(tl.int32),
            tl.load(entry + 10).to(tl.int32))


@triton.jit
def syncopate_raise_late(work, signals, peers):
    """Raises the signals of the slot before, where the tile order puts that off until here.

    By now that slot's stores are long complete, where waiting for them at once would have stalled the block.
    """
    syncopate_raise_all(work[3], work[4], signals, peers)


@triton.jit
def syncopate_raise_early(work, signals, peers):
    """Raises the slot's signals, if the tile order does not put that off until the program's next slot."""
    syncopate_raise_all(work[5], work[6], signals, peers)


@triton.jit
def syncopate_first_summands(descriptor, row, column, work, arrived, staging, addends):
    """The summands of the slot's first addend for a block that a descriptor stores; 0 if the slot has none.

    They are apart from syncopate_sum_block so that the loads for all blocks of a tile can be under way together.
    """
    if descriptor.block_shape[0] * descriptor.block_shape[1] > 8192:
        return 0  # unused: there would be too few registers
    else:
        return syncopate_load_rows(descriptor, descriptor.block_shape[1], row, column, addends + work[0] * 3,
                                   work[0] < work[2], arrived, staging)


@triton.jit
def syncopate_sum_block(value, first, descriptor, row, column, work, arrived, staging, addends):
    """The sum of the slot's addends and the tile's own value, for a block that a descriptor stores.

    `first` is of syncopate_first_summands. A large block is added in two parts, which need half the registers.
    """
    value = value.to(descriptor.dtype)
    height: tl.constexpr = descriptor.block_shape[0]
    width: tl.constexpr = descriptor.block_shape[1]
    if height * width > 8192:
        half: tl.constexpr = width // 2
        left, right = tl.split(tl.permute(tl.reshape(value, (height, 2, half)), (0, 2, 1)))
        exists = work[0] < work[2]
        first = syncopate_load_rows(descriptor, half, row, column, addends + work[0] * 3, exists, arrived, staging)
        left = syncopate_sum_rows(left, first, descriptor, row, column, work, arrived, staging, addends)
        column += half
        first = syncopate_load_rows(descriptor, half, row, column, addends + work[0] * 3, exists, arrived, staging)
        right = syncopate_sum_rows(right, first, descriptor, row, column, work, arrived, staging, addends)
        return tl.reshape(tl.permute(tl.join(left, right), (0, 2, 1)), (height, width))
    else:
        return syncopate_sum_rows(value, first, descriptor, row, column, work, arrived, staging, addends)


@triton.jit
def syncopate_sum_rows(value, first, descriptor, row, column, work, arrived, staging, addends):
    """syncopate_sum_block of a block that is small enough.

    Adds in the order of the addends with the own value in its place, in fp32, from +0, and rounds once. The summands of
    the first addend are added first even where the own value comes before them: +0 + a + b is +0 + b + a.
    """
    if work[0] < work[2]:
        total = tl.zeros_like(value).to(tl.float32) + first.to(tl.float32)
        addend = work[0] + 1
        while addend < work[1]:
            total += syncopate_load_rows(descriptor, value.shape[1], row, column, addends + addend * 3, True, arrived,
                                         staging).to(tl.float32)
            addend += 1
        total += value.to(tl.float32)
        while addend < work[2]:
            total += syncopate_load_rows(descriptor, value.shape[1], row, column, addends + addend * 3, True, arrived,
                                         staging).to(tl.float32)
            addend += 1
        value = total.to(value.dtype)
    return value


@triton.jit
def syncopate_load_rows(descriptor, width: tl.constexpr, row, column, addend, exists, arrived, staging):
    """One addend's summands of `width` columns of a block; 0 in rows that it has none for, or if there is no addend.

    Rows of the output are added as wholes, and begin at multiples of 16 bytes, as TMA demands. Places are counted from
    the block's first row: so they are the same for all blocks and addends, which takes fewer registers.
    Memory order: `arrived` came out of the waits for the summands, so the loads stay behind. They bypass the L1 cache:
    peers write the staging buffer while the kernel runs, and nothing is read twice.
    """
    base = tl.cast(row, tl.int64) * descriptor.strides[0]
    shift = tl.load(addend, mask=exists, other=0) + arrived + base
    shift = tl.multiple_of(shift, 128 // descriptor.dtype.primitive_bitwidth)
    begin = tl.load(addend + 1, mask=exists, other=0) - base
    end = tl.load(addend + 2, mask=exists, other=0) - base
    lines = tl.arange(0, descriptor.block_shape[0])[:, None].to(tl.int64) * descriptor.strides[0]
    columns = tl.arange(0, width)[None, :]
    here = (columns < descriptor.shape[1] - column) & (lines >= begin) & (lines < end)
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
def syncopate_sum_at(value, pointers, base, inside, work, arrived, staging, addends):
    """The sum of the slot's addends and the tile's own value, for what is stored through pointers past `base`.

    Adds in the order of the addends with the own value in its place, in fp32, from +0, and rounds once. A value that is
    smaller than the block of pointers stands for all its elements, as in a store.
    """
    value = tl.cast(value, base.dtype.element_ty)
    value = tl.where(syncopate_elements(pointers, base) >= 0, value, value)
    addend = work[0]
    if addend < work[2]:
        total = tl.zeros_like(value).to(tl.float32)
        while addend < work[1]:
            total += syncopate_load_at(pointers, base, inside, addends + addend * 3, arrived, staging)
            addend += 1
        total += value.to(tl.float32)
        while addend < work[2]:
            total += syncopate_load_at(pointers, base, inside, addends + addend * 3, arrived, staging)
            addend += 1
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
