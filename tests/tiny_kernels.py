"""Triton functions of a few lines, for tests that build."""

import triton
import triton.language as tl

FACTOR = tl.constexpr(2.0)


@triton.jit
def times(x):
    return x * FACTOR


@triton.jit
def add(x, y, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    total = times(tl.load(x + at, mask=inside)) + tl.load(y + at, mask=inside)
    tl.store(out + at, total, mask=inside)


@triton.jit
def cast(x, out, n, block: tl.constexpr, to: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, tl.load(x + at, mask=at < n).to(to), mask=at < n)


@triton.jit
def inner(x):
    return x.no_such_method()


@triton.jit
def refused(x, y, out, n, block: tl.constexpr):
    at = tl.arange(0, block)
    tl.store(out + at, inner(tl.load(x + at)))


@triton.jit
def product(a, b, out, m, n, k, rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr):
    """Both operands come through descriptors."""
    row = tl.program_id(0) * rows
    column = tl.program_id(1) * columns
    total = tl.zeros((rows, columns), tl.float32)
    for step in range(tl.cdiv(k, depth)):
        total = tl.dot(a.load([row, step * depth]), b.load([step * depth, column]), total)
    at_row = row + tl.arange(0, rows)
    at_column = column + tl.arange(0, columns)
    inside = (at_row[:, None] < m) & (at_column[None, :] < n)
    tl.store(out + at_row[:, None] * n + at_column[None, :], total.to(tl.float16), mask=inside)


@triton.jit
def misassembled(x, y, out, n, block: tl.constexpr):
    at = tl.arange(0, block)
    code: tl.constexpr = "no.such.instruction $0, $1;"
    value = tl.inline_asm_elementwise(code, "=r,r", [at], tl.int32, True, 1)
    tl.store(out + at, value)
