"""Games with a known best schedule: every loop of it that is there makes the nest faster."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core import Nest, Problem
from skipjack.learn.loops import LoopGame, Preset
from skipjack.learn.training import Player
from skipjack.learn.training.episodes import view_of
from skipjack.operations import get, parse
from skipjack.solvers.cpu.nest import Schedule, ScheduleLimits

LIMITS = ScheduleLimits(lanes=8, registers=16, max_unrolled=512)
PROBLEM = "matmul:64x64x64"
WANTED = {("m", 8), ("k", 4)}
"""Variables and steps of loops."""
BEST_SPEED_UP = 4.0


def nest_of(text: str) -> Nest:
    problem = parse(text)
    return get(problem.operation).nest(problem)  # type: ignore[attr-defined,no-any-return]


class PlantedRates:
    """Twice as fast for each wanted loop."""

    def __init__(self) -> None:
        self.measured = 0

    def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]:
        self.measured += len(schedules)
        return [self._seconds(each) for each in schedules]

    def _seconds(self, schedule: Schedule) -> float:
        found = WANTED & {(loop.variable, loop.step) for loop in schedule.loops}
        return float(2.0 ** -len(found))


def planted_player(steps: int = 5) -> Player:
    game = LoopGame(nest_of(PROBLEM), LIMITS, preset=Preset.LOOPTUNE)
    return Player([parse(PROBLEM)], [game], PlantedRates(), steps)


def sizes_for(player: Player) -> dict[str, int]:
    """Of a small network for these games."""
    game = player.games[0]
    view = view_of(game, game.start())
    return {
        "row": view.rows.shape[2],
        "machine": view.machine.shape[1],
        "actions": view.mask.shape[1],
        "width": 16,
        "trunk": 32,
        "layers": 1,
    }
