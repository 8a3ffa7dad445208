"""Scheduling a loop nest as a game: a cursor, and actions on the loop at the cursor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Access, Nest
from skipjack.errors import ScheduleError
from skipjack.learn.loops.legal_actions import MAX_LOOPS, mask_of
from skipjack.solvers.cpu.nest import (
    FACTORS,
    ActionRules,
    Loop,
    Mark,
    Schedule,
    ScheduleLimits,
    accumulator_vectors,
    can_vectorize,
    check,
    mark,
    merge,
    ranges,
    split,
    swap,
    unrolled_copies,
)

# Marking the loops of a schedule automatically, for the preset `looptune`.
#
# LoopTune's backend vectorises the innermost loop and keeps as much of the result in registers as
# fits. Here a schedule without marks is scalar code, so the preset builds the result of `finish`.

_LOADED = 2
"""Registers reserved for loaded values."""
_COPIES = 128
"""The most copies of the body; more take longer to compile and are not faster."""


def finish(schedule: Schedule, nest: Nest, limits: ScheduleLimits) -> Schedule:
    """Mark loops from the innermost one outwards, while sums fit into the registers.

    The innermost loop is vectorised if that is legal and otherwise unrolled; if it is too long, it
    is split first. A reduction loop gets separate accumulators if there are registers for them.
    """
    if not schedule.loops:
        return schedule
    *outer, last = schedule.loops
    covered = ranges(schedule, nest)[-1]
    kind = Mark.VECTORIZE if can_vectorize(last.variable, nest) else Mark.UNROLL
    width = limits.lanes if kind is Mark.VECTORIZE else 1
    chunk = width << (_room(limits).bit_length() - 1)
    if chunk == 1:
        return schedule
    if covered > chunk:
        outer.append(Loop(last.variable, chunk))
    finished = Schedule((*outer, replace(last, mark=kind)))
    for at in reversed(range(len(outer))):
        marked = _marked(finished, at, nest, limits)
        if marked is None:
            break
        finished = marked
    return finished


def _marked(schedule: Schedule, at: int, nest: Nest, limits: ScheduleLimits) -> Schedule | None:
    """The schedule with one more loop marked; None if it does not fit."""
    loop = schedule.loops[at]
    reduces = loop.variable in nest.reduction_loops
    for kind in (Mark.ACCUMULATE, Mark.UNROLL) if reduces else (Mark.UNROLL,):
        loops = list(schedule.loops)
        loops[at] = replace(loop, mark=kind)
        marked = Schedule(tuple(loops))
        if _fits(marked, nest, limits):
            return marked
    return None


def _fits(schedule: Schedule, nest: Nest, limits: ScheduleLimits) -> bool:
    copies = unrolled_copies(schedule, nest, limits.lanes)
    if not nest.reduction:
        return copies <= _room(limits)
    sums = accumulator_vectors(schedule, nest, limits.lanes)
    return copies <= min(_COPIES, limits.max_unrolled) and sums <= _room(limits)


def _room(limits: ScheduleLimits) -> int:
    """The number of vectors of sums, or of results without a reduction, that fit in registers."""
    return min(max(1, limits.registers - _LOADED), limits.max_unrolled)


# Facts about a nest that do not depend on its schedule.


class NestFacts:
    """Facts about a nest for observations, computed once."""

    __slots__ = ("extents", "reduced", "strides", "terms", "vectorizable")

    def __init__(self, nest: Nest) -> None:
        accesses = (nest.output, *nest.inputs)
        self.extents = dict(nest.loops)
        self.reduced = frozenset(nest.reduction_loops)
        self.vectorizable = frozenset(name for name in self.extents if can_vectorize(name, nest))
        """The variables that can be vectorised."""
        self.strides = {
            name: tuple(access.stride(name) for access in accesses) for name in self.extents
        }
        """Strides in elements by variable: of the output, then of the inputs."""
        self.terms = tuple(map(_terms, accesses))

    def elements(self, sizes: dict[str, int]) -> int:
        """The elements of all arrays that are touched while variables take this many values."""
        total = 0
        for dimensions in self.terms:
            elements = 1
            for dimension in dimensions:
                length = 1
                for name, factor in dimension:
                    length += factor * (sizes[name] - 1)
                elements *= length
            total += elements
        return total


def _terms(access: Access) -> tuple[tuple[tuple[str, int], ...], ...]:
    return tuple(
        tuple((name, abs(factor)) for name, factor in at.terms if factor) for at in access.indices
    )


# The actions of the game.
#
# ===============  ===============================================================================
# action           what it does
# ===============  ===============================================================================
# ``up``           moves the cursor to the next outer loop
# ``down``         moves the cursor to the next inner loop
# ``swap_up``      exchanges the loop with the next outer one; the cursor goes with it
# ``swap_down``    exchanges the loop with the next inner one; the cursor goes with it
# ``split_F``      puts a loop around it that goes F times as far at a time; the cursor is on that
# ``merge``        takes the loop out, so that the next inner one on its variable covers its range;
#                  of the innermost one on its variable, the next outer one is taken out. The cursor
#                  is on the loop that covers the range
# ``unroll``       gives the loop this mark instead of its own, or takes the mark off if it has it;
#                  likewise ``vectorize``, ``accumulate``, ``parallel`` and ``stream``
# ``stop``         ends the game
# ===============  ===============================================================================
#
# An action is legal if the resulting schedule is legal for the nest (`skipjack.solvers.cpu.nest`),
# is within the limits of the machine, and has at most `MAX_LOOPS` loops. Two loops on one variable
# cannot be swapped, since that would only move the cursor. The marks for threads and for stores
# past the caches exist only in games that allow them.

MARKS = {
    "unroll": Mark.UNROLL,
    "vectorize": Mark.VECTORIZE,
    "accumulate": Mark.ACCUMULATE,
    "parallel": Mark.PARALLEL,
    "stream": Mark.STREAM,
}
"""Marks by the names of their actions."""
_VECTORS = (40, 48, 56, 80, 96, 112)
_ALL_FACTORS = tuple(sorted({*FACTORS, *_VECTORS, *(2**power for power in range(1, 11))}))
"""Powers of two, and sizes of register tiles: copies, and whole vectors of 8 or 16."""
_MOVES = ("up", "down", "swap_up", "swap_down")


class Preset(StrEnum):
    """Which actions exist, and whether loops are marked automatically."""

    LOOPTUNE = "looptune"
    """The seven actions of LoopTune; `finish` marks loops before a schedule is built."""
    FULL = "full"
    """All actions; the schedule itself is built."""

    @property
    def factors(self) -> tuple[int, ...]:
        """The factors of splits."""
        return (4, 8, 16) if self is Preset.LOOPTUNE else _ALL_FACTORS

    @property
    def actions(self) -> tuple[str, ...]:
        """The names of the actions, the same for every nest."""
        splits = tuple(f"split_{factor}" for factor in self.factors)
        marks = () if self is Preset.LOOPTUNE else ("merge", *MARKS, "stop")
        return (*_MOVES, *splits, *marks)

    @property
    def episode_steps(self) -> int:
        """The default limit of actions of an episode."""
        return 10 if self is Preset.LOOPTUNE else 40


@dataclass(frozen=True, slots=True)
class GameState:
    """The state of a game. Times depend only on the schedule."""

    schedule: Schedule
    cursor: int = 0
    """The index of a loop; 0 if there is none."""
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Facts about the machine in addition to the limits of schedules."""

    threads: int = 1
    caches: tuple[int, ...] = ()
    """Sizes in bytes, the nearest cache first."""
    item_bytes: int = 4
    """Size of an element of the nest's arrays."""


