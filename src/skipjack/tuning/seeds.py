"""Where to look first: what was good for problems that are near."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.core.space import Promising, Space
from skipjack.errors import ProblemError
from skipjack.ledger import Winner
from skipjack.operations import parse

_NEAREST = 4
_PROMISING = 16
_NOTHING = 0.5
"""A size of 0, as paddings have, is one doubling away from 1."""


def starting_points(
    problem: Problem,
    space: Space,
    solver: str,
    winners: Sequence[Winner],
    namesakes: Sequence[Winner] = (),
) -> tuple[Config, ...]:
    """What was best on other models of the device's name, winners of near problems, then promises.

    Winners are of the very class of the device; `namesakes` were timed on another model.
    """
    found = [one.config for one in namesakes if (one.problem, one.solver) == (problem.key, solver)]
    found += nearest_winners(problem, solver, winners)
    if isinstance(space, Promising):
        found += space.promising(_PROMISING)
    distinct = {space.key(config): config for config in found if space.contains(config)}
    return tuple(distinct.values())


def nearest_winners(problem: Problem, solver: str, winners: Sequence[Winner]) -> list[Config]:
    """Configs of the nearest problems of this solver, nearest first."""
    ranked: list[tuple[float, str, Config]] = []
    for winner in winners:
        if winner.solver != solver or winner.problem == problem.key:
            continue  # its own winner is known from the study, or is not to be known
        try:
            other = parse(winner.problem)
        except ProblemError:
            continue  # an operation that is not known any more
        ranked.append((distance(problem, other), winner.problem, winner.config))
    ranked.sort(key=lambda entry: entry[:2])
    return [config for far, _, config in ranked[:_NEAREST] if far != float("inf")]


def distance(one: Problem, other: Problem) -> float:
    """How far apart two problems are, in doublings of their sizes; infinite if not comparable."""
    same = (one.operation, one.attributes, one.layout, one.direction)
    if same != (other.operation, other.attributes, other.layout, other.direction):
        return float("inf")
    if len(one.shape) != len(other.shape):
        return float("inf")
    pairs = zip(one.shape, other.shape, strict=True)
    steps = sum(abs(log2(max(a, _NOTHING) / max(b, _NOTHING))) for a, b in pairs)
    return steps + (one.dtype != other.dtype)
