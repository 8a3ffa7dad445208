"""The image's gradient out of products that were formed tap by tap: every pixel gathers its own."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.chaining import begin
from skipjack.solvers.gpu.kernels.conv_taps import first_tap, taps_of


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

    The second axis of the grid are the places of pixels within the stride.
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
