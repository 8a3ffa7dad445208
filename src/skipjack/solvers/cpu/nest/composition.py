"""Schedules composed of a chain of loops per variable: drawn at random, or from two parents.

Normal form does most of the work: whatever the order of the loops, dropping those that run once
leaves a chain of decreasing steps. So a composition is legal if every variable has one loop with a
step of 1, marks are allowed on their variables, and at most one loop is vectorised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from skipjack.core import Nest
from skipjack.solvers.cpu.nest.actions import FACTORS
from skipjack.solvers.cpu.nest.footprint import ScheduleLimits
from skipjack.solvers.cpu.nest.register_tile import VECTORS
from skipjack.solvers.cpu.nest.schedule import (
    Loop,
    Mark,
    Schedule,
    long_variables,
    normalize,
    vector_variables,
)

if TYPE_CHECKING:
    import numpy as np


_Item = TypeVar("_Item")

_ATTEMPTS = 16
_REDUCTION_UNROLLS = (2, 4, 8)
_BLOCKS = (2, 3, 4, 6, 8, 12, 16, 32)


@dataclass
class _Parts:
    """The loops of a schedule under construction."""

    outer: list[Loop] = field(default_factory=list)
    suffix: list[Loop] = field(default_factory=list)


# Drawing at random


def random_schedule(
    nest: Nest, limits: ScheduleLimits, rng: np.random.Generator
) -> Schedule | None:
    """A random schedule with a register tile, blocking and order; None if no draw was legal."""
    for _ in range(_ATTEMPTS):
        schedule = _draw(nest, limits.lanes, rng)
        if limits.admit(schedule, nest):
            return schedule
    return None


def _draw(nest: Nest, lanes: int, rng: np.random.Generator) -> Schedule:
    pivot = _draw_pivot(nest, lanes, rng)
    parts, tail = _Parts(), _Parts()
    for name in long_variables(nest):
        if name == pivot:
            _draw_vector(name, nest, lanes, tail, rng)
        else:
            _draw_tile(name, nest, parts, rng)
    outer = _shuffled([*parts.outer, *tail.outer], rng)
    if rng.random() < 0.5:
        # The usual place of a reduction is directly above the register tile.
        outer.sort(key=lambda loop: loop.variable in nest.reduction_loops)
    suffix = [*_shuffled(parts.suffix, rng), *tail.suffix]
    return _without_idle(normalize([*_steps_decreasing(outer), *suffix], nest))


def _draw_pivot(nest: Nest, lanes: int, rng: np.random.Generator) -> str:
    able = vector_variables(nest, lanes)
    if not able or rng.random() < 0.05:
        return ""
    return able[0] if rng.random() < 0.85 else able[int(rng.integers(len(able)))]


def _draw_vector(
    name: str, nest: Nest, lanes: int, parts: _Parts, rng: np.random.Generator
) -> None:
    vectors = _choice(VECTORS, rng)
    parts.outer.append(Loop(name, vectors * lanes))
    parts.suffix.append(Loop(name, 1, Mark.VECTORIZE))
    if name in nest.reduction_loops and vectors > 1 and rng.random() < 0.7:
        parts.suffix.insert(0, Loop(name, lanes, Mark.ACCUMULATE))
    _draw_block(name, vectors * lanes, parts, rng)


def _draw_tile(name: str, nest: Nest, parts: _Parts, rng: np.random.Generator) -> None:
    if rng.random() < 0.4:
        parts.outer.append(Loop(name))
        _draw_block(name, 1, parts, rng)
        return
    reduced = name in nest.reduction_loops
    factor = _choice(_REDUCTION_UNROLLS if reduced else FACTORS, rng)
    accumulate = reduced and rng.random() < 0.25
    parts.outer.append(Loop(name, factor))
    parts.suffix.append(Loop(name, 1, Mark.ACCUMULATE if accumulate else Mark.UNROLL))
    _draw_block(name, factor, parts, rng)


def _draw_block(name: str, tile: int, parts: _Parts, rng: np.random.Generator) -> None:
    if rng.random() < 0.3:
        parts.outer.append(Loop(name, max(tile, 4) * _choice(_BLOCKS, rng)))


def _steps_decreasing(loops: Sequence[Loop]) -> list[Loop]:
    """The same positions for each variable, with its longer steps further out."""
    by_step = sorted(loops, key=lambda loop: -loop.step)
    chains = {name: iter([x for x in by_step if x.variable == name]) for name in _names(loops)}
    return [next(chains[loop.variable]) for loop in loops]


def _without_idle(schedule: Schedule) -> Schedule:
    """Drop loops directly above another plain one on their variable: they block nothing."""
    outer = schedule.loops[: schedule.suffix_start]
    names = [*_names(outer), ""]
    busy = [loop for at, loop in enumerate(outer, 1) if loop.variable != names[at]]
    return Schedule((*busy, *schedule.loops[len(outer) :]))


# Two parents


def crossover(first: Schedule, second: Schedule, nest: Nest, rng: np.random.Generator) -> Schedule:
    """A child of two schedules: each variable's loops from one parent, the order from the first.

    It is legal except for a streaming mark, which may be in a place where it is not legal.
    """
    chains = {
        name: (first if rng.random() < 0.5 else second).chain(name) for name in long_variables(nest)
    }
    _keep_one_vector(chains, rng)
    cut = first.suffix_start
    plain = {name: [x for x in chain if not x.mark.in_suffix] for name, chain in chains.items()}
    marked = {name: [x for x in chain if x.mark.in_suffix] for name, chain in chains.items()}
    outer = _arrange(_names(first.loops[:cut]), plain, rng)
    suffix = _arrange(_names(first.loops[cut:]), marked, rng)
    return _parallel_prefix(normalize([*outer, *suffix], nest), nest)


def _keep_one_vector(chains: dict[str, tuple[Loop, ...]], rng: np.random.Generator) -> None:
    vectorized = [
        name for name, chain in chains.items() if any(loop.mark.in_vectors for loop in chain)
    ]
    if len(vectorized) > 1:
        vectorized.remove(_choice(vectorized, rng))
        for name in vectorized:
            chains[name] = tuple(replace(loop, mark=Mark.NONE) for loop in chains[name])


def _arrange(
    template: Sequence[str], chains: Mapping[str, Sequence[Loop]], rng: np.random.Generator
) -> list[Loop]:
    """The loops of the chains in the template's order of variables; further ones at random
    positions."""
    wanted = Counter({name: len(chain) for name, chain in chains.items()})
    places = []
    for name in template:
        if wanted[name]:
            wanted[name] -= 1
            places.append(name)
    for name in wanted.elements():
        places.insert(int(rng.integers(len(places) + 1)), name)
    loops = {name: iter(chain) for name, chain in chains.items()}
    return [next(loops[name]) for name in places]


def _parallel_prefix(schedule: Schedule, nest: Nest) -> Schedule:
    """The schedule with parallel marks only on loops whose outer loops all have one.

    A parallel reduction loop must be the only parallel loop.
    """
    reduced = nest.reduction_loops
    kept = 0
    for loop in schedule.loops:
        if loop.mark is not Mark.PARALLEL or (kept and loop.variable in reduced):
            break
        kept += 1
        if loop.variable in reduced:
            break
    rest = (
        replace(loop, mark=Mark.NONE) if loop.mark is Mark.PARALLEL else loop
        for loop in schedule.loops[kept:]
    )
    return Schedule((*schedule.loops[:kept], *rest))


def _names(loops: Iterable[Loop]) -> list[str]:
    return [loop.variable for loop in loops]


def _choice(items: Sequence[_Item], rng: np.random.Generator) -> _Item:
    return items[int(rng.integers(len(items)))]


def _shuffled(loops: Sequence[Loop], rng: np.random.Generator) -> list[Loop]:
    return [loops[int(at)] for at in rng.permutation(len(loops))]
