"""Convolution by boxes of pixels: the copy engine (TMA) loads a box for each tap of the filter."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.tiles import begin

# The taps of a filter that contribute to a pixel of the result or of the image gradient.


@triton.jit
def first_tap(place, pad, STRIDE: tl.constexpr, BACK: tl.constexpr):
    """The first tap for a position within the stride, and the offset of the pixel that it reads."""
    if BACK:
        tap = (place + pad) % STRIDE
        offset = (place + pad - tap) // STRIDE
    else:
        tap = place * 0
        offset = place * 0 - pad
    return tap, offset


@triton.jit
def taps_of(first, SIZE: tl.constexpr, STEP: tl.constexpr):
    """The number of taps from the first on."""
    return (SIZE - first + STEP - 1) // STEP


# Convolution by boxes: the copy engine (TMA) loads a box of pixels for each tap of the filter.
#
# The image has five dimensions: images, rows, positions within the vertical stride, columns, and
# the channels of all positions within the horizontal stride. A tap is then a box at an offset, and
# pixels outside of the image are loaded as zeros. Products are channels by pixels, because the
# matrix units take reshaped boxes as their second operand only.


@triton.jit
def conv_box(
    given,
    weights,
    out,
    images,
    rows,
    columns,
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
    STORE: tl.constexpr,
    BOX_N: tl.constexpr,
    BOX_H: tl.constexpr,
    BOX_W: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """One tile for each program.

    `rows` and `columns` are those of the output; `cols` and `depth` are channels of a group.
    `STORE` is "box" (by TMA), or, by addresses, "last" (NHWC) or "planes" (NCHW).
    """
    begin(FOLLOWS, FOLLOWED)
    box_tile(
        tl.program_id(0), given, weights, out, images, rows, columns, cols, depth, groups,
        pad_h, pad_w, dilation_h, dilation_w, Y, X, STRIDE_H, STRIDE_W, BACK, STORE,
        BOX_N, BOX_H, BOX_W, BLOCK_COLS, BLOCK_DEPTH,
    )  # fmt: skip


@triton.jit
def conv_box_walk(
    given,
    weights,
    out,
    images,
    rows,
    columns,
    cols,
    depth,
    groups,
    pad_h,
    pad_w,
    dilation_h,
    dilation_w,
    tiles,
    Y: tl.constexpr,
    X: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    BACK: tl.constexpr,
    STORE: tl.constexpr,
    BOX_N: tl.constexpr,
    BOX_H: tl.constexpr,
    BOX_W: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """Persistent programs: the pixels of the next tile are loaded while a tile is stored."""
    begin(FOLLOWS, FOLLOWED)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        box_tile(
            tile, given, weights, out, images, rows, columns, cols, depth, groups,
            pad_h, pad_w, dilation_h, dilation_w, Y, X, STRIDE_H, STRIDE_W, BACK, STORE,
            BOX_N, BOX_H, BOX_W, BLOCK_COLS, BLOCK_DEPTH,
        )  # fmt: skip


@triton.jit
def box_tile(
    tile, given, weights, out, images, rows, columns, cols, depth, groups,
    pad_h, pad_w, dilation_h, dilation_w,
    Y: tl.constexpr, X: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    BACK: tl.constexpr, STORE: tl.constexpr,
    BOX_N: tl.constexpr, BOX_H: tl.constexpr, BOX_W: tl.constexpr,
    BLOCK_COLS: tl.constexpr, BLOCK_DEPTH: tl.constexpr,
):  # fmt: skip
    """Compute a tile of channels by the pixels of a box, over all taps and channels."""
    PIXELS: tl.constexpr = BOX_N * BOX_H * BOX_W
    # For image gradients, the output's pixels are computed by position within the stride.
    OUT_H: tl.constexpr = STRIDE_H if BACK else 1
    OUT_W: tl.constexpr = STRIDE_W if BACK else 1
    IN_H: tl.constexpr = 1 if BACK else STRIDE_H
    IN_W: tl.constexpr = 1 if BACK else STRIDE_W
    place_h = tl.program_id(1) // OUT_W
    place_w = tl.program_id(1) % OUT_W
    group = tl.program_id(2)
    col_blocks = tl.cdiv(cols, BLOCK_COLS)
    col = (tile % col_blocks) * BLOCK_COLS
    box = tile // col_blocks
    wide = tl.cdiv(tl.cdiv(columns, OUT_W), BOX_W)
    high = tl.cdiv(tl.cdiv(rows, OUT_H), BOX_H)
    at_w = (box % wide) * BOX_W
    at_h = ((box // wide) % high) * BOX_H
    at_n = (box // (wide * high)) * BOX_N

    tap_h, from_h = first_tap(place_h, pad_h, STRIDE_H, BACK)
    tap_w, from_w = first_tap(place_w, pad_w, STRIDE_W, BACK)
    taps_h = taps_of(tap_h, Y, OUT_H)
    taps_w = taps_of(tap_w, X, OUT_W)
    step_h = -dilation_h if BACK else dilation_h
    step_w = -dilation_w if BACK else dilation_w
    blocks = tl.cdiv(depth, BLOCK_DEPTH)
    acc = tl.zeros((BLOCK_COLS, PIXELS), tl.float32)
    for i in tl.range(0, taps_h * taps_w * blocks):
        tap = i // blocks
        z = (i % blocks) * BLOCK_DEPTH
        h = tap // taps_w
        w = tap % taps_w
        # Division rounds towards zero: keep the dividend positive.
        in_h = from_h + h * step_h + 4096 * IN_H
        in_w = from_w + w * step_w + 4096 * IN_W
        pixels = given.load(
            [
                at_n,
                at_h + in_h // IN_H - 4096,
                in_h % IN_H,
                at_w + in_w // IN_W - 4096,
                ((in_w % IN_W) * groups + group) * depth + z,
            ]
        )
        pixels = tl.reshape(pixels, (PIXELS, BLOCK_DEPTH))
        tap_at = (tap_h + h * OUT_H) * X + tap_w + w * OUT_W
        if BACK:
            taken = weights.load([group * depth + z, tap_at * cols + col])
            acc = tl.dot(taken.T, pixels.T, acc)
        else:
            taken = weights.load([group * cols + col, tap_at * depth + z])
            acc = tl.dot(taken, pixels.T, acc)
    if STORE == "box":
        result = acc.to(out.dtype).T
        first = (place_w * groups + group) * cols + col
        result = tl.reshape(result, (BOX_N, BOX_H, 1, BOX_W, BLOCK_COLS))
        out.store([at_n, at_h, place_h, at_w, first], result)
    else:
        pixel = tl.arange(0, PIXELS)
        w_out = (at_w + pixel % BOX_W) * OUT_W + place_w
        h_out = (at_h + (pixel // BOX_W) % BOX_H) * OUT_H + place_h
        n_out = at_n + pixel // (BOX_W * BOX_H)
        inside = (n_out < images) & (h_out < rows) & (w_out < columns)
        at_col = col + tl.arange(0, BLOCK_COLS)
        of_group = at_col < cols
        at_col += group * cols
        every = groups * cols
        result = acc.to(out.dtype.element_ty)
        if STORE == "last":
            at_pixel = ((n_out.to(tl.int64) * rows + h_out) * columns + w_out) * every
            tl.store(
                out + at_pixel[:, None] + at_col[None, :],
                result.T,
                mask=inside[:, None] & of_group[None, :],
            )
        else:
            at_pixel = n_out.to(tl.int64) * every * (rows * columns) + h_out * columns + w_out
            tl.store(
                out + at_pixel[None, :] + (at_col * (rows * columns))[:, None],
                result,
                mask=inside[None, :] & of_group[:, None],
            )
