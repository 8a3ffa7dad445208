"""Scheduling a loop nest as a game: a cursor on the loops, and actions on the loop it is at.

===============  ===============================================================================
action           what it does
===============  ===============================================================================
``up``           moves the cursor to the next outer loop
``down``         moves the cursor to the next inner loop
``swap_up``      exchanges the loop with the next outer one; the cursor goes with it
``swap_down``    exchanges the loop with the next inner one; the cursor goes with it
``split_F``      puts a loop around it that goes F times as far at a time; the cursor is on that
``merge``        takes the loop out, so that the next inner one on its variable covers its range;
                 of the innermost one on its variable, the next outer one is taken out. The cursor
                 is on the loop that covers the range
``unroll``       gives the loop this mark instead of its own, or takes the mark off if it has it;
                 likewise ``vectorize``, ``accumulate``, ``parallel`` and ``stream``
``stop``         ends the game
===============  ===============================================================================

An action is legal if the schedule after it is: by the nest (`skipjack.solvers.cpu.nest`), within
the limits of the machine, and with at most `MAX_LOOPS` loops. Two loops on one variable cannot be
swapped, since that would only move the cursor. Threads and stores past the caches are marks of
games that have them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from skipjack.core.nest import Nest
from skipjack.errors import ScheduleError
from skipjack.learn.loops.facts import NestFacts
from skipjack.learn.loops.finish import finish
from skipjack.learn.loops.legal import MAX_LOOPS, mask_of
from skipjack.solvers.cpu.nest import (
    FACTORS,
    ActionRules,
    Loop,
    Mark,
    Schedule,
    ScheduleLimits,
    can_vectorize,
    check,
    mark,
    merge,
    split,
    swap,
)

MARKS = {
    "unroll": Mark.UNROLL,
    "vectorize": Mark.VECTORIZE,
    "accumulate": Mark.ACCUMULATE,
    "parallel": Mark.PARALLEL,
    "stream": Mark.STREAM,
}
"""The marks by the names of their actions."""
_VECTORS = (40, 48, 56, 80, 96, 112)
_ALL_FACTORS = tuple(sorted({*FACTORS, *_VECTORS, *(2**power for power in range(1, 11))}))
"""Powers of two, and what register tiles are made of: copies, and whole vectors of 8 or 16."""
_MOVES = ("up", "down", "swap_up", "swap_down")


class Preset(StrEnum):
    """Which actions there are, and who marks loops."""

    LOOPTUNE = "looptune"
    """The seven actions of LoopTune; `finish` marks loops before they are built."""
    FULL = "full"
    """All actions; what is built is the schedule itself."""

    @property
    def factors(self) -> tuple[int, ...]:
        """By which loops are split."""
        return (4, 8, 16) if self is Preset.LOOPTUNE else _ALL_FACTORS

    @property
    def actions(self) -> tuple[str, ...]:
        """Their names, the same for every nest."""
        splits = tuple(f"split_{factor}" for factor in self.factors)
        marks = () if self is Preset.LOOPTUNE else ("merge", *MARKS, "stop")
        return (*_MOVES, *splits, *marks)

    @property
    def episode_steps(self) -> int:
        """The most actions of an episode, unless told otherwise."""
        return 10 if self is Preset.LOOPTUNE else 40


@dataclass(frozen=True, slots=True)
class GameState:
    """Where a game stands. For measurements, only the schedule counts."""

    schedule: Schedule
    cursor: int = 0
    """Position of a loop; 0 where there is none."""
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What is known of the machine besides the limits of schedules."""

    threads: int = 1
    caches: tuple[int, ...] = ()
    """Bytes of each level, the nearest first."""
    item_bytes: int = 4
    """Of an element of the nest's arrays."""


