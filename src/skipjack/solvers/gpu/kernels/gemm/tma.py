"""Matrix products whose blocks are loaded by the copy engine (TMA), from Hopper on.

Programs compute one tile each, or are persistent. Operands may be stored transposed (TA, TB); with
a batch, descriptors have rank three. If PARTIAL, programs along the grid's second axis split the
sum of a tile, and each stores its part as f32.
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
    within,
)


@triton.jit
def block(of, batch, row, column, BATCHED: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """Load a block of an operand in its stored orientation."""
    return of.load([batch, row, column]).reshape(R, C) if BATCHED else of.load([row, column])


@triton.jit
def step(
    a, b, sums, batch, m, n, k,
    TA: tl.constexpr, TB: tl.constexpr, SWAP: tl.constexpr, BATCHED: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Add a slice of K. SWAP computes the transposed product: matrix units need 64 rows."""
    if TA:
        left = block(a, batch, k, m, BATCHED, BK, BM).T
    else:
        left = block(a, batch, m, k, BATCHED, BM, BK)
    if TB:
        right = block(b, batch, n, k, BATCHED, BN, BK).T
    else:
        right = block(b, batch, k, n, BATCHED, BK, BN)
    if SWAP:
        sums = multiplied(right.T, left.T, sums, PRECISION)
    else:
        sums = multiplied(left, right, sums, PRECISION)
    return sums


