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

from skipjack.fleet.model import (
    LONGEST_LOG,
    Built,
    ClaimResult,
    Event,
    Failed,
    Inapplicable,
    JobStage,
    JobState,
    Lost,
    Released,
    RunningLog,
    Told,
)
from skipjack.fleet.store import Store
from skipjack.fleet.store.claims.finished_claims import MOST_LOGS


def test_a_job_goes_through_its_rounds_to_a_result(store: Store) -> None:
    (id,) = load(store)
    us = crew(store)
    us.build(b"code")
    claim, _ = us.claim(JobStage.EVALUATE)
    us.finish(claim, Told(False), trials=4, failed_trials=1, best_ns=70.5)
    us.build()
    claim, _ = us.claim(JobStage.EVALUATE)
    us.finish(claim, Told(True), trials=3, best_ns=80.0, result=RESULT)
    job = only(store)
    assert (job.status.state, job.trials, job.failed_trials, job.best_ns, job.result) == (
        JobState.EVALUATED,
        7,
        1,
        70.5,
        RESULT,
    )
    assert (job.build_machine, job.eval_machine, job.gpu) == ("host", "host", "0")
    events = [(line.event, line.round, line.after) for line in store.jobs.history(id)]
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
    claim, _ = us.claim(JobStage.BUILD)
    for text in ("one\n", "one\ntwo\0\n"):
        said = [RunningLog(id, claim.attempt, text), RunningLog(id, claim.attempt + 1, "of nobody")]
        assert store.queue.store_logs(us.owner, said) == 1
        assert store.queue.store_logs("another", said) == 0
    (log,) = store.jobs.log(id)
    assert (log.text, log.running, log.stage, log.machine) == (
        "one\ntwo\ufffd\n",
        True,
        "build",
        "host",
    )
    us.finish(claim, Built(), log="one\ntwo\nthree\n", log_started=True)
    (log,) = store.jobs.log(id)
    assert (log.text, log.running) == ("one\ntwo\nthree\n", False)
    claim, _ = us.claim(JobStage.EVALUATE)
    store.queue.store_logs(us.owner, [RunningLog(id, claim.attempt, "last words\n")])
    us.finish(claim, Lost("killed"), log="killed", log_started=True)
    assert [log.text for log in store.jobs.log(id)][1:] == ["last words\n", "killed"]


def test_many_are_settled_at_once(store: Store) -> None:
    load(store, 5)
    us = crew(store)
    claims = [claim for claim, _ in us.claims(JobStage.BUILD, 5)]
    made = artifacts_of([b"shared"])
    events: list[Event] = [
        Built(),
        Failed("full"),
        Inapplicable("no solver"),
        Released("later"),
        Lost("died"),
    ]
    claim_results = [
        ClaimResult(claim, event, found_out("f"), tuple(made), made, log=f"log of {claim.job}")
        for claim, event in zip(reversed(claims), events, strict=True)
    ]
    assert store.queue.finish(us.owner, claim_results) == []
    assert states(store) == {JobState.BUILT: 1, JobState.NEW: 3, JobState.NOT_APPLICABLE: 1}
    # What the failed build found out is kept, too: its configs need not be built again elsewhere.
    assert (rows(store, "rounds"), rows(store, "artifacts"), rows(store, "logs")) == (2, 1, 5)


def test_what_is_settled_after_the_claim_was_lost_is_refused_and_not_written(store: Store) -> None:
    load(store)
    us, they = crew(store, "us", 0.0), crew(store, "them")
    late, _ = us.claim(JobStage.BUILD)
    assert store.queue.sweep() == 1
    theirs, _ = they.claim(JobStage.BUILD)
    made = artifacts_of([b"late"])
    rest = {"facts": found_out("late"), "digests": tuple(made), "artifacts": made, "log": "late"}
    assert us.finish(late, Built(), **rest) == [late]
    assert they.finish(late, Built(), **rest) == [late]
    assert us.finish(theirs, Built(), **rest) == [theirs]
    assert only(store).status.state is JobState.BUILDING
    assert [rows(store, table) for table in ("rounds", "artifacts", "logs")] == [0, 0, 0]
    assert they.finish(theirs, Built()) == []


