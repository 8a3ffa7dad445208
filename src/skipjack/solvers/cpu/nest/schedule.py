"""A schedule: in which order, in which steps and how the loops of a nest run.

A schedule is a list of loops, outermost first. Its text has one word per loop::

    m:12 n:32 k m/u n/v

reads: m in steps of 12, n in steps of 32, k one by one, then the 12 values of m unrolled and the 32
values of n as vectors. A loop with step s runs over its range (the step of the next outer loop on
the same variable, else the extent) in strides of s. Where s does not divide the range, the last
stride is shorter, and the inner loops on that variable cover just what is left.

From outside in, a legal schedule has parallel loops, plain loops, and a marked suffix (unrolled,
vectorised, accumulating) that becomes straight-line code. Legal schedules are in normal form, and
text and schedule map one to one.

====  ==================================================================================
mark  the loop
====  ==================================================================================
`p`   is shared out to threads. Several such loops, each on another variable, are shared
      out together. A loop that reduces can be parallel where it is the only one: every
      thread has a partial result, and these are combined at the end
`u`   is unrolled
`a`   is unrolled, and each copy of a reduction has an accumulator of its own
`v`   lies in vectors
`s`   lies in vectors that are stored past the caches
====  ==================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from skipjack.core.nest import Nest
from skipjack.errors import ScheduleError


class Mark(StrEnum):
    """How a loop runs."""

    NONE = ""
    VECTORIZE = "v"
    UNROLL = "u"
    ACCUMULATE = "a"  # unrolled, each copy with an accumulator of its own
    PARALLEL = "p"
    STREAM = "s"  # vectorised, and stored past the caches

    @property
    def in_suffix(self) -> bool:
        """Whether loops so marked become straight-line code at the bottom of the nest."""
        return self not in (Mark.NONE, Mark.PARALLEL)

    @property
    def in_vectors(self) -> bool:
        """Whether the elements of loops so marked lie in vectors."""
        return self in (Mark.VECTORIZE, Mark.STREAM)


MAX_STEP = 10**18 - 1
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_WORD = re.compile(r"([A-Za-z_]\w*)(?::([1-9]\d{0,17}))?(?:/([vuaps]))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop: its variable, how far it goes at a time, and how it runs."""

    variable: str
    step: int = 1
    mark: Mark = Mark.NONE

    def __post_init__(self) -> None:
        if not _VARIABLE.fullmatch(self.variable):
            raise ScheduleError(
                f"a loop cannot be named {self.variable!r}; use letters, digits and underscores"
            )
        if not 1 <= self.step <= MAX_STEP:
            raise ScheduleError(f"the loop on {self.variable} cannot go in steps of {self.step}")

    def text(self) -> str:
        """``variable[:step][/mark]``."""
        step = f":{self.step}" if self.step != 1 else ""
        mark = f"/{self.mark}" if self.mark else ""
        return f"{self.variable}{step}{mark}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The loops of a nest, outermost first."""

    loops: tuple[Loop, ...]

    def text(self) -> str:
        """The loops' texts joined by spaces; `parse` gives the schedule back."""
        return " ".join(loop.text() for loop in self.loops)

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """The schedule with exactly this text."""
        return cls(tuple(map(_parse_loop, text.split(" "))) if text else ())

    def chain(self, variable: str) -> tuple[Loop, ...]:
        """The loops on one variable, outermost first."""
        return tuple(loop for loop in self.loops if loop.variable == variable)

    @property
    def suffix_start(self) -> int:
        """Position of the first loop of the marked suffix; the number of loops if there is none."""
        start = len(self.loops)
        while start and self.loops[start - 1].mark.in_suffix:
            start -= 1
        return start

    @property
    def vectorized(self) -> Loop | None:
        """The loop that lies in vectors, if there is one."""
        return next((loop for loop in self.loops if loop.mark.in_vectors), None)

    def __str__(self) -> str:
        return self.text()


def _parse_loop(word: str) -> Loop:
    match = _WORD.fullmatch(word)
    if not match:
        raise ScheduleError(
            f"{word!r} is not a loop of a schedule; write variable[:step][/mark] with a mark of "
            "v, s, u, a or p, and one space between loops, as in 'm:4 n:64 k m/u n/v'"
        )
    if match[2] == "1":
        raise ScheduleError(f"{word!r} in a schedule: a step of 1 is left out")
    return Loop(match[1], int(match[2] or 1), Mark(match[3] or ""))


def ranges(schedule: Schedule, nest: Nest) -> tuple[int, ...]:
    """The range of every loop: how many elements of its variable it covers."""
    left = dict(nest.loops)
    found = []
    for loop in schedule.loops:
        found.append(left[loop.variable])
        left[loop.variable] = loop.step
    return tuple(found)


def loop_range(schedule: Schedule, position: int, nest: Nest) -> int:
    """Elements of its variable that a loop covers: the next outer loop's step, else the extent."""
    return ranges(schedule, nest)[position]


def normalize(loops: Iterable[Loop], nest: Nest) -> Schedule:
    """The schedule without the loops that run once; it means the same."""
    left = dict(nest.loops)
    kept = []
    for loop in loops:
        if loop.step < left[loop.variable]:
            kept.append(loop)
            left[loop.variable] = loop.step
    return Schedule(tuple(kept))


def long_variables(nest: Nest) -> tuple[str, ...]:
    """The variables that have loops: those that run more than once."""
    return tuple(name for name, extent in nest.loops if extent > 1)
