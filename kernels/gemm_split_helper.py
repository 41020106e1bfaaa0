"""A persistent matrix product whose tile indices come from a helper: y = x @ w for row-major x, w and y.

x is [rows, depth], w is [depth, cols], y is [rows, cols]. The kernel differs from gemm.py in form, not in result: the
order of the tiles is a function of its own, the loop is a `while`, and the columns walk in the inner direction.
"""
import triton
import triton.language as tl


@triton.jit
def place_tile(tile, tiles_r, tiles_c, BAND: tl.constexpr):
    """The tile row and tile column of a tile number: row by row inside bands of BAND tile columns."""
    per_band = tiles_r * BAND
    band = tile // per_band
    within = tile - band * per_band
    width = min(tiles_c - band * BAND, BAND)
    return within // width, band * BAND + within % width


@triton.jit
def gemm_split_helper(x, w, y, rows, cols, depth,
                      TILE_R: tl.constexpr, TILE_C: tl.constexpr, TILE_D: tl.constexpr, BAND: tl.constexpr):
    x_desc = tl.make_tensor_descriptor(x, [rows, depth], [depth, 1], [TILE_R, TILE_D])
    w_desc = tl.make_tensor_descriptor(w, [depth, cols], [cols, 1], [TILE_D, TILE_C])
    y_desc = tl.make_tensor_descriptor(y, [rows, cols], [cols, 1], [TILE_R, TILE_C])

    tiles_r = tl.cdiv(rows, TILE_R)
    tiles_c = tl.cdiv(cols, TILE_C)

    tile = tl.program_id(0)
    while tile < tiles_r * tiles_c:
        tile_r, tile_c = place_tile(tile, tiles_r, tiles_c, BAND)
        total = tl.zeros([TILE_R, TILE_C], dtype=tl.float32)
        for step in tl.range(0, depth, TILE_D):
            x_block = x_desc.load([tile_r * TILE_R, step])
            w_block = w_desc.load([step, tile_c * TILE_C])
            total = tl.dot(x_block, w_block, total)
        y_desc.store([tile_r * TILE_R, tile_c * TILE_C], total.to(y_desc.dtype))
        tile += tl.num_programs(0)
