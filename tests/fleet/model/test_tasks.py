"""Tasks as they travel, also those that an earlier version wrote."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skipjack.core import Device
from skipjack.execute import Message
from skipjack.fleet.model import JobKind, JobPlan, JobStage, Task

TASK = Task(1, JobStage.BUILD, JobPlan("matmul:8x8x8", "znver4/1"), Device("cpu", "znver4", 1))


@pytest.mark.parametrize(
    ("solver", "searcher", "expected"),
    [
        ("nest", "genetic", ("nest", "genetic", JobKind.TUNE, "")),
        ("find", "auto", ("auto", "auto", JobKind.FIND, "")),
        ("kernels", "auto", ("auto", "auto", JobKind.KERNELS, "")),
        ("miopen", "auto", ("miopen", "auto", JobKind.TUNE, "miopen")),
        ("find", "miopen", ("auto", "auto", JobKind.FIND, "miopen")),
        ("kernels", "miopen", ("auto", "auto", JobKind.KERNELS, "miopen")),
    ],
)
def test_a_plan_of_format_1_is_given_its_kind_and_driver(
    solver: str, searcher: str, expected: tuple[str, str, JobKind, str]
) -> None:
    body = TASK.message().body
    plan = {name: body["plan"][name] for name in body["plan"] if name not in ("kind", "driver")}
    old = {**body, "format": 1, "plan": {**plan, "solver": solver, "searcher": searcher}}
    read = Task.of(Message(old, ()))
    assert (read.plan.solver, read.plan.searcher, read.plan.kind, read.plan.driver) == expected
    assert replace(read, plan=TASK.plan) == TASK
