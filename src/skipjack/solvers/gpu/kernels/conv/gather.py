"""Implicit products for any convolution: pixels are gathered by their addresses."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.conv.tma import first_tap, taps_of
from skipjack.solvers.gpu.kernels.tiles import begin, multiplied


@triton.jit
def conv_gather(
    given,
    weights,
    out,
    images,
    rows,
    columns,
    in_rows,
    in_columns,
    cols,
    depth,
    groups,
    pad_h,
    pad_w,
    dilation_h,
    dilation_w,
    Y: tl.constexpr,
    X: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    BACK: tl.constexpr,
    LAST: tl.constexpr,
    SPARSE: tl.constexpr,
    BLOCK_PIXELS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """`rows` and `columns` are those of the output; `cols` and `depth` are channels of a group.

    `SPARSE`: all taps are visited, and those between the strides are masked, as strides combined
    with dilations require.
    """
    begin(FOLLOWS, FOLLOWED)
    OUT_H: tl.constexpr = STRIDE_H if BACK and not SPARSE else 1
    OUT_W: tl.constexpr = STRIDE_W if BACK and not SPARSE else 1
    IN_H: tl.constexpr = 1 if BACK else STRIDE_H
    IN_W: tl.constexpr = 1 if BACK else STRIDE_W
    pid = tl.program_id(0)
    place_h = tl.program_id(1) // OUT_W
    place_w = tl.program_id(1) % OUT_W
    group = tl.program_id(2)
    col_blocks = tl.cdiv(cols, BLOCK_COLS)
    pixel = (pid // col_blocks) * BLOCK_PIXELS + tl.arange(0, BLOCK_PIXELS)
    col = (pid % col_blocks) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    wide = tl.cdiv(columns, OUT_W)
    high = tl.cdiv(rows, OUT_H)
    at_w = pixel % wide
    at_h = (pixel // wide) % high
    n = pixel // (wide * high)

    tap_h, from_h = first_tap(place_h, pad_h, OUT_H, BACK)
    tap_w, from_w = first_tap(place_w, pad_w, OUT_W, BACK)
    taps_h = taps_of(tap_h, Y, OUT_H)
    taps_w = taps_of(tap_w, X, OUT_W)
    step_h = -dilation_h if BACK else dilation_h
    step_w = -dilation_w if BACK else dilation_w
    start_h = at_h * IN_H + from_h
    start_w = at_w * IN_W + from_w
    if LAST:
        channel_stride = 1
        in_stride = groups * depth
        weight_depth = X * Y * cols if BACK else 1
        weight_col = 1 if BACK else X * Y * depth
        weight_tap = cols if BACK else depth
        plane = in_rows * in_columns * groups * depth
    else:
        channel_stride = in_rows * in_columns
        in_stride = 1
        weight_depth = X * Y * cols if BACK else X * Y
        weight_col = X * Y if BACK else X * Y * depth
        weight_tap = 1
        plane = in_rows * in_columns * groups * depth
    base = given + n.to(tl.int64) * plane + group * depth * channel_stride
    first_weight = weights + group * (depth * weight_depth if BACK else cols * weight_col)
    blocks = tl.cdiv(depth, BLOCK_DEPTH)
    acc = tl.zeros((BLOCK_PIXELS, BLOCK_COLS), tl.float32)
    z_range = tl.arange(0, BLOCK_DEPTH)
    for i in tl.range(0, taps_h * taps_w * blocks):
        tap = i // blocks
        z = (i % blocks) * BLOCK_DEPTH + z_range
        step_at_h = tap // taps_w
        step_at_w = tap % taps_w
        h = start_h + step_at_h * step_h
        w = start_w + step_at_w * step_w
        inside = n < images
        if SPARSE:
            inside &= (h % STRIDE_H == 0) & (w % STRIDE_W == 0) & (h >= 0) & (w >= 0)
            h = h // STRIDE_H
            w = w // STRIDE_W
        inside &= (h >= 0) & (h < in_rows) & (w >= 0) & (w < in_columns)
        from_pixel = (h * in_columns + w) * in_stride
        left = tl.load(
            base[:, None] + from_pixel[:, None] + (z * channel_stride)[None, :],
            mask=inside[:, None] & (z < depth)[None, :],
            other=0.0,
        )
        tap_at = (tap_h + step_at_h * OUT_H) * X + tap_w + step_at_w * OUT_W
        right = tl.load(
            first_weight
            + tap_at * weight_tap
            + (z * weight_depth)[:, None]
            + (col * weight_col)[None, :],
            mask=(z < depth)[:, None] & (col < cols)[None, :],
            other=0.0,
        )
        acc = multiplied(left, right, acc, PRECISION)
    out_h = at_h * OUT_H + place_h
    out_w = at_w * OUT_W + place_w
    inside = (n < images) & (out_h < rows) & (out_w < columns)
    if LAST:
        at = ((n.to(tl.int64) * rows + out_h) * columns + out_w) * (groups * cols)
        where = at[:, None] + (group * cols + col)[None, :]
    else:
        at = n.to(tl.int64) * (groups * cols * rows * columns) + out_h * columns + out_w
        where = at[:, None] + ((group * cols + col) * (rows * columns))[None, :]
    mask = inside[:, None] & (col < cols)[None, :]
    tl.store(out + where, acc.to(out.dtype.element_ty), mask=mask)


@triton.jit
def conv_gather_filter(
    image,
    result,
    out,
    pixels,
    rows,
    columns,
    in_rows,
    in_columns,
    k,
    c,
    groups,
    share,
    part_stride,
    pad_h,
    pad_w,
    dilation_h,
    dilation_w,
    Y: tl.constexpr,
    X: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_PIXELS: tl.constexpr,
    LONG: tl.constexpr,
    PRECISION: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """The filter's gradient, k by taps and channels; a part sums `share` blocks of pixels.

    `LONG`: the number of elements of an array exceeds 31 bits.
    """
    begin(FOLLOWS, FOLLOWED)
    pid = tl.program_id(0)
    part = tl.program_id(1)
    group = tl.program_id(2)
    taps_c = Y * X * c
    col_blocks = tl.cdiv(taps_c, BLOCK_C)
    col = (pid % col_blocks) * BLOCK_C + tl.arange(0, BLOCK_C)
    row = (pid // col_blocks) * BLOCK_K + tl.arange(0, BLOCK_K)
    if LAST:
        tap = col // c
        channel = group * c + col % c
        in_stride = groups * c
        from_channel = channel
        result_pixel = groups * k
        from_row = group * k + row
    else:
        tap = col % (Y * X)
        channel = group * c + col // (Y * X)
        in_stride = 1
        from_channel = channel * in_rows * in_columns
        result_pixel = 1
        from_row = (group * k + row) * rows * columns
    from_h = (tap // X) * dilation_h - pad_h
    from_w = (tap % X) * dilation_w - pad_w
    acc = tl.zeros((BLOCK_K, BLOCK_C), tl.float32)
    for block in tl.range(part * share, part * share + share):
        pixel = block * BLOCK_PIXELS + tl.arange(0, BLOCK_PIXELS)
        w = pixel % columns
        h = (pixel // columns) % rows
        n = pixel // (columns * rows)
        if LONG:
            n = n.to(tl.int64)
        there = pixel < pixels
        of_image = n * (groups * k * rows * columns) + (h * columns + w) * result_pixel
        left = tl.load(
            result + of_image[None, :] + from_row[:, None],
            mask=(row < k)[:, None] & there[None, :],
            other=0.0,
        )
        in_h = (h * STRIDE_H)[:, None] + from_h[None, :]
        in_w = (w * STRIDE_W)[:, None] + from_w[None, :]
        inside = (in_h >= 0) & (in_h < in_rows) & (in_w >= 0) & (in_w < in_columns)
        inside &= there[:, None] & (col < taps_c)[None, :]
        at = (n * (groups * c * in_rows * in_columns))[:, None] + from_channel[None, :]
        right = tl.load(image + at + (in_h * in_columns + in_w) * in_stride, mask=inside, other=0.0)
        acc = multiplied(left, right, acc, PRECISION)
    inside = (row < k)[:, None] & (col < taps_c)[None, :]
    where = (group * k + row)[:, None] * taps_c + col[None, :]
    place = out + part.to(tl.int64) * part_stride + where
    tl.store(place, acc.to(out.dtype.element_ty), mask=inside)
