# The helper of fused kernels whose workers choose among the tiles of their rank, after those of prelude.py. Embedded in
# the same way; an emitted file holds it if its kernel needs it.
import triton
import triton.language as tl


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
