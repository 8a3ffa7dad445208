"""What a step of a game is worth."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import log2

_FAILED = 16.0
"""A schedule that cannot be built or ran wrong counts as so many times as slow as the start."""


class GameReward(StrEnum):
    """Which reward is given.

    Those of all steps add up to what the last one would give from the start.
    """

    FLOPS_GAIN = "flops_gain"
    """What the rate gained, as a share of the machine's peak; LoopTune's."""
    LOG_SPEEDUP = "log_speedup"
    """log2 of the time before over the time after."""
    FINAL = "final"
    """0, and at the end of an episode log2 of the first time over the last one."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of a run at the start, before a step and after it; None for what cannot run."""

    start: float | None
    before: float | None
    after: float | None


def reward_of(kind: GameReward, times: StepTimes, *, flops: int, peak: float, ended: bool) -> float:
    """The reward of a step; `peak` are the most operations in a second."""
    if kind is GameReward.FLOPS_GAIN:
        return (_rate(times.after, flops) - _rate(times.before, flops)) / peak
    if kind is GameReward.LOG_SPEEDUP:
        return _speedup(times.before, times.after, times.start)
    return _speedup(times.start, times.after, times.start) if ended else 0.0


def _rate(seconds: float | None, flops: int) -> float:
    return flops / seconds if seconds else 0.0


def _speedup(before: float | None, after: float | None, start: float | None) -> float:
    slow = (start or 1.0) * _FAILED
    return log2((before or slow) / (after or slow))
