"""Depthwise convolutions: few products for each element, without matrix units."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.tiles import begin


@triton.jit
def across(rows, columns, LAST: tl.constexpr):
    """Pixels by channels, or channels by pixels: the contiguous dimension comes last."""
    if LAST:
        both = rows[:, None] + columns[None, :]
    else:
        both = rows[None, :] + columns[:, None]
    return both


@triton.jit
def both_hold(rows, columns, LAST: tl.constexpr):
    """Like `across`, for conditions."""
    if LAST:
        both = rows[:, None] & columns[None, :]
    else:
        both = rows[None, :] & columns[:, None]
    return both


@triton.jit
def conv_depthwise(
    given,
    weights,
    out,
    images,
    rows,
    columns,
    in_rows,
    in_columns,
    channels,
    pad_h,
    pad_w,
    dilation_h,
    dilation_w,
    TIMES: tl.constexpr,
    Y: tl.constexpr,
    X: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    BACK: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK_PIXELS: tl.constexpr,
    BLOCK_CHANNELS: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """`channels` are those of the output; the result has `TIMES` as many as the image."""
    begin(FOLLOWS, FOLLOWED)
    blocks = tl.cdiv(channels, BLOCK_CHANNELS)
    pixel = (tl.program_id(0) // blocks) * BLOCK_PIXELS + tl.arange(0, BLOCK_PIXELS)
    channel = (tl.program_id(0) % blocks) * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS)
    w = pixel % columns
    h = (pixel // columns) % rows
    n = pixel // (columns * rows)
    there = channel < channels
    REPEATS: tl.constexpr = TIMES if BACK else 1
    in_channels = channels * TIMES if BACK else channels // TIMES
    first = n.to(tl.int64) * (in_channels * in_rows * in_columns)
    if LAST:
        acc = tl.zeros((BLOCK_PIXELS, BLOCK_CHANNELS), tl.float32)
    else:
        acc = tl.zeros((BLOCK_CHANNELS, BLOCK_PIXELS), tl.float32)
    for r in tl.static_range(Y):
        for s in tl.static_range(X):
            if BACK:
                in_h = h + pad_h - r * dilation_h
                in_w = w + pad_w - s * dilation_w
                inside = (in_h >= 0) & (in_w >= 0)
                inside &= (in_h % STRIDE_H == 0) & (in_w % STRIDE_W == 0)
                in_h = in_h // STRIDE_H
                in_w = in_w // STRIDE_W
            else:
                in_h = h * STRIDE_H - pad_h + r * dilation_h
                in_w = w * STRIDE_W - pad_w + s * dilation_w
                inside = (in_h >= 0) & (in_w >= 0)
            inside &= (in_h < in_rows) & (in_w < in_columns) & (n < images)
            for time in tl.static_range(REPEATS):
                k = channel * TIMES + time if BACK else channel
                source = k if BACK else channel // TIMES
                tap = tl.load(weights + k * (Y * X) + r * X + s, mask=there, other=0.0)
                if LAST:
                    at = first + (in_h * in_columns + in_w) * in_channels
                    factor = tap.to(tl.float32)[None, :]
                else:
                    at = first + in_h * in_columns + in_w
                    source = source * (in_rows * in_columns)
                    factor = tap.to(tl.float32)[:, None]
                place = given + across(at, source, LAST)
                values = tl.load(place, mask=both_hold(inside, there, LAST), other=0.0)
                acc += values.to(tl.float32) * factor
    if LAST:
        where = across(pixel.to(tl.int64) * channels, channel, LAST)
    else:
        at = n.to(tl.int64) * (channels * rows * columns) + h * columns + w
        where = across(at, channel * (rows * columns), LAST)
    mask = both_hold(n < images, there, LAST)
    tl.store(out + where, acc.to(out.dtype.element_ty), mask=mask)


@triton.jit
def conv_depthwise_filter(
    image,
    result,
    out,
    pixels,
    rows,
    columns,
    in_rows,
    in_columns,
    channels,
    share,
    pad_h,
    pad_w,
    dilation_h,
    dilation_w,
    TIMES: tl.constexpr,
    Y: tl.constexpr,
    X: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK_PIXELS: tl.constexpr,
    BLOCK_CHANNELS: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """`channels` are those of the result; a part sums `share` blocks of pixels for one tap."""
    begin(FOLLOWS, FOLLOWED)
    tap = tl.program_id(0) % (Y * X)
    channel = (tl.program_id(0) // (Y * X)) * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS)
    part = tl.program_id(1)
    there = channel < channels
    from_h = (tap // X) * dilation_h - pad_h
    from_w = (tap % X) * dilation_w - pad_w
    in_channels = channels // TIMES
    if LAST:
        acc = tl.zeros((BLOCK_PIXELS, BLOCK_CHANNELS), tl.float32)
    else:
        acc = tl.zeros((BLOCK_CHANNELS, BLOCK_PIXELS), tl.float32)
    for block in tl.range(part * share, part * share + share):
        pixel = block * BLOCK_PIXELS + tl.arange(0, BLOCK_PIXELS)
        w = pixel % columns
        h = (pixel // columns) % rows
        n = (pixel // (columns * rows)).to(tl.int64)
        in_h = h * STRIDE_H + from_h
        in_w = w * STRIDE_W + from_w
        inside = (in_h >= 0) & (in_w >= 0) & (in_h < in_rows) & (in_w < in_columns)
        inside &= pixel < pixels
        from_image = n * (in_channels * in_rows * in_columns)
        if LAST:
            from_image += (in_h * in_columns + in_w) * in_channels
            places = across(from_image, channel // TIMES, LAST)
            results = across(pixel.to(tl.int64) * channels, channel, LAST)
        else:
            from_image += in_h * in_columns + in_w
            places = across(from_image, channel // TIMES * (in_rows * in_columns), LAST)
            from_result = n * (channels * rows * columns) + h * columns + w
            results = across(from_result, channel * (rows * columns), LAST)
        mask = both_hold(inside, there, LAST)
        left = tl.load(image + places, mask=mask, other=0.0)
        right = tl.load(result + results, mask=mask, other=0.0)
        acc += left.to(tl.float32) * right.to(tl.float32)
    total = tl.sum(acc, axis=0 if LAST else 1)
    place = out + part.to(tl.int64) * (channels * Y * X) + channel * (Y * X) + tap
    tl.store(place, total.to(out.dtype.element_ty), mask=there)
