#include "syncopate/cuda/device_code.h"

namespace syncopate::cuda {

const char* const kDeviceCode = R"(
.version 7.0
.target sm_70
.address_size 64

.visible .entry syncopate_step(
    .param .u64 p_waits, .param .u64 p_wait_count, .param .u64 p_raises, .param .u64 p_raise_count,
    .param .u64 p_flags, .param .u64 p_epoch, .param .u64 p_advance,
    .param .u64 p_record, .param .u64 p_time_limit, .param .u64 p_who)
{
    .reg .pred done;
    .reg .b64 row, rows, raise, raises, flags, epoch_at, advance, record, limit, who;
    .reg .b64 epoch, slot, growth, expected, flag, seen, deadline, now, claimed, target;

    ld.param.u64 row, [p_waits];
    ld.param.u64 rows, [p_wait_count];
    ld.param.u64 raise, [p_raises];
    ld.param.u64 raises, [p_raise_count];
    ld.param.u64 flags, [p_flags];
    ld.param.u64 epoch_at, [p_epoch];
    ld.param.u64 advance, [p_advance];
    ld.param.u64 record, [p_record];
    ld.param.u64 limit, [p_time_limit];
    ld.param.u64 who, [p_who];
    ld.global.u64 epoch, [epoch_at];

next_wait:
    setp.eq.u64 done, rows, 0;
    @done bra raise_all;
    sub.u64 rows, rows, 1;
    ld.global.u64 slot, [row];
    ld.global.u64 growth, [row + 8];
    ld.global.u64 expected, [row + 16];
    add.u64 row, row, 24;
    sub.u64 target, epoch, 1;
    mad.lo.u64 expected, growth, target, expected;
    shl.b64 flag, slot, 3;
    add.u64 flag, flags, flag;
    mov.u64 deadline, %globaltimer;
    add.u64 deadline, deadline, limit;
poll:
    ld.acquire.sys.global.u64 seen, [flag];
    setp.ge.u64 done, seen, expected;
    @done bra next_wait;
    ld.relaxed.sys.global.u64 claimed, [record];
    setp.ne.u64 done, claimed, 0;
    @done bra next_wait;
    nanosleep.u32 32;
    mov.u64 now, %globaltimer;
    setp.lt.u64 done, now, deadline;
    @done bra poll;
    atom.relaxed.sys.global.cas.b64 claimed, [record], 0, 1;
    setp.ne.u64 done, claimed, 0;
    @done bra next_wait;
    st.relaxed.sys.global.u64 [record + 8], who;
    st.relaxed.sys.global.u64 [record + 16], slot;
    st.relaxed.sys.global.u64 [record + 24], expected;
    st.relaxed.sys.global.u64 [record + 32], seen;
    bra next_wait;

raise_all:
    setp.eq.u64 done, raises, 0;
    @done bra end;
    sub.u64 raises, raises, 1;
    ld.global.u64 target, [raise];
    add.u64 raise, raise, 8;
    red.release.sys.global.add.u64 [target], 1;
    bra raise_all;

end:
    add.u64 epoch, epoch, advance;
    setp.eq.u64 done, advance, 0;
    @!done st.global.u64 [epoch_at], epoch;
    ret;
}

.visible .entry syncopate_delay(.param .u64 p_nanoseconds)
{
    .reg .pred more;
    .reg .b64 now, until;
    ld.param.u64 until, [p_nanoseconds];
    mov.u64 now, %globaltimer;
    add.u64 until, until, now;
spin:
    nanosleep.u32 100;
    mov.u64 now, %globaltimer;
    setp.lt.u64 more, now, until;
    @more bra spin;
    ret;
}
)";

}  // namespace syncopate::cuda
