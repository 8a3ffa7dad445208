"""What is done to sums before they are stored, and the order in which tiles are visited."""

import triton
import triton.language as tl


@triton.jit
def activated(x, ACT: tl.constexpr):
    """An activation in f32; its number is the place in `skipjack.solvers.gpu.product.ACTIVATIONS`.

    tanh is written with exp of a number that is never positive, so that nothing overflows.
    """
    if ACT == 1:  # relu
        x = tl.maximum(x, 0.0)
    elif ACT == 2:  # gelu
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACT == 3:  # gelu_tanh
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        x = x / (1.0 + tl.exp(-2.0 * inner))
    elif ACT == 4:  # sigmoid
        x = 1.0 / (1.0 + tl.exp(-x))
    elif ACT == 5:  # silu
        x = x / (1.0 + tl.exp(-x))
    elif ACT == 6:  # tanh
        small = tl.exp(-2.0 * tl.abs(x))
        size = (1.0 - small) / (1.0 + small)
        x = tl.where(x < 0.0, -size, size)
    return x


@triton.jit
def finished(
    sums, c, bias, batch, m, n, M, N, alpha, beta,
    BM: tl.constexpr, BN: tl.constexpr, ACT: tl.constexpr,
):  # fmt: skip
    """``act(alpha * sums + beta * c + bias)`` of the tile at row m, column n; c may be None."""
    value = sums * alpha
    if c is not None:
        start = (batch.to(tl.int64) * M + m) * N + n
        value += beta * tl.load(c + start + within(N, BM, BN), inside(m, n, M, N, BM, BN)).to(
            tl.float32
        )
    if bias is not None:
        columns = n + tl.arange(0, BN)
        value += tl.load(bias + columns, columns < N, 0.0).to(tl.float32)[None, :]
    return activated(value, ACT)


@triton.jit
def within(N, BM: tl.constexpr, BN: tl.constexpr):
    """Offsets of a tile's elements from its first one: short, so that they need few registers."""
    return tl.arange(0, BM)[:, None] * N + tl.arange(0, BN)[None, :]


@triton.jit
def inside(m, n, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Which elements of a tile there are."""
    return (tl.arange(0, BM)[:, None] < M - m) & (tl.arange(0, BN)[None, :] < N - n)


@triton.jit
def store_tile(out, value, batch, m, n, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Store a tile by addresses."""
    start = (batch.to(tl.int64) * M + m) * N + n
    tl.store(out + start + within(N, BM, BN), value, inside(m, n, M, N, BM, BN))


@triton.jit
def tile_place(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Row and column of a tile: GROUP rows of tiles are walked together, to meet in the cache."""
    whole = GROUP * tiles_n
    first = (tile // whole) * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    inside = tile % whole
    return first + inside % height, inside // height


@triton.jit
def tile_and_batch(each, BATCHED: tl.constexpr):
    """A program's tile within its matrix, of `each` tiles, and its matrix.

    All tiles of a batch lie along the grid's first axis, the only one that can be long.
    """
    tile, batch = tl.program_id(0), tl.program_id(2)
    if BATCHED:
        batch = tile // each
        tile = tile % each
    return tile, batch


@triton.jit
def multiplied(a, b, sums, PRECISION: tl.constexpr):
    """`sums` and the product of two blocks. 1: tf32x3; 2: IEEE; 0: as the types are.

    By 0 f32 is taken as tf32 where the matrix units have it, else it is IEEE: Triton knows, and
    refuses to be told tf32 for a GPU without, even if the types are other ones.
    """
    if PRECISION == 0:
        sums = tl.dot(a, b, sums)
    elif PRECISION == 1:
        sums = tl.dot(a, b, sums, input_precision="tf32x3")
    else:
        sums = tl.dot(a, b, sums, input_precision="ieee")
    return sums
