"""Measuring tables: the choice of schedules of a problem, and tables that are continued."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from skipjack.core import Config, Device, Problem, protocol_for
from skipjack.errors import UsageError
from skipjack.learn.loops import LoopGame, Preset, loop_game, loop_space
from skipjack.learn.rates.rates import Rates
from skipjack.learn.rates.table import LoopTable, TableHeader, read_table
from skipjack.native import llvm
from skipjack.solvers.cpu.nest import Schedule, ScheduleSpace

_LONGEST_GAME = 14
_PARENTS = 8
_COUNTS = {"promising": 64, "played": 64, "random": 48, "bred": 96}


@dataclass(frozen=True, slots=True)
class MeasurePlan:
    """The number of schedules of each kind."""

    promising: int = _COUNTS["promising"]
    """The first proposals of the space."""
    played: int = _COUNTS["played"]
    """States of random games of both presets, untuned ones first."""
    random: int = _COUNTS["random"]
    """Random schedules of the space."""
    bred: int = _COUNTS["bred"]
    """Neighbours and children of the fastest schedules so far."""
    at_once: int = 32
    """The number of schedules that are measured together."""

    @classmethod
    def of(cls, count: int) -> MeasurePlan:
        """A plan for this many schedules, in the default proportions."""
        total = sum(_COUNTS.values())
        parts = {name: share * count // total for name, share in _COUNTS.items()}
        parts["promising"] += count - sum(parts.values())
        return cls(**parts)


def table_header(device: Device, version: str) -> TableHeader:
    """The header of a table measured on a device by this version of Skipjack."""
    return TableHeader(device, llvm.compiler_version(), protocol_for(device).key, version)


def open_table(path: Path, header: TableHeader) -> LoopTable:
    """The table in a file, to be continued, or an empty one if there is no file.

    `UsageError` if it was measured with another device, compiler or protocol.
    """
    if not path.exists():
        return LoopTable(header)
    table = read_table(path)
    if table.header.key != header.key:
        known = table.header
        raise UsageError(
            f"{path} was measured on {known.device.name} with {known.compiler}, not on "
            f"{header.device.name} with {header.compiler}; choose another file"
        )
    return table


def measure_problem(
    problem: Problem,
    device: Device,
    rates: Rates,
    plan: MeasurePlan,
    rng: np.random.Generator,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, float | None]:
    """Measure schedules of a problem until `stop` returns true.

    Returns times in nanoseconds by the text of schedules. `UsageError` for a problem that cannot be
    played.
    """
    games = [loop_game(problem, device, preset) for preset in Preset]
    space = loop_space(problem, device)
    times_ns: dict[str, float | None] = {}

    def take(schedules: Sequence[Schedule]) -> None:
        new = [one for one in dict.fromkeys(schedules) if one.text() not in times_ns]
        for at in range(0, len(new), plan.at_once):
            if stop():
                return
            some = new[at : at + plan.at_once]
            for schedule, seconds in zip(some, rates.seconds(problem, some), strict=True):
                times_ns[schedule.text()] = None if seconds is None else seconds * 1e9

    take([space.schedule(config) for config in space.promising(plan.promising)])
    take(list(islice(played_schedules(games, rng), plan.played)))
    take([space.schedule(space.sample(rng)) for _ in range(plan.random)])
    left = plan.bred
    while left > 0 and not stop():
        children = _bred(space, times_ns, rng, min(left, plan.at_once))
        if not children:
            break
        take(children)
        left -= len(children)
    return times_ns


def played_schedules(
    games: Sequence[LoopGame], rng: np.random.Generator, tries: int = 4000
) -> Iterator[Schedule]:
    """The distinct schedules of states in random games, the initial states first."""
    seen: set[Schedule] = set()
    for number in range(tries):
        game = games[number % len(games)]
        state = game.start()
        for _ in range(int(rng.integers(0, _LONGEST_GAME)) if number >= len(games) else 0):
            able = np.flatnonzero(game.mask(state)).tolist()
            legal = [at for at in able if game.actions[at] != "stop"]
            if not legal:
                break
            state = game.apply(state, legal[int(rng.integers(len(legal)))])
        schedule = game.built(state)
        if schedule not in seen and game.limits.admit(schedule, game.nest):
            seen.add(schedule)
            yield schedule


def _bred(
    space: ScheduleSpace,
    times_ns: Mapping[str, float | None],
    rng: np.random.Generator,
    count: int,
) -> list[Schedule]:
    """New neighbours and children of the fastest schedules."""
    known = {text: ns for text, ns in times_ns.items() if ns is not None}
    best = [Config(schedule=text) for text in sorted(known, key=known.__getitem__)[:_PARENTS]]
    found: dict[Config, None] = {}
    for _ in range(8 * count if best else 0):
        one, other = (best[int(at)] for at in rng.integers(len(best), size=2))
        child = space.recombine(one, other, rng) if rng.random() < 0.3 else one
        for _ in range(1 + int(rng.integers(2))):
            child = space.mutate(child, rng)
        if str(child["schedule"]) not in times_ns:
            found[child] = None
        if len(found) == count:
            break
    return [space.schedule(child) for child in found]
