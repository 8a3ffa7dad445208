"""Settlements: each counts once, while its claim holds, with all that belongs to it."""

import pytest
from crew import (
    RESULT,
    ZEN,
    artifacts_of,
    crew,
    found_out,
    load,
    on_sqlite,
    only,
    rows,
    states,
)

from skipjack.fleet.engine import RunningLog
from skipjack.fleet.records import LONGEST_LOG, Settlement
from skipjack.fleet.states import (
    Built,
    Event,
    Failed,
    Inapplicable,
    Lost,
    Released,
    Stage,
    State,
    Told,
)
from skipjack.fleet.store.claims.settling import MOST_LOGS
from skipjack.fleet.store.store import Store


def test_a_job_goes_through_its_rounds_to_a_result(store: Store) -> None:
    (id,) = load(store)
    us = crew(store)
    us.build(b"code")
    claim, _ = us.claim(Stage.EVALUATE)
    us.settle(claim, Told(False), trials=4, failed_trials=1, best_ns=70.5)
    us.build()
    claim, _ = us.claim(Stage.EVALUATE)
    us.settle(claim, Told(True), trials=3, best_ns=80.0, result=RESULT)
    job = only(store)
    assert (job.standing.state, job.trials, job.failed_trials, job.best_ns, job.result) == (
        State.EVALUATED,
        7,
        1,
        70.5,
        RESULT,
    )
    assert (job.build_machine, job.eval_machine, job.gpu) == ("host", "host", "0")
    events = [(line.event, line.round, line.after) for line in store.jobs.story(id)]
    assert events == [
        ("claimed", 0, "building"),
        ("built", 0, "built"),
        ("claimed", 0, "evaluating"),
        ("told", 0, "new"),
        ("claimed", 1, "building"),
        ("built", 1, "built"),
        ("claimed", 1, "evaluating"),
        ("told", 1, "evaluated"),
    ]
    assert store.jobs.stale(ZEN, "llvm 20", [1]) == set()


def test_what_was_said_so_far_is_shown_until_the_whole_log_is_there(store: Store) -> None:
    (id,) = load(store)
    us = crew(store)
    claim, _ = us.claim(Stage.BUILD)
    for text in ("one\n", "one\ntwo\0\n"):
        said = [RunningLog(id, claim.attempt, text), RunningLog(id, claim.attempt + 1, "of nobody")]
        assert store.queue.note_logs(us.owner, said) == 1
        assert store.queue.note_logs("another", said) == 0
    (log,) = store.jobs.log(id)
    assert (log.text, log.running, log.stage, log.machine) == (
        "one\ntwo\ufffd\n",
        True,
        "build",
        "host",
    )
    us.settle(claim, Built(), log="one\ntwo\nthree\n", overheard=True)
    (log,) = store.jobs.log(id)
    assert (log.text, log.running) == ("one\ntwo\nthree\n", False)
    claim, _ = us.claim(Stage.EVALUATE)
    store.queue.note_logs(us.owner, [RunningLog(id, claim.attempt, "last words\n")])
    us.settle(claim, Lost("killed"), log="killed", overheard=True)
    assert [log.text for log in store.jobs.log(id)][1:] == ["last words\n", "killed"]


def test_many_are_settled_at_once(store: Store) -> None:
    load(store, 5)
    us = crew(store)
    claims = [claim for claim, _ in us.claims(Stage.BUILD, 5)]
    made = artifacts_of([b"shared"])
    events: list[Event] = [
        Built(),
        Failed("full"),
        Inapplicable("no solver"),
        Released("later"),
        Lost("died"),
    ]
    settlements = [
        Settlement(claim, event, found_out("f"), tuple(made), made, log=f"log of {claim.job}")
        for claim, event in zip(reversed(claims), events, strict=True)
    ]
    assert store.queue.settle(us.owner, settlements) == []
    assert states(store) == {State.BUILT: 1, State.NEW: 3, State.NOT_APPLICABLE: 1}
    assert (rows(store, "rounds"), rows(store, "artifacts"), rows(store, "logs")) == (1, 1, 5)


def test_what_is_settled_after_the_claim_was_lost_is_refused_and_not_written(store: Store) -> None:
    load(store)
    us, they = crew(store, "us", 0.0), crew(store, "them")
    late, _ = us.claim(Stage.BUILD)
    assert store.queue.sweep() == 1
    theirs, _ = they.claim(Stage.BUILD)
    made = artifacts_of([b"late"])
    rest = {"facts": found_out("late"), "digests": tuple(made), "artifacts": made, "log": "late"}
    assert us.settle(late, Built(), **rest) == [late]
    assert they.settle(late, Built(), **rest) == [late]
    assert us.settle(theirs, Built(), **rest) == [theirs]
    assert only(store).standing.state is State.BUILDING
    assert [rows(store, table) for table in ("rounds", "artifacts", "logs")] == [0, 0, 0]
    assert they.settle(theirs, Built()) == []


