"""Faster, equal or slower: what two timings of a problem's winners say, and how sure that is.

Times of two sessions differ by more than the kernels do. So a difference counts only if it is
larger than both spreads together and than a minimum effect; what is smaller is called equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from skipjack.core.times import possible_time


class Verdict(StrEnum):
    """How the new winner of a problem compares with the baseline's."""

    FASTER = "faster"
    EQUAL = "equal"
    SLOWER = "slower"
    ADDED = "added"  # the baseline has no result
    MISSING = "missing"  # the baseline has a result, the new side has none
    NEITHER = "neither"  # somebody tried, nobody has a result
    IMPOSSIBLE = "impossible"  # a time that cannot be: zero, negative, no number
    UNRELATED = "unrelated"  # a side has no time of the solver that times are relative to

    @property
    def compared(self) -> bool:
        """Whether there are two times to compare."""
        return self in (Verdict.FASTER, Verdict.EQUAL, Verdict.SLOWER)


@dataclass(frozen=True, slots=True)
class Margin:
    """What a difference must exceed to count."""

    min_effect: float = 0.01
    assumed_spread: float = 0.03
    """Of times whose spread nobody wrote down, as in MIOpen's files."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One side's winner."""

    solver: str
    time_ns: float
    spread: float | None = None
    """Relative to the time; None if it is not known."""
    samples: int = 0
    reference_ns: float | None = None
    """Of the solver that times are relative to, on the same side."""
    reference_spread: float | None = None

    @property
    def possible(self) -> bool:
        """Whether anything can take such a time."""
        return possible_time(self.time_ns) and (
            self.reference_ns is None or possible_time(self.reference_ns)
        )

    @property
    def value(self) -> float:
        """What is compared: the time, or its multiple of the reference's."""
        return self.time_ns / self.reference_ns if self.reference_ns else self.time_ns

    def doubt(self, margin: Margin) -> float:
        """How far off the value may be, as a share of it."""
        own = _known(self.spread, margin)
        if self.reference_ns is None:
            return own
        return math.hypot(own, _known(self.reference_spread, margin))


@dataclass(frozen=True, slots=True)
class Compared:
    """One problem on both sides."""

    problem: str
    find_key: str | None
    device: str
    verdict: Verdict
    new: Timing | None = None
    old: Timing | None = None
    gain: float | None = None
    """How many times as fast as the baseline; None if it was not compared."""
    doubt: float = 0.0
    """The share by which the gain may be off."""
    reason: str = ""
    """Why a side has no result, or why it does not count."""

    @property
    def name(self) -> str:
        """How people know the problem."""
        return self.problem or self.find_key or ""

    @property
    def winner_changed(self) -> bool:
        """Whether another solver won."""
        return bool(self.new and self.old and self.new.solver != self.old.solver)

    @property
    def low(self) -> float:
        """The gain at worst."""
        return (self.gain or math.nan) / (1 + self.doubt)

    @property
    def high(self) -> float:
        """The gain at best."""
        return (self.gain or math.nan) * (1 + self.doubt)

    @property
    def sure_slowdown(self) -> float:
        """By what share it is slower beyond doubt; 0 if it may be no slower."""
        return max(0.0, 1 / self.high - 1) if self.verdict is Verdict.SLOWER else 0.0


@dataclass(frozen=True, slots=True)
class Subject:
    """What a comparison is about."""

    problem: str
    find_key: str | None
    device: str


def judge(
    subject: Subject, new: Timing, old: Timing, margin: Margin, *, relative: bool = False
) -> Compared:
    """Compare the winners of both sides, `relative` to what was timed beside each."""
    about = (subject.problem, subject.find_key, subject.device)
    for timing, side in ((new, "new"), (old, "baseline's")):
        if not timing.possible:
            why = f"the {side} time of {timing.solver} is {timing.time_ns:g} ns"
            return Compared(*about, Verdict.IMPOSSIBLE, new, old, reason=why)
    if relative and None in (new.reference_ns, old.reference_ns):
        side = "new side" if new.reference_ns is None else "baseline"
        why = f"the {side} has no time of the solver that times are relative to"
        return Compared(*about, Verdict.UNRELATED, new, old, reason=why)
    gain = old.value / new.value
    doubt = math.hypot(new.doubt(margin), old.doubt(margin))
    return Compared(*about, _verdict(gain, doubt, margin), new, old, gain, doubt)


def _verdict(gain: float, doubt: float, margin: Margin) -> Verdict:
    limit = 1 + max(doubt, margin.min_effect)
    if gain > limit:
        return Verdict.FASTER
    return Verdict.SLOWER if gain < 1 / limit else Verdict.EQUAL


def _known(spread: float | None, margin: Margin) -> float:
    """A spread of NaN is what a time has that was measured once."""
    if spread is None or not math.isfinite(spread) or spread < 0:
        return margin.assumed_spread
    return spread
