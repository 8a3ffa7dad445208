"""Times that a test makes up: of every schedule, with one that is faster than all others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from skipjack.core import Problem
from skipjack.learn.loops import LoopGame, Preset
from skipjack.operations import parse
from skipjack.solvers.cpu.nest import Schedule, ScheduleLimits
from skipjack.testing.samples import matmul_nest

PROBLEM = parse("matmul:32x32x32")


def small_game(preset: Preset = Preset.LOOPTUNE) -> LoopGame:
    return LoopGame(matmul_nest(32, 32, 32), ScheduleLimits(8, 16, 512), preset=preset)


class PlantedRates:
    """Seconds by a function of the schedule."""

    def __init__(self, seconds: Callable[[Schedule], float | None]) -> None:
        self._seconds = seconds
        self.asked: list[Schedule] = []

    @property
    def measured(self) -> int:
        return len(set(self.asked))

    def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]:
        self.asked += schedules
        return [self._seconds(schedule) for schedule in schedules]


def scattered(schedule: Schedule) -> float | None:
    """A time that tells nothing of its neighbours; one in ten cannot be built."""
    number = int.from_bytes(hashlib.sha256(schedule.text().encode()).digest()[:4])
    return None if number % 10 == 0 else 1e-6 * (1 + number % 1009)
