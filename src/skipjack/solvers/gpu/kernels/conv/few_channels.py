"""Few channels: packing all taps of a row side by side, and col2im of products that were formed tap
by tap.
"""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.conv.tma import first_tap, taps_of
from skipjack.solvers.gpu.kernels.tiles import begin

# Few channels: copies in which all taps of a filter's row are adjacent for every pixel.


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
    """Pack images as `high` rows of `wide` pixels of `PADDED` channels, padded with zeros."""
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
    """Pack the filter as k by rows by windows, padded with zeros."""
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
    """Add up `count` parts in the packed layout, and store them in the filter's own layout."""
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


# The image's gradient from products for each tap (col2im): each pixel gathers its products.


@triton.jit
def fold(
    products,
    out,
    images,
    rows,
    columns,
    in_rows,
    in_columns,
    pad_h,
    pad_w,
    C: tl.constexpr,
    Y: tl.constexpr,
    X: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """`products` are images by taps and channels, in the filter's order, by the result's pixels.

    The second axis of the grid is the position of pixels within the stride.
    """
    begin(FOLLOWS, FOLLOWED)
    place_h = tl.program_id(1) // STRIDE_W
    place_w = tl.program_id(1) % STRIDE_W
    high = tl.cdiv(rows, STRIDE_H)
    wide = tl.cdiv(columns, STRIDE_W)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    w = at % wide
    h = (at // wide) % high
    c = (at // (wide * high)) % C
    n = at // (wide * high * C)
    tap_h, from_h = first_tap(place_h, pad_h, STRIDE_H, True)
    tap_w, from_w = first_tap(place_w, pad_w, STRIDE_W, True)
    taps_h = taps_of(tap_h, Y, STRIDE_H)
    taps_w = taps_of(tap_w, X, STRIDE_W)
    plane = in_rows * in_columns
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in tl.range(0, taps_h):
        in_h = h + from_h - i
        r = tap_h + i * STRIDE_H
        inside = (n < images) & (in_h >= 0) & (in_h < in_rows)
        for j in tl.range(0, taps_w):
            in_w = w + from_w - j
            s = tap_w + j * STRIDE_W
            col = (r * X + s) * C + c if LAST else (c * Y + r) * X + s
            where = (n * (Y * X * C) + col).to(tl.int64) * plane + in_h * in_columns + in_w
            mask = inside & (in_w >= 0) & (in_w < in_columns)
            acc += tl.load(products + where, mask=mask, other=0.0).to(tl.float32)
    out_h = h * STRIDE_H + place_h
    out_w = w * STRIDE_W + place_w
    if LAST:
        where = ((n.to(tl.int64) * rows + out_h) * columns + out_w) * C + c
    else:
        where = ((n.to(tl.int64) * C + c) * rows + out_h) * columns + out_w
    mask = (n < images) & (out_h < rows) & (out_w < columns)
    tl.store(out + where, acc.to(out.dtype.element_ty), mask=mask)
