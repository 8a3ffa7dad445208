"""Find and kernel jobs, built by one worker and evaluated by another."""

from dataclasses import replace
from typing import Any

import pytest
from job_rounds import HERE, plan, through

from skipjack.fleet.model import JobKind, JobStage, PriorResult, Task, TaskOutcome
from skipjack.fleet.work import Worker, job_handlers
from skipjack.ledger import read_facts
from skipjack.operations import parse
from skipjack.solvers import find_solver
from skipjack.tuning.study import buildable_solvers

SMALL, CONVOLUTION = "add:256", "conv2d:n1c4h6w6k4y3x3p1q1"
SLOW = PriorResult("nest", {"schedule": "i:128 i"})
"""A config that no searcher asks for: neither unrolled nor vectorized."""


def result_of(outcomes: list[TaskOutcome]) -> dict[str, Any]:
    assert outcomes[-1].result is not None
    return dict(outcomes[-1].result)


def test_a_find_ranks_everybody_with_libraries_and_what_is_known(
    workers: dict[JobStage, Worker],
) -> None:
    able = {solver.name for solver in buildable_solvers(parse(SMALL), HERE)}
    outcomes = through(workers, plan(SMALL, kind=JobKind.FIND, budget=2, round=2), known=(SLOW,))
    result = result_of(outcomes)
    ranked = [row for row in result["solvers"] if row["status"] == "ok"]
    assert result["status"] == "ok" and able < {row["solver"] for row in ranked}
    assert [row["time_ns"] for row in ranked] == sorted(row["time_ns"] for row in ranked)
    assert all(row["solver_version"] == find_solver(row["solver"]).version for row in ranked)
    assert result["toolchain"] and result["verdict"]["code"]["digest"]
    # what a tuning's result has is there too, of the first place
    assert (result["solver"], result["time_ns"]) == (ranked[0]["solver"], ranked[0]["time_ns"])
    rows = [row for outcome in outcomes for row in read_facts(outcome.facts).get("study_log", [])]
    assert SLOW.config["schedule"] in str([row["config"] for row in rows if row["kind"] == "tell"])
    found = read_facts(outcomes[-1].facts)["verdicts"]
    assert sorted(row["status"] for row in found) == ["banked", "found"]


def test_the_winner_is_built_checked_and_timed_once_and_no_verdict_is_kept(
    workers: dict[JobStage, Worker],
) -> None:
    version = find_solver("nest").version
    packing = plan(SMALL, kind=JobKind.KERNELS)
    outcomes = through(workers, packing, known=(replace(SLOW, solver_version=version),))
    result = result_of(outcomes)
    assert [outcome.trials for outcome in outcomes] == [0, 1]
    assert (result["solver"], result["config"]) == (SLOW.solver, SLOW.config)
    assert result["code"]["digest"] in outcomes[0].digests and result["time_ns"] > 0
    assert "verdicts" not in read_facts(outcomes[-1].facts)
    again = through(workers, packing, epoch=1, known=(SLOW,))
    assert "compiling again" in again[0].log and "compiling again" not in outcomes[0].log


def test_a_winner_of_another_version_of_its_solver_is_refused(
    workers: dict[JobStage, Worker],
) -> None:
    outdated = replace(SLOW, solver_version=10**6)
    task = Task(1, JobStage.BUILD, plan(SMALL, kind=JobKind.KERNELS), HERE, known=(outdated,))
    outcome = workers[JobStage.BUILD].perform(task)
    assert outcome.hopeless and "--find --fresh" in outcome.failed


def test_a_find_of_what_nobody_can_do_is_not_applicable(workers: dict[JobStage, Worker]) -> None:
    far = replace(HERE, kind="gpu", arch="gfx900", units=56)
    task = Task(1, JobStage.BUILD, plan(SMALL, kind=JobKind.FIND, device="gfx900/56"), far)
    assert "no solver" in workers[JobStage.BUILD].perform(task).inapplicable


@pytest.mark.long
def test_a_find_ends_although_the_builder_lacks_a_solver_of_the_evaluator(
    workers: dict[JobStage, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = buildable_solvers(parse(CONVOLUTION), HERE)

    finding_plan = plan(CONVOLUTION, kind=JobKind.FIND, budget=1, round=1)
    with monkeypatch.context() as builder:
        builder.setattr(job_handlers, "buildable_solvers", lambda problem, device: everybody[:1])
        built = workers[JobStage.BUILD].perform(Task(1, JobStage.BUILD, finding_plan, HERE))
    assert not built.failed
    told = workers[JobStage.EVALUATE].perform(
        Task(1, JobStage.EVALUATE, finding_plan, HERE, 0, 0, (built.facts,), built.artifacts)
    )
    assert told.finished and told.result is not None
    statuses = {row["solver"]: row["status"] for row in told.result["solvers"]}
    assert statuses[everybody[0].name] == "ok" and statuses[everybody[1].name] == "not_tried"
