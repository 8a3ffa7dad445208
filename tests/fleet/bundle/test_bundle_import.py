"""Importing: each result counts once, however often and from wherever it comes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from built_jobs import LABEL, build, claimed, evaluate, export, load
from bundle_makers import HOST, OTHER_KEY
from sqlalchemy import select

from skipjack.errors import StorageError, UsageError
from skipjack.fleet.bundle import import_bundle
from skipjack.fleet.model import ClaimResult, JobStage, JobState, Told
from skipjack.fleet.signature import VARIABLE
from skipjack.fleet.store import Store, open_store
from skipjack.fleet.store.schema import tables


def three_of(store: Store, jobs: Path) -> list[int]:
    load(store, 3)
    built = build(store, 3)
    export(store, jobs)
    return built


@pytest.fixture
def everywhere(store: Store, jobs: Path) -> list[int]:
    """Three built jobs in a bundle, on every kind of database."""
    return three_of(store, jobs)


@pytest.fixture
def three(file_store: Store, jobs: Path) -> list[int]:
    """Three built jobs in a bundle, on one kind of database."""
    return three_of(file_store, jobs)


def rows(store: Store) -> dict[str, list[Any]]:
    """Everything that an import might change."""
    watched = ("jobs", "rounds", "story", "logs", "artifacts", "owners", "machines")
    with store.database.engine.connect() as connection:
        return {
            name: sorted(map(repr, connection.execute(select(tables.metadata.tables[name]))))
            for name in watched
        }


def test_results_come_home(file_store: Store, three: list[int], jobs: Path, results: Path) -> None:
    evaluate(file_store, jobs, results)
    told = import_bundle(file_store, results)
    assert (told.results, told.accepted, told.finished, told.refused) == (3, 3, 3, 0)
    assert file_store.queue.live(LABEL) == {JobState.EVALUATED: 3}
    job = file_store.jobs.get(three[0])
    assert (job.trials, job.best_ns, job.eval_machine, job.gpu) == (4, 9.5, HOST.name, "0")
    assert job.result == {"outcome": "kept", "solver": "nest"}
    claimed_line, told_line = file_store.jobs.history(three[0])[-2:]
    assert (claimed_line.event, claimed_line.machine) == ("claimed", HOST.name)
    assert claimed_line.reason.startswith("bundle ")
    assert (told_line.event, told_line.after) == ("told", "evaluated")
    found = {result.job.id: result.facts for result in file_store.results.jobs(LABEL)}
    assert [f'"told {three[0]}"' in text for text in found[three[0]]] == [False, True]
    assert told.accepted == 3


def test_importing_twice_changes_nothing(
    store: Store, everywhere: list[int], jobs: Path, results: Path
) -> None:
    evaluate(store, jobs, results, fails=everywhere[:1])
    first = import_bundle(store, results)
    assert (first.accepted, first.failed, first.finished) == (3, 1, 2)
    before = rows(store)
    again = import_bundle(store, results)
    assert (again.accepted, again.duplicates, again.refused) == (0, 3, 0)
    assert rows(store) == before


def test_a_failure_counts_against_the_job_and_lets_it_be_tried_again(
    file_store: Store, three: list[int], jobs: Path, results: Path
) -> None:
    evaluate(file_store, jobs, results, fails=three[:1])
    import_bundle(file_store, results)
    job = file_store.jobs.get(three[0])
    assert (job.status.state, job.status.failures) == (JobState.BUILT, 1)
    assert job.status.reason == "the device fell off the bus"
    second = results.with_name("second.skj")
    export(file_store, jobs.with_name("again.skj"))
    evaluate(file_store, jobs.with_name("again.skj"), second)
    assert import_bundle(file_store, second).finished == 1


def test_a_round_that_is_not_the_last_leads_to_the_next(
    file_store: Store, three: list[int], jobs: Path, results: Path
) -> None:
    evaluate(file_store, jobs, results, finished=False)
    told = import_bundle(file_store, results)
    assert (told.accepted, told.finished) == (3, 0)
    assert file_store.queue.live(LABEL) == {JobState.NEW: 3}
    assert file_store.jobs.get(three[0]).status.round == 1
    assert import_bundle(file_store, results).duplicates == 3


def test_two_imports_at_once_accept_each_result_once(
    store: Store, store_url: str, everywhere: list[int], jobs: Path, results: Path
) -> None:
    evaluate(store, jobs, results, fails=everywhere[:1])
    counts = []

    def work() -> None:
        with open_store(store_url) as own:
            counts.append(import_bundle(own, results))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(told.accepted for told in counts) == 3
    assert sum(told.duplicates for told in counts) == 9
    assert store.jobs.get(everywhere[0]).status.failures == 1


def test_the_bundle_wins_if_it_comes_before_the_coordinator_is_done(
    store: Store, everywhere: list[int], jobs: Path, results: Path
) -> None:
    evaluate(store, jobs, results)
    owner, claims = claimed(store, JobStage.EVALUATE, 3)
    assert import_bundle(store, results).accepted == 3
    assert store.queue.renew(owner) == {}
    late = [ClaimResult(claim, Told(True), result={"outcome": "late"}) for claim in claims]
    assert len(store.queue.finish(owner, late)) == 3
    job = store.jobs.get(everywhere[0])
    assert job.result == {"outcome": "kept", "solver": "nest"}
    events = [line.event for line in store.jobs.history(everywhere[0])]
    assert events[-4:] == ["claimed", "released", "claimed", "told"]


def test_the_coordinator_wins_if_it_was_first(
    file_store: Store, three: list[int], jobs: Path, results: Path
) -> None:
    evaluate(file_store, jobs, results)
    owner, claims = claimed(file_store, JobStage.EVALUATE, 3)
    early = [ClaimResult(claim, Told(True), result={"outcome": "early"}) for claim in claims]
    file_store.queue.finish(owner, early)
    assert import_bundle(file_store, results).duplicates == 3
    assert file_store.jobs.get(three[0]).result == {"outcome": "early"}


def test_a_job_that_was_reset_refuses_what_was_found_before(
    file_store: Store, three: list[int], jobs: Path, results: Path
) -> None:
    evaluate(file_store, jobs, results)
    file_store.jobs.reset(LABEL, JobState.BUILT, JobState.NEW)
    told = import_bundle(file_store, results)
    assert told.refused == 3
    assert list(told.reasons) == ["the job was reset, and its round is waiting to be built again"]
    build(file_store, 3)
    told = import_bundle(file_store, results)
    assert told.reasons == {"the round was built again since the export": 3}
    assert file_store.queue.live(LABEL) == {JobState.BUILT: 3}


def test_a_job_that_was_started_over_refuses_its_old_failures(
    file_store: Store, three: list[int], jobs: Path, results: Path
) -> None:
    first = results.with_name("first.skj")
    evaluate(file_store, jobs, first)
    evaluate(file_store, jobs, results, fails=three)
    import_bundle(file_store, first)
    file_store.jobs.reset(LABEL, JobState.EVALUATED, JobState.NEW)
    build(file_store, 3)
    told = import_bundle(file_store, results)
    assert (told.accepted, told.duplicates) == (0, 3)
    assert file_store.queue.live(LABEL) == {JobState.BUILT: 3}


def test_an_aborted_label_refuses_until_it_is_resumed(
    file_store: Store, three: list[int], jobs: Path, results: Path
) -> None:
    evaluate(file_store, jobs, results)
    file_store.jobs.abort(label=LABEL, reason="no more")
    told = import_bundle(file_store, results)
    assert list(told.reasons) == ["the job is aborted; resume it and import again"]
    file_store.jobs.resume(label=LABEL)
    assert import_bundle(file_store, results).accepted == 3


def test_another_store_refuses_all(
    file_store: Store, three: list[int], jobs: Path, results: Path, tmp_path: Path
) -> None:
    evaluate(file_store, jobs, results)
    with open_store(f"sqlite:///{tmp_path / 'other.sqlite'}") as other:
        assert import_bundle(other, results).refused == 3
        load(other, 3)
        build(other, 3)
        told = import_bundle(other, results)
        assert told.refused == 3
        assert "another store" in next(iter(told.reasons))
        assert other.queue.live(LABEL) == {JobState.BUILT: 3}


def test_a_damaged_bundle_or_another_key_changes_nothing(
    file_store: Store,
    user_dir: Path,
    three: list[int],
    jobs: Path,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluate(file_store, jobs, results)
    before, whole = rows(file_store), results.read_bytes()
    results.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StorageError, match="truncated"):
        import_bundle(file_store, results)
    results.write_bytes(whole)
    other_key = results.with_name("other.key")
    other_key.write_text(OTHER_KEY.hex())
    other_key.chmod(0o600)
    monkeypatch.setenv(VARIABLE, str(other_key))
    with (
        open_store(f"sqlite:///{user_dir / 'fleet.sqlite'}") as stranger,
        pytest.raises(StorageError, match=r"copy fleet\.key"),
    ):
        import_bundle(stranger, results)
    with pytest.raises(UsageError, match="holds jobs, not results"):
        import_bundle(file_store, jobs)
    assert rows(file_store) == before


def test_a_later_round_keeps_what_the_first_one_told(
    file_store: Store, three: list[int], jobs: Path, results: Path
) -> None:
    evaluate(file_store, jobs, results, finished=False)
    import_bundle(file_store, results)
    build(file_store, 3)
    second = jobs.with_name("second.skj")
    export(file_store, second)
    evaluate(file_store, second, results.with_name("last.skj"))
    assert import_bundle(file_store, results.with_name("last.skj")).finished == 3
    assert file_store.jobs.get(three[0]).trials == 8
    assert import_bundle(file_store, results).duplicates == 3
