"""Few channels: copies in which all taps of a filter's row lie side by side for every pixel."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.chaining import begin


@triton.jit
def pack_image(
    source,
    out,
    size,
    rows,
    columns,
    wide,
    high,
    pad,
    C: tl.constexpr,
    PADDED: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """Images of `high` rows of `wide` pixels of `PADDED` channels, zeros around the given ones."""
    begin(FOLLOWS, FOLLOWED)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = at % PADDED
    pixel = at // PADDED
    w = pixel % wide - pad
    h = (pixel // wide) % high
    n = pixel // (wide * high)
    inside = (at < size) & (channel < C) & (w >= 0) & (w < columns) & (h < rows)
    if LAST:
        where = ((n * rows + h) * columns + w) * C + channel
    else:
        where = ((n * C + channel) * rows + h) * columns + w
    values = tl.load(source + where, mask=inside, other=0.0)
    tl.store(out + at, values, mask=at < size)


@triton.jit
def pack_filter(
    source,
    out,
    size,
    C: tl.constexpr,
    PADDED: tl.constexpr,
    Y: tl.constexpr,
    X: tl.constexpr,
    WINDOW: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """k by rows by windows, zeros where there is no tap or channel."""
    begin(FOLLOWS, FOLLOWED)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = at % PADDED
    x = (at % WINDOW) // PADDED
    row = at // WINDOW
    if LAST:
        where = (row * X + x) * C + channel
    else:
        where = ((row // Y * C + channel) * Y + row % Y) * X + x
    inside = (at < size) & (channel < C) & (x < X)
    values = tl.load(source + where, mask=inside, other=0.0)
    tl.store(out + at, values, mask=at < size)


@triton.jit
def unpack_sums(
    parts,
    out,
    size,
    count,
    part_stride,
    C: tl.constexpr,
    PADDED: tl.constexpr,
    Y: tl.constexpr,
    X: tl.constexpr,
    WINDOW: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """Adds up `count` parts, packed as the filter was, into the filter's own layout."""
    begin(FOLLOWS, FOLLOWED)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    if LAST:
        channel = at % C
        x = (at // C) % X
        row = at // (C * X)
    else:
        x = at % X
        channel = (at // (X * Y)) % C
        row = at // (X * Y * C) * Y + (at // X) % Y
    place = parts + row * WINDOW + x * PADDED + channel
    acc = tl.zeros((BLOCK,), tl.float32)
    for _ in tl.range(0, count):
        acc += tl.load(place, mask=inside, other=0.0)
        place += part_stride
    tl.store(out + at, acc.to(out.dtype.element_ty), mask=inside)
