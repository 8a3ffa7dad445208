"""The filter's gradient by boxes of pixels, for one tap or for three taps of a row at a time."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.tiles import begin

# The filter's gradient by boxes: a product over all pixels for each tap of the filter.


@triton.jit
def box_rows(
    result, n, h, w, row, images, rows, columns, k, groups, group,
    BOX_N: tl.constexpr, BOX_H: tl.constexpr, BOX_W: tl.constexpr,
):  # fmt: skip
    """The result's pixels of a box by channels, loaded by addresses.

    Both operands are boxes, and the matrix units can read only one reshaped box from shared memory:
    a second one would pass through registers.
    """
    pixel = tl.arange(0, BOX_N * BOX_H * BOX_W)
    at_w = w + pixel % BOX_W
    at_h = h + (pixel // BOX_W) % BOX_H
    at_n = n + pixel // (BOX_W * BOX_H)
    inside = (at_n < images) & (at_h < rows) & (at_w < columns)
    at = ((at_n.to(tl.int64) * rows + at_h) * columns + at_w) * (groups * k) + group * k
    mask = inside[:, None] & (row < k)[None, :]
    return tl.load(result + at[:, None] + row[None, :], mask=mask, other=0.0)


@triton.jit
def conv_box_filter(
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
    X: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    FLAT: tl.constexpr,
    BOX_N: tl.constexpr,
    BOX_H: tl.constexpr,
    BOX_W: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_C: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """`rows` and `columns` are those of the result; a part sums `share` of the `boxes` of pixels.

    `FLAT`: pixels are the rows of two matrices.
    """
    begin(FOLLOWS, FOLLOWED)
    PIXELS: tl.constexpr = BOX_N * BOX_H * BOX_W
    pid = tl.program_id(0)
    part = tl.program_id(1)
    group = tl.program_id(2)
    tap = pid % (Y * X)
    block = pid // (Y * X)
    c_blocks = tl.cdiv(c, BLOCK_C)
    at_c = (block % c_blocks) * BLOCK_C
    at_k = (block // c_blocks) * BLOCK_K
    in_h = (tap // X) * dilation_h - pad_h + 4096 * STRIDE_H
    in_w = (tap % X) * dilation_w - pad_w + 4096 * STRIDE_W
    from_h = in_h // STRIDE_H - 4096
    from_w = in_w // STRIDE_W - 4096
    place_h = in_h % STRIDE_H
    channel = ((in_w % STRIDE_W) * groups + group) * c + at_c
    wide = tl.cdiv(columns, BOX_W)
    high = tl.cdiv(rows, BOX_H)
    row = at_k + tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_K, BLOCK_C), tl.float32)
    for box in tl.range(part * share, tl.minimum(part * share + share, boxes)):
        if FLAT:
            left = result.load([box * PIXELS, group * k + at_k])
            right = image.load([box * PIXELS, channel])
        else:
            at_w = (box % wide) * BOX_W
            at_h = ((box // wide) % high) * BOX_H
            at_n = (box // (wide * high)) * BOX_N
            left = box_rows(
                result, at_n, at_h, at_w, row, images, rows, columns, k, groups, group,
                BOX_N, BOX_H, BOX_W,
            )  # fmt: skip
            right = image.load([at_n, at_h + from_h, place_h, at_w + from_w, channel])
            right = tl.reshape(right, (PIXELS, BLOCK_C))
        acc = tl.dot(left.T, right, acc)
    col = at_c + tl.arange(0, BLOCK_C)
    where = ((group * k + row) * (Y * X * c))[:, None] + col[None, :] + tap * c
    inside = (row < k)[:, None] & (col < c)[None, :]
    place = out + part.to(tl.int64) * part_stride + where
    tl.store(place, acc.to(out.dtype.element_ty), mask=inside)


# The filter's gradient by boxes, three taps of a filter's row at once.
#
# The result's pixels are loaded once for three products, which halves the memory traffic.


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
    """Like `conv_box_filter`, for filters three taps wide."""
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
