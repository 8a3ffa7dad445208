"""Matrix products by plain addresses: any alignment, any storage order, any GPU.

The grid is tiles of all matrices, shares of K. Where PARTIAL, each share is stored as f32 by
itself. LONG says that an operand has more elements than 31 bits can count.
"""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.chaining import begin
from skipjack.solvers.gpu.kernels.epilogue import (
    finished,
    multiplied,
    store_tile,
    tile_and_batch,
    tile_place,
)


@triton.jit
def product(
    a, b, c, bias, out, M, N, K, lda, ldb, alpha, beta,
    TA: tl.constexpr, TB: tl.constexpr, BATCHED: tl.constexpr, PARTIAL: tl.constexpr,
    EVEN_K: tl.constexpr, LONG: tl.constexpr,
    ALIGN_A: tl.constexpr, ALIGN_B: tl.constexpr, ALIGN_K: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PRECISION: tl.constexpr, ACT: tl.constexpr, OUT: tl.constexpr, FOLLOWED: tl.constexpr,
):  # fmt: skip
    """One tile a program. Rows and columns beyond the end are read at the first one instead."""
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
