"""How far apart problems are, in doublings of their sizes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, log2
from typing import TypeVar

from skipjack.core.problem import Problem

T = TypeVar("T")

_NOTHING = 0.5
"""A size of 0, as paddings have, is one doubling away from 1."""


def doublings(one: Problem, other: Problem) -> tuple[float, ...] | None:
    """Of each size; None if the problems differ in more than sizes and element types."""
    same = (one.operation, one.attributes, one.layout, one.direction, len(one.shape))
    if same != (
        *(other.operation, other.attributes, other.layout, other.direction),
        len(other.shape),
    ):
        return None
    return size_doublings(one.shape, other.shape)


def size_doublings(one: Iterable[int], other: Iterable[int]) -> tuple[float, ...]:
    """How many times each size doubles from one to the other."""
    pairs = zip(one, other, strict=True)
    return tuple(abs(log2(max(a, _NOTHING) / max(b, _NOTHING))) for a, b in pairs)


def distance(one: Problem, other: Problem) -> float:
    """How far apart two problems are, in doublings of their sizes; infinite if not comparable."""
    apart = doublings(one, other)
    return inf if apart is None else sum(apart) + (one.dtype != other.dtype)


def nearest(problem: Problem, known: Iterable[tuple[Problem, T]]) -> list[tuple[Problem, T]]:
    """Other problems that compare with this one, the nearest first."""
    ranked = [
        (far, other.key, (other, thing))
        for other, thing in known
        if other.key != problem.key and (far := distance(problem, other)) != inf
    ]
    return [pair for _, _, pair in sorted(ranked, key=lambda one: one[:2])]
