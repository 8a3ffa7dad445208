"""Gradients of softmax and logsoftmax: a sum over the row, then its elements."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.scalar import widened


@triton.jit
def _summed(NAME: tl.constexpr, dy, y):
    """What the sum of a row is of; 0 where both are."""
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
    """Rows that fit into registers: `BLOCK` is the power of two that holds one."""
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
    """A row in blocks, twice: for its sum, then for its elements."""
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
