"""Matrix products by plain addresses, tiled or with few rows: any alignment, any storage order, any
GPU.
"""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.tiles import (
    begin,
    finished,
    multiplied,
    store_tile,
    tile_and_batch,
    tile_place,
)

# Matrix products by plain addresses: any alignment, any storage order, any GPU.
#
# The grid is tiles of all matrices by parts of K. If PARTIAL, the sum of each part is stored as
# f32. LONG: the number of elements of an operand exceeds 31 bits.


@triton.jit
def product(
    a, b, c, bias, out, M, N, K, lda, ldb, alpha, beta,
    TA: tl.constexpr, TB: tl.constexpr, BATCHED: tl.constexpr, PARTIAL: tl.constexpr,
    EVEN_K: tl.constexpr, LONG: tl.constexpr,
    ALIGN_A: tl.constexpr, ALIGN_B: tl.constexpr, ALIGN_K: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PRECISION: tl.constexpr, ACT: tl.constexpr, OUT: tl.constexpr, FOLLOWED: tl.constexpr,
):  # fmt: skip
    """One tile for each program. Rows and columns past the end read the first one instead."""
    begin(False, FOLLOWED)
    lda, ldb = tl.multiple_of(lda, ALIGN_A), tl.multiple_of(ldb, ALIGN_B)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    tile, batch = tile_and_batch(tiles_m * tiles_n, BATCHED)
    row, column = tile_place(tile, tiles_m, tiles_n, GROUP)
    rows, columns = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN)
    first, last, place = 0, tl.cdiv(K, BK), batch
    if PARTIAL:
        share = tl.cdiv(last, tl.num_programs(1))
        first = tl.program_id(1) * share
        last = tl.minimum(last, first + share)
        place = batch * tl.num_programs(1) + tl.program_id(1)
    inner = first * BK + tl.arange(0, BK)
    m, n = tl.where(rows < M, rows, 0), tl.where(columns < N, columns, 0)
    m = tl.max_contiguous(tl.multiple_of(m, BM), BM)
    n = tl.max_contiguous(tl.multiple_of(n, BN), BN)
    if LONG:
        m, n, inner = m.to(tl.int64), n.to(tl.int64), inner.to(tl.int64)
    if TA:
        left = a + inner[None, :] * lda + m[:, None]
        left += batch.to(tl.int64) * K * lda
    else:
        left = a + m[:, None] * lda + inner[None, :]
        left += batch.to(tl.int64) * M * lda
    if TB:
        right = b + n[None, :] * ldb + inner[:, None]
        right += batch.to(tl.int64) * N * ldb
    else:
        right = b + inner[:, None] * ldb + n[None, :]
        right += batch.to(tl.int64) * K * ldb
    sums = tl.zeros((BM, BN), tl.float32)
    for at in tl.range(first, last):
        if EVEN_K:
            x, y = tl.load(left), tl.load(right)
        else:
            rest = tl.multiple_of(K - at * BK, ALIGN_K)
            x = tl.load(left, tl.arange(0, BK)[None, :] < rest, 0.0)
            y = tl.load(right, tl.arange(0, BK)[:, None] < rest, 0.0)
        sums = multiplied(x, y, sums, PRECISION)
        left += BK * lda if TA else BK
        right += BK if TB else BK * ldb
    value = finished(
        sums, c, bias, place, row * BM, column * BN, M, N, alpha, beta, BM, BN, ACT
    ).to(OUT)
    store_tile(out, value, place, row * BM, column * BN, M, N, BM, BN)


# Products with few rows, which read the second operand once at the speed of memory.
#
# A program sums a part of K for a block of columns without matrix units: it keeps one sum for each
# element of its block and reduces them at the end.


@triton.jit
def thin_product(
    a, b, c, bias, out, M, N, K, ldb, alpha, beta,
    TB: tl.constexpr, BATCHED: tl.constexpr, PARTIAL: tl.constexpr, EVEN: tl.constexpr,
    LONG: tl.constexpr, STAGES: tl.constexpr, FOLLOWED: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACT: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """The grid is blocks of columns of all matrices by parts of K; a block has all M rows."""
    begin(False, FOLLOWED)
    tile, batch = tile_and_batch(tl.cdiv(N, BN), BATCHED)
    first_column = tile * BN
    rows, columns = tl.arange(0, BM), first_column + tl.arange(0, BN)
    first, last, place = 0, tl.cdiv(K, BK), batch
    if PARTIAL:
        share = tl.cdiv(last, tl.num_programs(1))
        first = tl.program_id(1) * share
        last = tl.minimum(last, first + share)
        place = batch * tl.num_programs(1) + tl.program_id(1)
    n = columns
    if LONG:
        n = n.to(tl.int64)
    a += batch.to(tl.int64) * M * K
    b += batch.to(tl.int64) * K * N
    sums = tl.zeros((BM, BN, BK), tl.float32) if TB else tl.zeros((BM, BK, BN), tl.float32)
    for at in tl.range(first, last, num_stages=STAGES):
        k = at * BK + tl.arange(0, BK)
        if LONG:
            k = k.to(tl.int64)
        if EVEN:
            x = tl.load(a + rows[:, None] * K + k[None, :], rows[:, None] < M, 0.0)
        else:
            x = tl.load(
                a + rows[:, None] * K + k[None, :], (rows[:, None] < M) & (k[None, :] < K), 0.0
            )
        if TB:
            places = b + n[:, None] * ldb + k[None, :]
            inside = (columns[:, None] < N) & (k[None, :] < K)
        else:
            places = b + k[:, None] * ldb + n[None, :]
            inside = (k[:, None] < K) & (columns[None, :] < N)
        y = tl.load(places) if EVEN else tl.load(places, inside, 0.0)
        if TB:
            sums += x.to(tl.float32)[:, None, :] * y.to(tl.float32)[None, :, :]
        else:
            sums += x.to(tl.float32)[:, :, None] * y.to(tl.float32)[None, :, :]
    total = tl.sum(sums, 2) if TB else tl.sum(sums, 1)
    value = finished(total, c, bias, place, 0, first_column, M, N, alpha, beta, BM, BN, ACT).to(OUT)
    store_tile(out, value, place, 0, first_column, M, N, BM, BN)
