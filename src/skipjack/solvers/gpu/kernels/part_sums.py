"""Adds up the parts that a split reduction left."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.chaining import begin


@triton.jit
def part_sums(
    parts,
    out,
    size,
    count,
    channels,
    TAPS: tl.constexpr,
    BLOCK: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """`count` arrays of `size` elements, one after the other, become one.

    With several `TAPS`, matrices of taps by channels are transposed on the way.
    """
    begin(FOLLOWS, FOLLOWED)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    acc = tl.zeros((BLOCK,), tl.float32)
    place = parts + at
    for _ in tl.range(0, count):
        acc += tl.load(place, mask=inside, other=0.0)
        place += size
    if TAPS > 1:
        channel = at % channels
        tap = (at // channels) % TAPS
        at = (at // (channels * TAPS) * channels + channel) * TAPS + tap
    tl.store(out + at, acc.to(out.dtype.element_ty), mask=inside)
