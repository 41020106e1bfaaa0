"""Rows of a table by number: out[i] = table[ids[i] - first[0]], zero where this table has no such row.

A table that is sharded by vocabulary gives each rank the rows from `first` on; the sum of all ranks' results is the
lookup in the whole table.
"""
import triton
import triton.language as tl


@triton.jit
def embedding(ids_ptr, first_ptr, table_ptr, out_ptr, TOKENS, ROWS, WIDTH,
              BLOCK_T: tl.constexpr, BLOCK_W: tl.constexpr):
    pid_t = tl.program_id(0)
    pid_w = tl.program_id(1)
    tokens = pid_t * BLOCK_T + tl.arange(0, BLOCK_T)
    columns = pid_w * BLOCK_W + tl.arange(0, BLOCK_W)
    row = tl.load(ids_ptr + tokens, mask=tokens < TOKENS, other=-1) - tl.load(first_ptr)
    here = (row >= 0) & (row < ROWS)
    values = tl.load(table_ptr + row[:, None].to(tl.int64) * WIDTH + columns[None, :],
                     mask=here[:, None] & (columns[None, :] < WIDTH), other=0.0)
    tl.store(out_ptr + tokens[:, None].to(tl.int64) * WIDTH + columns[None, :], values,
             mask=(tokens[:, None] < TOKENS) & (columns[None, :] < WIDTH))