@pytest.mark.parametrize(
    "event", [Built(), Failed("full"), Inapplicable("none"), Released("later"), Lost("died")]
)
@on_sqlite
def test_a_settlement_that_is_repeated_is_accepted_once(store: Store, event: Event) -> None:
    load(store)
    us = crew(store)
    claim, _ = us.claim(JobStage.BUILD)
    claim_result = ClaimResult(claim, event, found_out("facts"), log="log")
    assert store.queue.finish(us.owner, [claim_result, claim_result]) == []
    status, history = only(store).status, store.jobs.history(claim.job)
    assert store.queue.finish(us.owner, [claim_result]) == []
    us.claims(JobStage.BUILD)
    assert store.queue.finish(us.owner, [claim_result]) == []
    assert (store.jobs.history(claim.job)[:2], rows(store, "logs")) == (history, 1)
    assert len(history) == 2 and status.state is not JobState.BUILDING


def test_the_end_of_a_job_is_accepted_once(store: Store) -> None:
    load(store)
    us = crew(store)
    us.build()
    claim, _ = us.claim(JobStage.EVALUATE)
    told = ClaimResult(claim, Told(True), found_out("facts"), trials=3, result=RESULT)
    assert store.queue.finish(us.owner, [told]) == store.queue.finish(us.owner, [told]) == []
    assert (only(store).trials, rows(store, "rounds")) == (3, 2)


@on_sqlite
def test_one_that_is_refused_does_not_keep_the_others_from_it(store: Store) -> None:
    load(store, 2)
    us = crew(store)
    (kept, _), (gone, _) = us.claims(JobStage.BUILD, 2)
    store.queue.release(us.owner, [gone.job], "not ours")
    claim_results = [ClaimResult(claim, Built(), found_out("facts")) for claim in (gone, kept)]
    assert store.queue.finish(us.owner, claim_results) == [gone]
    assert states(store) == {JobState.BUILT: 1, JobState.NEW: 1}


@on_sqlite
def test_an_answer_that_cannot_be_is_a_failure_of_its_worker_alone(store: Store) -> None:
    load(store, 2)
    us = crew(store)
    (odd, _), (good, _) = us.claims(JobStage.BUILD, 2)
    claim_results = [
        ClaimResult(odd, Told(True), result=RESULT),
        ClaimResult(good, Built(), found_out("facts")),
    ]
    assert store.queue.finish(us.owner, claim_results) == []
    failed = store.jobs.get(odd.job).status
    assert (failed.state, failed.failures) == (JobState.NEW, 1) and "cannot be" in failed.reason
    assert store.jobs.get(good.job).status.state is JobState.BUILT


@on_sqlite
def test_three_failures_in_a_row_are_an_error_with_its_last_reason(store: Store) -> None:
    load(store)
    us = crew(store)
    for reason in ("first", "second", ""):
        us.finish(us.claim(JobStage.BUILD)[0], Failed(reason))
    status = only(store).status
    assert (status.state, status.stage) == (JobState.ERROR, JobStage.BUILD)
    assert status.reason == "no reason was given"


def test_texts_that_no_database_takes_are_made_readable(store: Store) -> None:
    load(store)
    us = crew(store)
    claim, _ = us.claim(JobStage.BUILD)
    assert us.finish(claim, Failed("a\0b\ud800 ü 🐟"), log="x\0y\udfff") == []
    assert only(store).status.reason == "a\ufffdb? ü 🐟"
    assert store.jobs.log(claim.job)[0].text == "x\ufffdy?"


@on_sqlite
def test_the_end_of_a_long_log_is_kept(store: Store) -> None:
    load(store)
    us = crew(store)
    claim, _ = us.claim(JobStage.BUILD)
    us.finish(claim, Built(), log="begin" + "." * LONGEST_LOG + "end")
    (log,) = store.jobs.log(claim.job)
    assert len(log.text) == LONGEST_LOG and log.text.endswith(".end")


@on_sqlite
def test_the_newest_logs_of_a_job_are_kept(store: Store) -> None:
    load(store, 2)
    us = crew(store)
    for number in range(MOST_LOGS + 3):
        claims = [claim for claim, _ in us.claims(JobStage.BUILD, 2)]
        said = [ClaimResult(claim, Released("again"), log=f"{number}") for claim in claims]
        store.queue.finish(us.owner, said)
    for job in store.jobs.find():
        texts = [log.text for log in store.jobs.log(job.id)]
        assert texts == [f"{number}" for number in range(3, MOST_LOGS + 3)]
