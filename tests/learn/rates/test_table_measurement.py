"""Which schedules tables have: of every sort, of the space, better ones near the best."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from skipjack.core import Problem
from skipjack.learn.loops import Preset, loop_game, untuned
from skipjack.learn.rates import MeasurePlan, measure_problem, played_schedules
from skipjack.learn.rates.rates import CountedRates
from skipjack.native import describe
from skipjack.operations import parse
from skipjack.solvers import find_solver
from skipjack.solvers.cpu.nest import Schedule, unrolled_copies

DEVICE = describe("skylake-avx512/1")
PROBLEM = parse("matmul:64x48x32")
SPACE = find_solver("nest").space(PROBLEM, DEVICE)


class PlantedTimes(CountedRates):
    """More copies are faster; a third of the schedules fails."""

    def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]:
        for schedule in schedules:
            self.count(problem, schedule, "planted")
        nest = loop_game(problem, DEVICE, Preset.FULL).nest
        return [
            None if len(one.text()) % 3 == 0 else 1e-3 / unrolled_copies(one, nest, 16)
            for one in schedules
        ]


def test_a_plan_has_as_many_as_it_is_asked_for() -> None:
    for count in (1, 10, 100, 272):
        plan = MeasurePlan.of(count)
        assert plan.promising + plan.played + plan.random + plan.bred == count
    assert MeasurePlan.of(272) == MeasurePlan()


def test_a_problem_is_measured_the_same_for_a_seed_and_in_its_space() -> None:
    found = [
        measure_problem(
            PROBLEM, DEVICE, PlantedTimes(), MeasurePlan.of(60), np.random.default_rng(1)
        )
        for _ in range(2)
    ]
    assert found[0] == found[1]
    assert 40 < len(found[0]) <= 60
    assert all(SPACE.contains({"schedule": text}) for text in found[0])  # type: ignore[arg-type]
    assert None in found[0].values()
    assert untuned(loop_game(PROBLEM, DEVICE, Preset.FULL).nest).text() in found[0]


def test_it_stops_when_it_is_told_to() -> None:
    rates, plan = PlantedTimes(), MeasurePlan(at_once=8)
    found = measure_problem(
        *(PROBLEM, DEVICE, rates, plan, np.random.default_rng(1)), lambda: rates.measured >= 24
    )
    assert len(found) == 24


def test_played_schedules_are_of_the_space_and_begin_untuned() -> None:
    games = [loop_game(PROBLEM, DEVICE, preset) for preset in Preset]
    found = list(islice(played_schedules(games, np.random.default_rng(0)), 20))
    assert len(set(found)) == 20
    assert all(SPACE.contains(SPACE.config(schedule)) for schedule in found)  # type: ignore[attr-defined]
    assert {untuned(games[0].nest), games[0].built(games[0].start())} == set(found[:2])
