"""The nest solver: its slots, and the limits of the machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cpus import SKYLAKE_AVX512
from skipjack.core import Config
from skipjack.operations import parse
from skipjack.solvers.cpu.nest_code.solver import NestSolver

ONE = replace(SKYLAKE_AVX512, caches=(("L1", 1 << 15), ("L3", 1 << 20)))
FOUR = replace(ONE, units=4)


@pytest.mark.parametrize(
    ("schedule", "services"),
    [
        ("i0:2 r1:16 i0/u r1/v", []),
        ("i0:2/p r1:16 i0/u r1/v", ["@parallel:4", 4]),
        ("r1:512/p i0 r1:16 r1/v", ["@parallel:4", 4, "@workspace:512"]),
    ],
)
def test_slots_are_arrays_then_threads_then_room_for_partial_results(
    schedule: str, services: list[str | int]
) -> None:
    problem = parse("sum:10x1024/axis=1")
    slots = NestSolver().slots(problem, FOUR, Config(schedule=schedule))
    assert list(slots) == ["x", "out", *services]


@pytest.mark.parametrize(("elements", "expected"), [(1 << 16, False), (1 << 19, True)])
def test_arrays_beyond_the_last_cache_are_offered_stores_past_it(
    elements: int, expected: bool
) -> None:
    space = NestSolver().space(parse(f"relu:{elements}"), ONE)
    found = [str(config["schedule"]) for config in space.promising(16)]
    assert any(text.endswith("/s") for text in found) is expected