class LoopGame:
    """The game on one nest and one machine. It is immutable; states are values."""

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
            raise ScheduleError(f"{where}: loops must not have marks in the preset looptune")
        self._check_limits(self._start)

    def start(self) -> GameState:
        """The initial state: the untuned nest or the given schedule; the cursor is outermost."""
        return GameState(self._start)

    def number(self, name: str) -> int:
        """The number of the action of this name; `ScheduleError` if there is none."""
        if name not in self.actions:
            raise ScheduleError(
                f"there is no action {name!r} in the preset {self.preset}; "
                f"choose from {', '.join(self.actions)}"
            )
        return self.actions.index(name)

    def mask(self, state: GameState) -> NDArray[np.bool_]:
        """Whether each action is legal."""
        return np.array(mask_of(self, state), dtype=np.bool_)

    def apply(self, state: GameState, action: int) -> GameState:
        """The state after an action; `ScheduleError` with the reason if it is not legal."""
        name = self.actions[action]
        if state.stopped:
            raise ScheduleError("the game has ended, so no action is legal")
        if name == "stop":
            return GameState(state.schedule, state.cursor, True)
        schedule, at = state.schedule, state.cursor
        count = len(schedule.loops)
        if not count:
            raise ScheduleError(
                "every loop of the nest runs only once, so no action but stop is legal"
            )
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
                raise ScheduleError(f"schedules of a game can have at most {MAX_LOOPS} loops")
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
            raise ScheduleError("the game has one thread, so no loop can be parallel")
        if Mark.STREAM in marks and not self.streaming:
            raise ScheduleError(
                "the arrays fit into the caches, so streaming stores are not allowed"
            )
        if not self.limits.allow(schedule, self.nest):
            raise ScheduleError(
                f"schedule '{schedule}' exceeds the machine's limits: {self.limits.max_unrolled} "
                f"copies of the body, {2 * self.limits.registers} vectors of sums, and streaming "
                "stores only of whole vectors"
            )

    def built(self, state: GameState) -> Schedule:
        """The schedule that is compiled and measured: the state's own, or with automatic marks."""
        if self.preset is Preset.FULL:
            return state.schedule
        return finish(state.schedule, self.nest, self.limits)


def untuned(nest: Nest) -> Schedule:
    """The nest's loops in their own order, except that the best to vectorise is innermost."""
    names = [name for name, extent in nest.loops if extent > 1]
    reduced = nest.reduction_loops
    able = [name for name in names if can_vectorize(name, nest)]
    if able:
        best = min(able, key=lambda name: (name in reduced, -nest.extent(name)))
        names.remove(best)
        names.append(best)
    return Schedule(tuple(map(Loop, names)))


def _covering(schedule: Schedule, at: int) -> int:
    """The index, after a merge, of the loop that covers the range of the removed one."""
    variable = schedule.loops[at].variable
    inner = [
        place
        for place in range(at + 1, len(schedule.loops))
        if schedule.loops[place].variable == variable
    ]
    return inner[0] - 1 if inner else at - 1
