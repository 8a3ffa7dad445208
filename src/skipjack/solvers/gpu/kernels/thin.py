"""Products with few rows, which read the second operand once at the speed of memory.

A program adds up a share of K for a block of columns without matrix units: it keeps one sum for
each place of its block and folds them when all is read.
"""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.chaining import begin
from skipjack.solvers.gpu.kernels.epilogue import finished, store_tile, tile_and_batch


@triton.jit
def product(
    a, b, c, bias, out, M, N, K, ldb, alpha, beta,
    TB: tl.constexpr, BATCHED: tl.constexpr, PARTIAL: tl.constexpr, EVEN: tl.constexpr,
    LONG: tl.constexpr, STAGES: tl.constexpr, FOLLOWED: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACT: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """The grid is blocks of columns of all matrices, shares of K; all M rows are in one block."""
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