@pytest.mark.parametrize(
    "event", [Built(), Failed("full"), Inapplicable("none"), Released("later"), Lost("died")]
)
@on_sqlite
def test_a_settlement_that_is_repeated_is_accepted_once(store: Store, event: Event) -> None:
    load(store)
    us = crew(store)
    claim, _ = us.claim(Stage.BUILD)
    settlement = Settlement(claim, event, found_out("facts"), log="log")
    assert store.queue.settle(us.owner, [settlement, settlement]) == []
    standing, story = only(store).standing, store.jobs.story(claim.job)
    assert store.queue.settle(us.owner, [settlement]) == []
    us.claims(Stage.BUILD)
    assert store.queue.settle(us.owner, [settlement]) == []
    assert (store.jobs.story(claim.job)[:2], rows(store, "logs")) == (story, 1)
    assert len(story) == 2 and standing.state is not State.BUILDING


def test_the_end_of_a_job_is_accepted_once(store: Store) -> None:
    load(store)
    us = crew(store)
    us.build()
    claim, _ = us.claim(Stage.EVALUATE)
    told = Settlement(claim, Told(True), found_out("facts"), trials=3, result=RESULT)
    assert store.queue.settle(us.owner, [told]) == store.queue.settle(us.owner, [told]) == []
    assert (only(store).trials, rows(store, "rounds")) == (3, 2)


@on_sqlite
def test_one_that_is_refused_does_not_keep_the_others_from_it(store: Store) -> None:
    load(store, 2)
    us = crew(store)
    (kept, _), (gone, _) = us.claims(Stage.BUILD, 2)
    store.queue.release(us.owner, [gone.job], "not ours")
    settlements = [Settlement(claim, Built(), found_out("facts")) for claim in (gone, kept)]
    assert store.queue.settle(us.owner, settlements) == [gone]
    assert states(store) == {State.BUILT: 1, State.NEW: 1}


@on_sqlite
def test_an_answer_that_cannot_be_is_a_failure_of_its_worker_alone(store: Store) -> None:
    load(store, 2)
    us = crew(store)
    (odd, _), (good, _) = us.claims(Stage.BUILD, 2)
    settlements = [
        Settlement(odd, Told(True), result=RESULT),
        Settlement(good, Built(), found_out("facts")),
    ]
    assert store.queue.settle(us.owner, settlements) == []
    failed = store.jobs.get(odd.job).standing
    assert (failed.state, failed.failures) == (State.NEW, 1) and "cannot be" in failed.reason
    assert store.jobs.get(good.job).standing.state is State.BUILT


@on_sqlite
def test_three_failures_in_a_row_are_an_error_with_its_last_reason(store: Store) -> None:
    load(store)
    us = crew(store)
    for reason in ("first", "second", ""):
        us.settle(us.claim(Stage.BUILD)[0], Failed(reason))
    standing = only(store).standing
    assert (standing.state, standing.stage) == (State.ERROR, Stage.BUILD)
    assert standing.reason == "no reason was given"


def test_texts_that_no_database_takes_are_made_readable(store: Store) -> None:
    load(store)
    us = crew(store)
    claim, _ = us.claim(Stage.BUILD)
    assert us.settle(claim, Failed("a\0b\ud800 ü 🐟"), log="x\0y\udfff") == []
    assert only(store).standing.reason == "a\ufffdb? ü 🐟"
    assert store.jobs.log(claim.job)[0].text == "x\ufffdy?"


@on_sqlite
def test_the_end_of_a_long_log_is_kept(store: Store) -> None:
    load(store)
    us = crew(store)
    claim, _ = us.claim(Stage.BUILD)
    us.settle(claim, Built(), log="begin" + "." * LONGEST_LOG + "end")
    (log,) = store.jobs.log(claim.job)
    assert len(log.text) == LONGEST_LOG and log.text.endswith(".end")


@on_sqlite
def test_the_newest_logs_of_a_job_are_kept(store: Store) -> None:
    load(store, 2)
    us = crew(store)
    for number in range(MOST_LOGS + 3):
        claims = [claim for claim, _ in us.claims(Stage.BUILD, 2)]
        said = [Settlement(claim, Released("again"), log=f"{number}") for claim in claims]
        store.queue.settle(us.owner, said)
    for job in store.jobs.find():
        texts = [log.text for log in store.jobs.log(job.id)]
        assert texts == [f"{number}" for number in range(3, MOST_LOGS + 3)]
