"""Spaces of observations, of one size for every nest, and the reward of a step."""

from __future__ import annotations

import string
from dataclasses import dataclass
from enum import StrEnum
from math import log2
from typing import Any

import numpy as np
from gymnasium import spaces

from skipjack.learn.loops import (
    GLOBAL_COLUMNS,
    LOOP_COLUMNS,
    MAX_LOOPS,
    ROW_COLUMNS,
    STRIDE_BINS,
    Preset,
    check_observation,
)

# Spaces of observations, of one size for every nest.

_LONGEST = 1 << 13
_MOST_BITS = 64.0
_MOST = 8.0


class GraphSpace(spaces.Space[Any]):
    """Directed graphs of networkx; a sample is one without nodes."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(None, None, seed)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> Any:
        """An empty graph."""
        from networkx import DiGraph

        return DiGraph()

    def contains(self, x: Any) -> bool:
        """Whether it is a graph."""
        from networkx import DiGraph

        return isinstance(x, DiGraph)

    @property
    def is_np_flattenable(self) -> bool:
        """Graphs cannot be flattened to arrays."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphSpace)

    __hash__ = spaces.Space.__hash__


def observation_space(
    names: str | tuple[str, ...], preset: Preset, *, action_mask: bool = False
) -> spaces.Space[Any]:
    """The space of one observation or of a dictionary of several, optionally with the mask."""
    if isinstance(names, str):
        space = _one(names, preset)
    else:
        space = spaces.Dict({name: _one(name, preset) for name in names})
    if not action_mask:
        return space
    mask = spaces.Box(0, 1, (len(preset.actions),), np.int8)
    parts = space.spaces if isinstance(space, spaces.Dict) else {"observations": space}
    return spaces.Dict({**parts, "action_mask": mask})


def with_mask(observation: Any, mask: Any) -> dict[str, Any]:
    """An observation with the mask, as an element of `observation_space`."""
    parts = observation if isinstance(observation, dict) else {"observations": observation}
    return {**parts, "action_mask": mask}


def _one(name: str, preset: Preset) -> spaces.Space[Any]:
    check_observation(name)
    match name:
        case "runtime" | "flops":
            return spaces.Box(0.0, float(np.finfo(np.float32).max), (1,), np.float32)
        case "ir" | "loop_tree":
            return spaces.Text(_LONGEST, charset=string.printable)
        case "loops_tensor":
            return spaces.Box(0.0, _MOST_BITS, (MAX_LOOPS, len(LOOP_COLUMNS)), np.float32)
        case "stride_tensor":
            return spaces.Box(0.0, _MOST_BITS, (STRIDE_BINS,), np.float32)
        case "5_prev_actions_tensor":
            return spaces.Box(0.0, 1.0, (5 * len(preset.actions),), np.float32)
        case "policy":
            return spaces.Dict(
                {
                    "loops": spaces.Box(-_MOST, _MOST, (MAX_LOOPS, len(ROW_COLUMNS)), np.float32),
                    "rows": spaces.Box(0, 1, (MAX_LOOPS,), np.int8),
                    "globals": spaces.Box(-_MOST, _MOST, (len(GLOBAL_COLUMNS),), np.float32),
                }
            )
    return GraphSpace()


# The reward of a step of a game.

_FAILED = 16.0
"""A failed schedule counts as this many times as slow as the start."""


class GameReward(StrEnum):
    """Kinds of rewards.

    The rewards of all steps add up to that of one step from the first to the last state.
    """

    FLOPS_GAIN = "flops_gain"
    """The gain of the rate relative to the machine's peak, as in LoopTune."""
    LOG_SPEEDUP = "log_speedup"
    """log2 of the time before a step over the time after it."""
    FINAL = "final"
    """0, except at the end of an episode: log2 of the first time over the last one."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds at the start, before a step and after it; None for schedules that cannot run."""

    start: float | None
    before: float | None
    after: float | None


def reward_of(kind: GameReward, times: StepTimes, *, flops: int, peak: float, ended: bool) -> float:
    """The reward of a step; `peak` is in operations per second."""
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
