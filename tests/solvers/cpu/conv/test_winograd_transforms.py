"""Winograd's transforms are the linear maps that make a convolution of products."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from skipjack.solvers.cpu.conv.winograd.transforms import F2, F4, LineTransform, Winograd

BOTH = pytest.mark.parametrize("winograd", [F2, F4], ids=["F2", "F4"])


def apply(line: LineTransform, numbers: list[Fraction]) -> list[Fraction]:
    """The map as a matrix, exactly."""
    rows = line.matrix()
    return [sum((a * b for a, b in zip(row, numbers, strict=True)), Fraction(0)) for row in rows]


def draw(count: int, seed: int) -> list[Fraction]:
    rng = np.random.default_rng(seed)
    return [Fraction(int(number)) for number in rng.integers(-9, 9, count)]


def products(left: list[Fraction], right: list[Fraction]) -> list[Fraction]:
    return [a * b for a, b in zip(left, right, strict=True)]


@BOTH
def test_products_of_the_points_give_a_convolution(winograd: Winograd) -> None:
    image, taps = draw(winograd.points, 0), draw(3, 1)
    points = products(apply(winograd.image, image), apply(winograd.filter, taps))
    assert apply(winograd.result, points) == [
        sum(image[at + tap] * taps[tap] for tap in range(3)) for at in range(winograd.size)
    ]


@BOTH
def test_products_of_the_points_give_the_gradient_of_a_filter(winograd: Winograd) -> None:
    image, gradient = draw(winograd.points, 0), draw(winograd.size, 1)
    points = products(apply(winograd.image, image), apply(winograd.spread, gradient))
    assert apply(winograd.gather, points) == [
        sum(gradient[at] * image[at + tap] for at in range(winograd.size)) for tap in range(3)
    ]


@BOTH
def test_steps_are_no_more_than_terms_of_the_matrix(winograd: Winograd) -> None:
    for line in (winograd.image, winograd.filter, winograd.result, winograd.gather):
        additions = sum(len(step.terms) - 1 for step in line.steps)
        plain = sum(sum(map(bool, row)) - 1 for row in line.matrix())
        assert additions <= plain
