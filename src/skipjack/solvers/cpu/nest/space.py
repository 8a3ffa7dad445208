"""The space of a nest's schedules: what may vary when a loop nest is tuned.

A config has one setting, ``schedule``, with the text of a legal schedule. Legality and actions are
in `legality` and `actions`; here they become a space that can be sampled, walked in, and bred in.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from skipjack.core.config import Config
from skipjack.core.nest import Nest
from skipjack.errors import ScheduleError, SpaceError
from skipjack.solvers.cpu.nest.composing import crossover, random_schedule
from skipjack.solvers.cpu.nest.features import schedule_features
from skipjack.solvers.cpu.nest.footprint import (
    ScheduleLimits,
    is_streaming,
    touched_elements,
    unrolled_copies,
    with_streaming,
)
from skipjack.solvers.cpu.nest.legality import vector_variables
from skipjack.solvers.cpu.nest.promising import promising_schedules
from skipjack.solvers.cpu.nest.schedule import Loop, Mark, Schedule, long_variables, normalize
from skipjack.solvers.cpu.nest.steps import STEPS
from skipjack.solvers.cpu.nest.threads import shared_out

if TYPE_CHECKING:
    import numpy as np

_LITTLE = 1 << 16
"""Elements up to which waking other threads may take longer than the work."""
_AT_ONCE = 4
"""Vectors that a map should load before it stores any."""
_TRIES = 8


class ScheduleSpace:
    """Legal schedules of a nest within a machine's limits: `Space`, `Recombining`, `Promising`.

    Some are legal everywhere, but proposed only where they can pay: parallel loops to several
    threads, stores past the caches where `cache_elements` do not hold all arrays.
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
        """The config of a schedule."""
        return Config(schedule=schedule.text())

    @staticmethod
    def schedule(config: Config) -> Schedule:
        """The schedule of a config; `ScheduleError` if it holds none."""
        text = config.get("schedule")
        if len(config) != 1 or not isinstance(text, str):
            raise ScheduleError(f"config {config} is not of the form schedule=TEXT")
        return Schedule.parse(text)

    def digest(self) -> str:
        """Text that changes when the space does."""
        limits = self.limits
        # Recorded studies know the limits by this text.
        text = (
            f"Limits(lanes={limits.lanes}, registers={limits.registers}, "
            f"max_unrolled={limits.max_unrolled})"
        )
        parts = f"({self.nest!r}, {text}, {self.threads!r}, {self.streaming!r})"
        return hashlib.sha256(parts.encode()).hexdigest()

    # Space

    def default(self) -> Config:
        """The nest's own order, with the best vectorisable variable split into single vectors.

        Maps take several at a time: see `_spread`.
        """
        plain = [Loop(name) for name in long_variables(self.nest)]
        able = vector_variables(self.nest, self.limits.lanes)
        if able:
            step = self.limits.lanes * (1 if self.nest.reduction else _AT_ONCE)
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
        """A random schedule made of register tiles, blocking and a random order."""
        tries = (random_schedule(self.nest, self.limits, rng) for _ in range(_TRIES))
        schedule = next((each for each in tries if each and self._spread(each)), None)
        if schedule is None:
            return self.default()
        if self.threads > 1 and rng.random() < 0.75:
            shared = list(shared_out(schedule, self.nest, self.threads))
            schedule = shared[int(rng.integers(len(shared)))] if shared else schedule
        if self.streaming and rng.random() < 0.5:
            schedule = self._streamed(schedule)
        return self.config(schedule)

    def neighbours(self, config: Config) -> list[Config]:
        """What `STEPS` make of the schedule, distinct and in a fixed order."""
        schedule = self.schedule(config)
        found = dict.fromkeys(step for kind in STEPS for step in self._steps(schedule, kind))
        return [self.config(each) for each in found]

    def key(self, config: Config) -> str:
        """Canonical text."""
        return config.key

    def features(self, config: Config) -> tuple[float, ...]:
        """What `schedule_features` says of the schedule."""
        return schedule_features(self.schedule(config), self.nest, self.limits.lanes)

    # Recombining

    def recombine(self, first: Config, second: Config, rng: np.random.Generator) -> Config:
        """Each variable's steps and marks from one parent, the order from the first."""
        child = crossover(self.schedule(first), self.schedule(second), self.nest, rng)
        return self.config(self.limits.fit(child, self.nest))

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """One step of a random kind; the config itself where no step is left."""
        schedule = self.schedule(config)
        kinds = list(STEPS)
        for at in rng.permutation(len(kinds)):
            steps = self._steps(schedule, kinds[int(at)])
            if steps:
                return self.config(steps[int(rng.integers(len(steps)))])
        return config

    # Promising

    def promising(self, count: int) -> list[Config]:
        """In the order of a model and of experience, diverse ones first; then the default."""
        found: dict[Config, None] = {}
        lanes, registers = self.limits.lanes, self.limits.registers
        for schedule in promising_schedules(self.nest, lanes, registers, self.streaming):
            if len(found) >= count:
                break
            if self.limits.admit(schedule, self.nest) and self._spread(schedule):
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
        """Whether it may pay: no threads or stores that are of no use, no loops that are idle."""
        if is_streaming(schedule) and not self.streaming:
            return False
        if not self._spread(schedule):
            return False
        marks = [loop.mark for loop in schedule.loops]
        if len(long_variables(self.nest)) == 1 and marks.count(Mark.NONE) > 1:
            return False  # with one variable there is nothing that a second loop could block
        return self.threads > 1 or Mark.PARALLEL not in marks

    def _spread(self, schedule: Schedule) -> bool:
        """Whether a map loads several vectors before it stores the first.

        A load waits for an earlier store that lies at the same place of its page. Where arrays lie
        is the caller's choice, so one vector at a time is as fast as several, or half as fast.
        """
        if self.nest.reduction or not (pivot := schedule.vectorized):
            return True
        vectors = -(-self.nest.extent(pivot.variable) // self.limits.lanes)
        wanted = min(_AT_ONCE, vectors)
        return unrolled_copies(schedule, self.nest, self.limits.lanes) >= wanted

    def _streamed(self, schedule: Schedule) -> Schedule:
        """The schedule with stores past the caches, where it can have them."""
        streamed = with_streaming(schedule)
        return streamed if self.limits.admit(streamed, self.nest) else schedule

    def _shared(self, schedule: Schedule) -> list[Schedule]:
        """The schedule for the threads there are; little work stays with one of them, too."""
        forms = shared_out(schedule, self.nest, self.threads)
        shared = [form for form in islice(forms, 2) if self.limits.admit(form, self.nest)]
        if not shared or touched_elements(self.nest) < _LITTLE:
            shared.append(schedule)
        return shared
