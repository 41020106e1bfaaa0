# The helpers of fused kernels whose output is a sum over ranks, after those of prelude.py. Embedded in the same way;
# an emitted file holds those that its kernel needs.
#
# `entry` is the part of a slot's row of the tile order that follows the index variables. Its columns: 0, 1 the waits
# before the tile; 2, 3 the waits before it adds; 4 the first addend, 5 the addend before which the tile's own value is
# added, 6 past the last addend; 7, 8 the signals; 9, 10 the elements of the output that the slot keeps.
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
def syncopate_raise_all(entry, signals, peers):
    """Publishes what the block has stored and raises the signals of a slot, if it has any."""
    signal = tl.load(entry + 7)
    last = tl.load(entry + 8)
    if signal < last:
        published = syncopate_publish()
        while signal < last:
            syncopate_raise(peers, tl.load(signals + signal * 2), tl.load(signals + signal * 2 + 1) + published)
            signal += 1


@triton.jit
def syncopate_waits_at(entry):
    """Whether a slot waits for anything, before or after its tile is computed."""
    return (tl.load(entry) < tl.load(entry + 1)) | (tl.load(entry + 2) < tl.load(entry + 3))


@triton.jit
def syncopate_raise_late(entry, slot, columns, signals, peers):
    """Raises the signals of the slot that this program worked on before `slot`, unless syncopate_raise_early did.

    By now that slot's stores are long complete, where waiting for them at once would have stalled the block.
    """
    if slot >= tl.num_programs(0):
        if syncopate_waits_at(entry) == 0:
            syncopate_raise_all(entry - tl.num_programs(0).to(tl.int64) * columns, signals, peers)


@triton.jit
def syncopate_raise_early(entry, slot, columns, count, signals, peers):
    """Raises the slot's signals if the program's next slot waits for anything, or if there is none.

    So a program never waits, nor ends, while somebody may be waiting for what it has done.
    """
    early = slot + tl.num_programs(0) >= count
    if early == 0:
        early = syncopate_waits_at(entry + tl.num_programs(0).to(tl.int64) * columns)
    if early:
        syncopate_raise_all(entry, signals, peers)
    # Triton 3.6 fuses a flattened tile loop with its inner loop wrongly if a branch is the last thing in it.
    tl.assume(slot >= 0)


@triton.jit
def syncopate_sum_block(value, descriptor, row, column, entry, arrived, staging, addends):
    """The sum of the slot's addends and the tile's own value, for a block that a descriptor stores.

    Adds in the order of the addends with the own value in its place, in fp32, from +0, and rounds once. Rows of the
    output are added as wholes, and begin at multiples of 16 bytes, as TMA demands. A large block is added in two parts,
    which need half the registers.
    """
    height: tl.constexpr = value.shape[0]
    width: tl.constexpr = value.shape[1]
    if height * width >= 8192 and width >= 32:
        left, right = tl.split(tl.permute(tl.reshape(value, (height, 2, width // 2)), (0, 2, 1)))
        left = syncopate_sum_rows(left, descriptor, row, column, entry, arrived, staging, addends)
        right = syncopate_sum_rows(right, descriptor, row, column + width // 2, entry, arrived, staging, addends)
        return tl.reshape(tl.permute(tl.join(left, right), (0, 2, 1)), (height, width))
    else:
        return syncopate_sum_rows(value, descriptor, row, column, entry, arrived, staging, addends)


@triton.jit
def syncopate_sum_rows(value, descriptor, row, column, entry, arrived, staging, addends):
    """syncopate_sum_block of a block that is small enough."""
    addend = tl.load(entry + 4)
    own = tl.load(entry + 5)
    last = tl.load(entry + 6)
    if addend < last:
        total = tl.zeros_like(value).to(tl.float32)
        while addend < own:
            total += syncopate_load_rows(value, descriptor, row, column, addends + addend * 3, arrived, staging)
            addend += 1
        total += value.to(tl.float32)
        while addend < last:
            total += syncopate_load_rows(value, descriptor, row, column, addends + addend * 3, arrived, staging)
            addend += 1
        value = total.to(value.dtype)
    return value


@triton.jit
def syncopate_load_rows(value, descriptor, row, column, addend, arrived, staging):
    """One addend's summands of a block, in fp32; 0 in rows that it has none for.

    Memory order: `arrived` came out of the waits for the summands, so the loads stay behind. They bypass the L1 cache:
    peers write the staging buffer while the kernel runs, and nothing is read twice.
    """
    lines, columns, inside = syncopate_block(value, descriptor, row, column)
    shift = tl.multiple_of(tl.load(addend) + arrived, 128 // descriptor.dtype.primitive_bitwidth)
    here = inside & (lines >= tl.load(addend + 1)) & (lines < tl.load(addend + 2))
    return tl.load(staging + (lines + shift) + columns, mask=here, other=0.0, cache_modifier=".cg").to(tl.float32)


@triton.jit
def syncopate_block(value, descriptor, row, column):
    """The elements of a block that a descriptor stores: the first of each row, the columns, which columns exist."""
    rows = row + tl.arange(0, value.shape[0])
    columns = column + tl.arange(0, value.shape[1])
    return rows[:, None].to(tl.int64) * descriptor.strides[0], columns[None, :], columns[None, :] < descriptor.shape[1]


@triton.jit
def syncopate_cuts_block(value, descriptor, row, entry, cut: tl.constexpr):
    """Whether the slot keeps only some of the rows of a block."""
    if cut:
        begin = tl.cast(row, tl.int64) * descriptor.strides[0]
        end = tl.minimum(row + value.shape[0], descriptor.shape[0]).to(tl.int64) * descriptor.strides[0]
        return (begin < tl.load(entry + 9)) | (end > tl.load(entry + 10))
    else:
        return False


@triton.jit
def syncopate_store_kept(base, value, descriptor, row, column, entry):
    """Stores those rows of a block that the slot keeps."""
    lines, columns, inside = syncopate_block(value, descriptor, row, column)
    kept = inside & (lines >= tl.load(entry + 9)) & (lines < tl.load(entry + 10))
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

    Adds in the order of the addends with the own value in its place, in fp32, from +0, and rounds once.
    """
    value = tl.cast(value, base.dtype.element_ty)
    addend = tl.load(entry + 4)
    own = tl.load(entry + 5)
    last = tl.load(entry + 6)
    if addend < last:
        total = tl.zeros_like(value).to(tl.float32)
        while addend < own:
            total += syncopate_load_at(pointers, base, inside, addends + addend * 3, arrived, staging)
            addend += 1
        total += value.to(tl.float32)
        while addend < last:
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
    return (elements >= tl.load(entry + 9)) & (elements < tl.load(entry + 10))