@triton.jit
def store_piece(
    sums, c, bias, out, batch, m, n, M, N, alpha, beta,
    BATCHED: tl.constexpr, STORE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    ACT: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """Finish and store BN columns. STORE: through a descriptor (1), or by addresses (0)."""
    value = finished(sums, c, bias, batch, m, n, M, N, alpha, beta, BM, BN, ACT).to(OUT)
    if STORE == 1:
        if BATCHED:
            out.store([batch, m, n], value.reshape(1, BM, BN))
        else:
            out.store([m, n], value)
    else:
        store_tile(out, value, batch, m, n, M, N, BM, BN)


@triton.jit
def store_pieces(
    sums, c, bias, out, batch, m, n, M, N, alpha, beta,
    SWAP: tl.constexpr, BATCHED: tl.constexpr, STORE: tl.constexpr, PIECES: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, ACT: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """Store the tile in PIECES side by side: each needs less shared memory."""
    if SWAP:
        sums = sums.T
    if PIECES == 1:
        store_piece(
            sums, c, bias, out, batch, m, n, M, N, alpha, beta, BATCHED, STORE, BM, BN, ACT, OUT
        )
    else:
        HALF: tl.constexpr = BN // 2
        halves = tl.permute(tl.reshape(sums, (BM, 2, HALF)), (0, 2, 1))
        first, second = tl.split(halves)
        if PIECES == 2:
            store_piece(
                first, c, bias, out, batch, m, n, M, N, alpha, beta,
                BATCHED, STORE, BM, HALF, ACT, OUT,
            )  # fmt: skip
            store_piece(
                second, c, bias, out, batch, m, n + HALF, M, N, alpha, beta,
                BATCHED, STORE, BM, HALF, ACT, OUT,
            )  # fmt: skip
        else:
            store_pieces(
                first, c, bias, out, batch, m, n, M, N, alpha, beta,
                False, BATCHED, STORE, PIECES // 2, BM, HALF, ACT, OUT,
            )  # fmt: skip
            store_pieces(
                second, c, bias, out, batch, m, n + HALF, M, N, alpha, beta,
                False, BATCHED, STORE, PIECES // 2, BM, HALF, ACT, OUT,
            )  # fmt: skip


@triton.jit
def product(
    a, b, c, bias, out, M, N, K, alpha, beta,
    TA: tl.constexpr, TB: tl.constexpr, SWAP: tl.constexpr, BATCHED: tl.constexpr,
    PARTIAL: tl.constexpr, STORE: tl.constexpr, PIECES: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PRECISION: tl.constexpr, ACT: tl.constexpr, OUT: tl.constexpr,
    FOLLOWS: tl.constexpr, FOLLOWED: tl.constexpr,
):  # fmt: skip
    """One tile for each program; the grid is tiles of all matrices by parts of K."""
    begin(FOLLOWS, FOLLOWED)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    tile, batch = tile_and_batch(tiles_m * tiles_n, BATCHED)
    row, column = tile_place(tile, tiles_m, tiles_n, GROUP)
    m, n = row * BM, column * BN
    first, last, place = 0, tl.cdiv(K, BK), batch
    if PARTIAL:
        share = tl.cdiv(last, tl.num_programs(1))
        first = tl.program_id(1) * share
        last = tl.minimum(last, first + share)
        place = batch * tl.num_programs(1) + tl.program_id(1)
    sums = tl.zeros((BN, BM), tl.float32) if SWAP else tl.zeros((BM, BN), tl.float32)
    for at in range(first, last):
        sums = step(a, b, sums, batch, m, n, at * BK, TA, TB, SWAP, BATCHED, BM, BN, BK, PRECISION)
    store_pieces(
        sums, c, bias, out, place, m, n, M, N, alpha, beta,
        SWAP, BATCHED, STORE, PIECES, BM, BN, ACT, OUT,
    )  # fmt: skip


@triton.jit
def persistent_product(
    a, b, c, bias, out, parts, M, N, K, batches, alpha, beta,
    TA: tl.constexpr, TB: tl.constexpr, SWAP: tl.constexpr, BATCHED: tl.constexpr,
    STORE: tl.constexpr, PIECES: tl.constexpr, FLATTEN: tl.constexpr, SHARES: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PRECISION: tl.constexpr, ACT: tl.constexpr, OUT: tl.constexpr,
    FOLLOWS: tl.constexpr, FOLLOWED: tl.constexpr,
):  # fmt: skip
    """Persistent: as many programs as the GPU has units process all tiles.

    If SHARES is more than one, tiles that would leave units idle in the last round are split into
    that many parts of K, whose sums are stored in `parts`. The position of a tile is recomputed for
    its stores: kept across the loop, it would cost registers.
    """
    begin(FOLLOWS, FOLLOWED)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    each = tiles_m * tiles_n
    steps = tl.cdiv(K, BK)
    share = tl.cdiv(steps, SHARES)
    items = each * batches
    whole = items
    if SHARES > 1:
        whole = items - items % tl.num_programs(0)
        items = whole + (items - whole) * SHARES
    storing = tl.program_id(0) - tl.num_programs(0)
    for item in tl.range(
        tl.program_id(0), items, tl.num_programs(0), flatten=FLATTEN, disable_licm=STORE == 0
    ):
        tile, first, last = item, 0, steps
        if SHARES > 1:
            over = tl.maximum(item - whole, 0)
            tile = tl.minimum(item, whole) + over // SHARES
            first = (over % SHARES) * share
            last = tl.where(item < whole, steps, tl.minimum(first + share, steps))
        row, column = tile_place(tile % each, tiles_m, tiles_n, GROUP)
        m, n, batch = row * BM, column * BN, tile // each
        sums = tl.zeros((BN, BM), tl.float32) if SWAP else tl.zeros((BM, BN), tl.float32)
        for at in range(first, last):
            sums = step(
                a, b, sums, batch, m, n, at * BK, TA, TB, SWAP, BATCHED, BM, BN, BK, PRECISION
            )
        storing += tl.num_programs(0)
        row, column = tile_place(storing % each, tiles_m, tiles_n, GROUP)
        if SHARES == 1:
            store_pieces(
                sums, c, bias, out, storing // each, row * BM, column * BN, M, N, alpha, beta,
                SWAP, BATCHED, STORE, PIECES, BM, BN, ACT, OUT,
            )  # fmt: skip
        elif storing >= whole:
            start = (storing - whole).to(tl.int64) * (BM * BN)
            tl.store(parts + start + within(BN, BM, BN), sums)
        else:
            store_pieces(
                sums, c, bias, out, storing // each, row * BM, column * BN, M, N, alpha, beta,
                SWAP, BATCHED, STORE, PIECES, BM, BN, ACT, OUT,
            )  # fmt: skip
