"""Transposes between channels first and channels last, and sums of parts of a split reduction."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.tiles import begin

# Transposes of many matrices: from channels before the pixels to channels after them, and back.


@triton.jit
def one_block(block, source, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Transpose a block of one of the matrices."""
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
    """Transpose consecutive matrices of `rows` by `columns`."""
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
    """Transpose two arrays of matrices in one launch; the first takes `blocks` programs."""
    begin(FOLLOWS, FOLLOWED)
    block = tl.program_id(0)
    if block < blocks:
        one_block(block, source, out, rows, columns, ROWS, COLUMNS)
    else:
        one_block(
            block - blocks, other_source, other_out, other_rows, other_columns,
            OTHER_ROWS, OTHER_COLUMNS,
        )  # fmt: skip


# Adds up the parts of a split reduction.


@triton.jit
def part_sums(
    parts,
    out,
    size,
    count,
    channels,
    TAPS: tl.constexpr,
    BLOCK: tl.constexpr,
    FOLLOWS: tl.constexpr,
    FOLLOWED: tl.constexpr,
):
    """Add up `count` consecutive arrays of `size` elements.

    With several `TAPS`, matrices of taps by channels are transposed on the way.
    """
    begin(FOLLOWS, FOLLOWED)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    acc = tl.zeros((BLOCK,), tl.float32)
    place = parts + at
    for _ in tl.range(0, count):
        acc += tl.load(place, mask=inside, other=0.0)
        place += size
    if TAPS > 1:
        channel = at % channels
        tap = (at // channels) % TAPS
        at = (at // (channels * TAPS) * channels + channel) * TAPS + tap
    tl.store(out + at, acc.to(out.dtype.element_ty), mask=inside)