class LoopGame:
    """The game on one nest and one machine; its states are values, and it keeps none."""

    def __init__(
        self,
        nest: Nest,
        limits: ScheduleLimits,
        *,
        preset: Preset,
        threads: int = 1,
        streaming: bool = False,
        start: Schedule | None = None,
        machine: MachineFacts | None = None,
    ) -> None:
        self.nest, self.limits, self.preset = nest, limits, preset
        self.threads, self.streaming = threads, streaming
        self.machine = machine or MachineFacts(threads)
        self.actions = preset.actions
        self.rules = ActionRules(nest)
        self.facts = NestFacts(nest)
        self.factors = preset.factors
        self._start = untuned(nest) if start is None else start
        self._check_start()

    def _check_start(self) -> None:
        check(self._start, self.nest)
        marked = any(loop.mark for loop in self._start.loops)
        where = f"a game cannot start from '{self._start}'"
        if len(self._start.loops) > MAX_LOOPS:
            raise ScheduleError(f"{where}: it has more than {MAX_LOOPS} loops")
        if marked and self.preset is Preset.LOOPTUNE:
            raise ScheduleError(f"{where}: in the preset looptune loops have no marks")
        self._check_limits(self._start)

    def start(self) -> GameState:
        """The untuned nest, or the schedule that the game was given; the cursor is outermost."""
        return GameState(self._start)

    def number(self, name: str) -> int:
        """Which action has this name; `ScheduleError` if none has."""
        if name not in self.actions:
            raise ScheduleError(
                f"there is no action {name!r} in the preset {self.preset}; "
                f"choose from {', '.join(self.actions)}"
            )
        return self.actions.index(name)

    def mask(self, state: GameState) -> NDArray[np.bool_]:
        """For every action whether it is legal."""
        return np.array(mask_of(self, state), dtype=np.bool_)

    def apply(self, state: GameState, action: int) -> GameState:
        """The state after an action; `ScheduleError` with the reason if it is not legal."""
        name = self.actions[action]
        if state.stopped:
            raise ScheduleError("the game has ended; no action is legal any more")
        if name == "stop":
            return GameState(state.schedule, state.cursor, True)
        schedule, at = state.schedule, state.cursor
        count = len(schedule.loops)
        if not count:
            raise ScheduleError("every loop of the nest runs once; there is none to act on")
        if name in ("up", "swap_up") and not at:
            raise ScheduleError(f"loop {schedule.loops[0].text()} is the outermost")
        if name in ("down", "swap_down") and at + 1 == count:
            raise ScheduleError(f"loop {schedule.loops[-1].text()} is the innermost")
        if name == "up":
            return GameState(schedule, at - 1)
        if name == "down":
            return GameState(schedule, at + 1)
        return self._changed(name, schedule, at)

    def _changed(self, name: str, schedule: Schedule, at: int) -> GameState:
        nest = self.nest
        if name == "swap_up":
            return GameState(swap(schedule, nest, at - 1), at - 1)
        if name == "swap_down":
            return GameState(swap(schedule, nest, at), at + 1)
        if name == "merge":
            after, cursor = merge(schedule, nest, at), _covering(schedule, at)
        elif name in MARKS:
            after, cursor = self._toggled(schedule, at, MARKS[name]), at
        else:
            after = split(schedule, nest, at, int(name.removeprefix("split_")))
            if len(after.loops) > MAX_LOOPS:
                raise ScheduleError(f"schedules of a game have at most {MAX_LOOPS} loops")
            cursor = min(at, schedule.suffix_start)
        self._check_limits(after)
        return GameState(after, cursor)

    def _toggled(self, schedule: Schedule, at: int, wanted: Mark) -> Schedule:
        if schedule.loops[at].mark is wanted:
            return mark(schedule, self.nest, at, Mark.NONE)
        return mark(schedule, self.nest, at, wanted)

    def _check_limits(self, schedule: Schedule) -> None:
        marks = {loop.mark for loop in schedule.loops}
        if Mark.PARALLEL in marks and self.threads < 2:
            raise ScheduleError("the game has one thread, so no loop is shared out")
        if Mark.STREAM in marks and not self.streaming:
            raise ScheduleError("the arrays fit the caches, so nothing is stored past them")
        if not self.limits.allow(schedule, self.nest):
            raise ScheduleError(
                f"schedule '{schedule}' is beyond the machine's limits: {self.limits.max_unrolled} "
                f"copies of the body, {2 * self.limits.registers} vectors of sums, and stores past "
                "the caches in whole vectors"
            )

    def built(self, state: GameState) -> Schedule:
        """What is compiled and measured: the schedule itself, or what `finish` makes of it."""
        if self.preset is Preset.FULL:
            return state.schedule
        return finish(state.schedule, self.nest, self.limits)


def untuned(nest: Nest) -> Schedule:
    """The nest's loops in their own order, but the best to vectorise innermost; no marks."""
    names = [name for name, extent in nest.loops if extent > 1]
    reduced = nest.reduction_loops
    able = [name for name in names if can_vectorize(name, nest)]
    if able:
        best = min(able, key=lambda name: (name in reduced, -nest.extent(name)))
        names.remove(best)
        names.append(best)
    return Schedule(tuple(map(Loop, names)))


def _covering(schedule: Schedule, at: int) -> int:
    """After a merge: the position of the loop that covers the range of the one taken out."""
    variable = schedule.loops[at].variable
    inner = [
        place
        for place in range(at + 1, len(schedule.loops))
        if schedule.loops[place].variable == variable
    ]
    return inner[0] - 1 if inner else at - 1
