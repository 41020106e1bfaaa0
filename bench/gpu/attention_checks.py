"""Right attention: a tile's rows in fp64, and the bound of every element's error.

Write w for a row's weights of sum 1, u for the rounding of the kernel's type (2^-8 in bf16, 2^-11 in fp16), t = 17 *
2^-23 for what a tensor core's 17 addends lose of the largest of them, D for the head dimension, K for the number of
keys.

A score sums D products: it is off by at most d = scale * D / 16 * t * max |q| |k| in the exponent, and by a few
roundings of fp32, which move it by less than 2^-22 of its size. So a weight is off by the factor 1 +- e, e = 2 d +
2^-21 (1 + largest exponent). Weights are rounded to the kernel's type before they multiply v, but not where they are
summed. Roundings are independent, so eight standard deviations of their sum count; with s = sqrt(sum of (w v)^2) that
is 8 u s. The sum so far stays below 8 s too, or 8 s and the mean, and loses t of that K / 16 times. The result is
rounded once more:
    |o - exact| <= (1 + u) (8 u s + 2 e sum |w v| + K / 16 t (8 s + |exact|)) + u |exact|.
The logarithm of the sum of exponentials is off by e and by the roundings of a sum of K positive numbers, (K / 64 + 8)
2^-24. A block of 64 keys that is missing from 4096 moves o by s / 8 and the logarithm by 1 / 64, of 131072 by s / 45
and 1 / 2048.
"""
import math
from dataclasses import dataclass

import torch

UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
LOSS = 17 * 2.0**-23
KEYS = 16384  # of a slice of the reference


@dataclass
class Worst:
    """The largest |error| / bound of o and of the logarithms, and the tile that has it; at most 1 is right."""
    o: float = 0.0
    lse: float = 0.0
    tile: str = ""

    def take(self, o, lse, tile):
        if max(o, lse) > max(self.o, self.lse):
            self.tile = tile
        self.o, self.lse = max(self.o, o), max(self.lse, lse)

    @property
    def right(self):
        return self.o <= 1 and self.lse <= 1

    def __str__(self):
        return f"{self.o:.3f} of the bound for o, {self.lse:.3f} for lse, at {self.tile}"


def keys_in_slices(shape, rows):
    """(slice, kept pairs) of the keys that any of the rows attends to."""
    end = min(shape.kv_length, shape.q_start + int(rows[-1]) + 1) if shape.causal else shape.kv_length
    for begin in range(0, max(end, 0), KEYS):
        keys = torch.arange(begin, min(begin + KEYS, end), device=rows.device)
        kept = keys[None, :] <= shape.q_start + rows[:, None] if shape.causal else None
        yield slice(begin, begin + len(keys)), kept


def reference(shape, q, k, v, head, rows):
    """(o, lse, bound of o, bound of lse) of some rows of a head, in fp64. q [q_length, heads, head_dim]."""
    unit = UNIT[q.dtype]
    kv_head = head // shape.group
    query = q[rows, head].double()

    def exponents(keys, kept):
        scores = query @ k[keys, kv_head].double().T * shape.scale
        return scores if kept is None else scores.masked_fill(~kept, -math.inf)

    peak = torch.full((len(rows),), -1e300, dtype=torch.float64, device=q.device)
    largest, size = torch.zeros_like(peak), torch.zeros_like(peak)
    for keys, kept in keys_in_slices(shape, rows):
        scores = exponents(keys, kept)
        peak = torch.maximum(peak, scores.amax(1))
        size = torch.maximum(size, scores.nan_to_num(neginf=0.0).abs().amax(1))
        largest = torch.maximum(largest, (query.abs() @ k[keys, kv_head].double().abs().T).amax(1))
    total = torch.zeros_like(peak)
    o, magnitude, square = (torch.zeros(len(rows), shape.head_dim, dtype=torch.float64, device=q.device)
                            for _ in range(3))
    for keys, kept in keys_in_slices(shape, rows):
        weights = (exponents(keys, kept) - peak[:, None]).exp()
        value = v[keys, kv_head].double()
        total += weights.sum(1)
        o += weights @ value
        magnitude += weights @ value.abs()
        square += weights.square() @ value.square()
    whole = total.clamp_min(1e-300)[:, None]  # a row without keys has o = 0
    o, magnitude, s = o / whole, magnitude / whole, square.sqrt() / whole
    off = 2 * shape.scale * shape.head_dim / 16 * LOSS * largest + 2.0**-21 * (1 + size)
    summed = shape.kv_length / 16 * LOSS * (8 * s + o.abs())
    bound = (1 + unit) * (8 * unit * s + 2 * off[:, None] * magnitude + summed) + unit * o.abs() + 1e-30
    lse = peak + total.log()
    return o, lse, bound, off + (shape.kv_length / 64 + 8) * 2.0**-24 + 2.0**-22 * lse.abs().nan_to_num(posinf=0.0)


def share(value, expected, bound):
    """The largest |error| / bound; infinity where one is a number and the other is not."""
    error = torch.where(value == expected, 0.0, (value - expected).abs()) / bound
    return error.nan_to_num(nan=math.inf, posinf=math.inf).max().item()


def check(shape, q, k, v, o, lse, tile_rows, tiles):
    """Compares some tiles, given as (head, block), with the reference."""
    worst = Worst()
    for head, block in tiles:
        rows = torch.arange(block * tile_rows, min((block + 1) * tile_rows, shape.q_length), device=q.device)
        exact, exact_lse, bound, bound_lse = reference(shape, q, k, v, head, rows)
        worst.take(share(o[rows, head].double(), exact, bound),
                   share(lse[head, rows].double(), exact_lse, bound_lse),
                   f"head {head}, rows {int(rows[0])}-{int(rows[-1])}")
    return worst
