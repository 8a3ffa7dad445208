"""The search space of a nest's schedules, and the small steps between them that searches take.

A config has one setting, ``schedule``, with the text of a legal schedule.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from skipjack.core import Config, Nest
from skipjack.errors import ScheduleError, SpaceError
from skipjack.solvers.cpu.nest.actions import FACTORS, ActionKind, apply, legal_actions
from skipjack.solvers.cpu.nest.composition import crossover, random_schedule
from skipjack.solvers.cpu.nest.footprint import (
    ScheduleLimits,
    is_streaming,
    schedule_features,
    shared_out,
    touched_elements,
    unrolled_copies,
    with_streaming,
)
from skipjack.solvers.cpu.nest.initial_schedules import initial_schedules_of
from skipjack.solvers.cpu.nest.schedule import (
    Loop,
    Mark,
    Schedule,
    long_variables,
    normalize,
    ranges,
    vector_variables,
)

if TYPE_CHECKING:
    import numpy as np


# Small steps from one schedule to others: the neighbourhood that searches explore.
#
# Most steps are single actions (`actions`). Some useful changes would take two or three of them,
# through a schedule that is slower or over the limits, so they are steps too: another length of a
# tile, a register tile made from a plain loop, a register tile removed.

Step = Callable[[Schedule, Nest, int], Iterator[Schedule]]
"""Maps a legal schedule, a nest and the number of lanes to schedules that may not be legal."""


def lengths(lanes: int) -> tuple[int, ...]:
    """The lengths of tiles: a fixed list and multiples of a vector."""
    return tuple(sorted({*FACTORS, *(lanes * vectors for vectors in range(1, 9))} - {1}))


def _acting(kind: ActionKind) -> Step:
    def step(schedule: Schedule, nest: Nest, lanes: int) -> Iterator[Schedule]:
        for action in legal_actions(schedule, nest, lengths(lanes), kinds=(kind,)):
            yield apply(action, schedule, nest)

    return step


def _resize(schedule: Schedule, nest: Nest, lanes: int) -> Iterator[Schedule]:
    """Change the step of an outer loop to another multiple of the next inner loop's step."""
    covered = ranges(schedule, nest)
    for at, loop in enumerate(schedule.loops):
        inner = next((x.step for x in schedule.loops[at + 1 :] if x.variable == loop.variable), 0)
        for length in lengths(lanes) if inner else ():
            if loop.step != inner * length < covered[at]:
                yield _with(schedule, at, replace(loop, step=inner * length))


def _tile(schedule: Schedule, nest: Nest, lanes: int) -> Iterator[Schedule]:
    """Make a register tile from a plain loop: the inner part goes into the suffix, unrolled."""
    covered = ranges(schedule, nest)
    top = schedule.suffix_start
    for at, loop in enumerate(schedule.loops[:top]):
        if loop.step != 1:
            continue
        for length in lengths(lanes):
            if length < covered[at]:
                loops = list(schedule.loops)
                loops[at] = replace(loop, step=length)
                loops.insert(top, Loop(loop.variable, 1, Mark.UNROLL))
                yield Schedule(tuple(loops))


def _fold(schedule: Schedule, nest: Nest, lanes: int) -> Iterator[Schedule]:
    """Remove a loop of the suffix; the next outer loop on its variable takes over its step."""
    for at in range(schedule.suffix_start, len(schedule.loops)):
        loop = schedule.loops[at]
        above = [x for x in range(at) if schedule.loops[x].variable == loop.variable]
        if above and not loop.mark.in_vectors:
            loops = list(schedule.loops)
            loops[above[-1]] = replace(loops[above[-1]], step=loop.step)
            del loops[at]
            yield Schedule(tuple(loops))


def _with(schedule: Schedule, at: int, loop: Loop) -> Schedule:
    return Schedule((*schedule.loops[:at], loop, *schedule.loops[at + 1 :]))


