"""How tables are measured: which schedules of a problem they have, and files that grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.protocol import protocol_for
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
    """How many schedules of each sort."""

    promising: int = _COUNTS["promising"]
    """The first that the space proposes."""
    played: int = _COUNTS["played"]
    """States of random games of both presets, untuned ones first."""
    random: int = _COUNTS["random"]
    """Random ones of the space."""
    bred: int = _COUNTS["bred"]
    """Neighbours and children of the fastest so far."""
    at_once: int = 32
    """So many are handed over together."""

    @classmethod
    def of(cls, count: int) -> MeasurePlan:
        """So many schedules in the usual shares."""
        total = sum(_COUNTS.values())
        parts = {name: share * count // total for name, share in _COUNTS.items()}
        parts["promising"] += count - sum(parts.values())
        return cls(**parts)


def table_header(device: Device, version: str) -> TableHeader:
    """The header of a table that this version of Skipjack measures on a device."""
    return TableHeader(device, llvm.compiler_version(), protocol_for(device).key, version)


def open_table(path: Path, header: TableHeader) -> LoopTable:
    """The table in a file, to be continued, or an empty one where there is no file.

    `UsageError` if it was measured on another device, by another compiler or in another way.
    """
    if not path.exists():
        return LoopTable(header)
    table = read_table(path)
    if table.header.key != header.key:
        known = table.header
        raise UsageError(
            f"{path} was measured on {known.device.name} with {known.compiler}, not on "
            f"{header.device.name} with {header.compiler}; write another file"
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
    """Times in nanoseconds of schedules of a problem by their texts, until `stop` says so.

    `UsageError` for a problem that is no game of loops.
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
    """What is built in states of random games, each once, the starts first."""
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
    """New neighbours and children of the fastest."""
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
