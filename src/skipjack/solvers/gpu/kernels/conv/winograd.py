"""Winograd's F(2x2, 3x3): transforms before and after sixteen products, summed in f32.

The transforms' matrices have few entries, so that each element is gathered on its own: a row of
the image's transform adds two rows, a row of the filter's three with factors, a row of the output's
three.
"""

import triton
import triton.language as tl


@triton.jit
def factor(place, tap):
    """The factor of a tap in the filter's transform: rows 1 0 0, .5 .5 .5, .5 -.5 .5, 0 0 1."""
    half = tl.where((place == 2) & (tap == 1), -0.5, 0.5)
    edge = tl.where(place == 0, tap == 0, tap == 2).to(tl.float32)
    return tl.where((place == 0) | (place == 3), edge, half)


@triton.jit
def filters(
    weights,
    out,
    cols,
    depth,
    BACK: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sixteen matrices of `cols` by `depth`; for image gradients the filter is rotated."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.program_id(1)
    inside = at < cols * depth
    col = at // depth
    z = at % depth
    k = z if BACK else col
    c = col if BACK else z
    channels = cols if BACK else depth
    acc = tl.zeros((BLOCK,), tl.float32)
    for r in tl.static_range(3):
        for s in tl.static_range(3):
            tap = 8 - (r * 3 + s) if BACK else r * 3 + s
            where = (k * 9 + tap) * channels + c if LAST else (k * channels + c) * 9 + tap
            value = tl.load(weights + where, mask=inside, other=0.0).to(tl.float32)
            acc += value * (factor(place // 4, r) * factor(place % 4, s))
    start = place.to(tl.int64) * cols * depth
    tl.store(out + start + at, acc.to(out.dtype.element_ty), mask=inside)


@triton.jit
def pixel_values(
    given, n, h, w, channel, images, rows, columns, channels, there, LAST: tl.constexpr
):
    """Pixels by channels; zeros outside of the image."""
    inside = (n < images) & (h >= 0) & (h < rows) & (w >= 0) & (w < columns)
    if LAST:
        at = ((n.to(tl.int64) * rows + h) * columns + w) * channels
        where = at[:, None] + channel[None, :]
    else:
        at = n.to(tl.int64) * (channels * rows * columns) + h * columns + w
        where = at[:, None] + (channel * (rows * columns))[None, :]
    mask = inside[:, None] & there[None, :]
    return tl.load(given + where, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def images(
    given,
    out,
    count,
    rows,
    columns,
    channels,
    tiles_h,
    tiles_w,
    pad_h,
    pad_w,
    LAST: tl.constexpr,
    BLOCK_TILES: tl.constexpr,
    BLOCK_CHANNELS: tl.constexpr,
):
    """Sixteen matrices of tiles by channels."""
    place = tl.program_id(1)
    tile = tl.program_id(0) * BLOCK_TILES + tl.arange(0, BLOCK_TILES)
    channel = tl.program_id(2) * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS)
    there = channel < channels
    n = tile // (tiles_h * tiles_w)
    h = (tile // tiles_w) % tiles_h * 2 - pad_h
    w = tile % tiles_w * 2 - pad_w
    x = place // 4
    y = place % 4
    # Rows 0 - 2, 1 + 2, 2 - 1 and 1 - 3 of four.
    first_h = h + tl.where(x == 0, 0, tl.where(x == 2, 2, 1))
    second_h = h + tl.where(x == 3, 3, tl.where(x == 2, 1, 2))
    first_w = w + tl.where(y == 0, 0, tl.where(y == 2, 2, 1))
    second_w = w + tl.where(y == 3, 3, tl.where(y == 2, 1, 2))
    sign_h = tl.where(x == 1, 1.0, -1.0)
    sign_w = tl.where(y == 1, 1.0, -1.0)
    a = pixel_values(
        given, n, first_h, first_w, channel, count, rows, columns, channels, there, LAST
    )
    b = pixel_values(
        given, n, first_h, second_w, channel, count, rows, columns, channels, there, LAST
    )
    c = pixel_values(
        given, n, second_h, first_w, channel, count, rows, columns, channels, there, LAST
    )
    d = pixel_values(
        given, n, second_h, second_w, channel, count, rows, columns, channels, there, LAST
    )
    value = (a + sign_w * b) + sign_h * (c + sign_w * d)
    tiles = count * tiles_h * tiles_w
    at = (place.to(tl.int64) * tiles + tile) * channels
    mask = (tile < tiles)[:, None] & there[None, :]
    tl.store(out + at[:, None] + channel[None, :], value.to(out.dtype.element_ty), mask=mask)


@triton.jit
def results(
    products,
    out,
    count,
    rows,
    columns,
    channels,
    tiles_h,
    tiles_w,
    LAST: tl.constexpr,
    BLOCK_PIXELS: tl.constexpr,
    BLOCK_CHANNELS: tl.constexpr,
):
    """The output's pixels: each sums nine of its tile's sixteen products."""
    pixel = tl.program_id(0) * BLOCK_PIXELS + tl.arange(0, BLOCK_PIXELS)
    channel = tl.program_id(1) * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS)
    w = pixel % columns
    h = (pixel // columns) % rows
    n = pixel // (columns * rows)
    tiles = (count * tiles_h * tiles_w).to(tl.int64)
    tile = (n * tiles_h + h // 2) * tiles_w + w // 2
    mask = (n < count)[:, None] & (channel < channels)[None, :]
    acc = tl.zeros((BLOCK_PIXELS, BLOCK_CHANNELS), tl.float32)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            place = (h % 2 + i) * 4 + w % 2 + j
            # Rows 1 1 1 0 and 0 1 -1 -1.
            sign = tl.where((h % 2 == 1) & (i > 0), -1.0, 1.0)
            sign *= tl.where((w % 2 == 1) & (j > 0), -1.0, 1.0)
            at = (place * tiles + tile) * channels
            value = tl.load(products + at[:, None] + channel[None, :], mask=mask, other=0.0)
            acc += value.to(tl.float32) * sign[:, None]
    if LAST:
        where = (pixel.to(tl.int64) * channels)[:, None] + channel[None, :]
    else:
        at = n.to(tl.int64) * (channels * rows * columns) + h * columns + w
        where = at[:, None] + (channel * (rows * columns))[None, :]
    tl.store(out + where, acc.to(out.dtype.element_ty), mask=mask)
