"""Random operations on a store: the state of every job follows from its history."""

from __future__ import annotations

import tempfile
from pathlib import Path

from crew import (
    LABEL,
    RESULT,
    Crew,
    crew,
    found_out,
    load,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.fleet.model import (
    Aborted,
    ArtifactLost,
    Built,
    Claim,
    Claimed,
    ClaimResult,
    Event,
    Failed,
    Inapplicable,
    JobEvent,
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
from skipjack.fleet.store import Store, open_store
from skipjack.settings import load_settings

_EVENTS: list[Event] = [
    *(Built(), Built(), Built()),
    Told(False),
    *(Told(True), Told(True)),
    Inapplicable("no solver"),
    Failed("out of memory"),
    Lost("died"),
    Released("later"),
    ArtifactLost("gone"),
]
_SPELLED = {type(event).__name__.lower(): event for event in _EVENTS}

claiming = st.tuples(st.just("claim"), st.sampled_from(JobStage), st.integers(1, 3))
settling = st.tuples(st.just("settle"), st.sampled_from(_EVENTS), st.integers(0, 5))
resetting = st.tuples(
    st.just("reset"), st.sampled_from(JobState), st.sampled_from([JobState.NEW, JobState.BUILT])
)
others = st.tuples(
    st.sampled_from(["sign_out", "abort", "resume", "stop", "start", "sweep"]),
    st.none(),
    st.none(),
)
steps = st.lists(st.one_of(claiming, claiming, settling, settling, resetting, others), max_size=25)


@settings(max_examples=25, deadline=None)
@given(steps)
def test_every_job_stands_where_its_story_leads(steps: list[tuple[object, object, object]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        mine = load_settings(user_dir=Path(place))
        with open_store(f"sqlite:///{place}/fleet.sqlite", settings=mine) as store:
            load(store, 3)
            us, claims = crew(store), list[Claim]()
            for name, what, more in steps:
                us = _do(us, claims, str(name), what, more)
            _check(store)


def _do(us: Crew, claims: list[Claim], name: str, what: object, more: object) -> Crew:
    store = us.store
    match name, what, more:
        case "claim", JobStage(), int():
            claims += [claim for claim, _ in us.claims(what, more)]
        case "settle", _, int() if claims:
            # Any earlier claim, so that most results come too late or twice.
            claim = claims[-1 - more % len(claims)]
            store.queue.finish(
                us.owner, [ClaimResult(claim, what, found_out("facts"), trials=1, result=RESULT)]
            )  # type: ignore[arg-type]
        case "reset", JobState(), JobState():
            store.jobs.reset(LABEL, what, more)
        case "sign_out", _, _:
            store.queue.end_lease(us.owner, "restarted")
            return crew(store, lease_s=0.0)
        case "sweep", _, _ if store.queue.sweep():
            return crew(store)
        case "abort", _, _:
            store.jobs.abort(label=LABEL)
        case "resume", _, _:
            store.jobs.resume(label=LABEL)
        case "stop", _, _:
            store.jobs.abort(machine="host")
        case "start", _, _:
            store.jobs.resume(machine="host")
    return us


def _check(store: Store) -> None:
    for job in store.jobs.find():
        status, attempts, told = JobStatus(), 0, 0
        built: set[int] = set()  # each result has a trial; a round that is built again has one
        for line in store.jobs.history(job.id):
            assert (line.before, line.epoch, line.round) == (
                str(status.state),
                status.epoch,
                status.round,
            )
            attempts += line.event == "claimed"
            assert line.attempt == attempts
            before, status = status, advance(status, _event(line))
            assert line.after == str(status.state)
            if status.epoch > before.epoch:
                told, built = 0, set()
            told += line.event == "told"
            built |= {line.round} if line.event == "built" else set()
        assert (job.status, job.attempt, job.trials) == (status, attempts, told + len(built))
        assert (job.result is not None) == (status.state is JobState.EVALUATED)


def _event(line: JobEvent) -> Event:
    """The event of a line of the history."""
    match line.event:
        case "claimed":
            return Claimed()
        case "told":
            return Told(line.after == JobState.EVALUATED)
        case "resumed":
            return Resumed()
        case "reset":
            return Reset(JobState(line.after))
        case "aborted":
            return Aborted(line.reason)
    kind = type(_SPELLED[line.event])
    return kind(line.reason) if line.event != "built" else Built()  # type: ignore[call-arg]
