"""Elementwise functions of one or two arrays, of equal shape or broadcast."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.vector.scalar import binary, unary, widened


@triton.jit
def _computed(NAME: tl.constexpr, NARROW: tl.constexpr, PAIR: tl.constexpr, x, y):
    if PAIR:
        return binary(NAME, widened(x), widened(y))
    else:
        return unary(NAME, NARROW, widened(x))


@triton.jit
def flat(
    x,
    y,
    out,
    n,
    NAME: tl.constexpr,
    NARROW: tl.constexpr,
    BLOCK: tl.constexpr,
    HINT: tl.constexpr,
):
    """One block for each program; without `y` the function has one argument.

    Only the last program masks its accesses: masks would split wide accesses.
    """
    pair: tl.constexpr = y is not None
    start = tl.program_id(0).to(tl.int64) * BLOCK
    at = tl.arange(0, BLOCK)
    if start + BLOCK <= n:
        first = tl.load(x + start + at, eviction_policy=HINT)
        second = first
        if pair:
            second = tl.load(y + start + at, eviction_policy=HINT)
        result = _computed(NAME, NARROW, pair, first, second)
        tl.store(out + start + at, result.to(out.dtype.element_ty), eviction_policy=HINT)
    else:
        there = start + at < n
        first = tl.load(x + start + at, there, 1.0)
        second = first
        if pair:
            second = tl.load(y + start + at, there, 1.0)
        result = _computed(NAME, NARROW, pair, first, second)
        tl.store(out + start + at, result.to(out.dtype.element_ty), there)


@triton.jit
def _offset(at, a, b, c, d, sa, sb, sc, sd, se):
    """The offset of a row of five axes, from the sizes of the inner four and all strides."""
    offset = (at % d).to(tl.int64) * se
    at = at // d
    offset += (at % c).to(tl.int64) * sd
    at = at // c
    offset += (at % b).to(tl.int64) * sc
    at = at // b
    return offset + (at % a).to(tl.int64) * sb + (at // a).to(tl.int64) * sa


@triton.jit
def broadcast(
    x,
    y,
    out,
    rows,
    columns,
    a,
    b,
    c,
    d,
    xa,
    xb,
    xc,
    xd,
    xe,
    ya,
    yb,
    yc,
    yd,
    ye,
    NAME: tl.constexpr,
    AXES: tl.constexpr,
    X_ROW: tl.constexpr,
    X_COLUMN: tl.constexpr,
    Y_ROW: tl.constexpr,
    Y_COLUMN: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    HINT: tl.constexpr,
):
    """A tile of rows and columns.

    Rows combine up to five axes (`AXES`), for which each operand has its own strides; columns are
    contiguous in an operand, or broadcast. Values that all rows share are loaded once.
    """
    tiles = tl.cdiv(columns, COLUMNS)
    column = tl.program_id(0) % tiles * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.program_id(0) // tiles * ROWS + tl.arange(0, ROWS)
    if AXES == 1:
        x_row = row.to(tl.int64) * xe
        y_row = row.to(tl.int64) * ye
    else:
        x_row = _offset(row, a, b, c, d, xa, xb, xc, xd, xe)
        y_row = _offset(row, a, b, c, d, ya, yb, yc, yd, ye)
    inside = row < rows
    within = column < columns
    there = inside[:, None] & within[None, :]
    if X_COLUMN and X_ROW:
        first = tl.load(x + x_row[:, None] + column[None, :], there, 1.0, eviction_policy=HINT)
    elif X_COLUMN:
        first = tl.load(x + column[None, :], within[None, :], 1.0)
    else:
        first = tl.load(x + x_row[:, None], inside[:, None], 1.0)
    if Y_COLUMN and Y_ROW:
        second = tl.load(y + y_row[:, None] + column[None, :], there, 1.0, eviction_policy=HINT)
    elif Y_COLUMN:
        second = tl.load(y + column[None, :], within[None, :], 1.0)
    else:
        second = tl.load(y + y_row[:, None], inside[:, None], 1.0)
    result = binary(NAME, widened(first), widened(second)).to(out.dtype.element_ty)
    to = out + row.to(tl.int64)[:, None] * columns + column[None, :]
    tl.store(to, tl.broadcast_to(result, (ROWS, COLUMNS)), there, eviction_policy=HINT)