STEPS: Mapping[str, Step] = {
    "resize": _resize,
    "tile": _tile,
    "fold": _fold,
    "swap": _acting(ActionKind.SWAP),
    "mark": _acting(ActionKind.MARK),
    "merge": _acting(ActionKind.MERGE),
    "split": _acting(ActionKind.SPLIT),
    "move": _acting(ActionKind.MOVE),
}
"""The kinds of steps, in the order in which neighbours are listed."""


# The space.

_FEW_ELEMENTS = 1 << 16
"""Elements below which starting other threads may take longer than the work."""
_LOADED_AT_ONCE = 4
"""Vectors that a map should load before it stores any."""
_TRIES = 8


class ScheduleSpace:
    """Legal schedules of a nest within a machine's limits: `Space`, `Recombining`, `Promising`.

    Some schedules are legal but only proposed if they can pay: parallel loops with several threads,
    and stores past the caches if the arrays exceed `cache_elements`.
    """

    def __init__(
        self,
        nest: Nest,
        lanes: int,
        registers: int = 32,
        max_unrolled: int = 512,
        threads: int = 1,
        cache_elements: int = 0,
    ) -> None:
        if min(lanes, registers, max_unrolled, threads) < 1:
            raise SpaceError(
                "a schedule space needs at least 1 lane, register, unrolled copy and thread, not "
                f"{lanes}, {registers}, {max_unrolled} and {threads}"
            )
        self.nest = nest
        self.limits = ScheduleLimits(lanes, registers, max_unrolled)
        self.threads = threads
        self.streaming = 0 < cache_elements < touched_elements(nest)

    @staticmethod
    def config(schedule: Schedule) -> Config:
        return Config(schedule=schedule.text())

    @staticmethod
    def schedule(config: Config) -> Schedule:
        """The schedule of a config; `ScheduleError` if it has none."""
        text = config.get("schedule")
        if len(config) != 1 or not isinstance(text, str):
            raise ScheduleError(f"config {config} is not of the form schedule=TEXT")
        return Schedule.parse(text)

    def digest(self) -> str:
        """A text that changes when the space changes."""
        limits = self.limits
        # Recorded studies identify the limits by this text.
        text = (
            f"Limits(lanes={limits.lanes}, registers={limits.registers}, "
            f"max_unrolled={limits.max_unrolled})"
        )
        parts = f"({self.nest!r}, {text}, {self.threads!r}, {self.streaming!r})"
        return hashlib.sha256(parts.encode()).hexdigest()

    # Space

    def default(self) -> Config:
        """The order of the nest, with the best vectorisable variable split into single vectors.

        Maps load several vectors at a time: see `_loads_ahead`.
        """
        plain = [Loop(name) for name in long_variables(self.nest)]
        able = vector_variables(self.nest, self.limits.lanes)
        if able:
            step = self.limits.lanes * (1 if self.nest.reduction else _LOADED_AT_ONCE)
            plain = [replace(x, step=step) if x.variable == able[0] else x for x in plain]
            plain.append(Loop(able[0], 1, Mark.VECTORIZE))
        return self.config(normalize(plain, self.nest))

    def contains(self, config: Config) -> bool:
        """Whether the config holds a legal schedule within the limits."""
        try:
            schedule = self.schedule(config)
        except ScheduleError:
            return False
        return self.limits.admit(schedule, self.nest)

    def sample(self, rng: np.random.Generator) -> Config:
        """A random schedule with register tiles, blocking and a random order."""
        tries = (random_schedule(self.nest, self.limits, rng) for _ in range(_TRIES))
        schedule = next((each for each in tries if each and self._loads_ahead(each)), None)
        if schedule is None:
            return self.default()
        if self.threads > 1 and rng.random() < 0.75:
            shared = list(shared_out(schedule, self.nest, self.threads))
            schedule = shared[int(rng.integers(len(shared)))] if shared else schedule
        if self.streaming and rng.random() < 0.5:
            schedule = self._streamed(schedule)
        return self.config(schedule)

    def neighbours(self, config: Config) -> list[Config]:
        """The results of all `STEPS` on the schedule, distinct and in a fixed order."""
        schedule = self.schedule(config)
        found = dict.fromkeys(step for kind in STEPS for step in self._steps(schedule, kind))
        return [self.config(each) for each in found]

    def key(self, config: Config) -> str:
        return config.key

    def features(self, config: Config) -> tuple[float, ...]:
        return schedule_features(self.schedule(config), self.nest, self.limits.lanes)

    # Recombining

    def recombine(self, first: Config, second: Config, rng: np.random.Generator) -> Config:
        """Each variable's steps and marks from one parent, the order from the first."""
        child = crossover(self.schedule(first), self.schedule(second), self.nest, rng)
        return self.config(self.limits.fit(child, self.nest))

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """One step of a random kind; the config itself if no step is possible."""
        schedule = self.schedule(config)
        kinds = list(STEPS)
        for at in rng.permutation(len(kinds)):
            steps = self._steps(schedule, kinds[int(at)])
            if steps:
                return self.config(steps[int(rng.integers(len(steps)))])
        return config

    # Promising

    def promising(self, count: int) -> list[Config]:
        """Schedules in the order of a model and of experience, diverse ones first; then the
        default."""
        found: dict[Config, None] = {}
        lanes, registers = self.limits.lanes, self.limits.registers
        for schedule in initial_schedules_of(self.nest, lanes, registers, self.streaming):
            if len(found) >= count:
                break
            if self.limits.admit(schedule, self.nest) and self._loads_ahead(schedule):
                found |= dict.fromkeys(map(self.config, self._shared(schedule)))
        found[self.default()] = None
        return list(islice(found, max(0, count)))

    # Inside

    def _steps(self, schedule: Schedule, kind: str) -> list[Schedule]:
        """The distinct results of one kind of step that are in the space."""
        made = dict.fromkeys(STEPS[kind](schedule, self.nest, self.limits.lanes))
        return [
            each
            for each in made
            if each != schedule and self.limits.admit(each, self.nest) and self._proposable(each)
        ]

    def _proposable(self, schedule: Schedule) -> bool:
        """Whether it may pay: no useless threads or streaming stores, no idle loops."""
        if is_streaming(schedule) and not self.streaming:
            return False
        if not self._loads_ahead(schedule):
            return False
        marks = [loop.mark for loop in schedule.loops]
        if len(long_variables(self.nest)) == 1 and marks.count(Mark.NONE) > 1:
            return False  # with one variable a second loop has nothing to block
        return self.threads > 1 or Mark.PARALLEL not in marks

    def _loads_ahead(self, schedule: Schedule) -> bool:
        """Whether a map loads several vectors before it stores the first.

        A load waits for an earlier store to the same page offset. The caller decides where arrays
        lie, so one vector at a time is as fast as several, or half as fast.
        """
        if self.nest.reduction or not (pivot := schedule.vectorized):
            return True
        vectors = -(-self.nest.extent(pivot.variable) // self.limits.lanes)
        wanted = min(_LOADED_AT_ONCE, vectors)
        return unrolled_copies(schedule, self.nest, self.limits.lanes) >= wanted

    def _streamed(self, schedule: Schedule) -> Schedule:
        """The schedule with stores past the caches, if that is legal."""
        streamed = with_streaming(schedule)
        return streamed if self.limits.admit(streamed, self.nest) else schedule

    def _shared(self, schedule: Schedule) -> list[Schedule]:
        """Forms of the schedule for the threads; a small amount of work is also tried on one
        thread."""
        forms = shared_out(schedule, self.nest, self.threads)
        shared = [form for form in islice(forms, 2) if self.limits.admit(form, self.nest)]
        if not shared or touched_elements(self.nest) < _FEW_ELEMENTS:
            shared.append(schedule)
        return shared
