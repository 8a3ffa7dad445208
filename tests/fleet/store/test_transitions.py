"""Whatever is done to a store in whatever order: jobs stand where their story says."""

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

from skipjack.fleet.records import Claim, Settlement, StoryLine
from skipjack.fleet.states import (
    Aborted,
    ArtifactLost,
    Built,
    Claimed,
    Event,
    Failed,
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
from skipjack.fleet.store.opening import open_store
from skipjack.fleet.store.store import Store
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

claiming = st.tuples(st.just("claim"), st.sampled_from(Stage), st.integers(1, 3))
settling = st.tuples(st.just("settle"), st.sampled_from(_EVENTS), st.integers(0, 5))
resetting = st.tuples(
    st.just("reset"), st.sampled_from(State), st.sampled_from([State.NEW, State.BUILT])
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
        case "claim", Stage(), int():
            claims += [claim for claim, _ in us.claims(what, more)]
        case "settle", _, int() if claims:
            # Any claim that ever was, so that most are settled too late or twice.
            claim = claims[-1 - more % len(claims)]
            store.queue.settle(
                us.owner, [Settlement(claim, what, found_out("facts"), trials=1, result=RESULT)]
            )  # type: ignore[arg-type]
        case "reset", State(), State():
            store.jobs.reset(LABEL, what, more)
        case "sign_out", _, _:
            store.queue.sign_out(us.owner, "restarted")
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
        standing, attempts, told = Standing(), 0, 0
        built: set[int] = set()  # each settlement tells a trial; a round that is rebuilt, once
        for line in store.jobs.story(job.id):
            assert (line.before, line.epoch, line.round) == (
                str(standing.state),
                standing.epoch,
                standing.round,
            )
            attempts += line.event == "claimed"
            assert line.attempt == attempts
            before, standing = standing, advance(standing, _event(line))
            assert line.after == str(standing.state)
            if standing.epoch > before.epoch:
                told, built = 0, set()
            told += line.event == "told"
            built |= {line.round} if line.event == "built" else set()
        assert (job.standing, job.attempt, job.trials) == (standing, attempts, told + len(built))
        assert (job.result is not None) == (standing.state is State.EVALUATED)


def _event(line: StoryLine) -> Event:
    """What happened, as its line tells."""
    match line.event:
        case "claimed":
            return Claimed()
        case "told":
            return Told(line.after == State.EVALUATED)
        case "resumed":
            return Resumed()
        case "reset":
            return Reset(State(line.after))
        case "aborted":
            return Aborted(line.reason)
    kind = type(_SPELLED[line.event])
    return kind(line.reason) if line.event != "built" else Built()  # type: ignore[call-arg]
