"""Labels whose jobs are not done are not exported as if they were."""

from dataclasses import replace

import pytest
from made_up import CPU, add_job

from skipjack.errors import UsageError
from skipjack.fleet.model import JobKind, JobPlan, JobState
from skipjack.fleet.release.results import CACHED, CONFIGS, RANKINGS, TUNINGS, readiness_of
from skipjack.fleet.store import Store


def keyed(number: int, kind: JobKind = JobKind.FIND, device: str = CPU) -> JobPlan:
    return JobPlan(f"matmul:{number}x8x8:f32", device, kind=kind)


def test_unfinished_jobs_are_counted_and_can_be_left_out(shelf: Store) -> None:
    add_job(shelf, keyed(1), {})
    add_job(shelf, keyed(2), state=JobState.NOT_APPLICABLE)
    for number, state in ((3, JobState.NEW), (4, JobState.NEW), (5, JobState.ERROR)):
        add_job(shelf, keyed(number), state=state)
    add_job(shelf, keyed(6, JobKind.TUNE), state=JobState.NEW)
    found = readiness_of(shelf, "L", RANKINGS)
    says = (
        r"label L has 3 of 5 find jobs that are not finished \(2 new, 1 error\); finish them with "
        r"skipjack reset -l L --state error --to new and skipjack run -l L --find, "
        r"or export the existing results with --partial"
    )
    with pytest.raises(UsageError, match=says):
        found.check()
    found.check(partial=True)
    assert (found.unfinished, found.not_applicable) == (3, 1)
    with pytest.raises(UsageError, match=r"4 of 6 jobs.*run -l L and skipjack run -l L --find"):
        readiness_of(shelf, "L", CONFIGS).check()


def test_the_jobs_of_one_device_may_be_done(shelf: Store) -> None:
    add_job(shelf, keyed(1), {})
    add_job(shelf, keyed(1, device="gfx900/56"), state=JobState.ABORTED)
    readiness_of(shelf, "L", RANKINGS, CPU).check()
    with pytest.raises(UsageError, match=r"no finished job.*1 aborted.*skipjack resume -l L"):
        readiness_of(shelf, "L", RANKINGS, "gfx900/56").check(partial=True)


def test_tunings_of_miopen_that_stand_for_finds_are_called_tunings(shelf: Store) -> None:
    for number in (1, 2):
        plan = replace(keyed(number, JobKind.TUNE), solver="miopen", driver="miopen")
        add_job(shelf, plan, state=JobState.NEW)
    with pytest.raises(
        UsageError, match=r"among its 2 tuning jobs \(2 new\); run them with .*-l L$"
    ):
        readiness_of(shelf, "L", RANKINGS).check()
    add_job(shelf, keyed(1), state=JobState.NEW)
    with pytest.raises(UsageError, match=r"among its 3 tuning and find jobs \(3 new\)"):
        readiness_of(shelf, "L", RANKINGS).check()


def test_without_jobs_of_the_kind_the_command_is_named(shelf: Store) -> None:
    add_job(shelf, keyed(1, JobKind.TUNE), {})
    with pytest.raises(UsageError, match="no find jobs; skipjack run -l L --find creates"):
        readiness_of(shelf, "L", RANKINGS).check()
    with pytest.raises(UsageError, match="no kernel-cache jobs; skipjack run -l L --kernel-cache"):
        readiness_of(shelf, "L", CACHED).check()
    readiness_of(shelf, "L", TUNINGS).check()
    add_job(shelf, keyed(2), {}, label="M")
    with pytest.raises(UsageError, match="no tuning jobs; skipjack load -l M"):
        readiness_of(shelf, "M", TUNINGS).check()
