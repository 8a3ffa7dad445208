"""Gradients of the normalisations of rows: layer norm, softmax and logsoftmax."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.vector.scalar import widened

# Gradients of layer norm: of x by rows, of gamma and beta by partial sums over the rows.


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
    """Groups of rows in turn; ``sums[programs, 2, columns]`` are over the rows of a program.

    Elements past the end of a row or of all rows have a gradient of 0 and add nothing.
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
    """Add up a block of columns of dgamma or dbeta over all parts."""
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


# Gradients of softmax and logsoftmax: a sum over each row, then its elements.


@triton.jit
def _summed(NAME: tl.constexpr, dy, y):
    """The terms of the sum of a row; 0 if both arguments are 0."""
    return dy * y if NAME == "softmax_backward" else dy


@triton.jit
def _gradient(NAME: tl.constexpr, dy, y, total):
    if NAME == "softmax_backward":
        return y * (dy - total)
    else:
        tl.static_assert(NAME == "logsoftmax_backward", "no such gradient of rows")
        return dy - tl.exp(y) * total


@triton.jit
def whole(
    dy,
    y,
    out,
    count,
    columns,
    NAME: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
    PERSISTENT: tl.constexpr,
    STAGES: tl.constexpr,
    HINT: tl.constexpr,
):
    """Rows that fit in registers; `BLOCK` is the length of a row, rounded up to a power of two."""
    column = tl.arange(0, BLOCK)[None, :]
    last = tl.cdiv(count, ROWS) if PERSISTENT else tl.program_id(0) + 1
    for group in tl.range(tl.program_id(0), last, tl.num_programs(0), num_stages=STAGES):
        row = group * ROWS + tl.arange(0, ROWS)[:, None]
        at = row.to(tl.int64) * columns + column
        there = row < count if EVEN else (row < count) & (column < columns)
        slope = widened(tl.load(dy + at, there, 0.0, eviction_policy=HINT))
        value = widened(tl.load(y + at, there, 0.0, eviction_policy=HINT))
        total = tl.sum(_summed(NAME, slope, value), 1)[:, None]
        result = _gradient(NAME, slope, value, total).to(out.dtype.element_ty)
        tl.store(out + at, result, there, eviction_policy=HINT)


@triton.jit
def long(
    dy,
    y,
    out,
    columns,
    NAME: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    HINT: tl.constexpr,
):
    """A row in blocks, in two passes: for its sum, then for its elements."""
    start_of_row = tl.program_id(0).to(tl.int64) * columns
    dy += start_of_row
    y += start_of_row
    out += start_of_row
    at = tl.arange(0, BLOCK)
    kind = tl.float64 if dy.dtype.element_ty == tl.float64 else tl.float32
    sums = tl.zeros((BLOCK,), kind)
    for start in tl.range(0, columns, BLOCK, num_stages=STAGES):
        there = start + at < columns
        slope = widened(tl.load(dy + start + at, there, 0.0, eviction_policy="evict_last"))
        value = slope
        if NAME == "softmax_backward":
            value = widened(tl.load(y + start + at, there, 0.0, eviction_policy="evict_last"))
        sums += _summed(NAME, slope, value)
    total = tl.sum(sums, 0)
    for start in tl.range(0, columns, BLOCK, num_stages=STAGES):
        there = start + at < columns
        slope = widened(tl.load(dy + start + at, there, 0.0, eviction_policy=HINT))
        value = widened(tl.load(y + start + at, there, 0.0, eviction_policy=HINT))
        result = _gradient(NAME, slope, value, total).to(out.dtype.element_ty)
        tl.store(out + start + at, result, there, eviction_policy=HINT)
