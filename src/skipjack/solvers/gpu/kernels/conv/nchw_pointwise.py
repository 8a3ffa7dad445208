"""1x1 convolutions in NCHW: products on each image in place."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.tiles import begin


@triton.jit
def conv_planes(
    given,
    weights,
    out,
    cols,
    depth,
    pixels,
    tiles,
    BACK: tl.constexpr,
    STORE: tl.constexpr,
    WALK: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
    BLOCK_PIXELS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """`given` is images times `depth` planes, `out` images times `cols`; weights are k by c.

    `STORE` is "box" (by TMA) or "planes" (by addresses). `WALK`: programs are persistent, so that
    the pixels of the next tile are loaded while a tile is stored.
    """
    begin(FOLLOWS, FOLLOWED)
    if WALK:
        for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
            plane_tile(
                tile, given, weights, out, cols, depth, pixels,
                BACK, STORE, BLOCK_COLS, BLOCK_PIXELS, BLOCK_DEPTH,
            )  # fmt: skip
    else:
        plane_tile(
            tl.program_id(0), given, weights, out, cols, depth, pixels,
            BACK, STORE, BLOCK_COLS, BLOCK_PIXELS, BLOCK_DEPTH,
        )  # fmt: skip


@triton.jit
def plane_tile(
    tile, given, weights, out, cols, depth, pixels,
    BACK: tl.constexpr, STORE: tl.constexpr,
    BLOCK_COLS: tl.constexpr, BLOCK_PIXELS: tl.constexpr, BLOCK_DEPTH: tl.constexpr,
):  # fmt: skip
    """Compute a tile of channels by pixels of one image."""
    col_blocks = tl.cdiv(cols, BLOCK_COLS)
    blocks = tl.cdiv(pixels, BLOCK_PIXELS)
    col = (tile % col_blocks) * BLOCK_COLS
    pixel = (tile // col_blocks % blocks) * BLOCK_PIXELS
    image = tile // (col_blocks * blocks)
    acc = tl.zeros((BLOCK_COLS, BLOCK_PIXELS), tl.float32)
    for z in tl.range(0, depth, BLOCK_DEPTH):
        plane = given.load([image * depth + z, pixel])
        if BACK:
            acc = tl.dot(weights.load([z, col]).T, plane, acc)
        else:
            acc = tl.dot(weights.load([col, z]), plane, acc)
    if STORE == "box":
        out.store([image * cols + col, pixel], acc.to(out.dtype))
    else:
        row = col + tl.arange(0, BLOCK_COLS)
        at = pixel + tl.arange(0, BLOCK_PIXELS)
        where = out + ((image * cols + row).to(tl.int64) * pixels)[:, None] + at[None, :]
        inside = (row < cols)[:, None] & (at < pixels)[None, :]
        tl.store(where, acc.to(out.dtype.element_ty), mask=inside)


@triton.jit
def conv_planes_filter(
    image,
    result,
    out,
    k,
    c,
    blocks,
    share,
    chunks,
    part_stride,
    BLOCK_K: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_PIXELS: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """The gradient of the weights: a part sums `share` of the `blocks` of pixels."""
    begin(FOLLOWS, FOLLOWED)
    pid = tl.program_id(0)
    part = tl.program_id(1)
    c_blocks = tl.cdiv(c, BLOCK_C)
    at_c = (pid % c_blocks) * BLOCK_C
    at_k = (pid // c_blocks) * BLOCK_K
    acc = tl.zeros((BLOCK_K, BLOCK_C), tl.float32)
    for block in tl.range(part * share, tl.minimum(part * share + share, blocks)):
        n = block // chunks
        pixel = (block % chunks) * BLOCK_PIXELS
        left = result.load([n * k + at_k, pixel])
        right = image.load([n * c + at_c, pixel])
        acc = tl.dot(left, right.T, acc)
    row = at_k + tl.arange(0, BLOCK_K)
    col = at_c + tl.arange(0, BLOCK_C)
    inside = (row < k)[:, None] & (col < c)[None, :]
    where = out + part.to(tl.int64) * part_stride + row[:, None] * c + col[None, :]
    tl.store(where, acc.to(out.dtype.element_ty), mask=inside)
