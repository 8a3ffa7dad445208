"""The filter's gradient by boxes, three taps of a filter's row at once.

The result's pixels are brought once for three products, which halves what is read.
"""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.chaining import begin
from skipjack.solvers.gpu.kernels.conv_box_filter import box_rows


@triton.jit
def conv_box_rows(
    image,
    result,
    out,
    boxes,
    images,
    rows,
    columns,
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
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    BOX_N: tl.constexpr,
    BOX_H: tl.constexpr,
    BOX_W: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_C: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """As `conv_box_filter`, for filters three taps wide."""
    begin(FOLLOWS, FOLLOWED)
    PIXELS: tl.constexpr = BOX_N * BOX_H * BOX_W
    pid = tl.program_id(0)
    part = tl.program_id(1)
    group = tl.program_id(2)
    tap_h = pid % Y
    block = pid // Y
    c_blocks = tl.cdiv(c, BLOCK_C)
    at_c = (block % c_blocks) * BLOCK_C
    at_k = (block // c_blocks) * BLOCK_K
    in_h = tap_h * dilation_h - pad_h + 4096 * STRIDE_H
    from_h = in_h // STRIDE_H - 4096
    place_h = in_h % STRIDE_H
    first = 4096 * STRIDE_W - pad_w
    second = first + dilation_w
    third = second + dilation_w
    first_w = first // STRIDE_W - 4096
    second_w = second // STRIDE_W - 4096
    third_w = third // STRIDE_W - 4096
    first_c = ((first % STRIDE_W) * groups + group) * c + at_c
    second_c = ((second % STRIDE_W) * groups + group) * c + at_c
    third_c = ((third % STRIDE_W) * groups + group) * c + at_c
    wide = tl.cdiv(columns, BOX_W)
    high = tl.cdiv(rows, BOX_H)
    row = at_k + tl.arange(0, BLOCK_K)
    acc0 = tl.zeros((BLOCK_K, BLOCK_C), tl.float32)
    acc1 = tl.zeros((BLOCK_K, BLOCK_C), tl.float32)
    acc2 = tl.zeros((BLOCK_K, BLOCK_C), tl.float32)
    for box in tl.range(part * share, tl.minimum(part * share + share, boxes)):
        w = (box % wide) * BOX_W
        h = ((box // wide) % high) * BOX_H
        n = (box // (wide * high)) * BOX_N
        left = box_rows(
            result, n, h, w, row, images, rows, columns, k, groups, group, BOX_N, BOX_H, BOX_W
        ).T
        h += from_h
        right0 = image.load([n, h, place_h, w + first_w, first_c])
        right1 = image.load([n, h, place_h, w + second_w, second_c])
        right2 = image.load([n, h, place_h, w + third_w, third_c])
        acc0 = tl.dot(left, tl.reshape(right0, (PIXELS, BLOCK_C)), acc0)
        acc1 = tl.dot(left, tl.reshape(right1, (PIXELS, BLOCK_C)), acc1)
        acc2 = tl.dot(left, tl.reshape(right2, (PIXELS, BLOCK_C)), acc2)
    col = at_c + tl.arange(0, BLOCK_C)
    where = ((group * k + row) * (Y * 3 * c))[:, None] + col[None, :]
    inside = (row < k)[:, None] & (col < c)[None, :]
    place = out + part.to(tl.int64) * part_stride + where + tap_h * 3 * c
    tl.store(place, acc0.to(out.dtype.element_ty), mask=inside)
    tl.store(place + c, acc1.to(out.dtype.element_ty), mask=inside)
    tl.store(place + 2 * c, acc2.to(out.dtype.element_ty), mask=inside)
