"""A round is built by one worker and evaluated by another, which share nothing but the task."""

from dataclasses import replace
from pathlib import Path

import pytest
from job_rounds import HERE, plan, through

from skipjack.core import Device, features_of
from skipjack.fleet.model import JobStage, Task, TaskOutcome
from skipjack.fleet.work import Worker
from skipjack.ledger import Ledger, read_facts


def tells(outcomes: list[TaskOutcome]) -> list[dict[str, object]]:
    rows = [row for outcome in outcomes for row in read_facts(outcome.facts).get("study_log", [])]
    return [row for row in rows if row["kind"] == "tell"]


@pytest.mark.parametrize("searcher", ["auto", "genetic"])
def test_a_dynamic_search_goes_on_from_round_to_round(
    workers: dict[JobStage, Worker], searcher: str
) -> None:
    outcomes = through(workers, plan("softmax:16x64", searcher=searcher))
    assert [outcome.trials for outcome in outcomes] == [0, 4, 0, 2]
    told = [row["config"] for row in tells(outcomes)]
    assert len(told) == len(set(map(str, told))) == 6
    result = outcomes[-1].result
    assert result is not None and result["time_ns"] > 0 and result["toolchain"]
    assert result["trials"] == 6


def test_the_facts_of_all_rounds_make_a_ledger_with_one_verdict(
    workers: dict[JobStage, Worker], tmp_path: Path
) -> None:
    outcomes = through(workers, plan("matmul:16x16x16", budget=3, round=3))
    with Ledger.open(tmp_path / "ledger") as ledger:
        for outcome in [*outcomes, *outcomes]:
            ledger.add_facts(outcome.facts)
        assert ledger.summary().verdicts == 1
        assert ledger.summary().tells == 3
        (verdict,) = ledger.decisions()
        assert verdict.status == "banked"


def test_kernels_that_crash_hang_and_lie_are_trials(
    rogue_everywhere: Path, workers: dict[JobStage, Worker]
) -> None:
    everything = {"solver": "rogue", "searcher": "exhaustive", "budget": 6, "round": 6}
    outcomes = through(workers, plan("rogue:60", **everything))
    statuses = {str(row["status"]) for row in tells(outcomes)}
    assert {"ok", "crash", "timeout", "wrong"} <= statuses
    assert sum(outcome.failed_trials for outcome in outcomes) >= 4
    assert "SIGSEGV" in outcomes[-1].log


def test_missing_machine_code_is_said_and_the_round_built_again(
    workers: dict[JobStage, Worker],
) -> None:
    wanted = plan("matmul:16x16x16", budget=3, round=3)
    built = workers[JobStage.BUILD].perform(Task(1, JobStage.BUILD, wanted, HERE))
    lost = workers[JobStage.EVALUATE].perform(
        Task(1, JobStage.EVALUATE, wanted, HERE, facts=(built.facts,))
    )
    assert "missing" in lost.artifact_lost and not lost.failed
    again = workers[JobStage.BUILD].perform(Task(1, JobStage.BUILD, wanted, HERE))
    assert set(again.artifacts) == set(built.artifacts)
    told = workers[JobStage.EVALUATE].perform(
        Task(1, JobStage.EVALUATE, wanted, HERE, facts=(again.facts,), artifacts=again.artifacts)
    )
    assert told.finished and told.trials == 3


def test_a_builder_brings_the_code_of_the_leaders_along(workers: dict[JobStage, Worker]) -> None:
    first, _, second, last = through(workers, plan("softmax:16x64"))
    assert len(second.digests) > 2 and set(second.digests) & set(first.digests)
    assert last.trials == 2 and last.finished


def test_a_problem_that_no_solver_can_do_is_not_applicable(workers: dict[JobStage, Worker]) -> None:
    gpu = Device("gpu", "gfx900", 56)
    task = Task(1, JobStage.BUILD, plan("matmul:16x16x16", solver="depthwise"), HERE)
    assert "depthwise" in workers[JobStage.BUILD].perform(task).inapplicable
    far = Task(1, JobStage.BUILD, plan("matmul:16x16x16", device="gfx900/56"), gpu)
    assert "gfx900/56" in workers[JobStage.BUILD].perform(far).inapplicable


def test_code_for_another_processor_is_not_run(workers: dict[JobStage, Worker]) -> None:
    other = replace(HERE, features=features_of("aarch64"))
    outcome = workers[JobStage.EVALUATE].perform(
        Task(1, JobStage.EVALUATE, plan("matmul:16x16x16"), other)
    )
    assert "lacks features that the code was built for: cpu:aarch64" in outcome.failed


def test_starting_over_is_another_epoch_of_the_study(workers: dict[JobStage, Worker]) -> None:
    outcomes = through(workers, plan("matmul:16x16x16", budget=2, round=2), epoch=1)
    rows = [row for outcome in outcomes for row in read_facts(outcome.facts).get("study_log", [])]
    assert {row["epoch"] for row in rows} == {1}


def test_the_verdict_is_on_the_device_that_is_here_whatever_the_builder_knew_of_it(
    workers: dict[JobStage, Worker],
) -> None:
    by_name = replace(HERE, model="by its name", caches=(("L1", 32 << 10),), memory_bytes=0)
    wanted = plan("matmul:16x16x16", budget=2, round=2)
    built = workers[JobStage.BUILD].perform(Task(1, JobStage.BUILD, wanted, by_name))
    told = workers[JobStage.EVALUATE].perform(
        Task(1, JobStage.EVALUATE, wanted, by_name, facts=(built.facts,), artifacts=built.artifacts)
    )
    assert told.finished, told.failed
    (verdict,) = read_facts(told.facts)["verdicts"]
    assert verdict["device"] == HERE.class_key != by_name.class_key
