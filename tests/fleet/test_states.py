"""The life of a job."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.fleet.states import (
    MOST_FAILURES,
    MOST_LOSSES,
    Aborted,
    ArtifactLost,
    Built,
    Claimed,
    Event,
    Failed,
    IllegalStepError,
    Inapplicable,
    Lost,
    Released,
    Reset,
    Resumed,
    Stage,
    Standing,
    State,
    Told,
    advance,
)


def after(*events: Event, start: Standing | None = None) -> Standing:
    job = start or Standing()
    for event in events:
        job = advance(job, event)
    return job


def test_a_round_is_claimed_built_claimed_and_told() -> None:
    job = after(Claimed(), Built(), Claimed(), Told(finished=True))
    assert job == Standing(State.EVALUATED)


def test_with_budget_left_the_next_round_is_new() -> None:
    job = after(Claimed(), Built(), Claimed(), Told(finished=False))
    assert job == Standing(State.NEW, round=1)


def test_an_evaluator_that_fails_leaves_what_was_built() -> None:
    job = after(Claimed(), Built(), Claimed(), Failed("no disk"))
    assert (job.state, job.failures, job.reason) == (State.BUILT, 1, "no disk")


def test_too_many_failures_are_an_error_that_names_its_stage() -> None:
    tries = [event for _ in range(MOST_FAILURES) for event in (Claimed(), Failed("again"))]
    job = after(*tries)
    assert (job.state, job.stage, job.reason) == (State.ERROR, Stage.BUILD, "again")


def test_workers_that_vanish_are_forgiven_more_often() -> None:
    tries = [event for _ in range(MOST_LOSSES - 1) for event in (Claimed(), Lost("killed"))]
    job = after(*tries)
    assert job.state is State.NEW
    assert after(Claimed(), Lost("killed"), start=job).state is State.ERROR


def test_what_went_well_ends_the_count_of_failures() -> None:
    job = after(Claimed(), Failed("once"), Claimed(), Built())
    assert (job.failures, job.losses, job.reason) == (0, 0, "")


def test_given_back_is_no_failure() -> None:
    assert after(Claimed(), Released("interrupted")) == Standing()


def test_lost_machine_code_is_built_again() -> None:
    job = after(Claimed(), Built(), Claimed(), ArtifactLost("gone"))
    assert (job.state, job.round) == (State.NEW, 0)


def test_an_aborted_job_goes_on_where_it_was() -> None:
    job = after(Claimed(), Built(), Claimed(), Aborted("stop"))
    assert (job.state, job.resume) == (State.ABORTED, State.BUILT)
    assert after(Resumed(), start=job) == Standing(State.BUILT)


def test_an_error_of_an_evaluation_can_be_reset_to_built_and_that_of_a_build_cannot() -> None:
    failed = replace(Standing(State.ERROR, reason="x"), stage=Stage.EVALUATE)
    assert after(Reset(State.BUILT), start=failed).state is State.BUILT
    with pytest.raises(IllegalStepError, match="cannot be reset to built"):
        after(Reset(State.BUILT), start=replace(failed, stage=Stage.BUILD))


def test_a_finished_job_starts_over_in_a_new_epoch() -> None:
    job = after(Reset(State.NEW), start=Standing(State.EVALUATED, epoch=2, round=5))
    assert job == Standing(State.NEW, epoch=3)


@pytest.mark.parametrize("state", [State.BUILDING, State.EVALUATING])
def test_nobody_resets_what_somebody_works_on(state: State) -> None:
    with pytest.raises(IllegalStepError):
        advance(Standing(state), Reset(State.NEW))


EVENTS: list[Event] = [
    *(Claimed(), Built(), Told(True), Told(False), Inapplicable("n"), Failed("f"), Lost("l")),
    *(Released("r"), ArtifactLost("a"), Aborted("x"), Resumed(), Reset(State.NEW)),
    Reset(State.BUILT),
]


@given(st.lists(st.sampled_from(EVENTS), max_size=60))
def test_whatever_happens_the_invariants_of_the_tables_hold(events: list[Event]) -> None:
    job = Standing()
    for event in events:
        try:
            job = advance(job, event)
        except IllegalStepError:
            continue
        assert (job.stage is not None) == (job.state is State.ERROR)
        assert (job.resume is not None) == (job.state is State.ABORTED)
        assert job.state is not State.ERROR or job.reason
        assert job.failures <= MOST_FAILURES and job.losses <= MOST_LOSSES


@given(st.lists(st.sampled_from(EVENTS), max_size=60))
def test_every_job_can_still_be_finished(events: list[Event]) -> None:
    job = Standing()
    for event in events:
        try:
            job = advance(job, event)
        except IllegalStepError:
            continue
    if job.state.claimed:
        job = advance(job, Released("end"))
    if job.state is not State.BUILT:
        job = advance(job, Reset(State.NEW))
        job = after(Claimed(), Built(), start=job)
    assert after(Claimed(), Told(finished=True), start=job).state is State.EVALUATED
