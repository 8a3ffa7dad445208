"""Triton kernels of the smoke test: right ones, and some that misbehave."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr, HOW: tl.constexpr):  # type: ignore[no-untyped-def]
    """Add; HOW is 0, or 1 to write behind the end, 2 to write nowhere, 3 to be wrong."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    if HOW == 3:
        value = value + tl.where(at == 777, 1.0, 0.0)
    tl.store(out + at, value, mask=inside)
    if HOW == 1:
        tl.store(out + n + at, value, mask=at < 4)
    if HOW == 2:
        tl.store(out + n.to(tl.int64) * 1000000 + at, value, mask=at < 4)


@triton.jit
def spin(x, y, out, n):  # type: ignore[no-untyped-def]
    """Never ends: inputs are below 1."""
    value = tl.load(x, volatile=True)
    while value < 1e30:
        value = tl.load(x, volatile=True)
    tl.store(out, value)


@triton.jit
def product(  # type: ignore[no-untyped-def]
    a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """A matrix product whose operands come through descriptors."""
    block = tl.program_id(0)
    columns = tl.cdiv(n, BN)
    row, column = block // columns, block % columns
    total = tl.zeros((BM, BN), tl.float32)
    for step in tl.range(0, tl.cdiv(k, BK)):
        left = a.load([row * BM, step * BK])
        right = b.load([step * BK, column * BN])
        total = tl.dot(left, right, total)
    rows = row * BM + tl.arange(0, BM)
    across = column * BN + tl.arange(0, BN)
    inside = (rows[:, None] < m) & (across[None, :] < n)
    tl.store(out + rows[:, None] * n + across[None, :], total.to(tl.float16), mask=inside)
