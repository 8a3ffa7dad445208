"""Adding up the partial sums of split K, and copying operands into rows that TMA can read."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.tiles import (
    activated,
    begin,
    finished,
    store_tile,
    tile_and_batch,
    tile_place,
    within,
)


@triton.jit
def join(
    parts, c, bias, out, size, N, shares, alpha, beta,
    BATCHED: tl.constexpr, BLOCK: tl.constexpr, ACT: tl.constexpr, OUT: tl.constexpr,
    FOLLOWS: tl.constexpr,
):  # fmt: skip
    """``act(alpha * sum of parts + beta * c + bias)``; the grid is blocks of all matrices."""
    begin(FOLLOWS, False)
    tile, number = tile_and_batch(tl.cdiv(size, BLOCK), BATCHED)
    at = tile * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    batch = number.to(tl.int64)
    value = tl.zeros((BLOCK,), tl.float32)
    place = parts + batch * shares * size + at
    for _ in range(shares):
        value += tl.load(place, inside, 0.0)
        place += size
    value *= alpha
    if c is not None:
        value += beta * tl.load(c + batch * size + at, inside, 0.0).to(tl.float32)
    if bias is not None:
        value += tl.load(bias + at % N, inside, 0.0).to(tl.float32)
    tl.store(out + batch * size + at, activated(value, ACT).to(OUT), inside)


@triton.jit
def join_tiles(
    parts, c, bias, out, whole, M, N, alpha, beta,
    SHARES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, ROWS: tl.constexpr,
    GROUP: tl.constexpr, ACT: tl.constexpr, OUT: tl.constexpr, FOLLOWS: tl.constexpr,
):  # fmt: skip
    """The same for the tiles from index `whole` on; the grid is blocks of ROWS rows by tiles."""
    begin(FOLLOWS, False)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    tile = whole + tl.program_id(1)
    batch = tile // (tiles_m * tiles_n)
    row, column = tile_place(tile % (tiles_m * tiles_n), tiles_m, tiles_n, GROUP)
    m, n = row * BM + tl.program_id(0) * ROWS, column * BN
    place = parts + (tl.program_id(1) * SHARES * BM + tl.program_id(0) * ROWS).to(tl.int64) * BN
    value = tl.zeros((ROWS, BN), tl.float32)
    for _ in tl.static_range(SHARES):
        value += tl.load(place + within(BN, ROWS, BN))
        place += BM * BN
    value = finished(value, c, bias, batch, m, n, M, N, alpha, beta, ROWS, BN, ACT).to(OUT)
    store_tile(out, value, batch, m, n, M, N, ROWS, BN)


@triton.jit
def copy_rows(x, to, rows, columns, width, program, BR: tl.constexpr, BC: tl.constexpr):
    """Copy a block of a matrix into rows that are `width` elements apart."""
    across = tl.cdiv(columns, BC)
    row, column = (program // across) * BR, (program % across) * BC
    r, q = tl.arange(0, BR)[:, None], tl.arange(0, BC)[None, :]
    here = r < rows - row
    x += row.to(tl.int64) * columns + column
    to += row.to(tl.int64) * width + column
    value = tl.load(x + (r * columns + q), here & (q < columns - column), 0.0)
    tl.store(to + (r * width + q), value, here & (q < width - column))


@triton.jit
def widen(x, to, rows, columns, width, BR: tl.constexpr, BC: tl.constexpr, FOLLOWED: tl.constexpr):
    """Copy a matrix into rows of a multiple of 16 bytes."""
    begin(False, FOLLOWED)
    copy_rows(x, to, rows, columns, width, tl.program_id(0), BR, BC)


@triton.jit
def widen_two(
    a, wide_a, rows_a, columns_a, width_a, b, wide_b, rows_b, columns_b, width_b,
    BR: tl.constexpr, BC: tl.constexpr, FOLLOWED: tl.constexpr,
):  # fmt: skip
    """Copy both operands in one launch."""
    begin(False, FOLLOWED)
    blocks = tl.cdiv(rows_a, BR) * tl.cdiv(columns_a, BC)
    program = tl.program_id(0)
    if program < blocks:
        copy_rows(a, wide_a, rows_a, columns_a, width_a, program, BR, BC)
    else:
        copy_rows(b, wide_b, rows_b, columns_b, width_b, program - blocks, BR, BC)
