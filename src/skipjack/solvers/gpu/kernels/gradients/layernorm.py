"""Gradients of layer norm: of x by rows, of gamma and beta by sums of parts over the rows."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.scalar import widened


@triton.jit
def partial(
    dy,
    x,
    gamma,
    mean,
    invstd,
    out,
    sums,
    count,
    columns,
    share,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
    HINT: tl.constexpr,
):
    """Every so many-th group of rows; ``sums[programs, 2, columns]`` is of what it went over.

    What is beyond the end of a row or of the rows has a gradient of 0 and adds nothing.
    """
    column = tl.arange(0, BLOCK)[None, :]
    here = column < columns
    factor = widened(tl.load(gamma + column, here, 0.0, eviction_policy="evict_last"))
    kind = tl.float64 if dy.dtype.element_ty == tl.float64 else tl.float32
    first = tl.zeros((ROWS, BLOCK), kind)
    second = tl.zeros((ROWS, BLOCK), kind)
    for group in tl.range(tl.program_id(0), tl.cdiv(count, ROWS), tl.num_programs(0)):
        row = group * ROWS + tl.arange(0, ROWS)[:, None]
        at = row.to(tl.int64) * columns + column
        there = row < count if EVEN else (row < count) & here
        slope = widened(tl.load(dy + at, there, 0.0, eviction_policy=HINT))
        value = widened(tl.load(x + at, there, 0.0, eviction_policy=HINT))
        scale = tl.load(invstd + row, row < count, 0.0)
        normal = (value - tl.load(mean + row, row < count, 0.0)) * scale
        scaled = slope * factor
        total = tl.sum(scaled, 1)[:, None] * share
        projection = tl.sum(scaled * normal, 1)[:, None] * share
        result = (scaled - total - normal * projection) * scale
        tl.store(out + at, result.to(out.dtype.element_ty), there, eviction_policy=HINT)
        first += slope * normal
        second += slope
    to = sums + tl.program_id(0).to(tl.int64) * 2 * columns + tl.arange(0, BLOCK)
    within = tl.arange(0, BLOCK) < columns
    tl.store(to, tl.sum(first, 0), within)
    tl.store(to + columns, tl.sum(second, 0), within)


@triton.jit
def join(sums, dgamma, dbeta, columns, parts, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Some columns of one of the two, over all parts."""
    which = tl.program_id(0) % 2
    column = tl.program_id(0) // 2 * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    total = tl.zeros((ROWS, BLOCK), sums.dtype.element_ty)
    for start in tl.range(0, parts, ROWS):
        part = start + tl.arange(0, ROWS)[:, None]
        at = (part.to(tl.int64) * 2 + which) * columns + column[None, :]
        total += tl.load(sums + at, (part < parts) & inside[None, :], 0.0)
    result = tl.sum(total, 0).to(dgamma.dtype.element_ty)
    if which == 0:
        tl.store(dgamma + column, result, inside)
    else:
        tl.store(dbeta + column, result, inside)
