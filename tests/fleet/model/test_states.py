"""The life of a job."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.fleet.model import (
    Aborted,
    ArtifactLost,
    Built,
    Claimed,
    Event,
    Failed,
    IllegalStepError,
    Inapplicable,
    JobStage,
    JobState,
    JobStatus,
    Lost,
    Released,
    Reset,
    Resumed,
    Told,
    advance,
)
from skipjack.fleet.model.states import MOST_FAILURES, MOST_LOSSES


def after(*events: Event, start: JobStatus | None = None) -> JobStatus:
    job = start or JobStatus()
    for event in events:
        job = advance(job, event)
    return job


def test_a_round_is_claimed_built_claimed_and_told() -> None:
    job = after(Claimed(), Built(), Claimed(), Told(finished=True))
    assert job == JobStatus(JobState.EVALUATED)


def test_with_budget_left_the_next_round_is_new() -> None:
    job = after(Claimed(), Built(), Claimed(), Told(finished=False))
    assert job == JobStatus(JobState.NEW, round=1)


def test_an_evaluator_that_fails_leaves_what_was_built() -> None:
    job = after(Claimed(), Built(), Claimed(), Failed("no disk"))
    assert (job.state, job.failures, job.reason) == (JobState.BUILT, 1, "no disk")


def test_too_many_failures_are_an_error_that_names_its_stage() -> None:
    tries = [event for _ in range(MOST_FAILURES) for event in (Claimed(), Failed("again"))]
    job = after(*tries)
    assert (job.state, job.stage, job.reason) == (JobState.ERROR, JobStage.BUILD, "again")


def test_workers_that_vanish_are_forgiven_more_often() -> None:
    tries = [event for _ in range(MOST_LOSSES - 1) for event in (Claimed(), Lost("killed"))]
    job = after(*tries)
    assert job.state is JobState.NEW
    assert after(Claimed(), Lost("killed"), start=job).state is JobState.ERROR


def test_what_went_well_ends_the_count_of_failures() -> None:
    job = after(Claimed(), Failed("once"), Claimed(), Built())
    assert (job.failures, job.losses, job.reason) == (0, 0, "")


def test_given_back_is_no_failure() -> None:
    assert after(Claimed(), Released("interrupted")) == JobStatus()


def test_lost_machine_code_is_built_again() -> None:
    job = after(Claimed(), Built(), Claimed(), ArtifactLost("gone"))
    assert (job.state, job.round) == (JobState.NEW, 0)


def test_an_aborted_job_goes_on_where_it_was() -> None:
    job = after(Claimed(), Built(), Claimed(), Aborted("stop"))
    assert (job.state, job.resume) == (JobState.ABORTED, JobState.BUILT)
    assert after(Resumed(), start=job) == JobStatus(JobState.BUILT)


def test_an_error_of_an_evaluation_can_be_reset_to_built_and_that_of_a_build_cannot() -> None:
    failed = replace(JobStatus(JobState.ERROR, reason="x"), stage=JobStage.EVALUATE)
    assert after(Reset(JobState.BUILT), start=failed).state is JobState.BUILT
    with pytest.raises(IllegalStepError, match="cannot be reset to built"):
        after(Reset(JobState.BUILT), start=replace(failed, stage=JobStage.BUILD))


def test_a_finished_job_starts_over_in_a_new_epoch() -> None:
    job = after(Reset(JobState.NEW), start=JobStatus(JobState.EVALUATED, epoch=2, round=5))
    assert job == JobStatus(JobState.NEW, epoch=3)


@pytest.mark.parametrize("state", [JobState.BUILDING, JobState.EVALUATING])
def test_nobody_resets_what_somebody_works_on(state: JobState) -> None:
    with pytest.raises(IllegalStepError):
        advance(JobStatus(state), Reset(JobState.NEW))


EVENTS: list[Event] = [
    *(Claimed(), Built(), Told(True), Told(False), Inapplicable("n"), Failed("f"), Lost("l")),
    *(Released("r"), ArtifactLost("a"), Aborted("x"), Resumed(), Reset(JobState.NEW)),
    Reset(JobState.BUILT),
]


@given(st.lists(st.sampled_from(EVENTS), max_size=60))
def test_whatever_happens_the_invariants_of_the_tables_hold(events: list[Event]) -> None:
    job = JobStatus()
    for event in events:
        try:
            job = advance(job, event)
        except IllegalStepError:
            continue
        assert (job.stage is not None) == (job.state is JobState.ERROR)
        assert (job.resume is not None) == (job.state is JobState.ABORTED)
        assert job.state is not JobState.ERROR or job.reason
        assert job.failures <= MOST_FAILURES and job.losses <= MOST_LOSSES


@given(st.lists(st.sampled_from(EVENTS), max_size=60))
def test_every_job_can_still_be_finished(events: list[Event]) -> None:
    job = JobStatus()
    for event in events:
        try:
            job = advance(job, event)
        except IllegalStepError:
            continue
    if job.state.claimed:
        job = advance(job, Released("end"))
    if job.state is not JobState.BUILT:
        job = advance(job, Reset(JobState.NEW))
        job = after(Claimed(), Built(), start=job)
    assert after(Claimed(), Told(finished=True), start=job).state is JobState.EVALUATED
