"""Features of schedules of loop nests for rankers: those of the space, and those of costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Config, Device, Problem, Space
from skipjack.errors import SkipjackError
from skipjack.learn.costs import CostFacts, cost_facts, cost_features, shipped_model
from skipjack.solvers.cpu.nest import ScheduleSpace

_OF_LOOPS = ("step", "range", "mark", "tail", "depth")
_LOOPS = 3
"""Loops of each variable that the features of a space describe."""


def schedule_rows(
    problem: Problem, device: Device, space: Space, configs: Sequence[Config]
) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """Names and rows of features of schedules; the last is the estimate of the shipped cost model.

    The estimate is log2 of the time relative to one vector per nanosecond. It and the features of
    costs are missing in spaces of other nests than that of the problem, as in direct convolutions.
    """
    space = cast(ScheduleSpace, space)
    own = [space.features(config) for config in configs]
    names = ["schedule.copies", "schedule.accumulators", "schedule.loops"]
    for variable, _ in space.nest.loops:
        names += [f"loop.{variable}.{at}.{what}" for at in range(_LOOPS) for what in _OF_LOOPS]
    rows = np.array(own, np.float32).reshape(len(configs), -1)
    facts = _facts(problem, device, space)
    if facts is None:
        return tuple(names), rows
    costs = np.array(
        [cost_features(facts, space.schedule(config)) for config in configs], np.float32
    ).reshape(len(configs), -1)
    names += [f"cost.{number}" for number in range(costs.shape[1])]
    estimate = shipped_model().predict(costs)[:, None]
    return (*names, "estimate"), np.hstack([rows, costs, estimate])


def _facts(problem: Problem, device: Device, space: ScheduleSpace) -> CostFacts | None:
    if device.kind != "cpu":
        return None
    try:
        facts = cost_facts(problem, device)
    except SkipjackError:
        return None  # problems without a game
    return facts if facts.nest == space.nest else None
