"""A job of which nothing can be built is in error, with the reason; it is not called built."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from skipjack import plugins
from skipjack.devices import describe
from skipjack.fleet.model import JobPlan, JobStage, Task, TaskOutcome
from skipjack.fleet.work import Worker, make_worker
from skipjack.native import cpu
from skipjack.solvers.gpu.triton import compilation

DOOMED = Path(__file__).with_name("doomed_solver.py")
HERE = cpu.detect()


@pytest.fixture
def builder(user_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    monkeypatch.setenv(plugins.VARIABLE, "")
    plugins.load((str(DOOMED),))
    monkeypatch.setenv(plugins.VARIABLE, str(DOOMED))
    made = make_worker(JobStage.BUILD)
    yield made
    made.close()


def build(builder: Worker, problem: str, round_: int = 6) -> TaskOutcome:
    plan = JobPlan(problem, HERE.name, "doomed", "exhaustive", budget=6, round=round_)
    return builder.perform(Task(1, JobStage.BUILD, plan, HERE))


def test_a_job_whose_builds_all_fail_is_hopeless_for_the_most_common_reason(
    builder: Worker,
) -> None:
    outcome = build(builder, "add:991:f32")
    assert "none of 6 configs" in outcome.failed and "out of luck" in outcome.failed
    assert "(5 of 6)" in outcome.failed
    assert outcome.hopeless and not outcome.inapplicable


def test_a_round_that_fails_whole_is_followed_by_what_the_budget_has_left(builder: Worker) -> None:
    outcome = build(builder, "add:2003:f32", round_=2)
    assert not outcome.failed
    assert len(outcome.digests) == 2, "what was built, and the default beside it"
    assert (outcome.trials, outcome.failed_trials) == (5, 5)


def test_a_machine_without_triton_blames_itself_and_not_the_problem(
    builder: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "missing", lambda: "Triton is not installed here")
    plan = JobPlan("matmul:64x64x64:f16", "sm_90/132", budget=2, round=2)
    outcome = builder.perform(Task(1, JobStage.BUILD, plan, describe("sm_90/132")))
    assert "Triton is not installed" in outcome.failed
    assert not outcome.hopeless and not outcome.inapplicable
