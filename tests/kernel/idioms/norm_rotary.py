"""RMS norm of rows, then rotary embedding of neighbouring pairs: what elementwise kernels of layers are made of."""
import triton
import triton.language as tl

try:
    from triton.language.extra.libdevice import rsqrt
except ModuleNotFoundError:
    from triton.language.math import rsqrt

AS_INPUT: tl.constexpr = tl.constexpr(0)
IN_FP32: tl.constexpr = tl.constexpr(1)


@triton.jit
def inverse_norm(row, width, eps):
    return rsqrt(tl.sum(row * row, axis=0) / width + eps)


@triton.jit
def norm_rotary(x_ptr, weight_ptr, cos_ptr, sin_ptr, out_ptr, rows, width, eps, WIDTH: tl.constexpr,
                CASTING: tl.constexpr = 1, OFFSET: tl.constexpr = 0.0):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, WIDTH)
    inside = columns < width
    x = tl.load(x_ptr + row * width + columns, mask=inside, other=0.0, eviction_policy="evict_first")
    weight = tl.load(weight_ptr + columns, mask=inside, other=0.0)
    kept_type = x.dtype
    x = x.to(tl.float32)
    normal = x * inverse_norm(x, width, eps=eps)
    if CASTING == AS_INPUT:
        normal = normal.to(kept_type).to(tl.float32)
    elif CASTING == IN_FP32:
        weight = weight.to(tl.float32)
    normal = normal * (OFFSET + weight)
    half = tl.arange(0, WIDTH // 2)
    cos = tl.load(cos_ptr + row * (width // 2) + half, mask=half < width // 2, other=1.0)
    sin = tl.load(sin_ptr + row * (width // 2) + half, mask=half < width // 2, other=0.0)
    even, odd = tl.split(tl.reshape(normal, (WIDTH // 2, 2)))
    turned = tl.interleave(even * cos - odd * sin, odd * cos + even * sin)
    tl.store(out_ptr + row * width + columns, turned.to(kept_type), mask=inside)
