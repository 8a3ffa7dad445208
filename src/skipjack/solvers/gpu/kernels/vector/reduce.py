"""Reductions of one axis: of ``x[outer, length]`` (rows) or ``x[outer, length, inner]`` (columns).

Other reductions are chains of these. A stage may leave several parts of each result, in float32,
for the next stage to combine. The first stage applies the function of the elements, the last stage
that of the result.
"""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.vector.scalar import joined, reduced, unary, widened


@triton.constexpr_function
def _neutral(name):
    """The neutral element of a reduction."""
    return {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}[name]


@triton.jit
def _finished(total, scale, FINISH: tl.constexpr, out):
    if FINISH == "sqrt":
        total = tl.sqrt(total)
    elif FINISH == "scale":
        total = total * scale
    return total.to(out.dtype.element_ty)


@triton.jit
def rows(
    x,
    out,
    outer,
    length,
    chunk,
    parts,
    scale,
    NAME: tl.constexpr,
    ELEMENT: tl.constexpr,
    FINISH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    LOOP: tl.constexpr,
    STAGES: tl.constexpr,
    HINT: tl.constexpr,
):
    """``out[outer, parts]``, each part of `chunk` elements; without `LOOP` a part is one block."""
    NEUTRAL: tl.constexpr = _neutral(NAME)
    part = tl.program_id(0) % parts
    row = tl.program_id(0) // parts * ROWS + tl.arange(0, ROWS)
    start = part * chunk
    end = tl.minimum(start + chunk, length)
    inside = (row < outer)[:, None]
    base = x + row.to(tl.int64)[:, None] * length
    at = tl.arange(0, BLOCK)
    kind = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    if LOOP:
        total = tl.full((ROWS, BLOCK), NEUTRAL, kind)
        whole = start + (end - start) // BLOCK * BLOCK
        for here in tl.range(start, whole, BLOCK, num_stages=STAGES):
            column = here + at
            value = tl.load(base + column[None, :], inside, NEUTRAL, eviction_policy=HINT)
            total = joined(NAME, total, unary(ELEMENT, False, widened(value)))
        for here in range(whole, end, BLOCK):
            column = here + at
            there = inside & (column < end)[None, :]
            value = widened(tl.load(base + column[None, :], there, NEUTRAL, eviction_policy=HINT))
            total = joined(NAME, total, tl.where(there, unary(ELEMENT, False, value), NEUTRAL))
    else:
        column = start + at
        there = inside & (column < end)[None, :]
        value = widened(tl.load(base + column[None, :], there, NEUTRAL, eviction_policy=HINT))
        total = tl.where(there, unary(ELEMENT, False, value), NEUTRAL)
    result = _finished(reduced(NAME, total, 1), scale, FINISH, out)
    tl.store(out + row.to(tl.int64) * parts + part, result, row < outer)


@triton.jit
def columns(
    x,
    out,
    length,
    inner,
    chunk,
    parts,
    scale,
    NAME: tl.constexpr,
    ELEMENT: tl.constexpr,
    FINISH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
    HINT: tl.constexpr,
):
    """``out[outer, parts, inner]``, each part of `chunk` elements."""
    NEUTRAL: tl.constexpr = _neutral(NAME)
    tiles = tl.cdiv(inner, COLUMNS)
    tile = tl.program_id(0) % tiles
    part = tl.program_id(0) // tiles % parts
    outer = (tl.program_id(0) // tiles // parts).to(tl.int64)
    column = tile * COLUMNS + tl.arange(0, COLUMNS)
    start = part * chunk
    end = tl.minimum(start + chunk, length)
    inside = (column < inner)[None, :]
    at = tl.arange(0, ROWS)
    base = x + outer * length * inner + column[None, :]
    kind = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    total = tl.full((ROWS, COLUMNS), NEUTRAL, kind)
    whole = start + (end - start) // ROWS * ROWS
    for here in tl.range(start, whole, ROWS, num_stages=STAGES):
        row = (here + at).to(tl.int64)[:, None]
        value = widened(tl.load(base + row * inner, inside, NEUTRAL, eviction_policy=HINT))
        total = joined(NAME, total, unary(ELEMENT, False, value))
    if whole < end:
        row = (whole + at)[:, None]
        there = inside & (row < end)
        value = widened(tl.load(base + row.to(tl.int64) * inner, there, NEUTRAL))
        total = joined(NAME, total, tl.where(there, unary(ELEMENT, False, value), NEUTRAL))
    result = _finished(reduced(NAME, total, 0), scale, FINISH, out)
    tl.store(out + (outer * parts + part) * inner + column, result, column < inner)
