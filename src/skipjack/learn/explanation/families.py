"""Families of problems: shapes that kernels treat alike, so that losses can be told by family."""

from __future__ import annotations

from skipjack.core import Problem
from skipjack.operations import Convolution, Matmul, get

_FEW = 16
"""Products with at most so many rows or columns are bound by reading the other operand."""
_UNLIKE = 8
"""Sides that differ by more than this factor make a product tall, wide or deep."""


def family_of(problem: Problem) -> str:
    """The family of a problem, such as ``few rows`` or ``convolutions, 1x1``.

    It depends on the shape alone. Operations without families are families of their own.
    """
    operation = get(problem.operation)
    if isinstance(operation, Matmul):
        return _of_product(*problem.shape[-3:])
    if isinstance(operation, Convolution):
        return _of_convolution(dict(zip(operation.letters, problem.shape, strict=True)))
    return problem.operation


def _of_product(m: int, n: int, k: int) -> str:
    if m == 1 or n == 1:
        return "matrix times vector"
    if m <= _FEW:
        return "few rows"
    if n <= _FEW:
        return "few columns"
    if k > _UNLIKE * max(m, n):
        return "deep"
    if m > _UNLIKE * n:
        return "tall"
    if n > _UNLIKE * m:
        return "wide"
    return "nearly square"


def _of_convolution(sizes: dict[str, int]) -> str:
    if sizes["g"] > 1 and sizes["g"] == sizes["c"]:
        return "depthwise"
    filters = [sizes[letter] for letter in "zyx" if letter in sizes]
    text = "x".join(map(str, filters))
    strided = any(sizes.get(letter, 1) > 1 for letter in "tuv")
    grouped = "grouped, " if sizes["g"] > 1 else ""
    if max(filters) > 3:
        text = "larger than 3x3"
    return f"{grouped}{text}{', strided' if strided else ''}"
