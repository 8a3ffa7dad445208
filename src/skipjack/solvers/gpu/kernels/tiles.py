"""What kernels of products and convolutions share: dependent launches, the order of tiles,
epilogues.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

# Dependent launches: kernels that start before their predecessor has ended (Hopper and later).
#
# A kernel that FOLLOWS waits for the results of its predecessor; a kernel that is FOLLOWED lets its
# successor start as soon as all programs have begun.


@triton.jit
def begin(FOLLOWS: tl.constexpr, FOLLOWED: tl.constexpr):
    """Call it before reading anything that another kernel of the plan writes."""
    if FOLLOWED:
        gdc_launch_dependents()
    if FOLLOWS:
        gdc_wait()


# Epilogues of sums before they are stored, and the order of tiles.


@triton.jit
def activated(x, ACT: tl.constexpr):
    """An activation in f32; `ACT` is its index in `skipjack.solvers.gpu.gemm.product.ACTIVATIONS`.

    The argument of exp in tanh is never positive, so that nothing overflows.
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
    """Offsets of a tile's elements from its first one; 32 bits, so that they need few registers."""
    return tl.arange(0, BM)[:, None] * N + tl.arange(0, BN)[None, :]


@triton.jit
def inside(m, n, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """The mask of the elements of a tile that exist."""
    return (tl.arange(0, BM)[:, None] < M - m) & (tl.arange(0, BN)[None, :] < N - n)


@triton.jit
def store_tile(out, value, batch, m, n, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Store a tile by addresses."""
    start = (batch.to(tl.int64) * M + m) * N + n
    tl.store(out + start + within(N, BM, BN), value, inside(m, n, M, N, BM, BN))


@triton.jit
def tile_place(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Row and column of a tile: GROUP rows of tiles are visited together, to share the cache."""
    whole = GROUP * tiles_n
    first = (tile // whole) * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    inside = tile % whole
    return first + inside % height, inside // height


@triton.jit
def tile_and_batch(each, BATCHED: tl.constexpr):
    """A program's tile within its matrix, which has `each` tiles, and the index of the matrix.

    All tiles of a batch are along the grid's first axis, the only one that can be long.
    """
    tile, batch = tl.program_id(0), tl.program_id(2)
    if BATCHED:
        batch = tile // each
        tile = tile % each
    return tile, batch


@triton.jit
def multiplied(a, b, sums, PRECISION: tl.constexpr):
    """`sums` plus the product of two blocks. PRECISION is 1: tf32x3; 2: IEEE; 0: by the types.

    With 0, f32 is multiplied as tf32 if the matrix units support it, and as IEEE otherwise. Triton
    chooses, because it rejects an explicit tf32 on GPUs without it, even for other types.
    """
    if PRECISION == 0:
        sums = tl.dot(a, b, sums)
    elif PRECISION == 1:
        sums = tl.dot(a, b, sums, input_precision="tf32x3")
    else:
        sums = tl.dot(a, b, sums, input_precision="ieee")
    return sums
