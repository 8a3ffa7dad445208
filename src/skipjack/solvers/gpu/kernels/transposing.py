"""Transposes many matrices: from channels before pixels to channels behind them, and back."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.chaining import begin


@triton.jit
def one_block(block, source, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A block of one of the matrices."""
    across = tl.cdiv(columns, COLUMNS)
    down = tl.cdiv(rows, ROWS)
    column = (block % across) * COLUMNS + tl.arange(0, COLUMNS)
    row = (block // across % down) * ROWS + tl.arange(0, ROWS)
    first = (block // (across * down)).to(tl.int64) * rows * columns
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    values = tl.load(source + first + row[:, None] * columns + column[None, :], mask=inside)
    inside = (column < columns)[:, None] & (row < rows)[None, :]
    tl.store(out + first + column[:, None] * rows + row[None, :], values.T, mask=inside)


@triton.jit
def transpose(
    source,
    out,
    rows,
    columns,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """Matrices of `rows` by `columns`, one after the other, become `columns` by `rows`."""
    begin(FOLLOWS, FOLLOWED)
    one_block(tl.program_id(0), source, out, rows, columns, ROWS, COLUMNS)


@triton.jit
def transpose_two(
    source,
    out,
    rows,
    columns,
    blocks,
    other_source,
    other_out,
    other_rows,
    other_columns,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    OTHER_ROWS: tl.constexpr,
    OTHER_COLUMNS: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """Two arrays of matrices in one launch; the first takes `blocks` programs."""
    begin(FOLLOWS, FOLLOWED)
    block = tl.program_id(0)
    if block < blocks:
        one_block(block, source, out, rows, columns, ROWS, COLUMNS)
    else:
        one_block(
            block - blocks, other_source, other_out, other_rows, other_columns,
            OTHER_ROWS, OTHER_COLUMNS,
        )  # fmt: skip
