"""Exporting: the built jobs of a label in a file, and the store as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from built_jobs import LABEL, build, claimed, evaluate, export, load
from sqlalchemy import update

from skipjack.errors import UsageError
from skipjack.fleet.bundle import export_bundle
from skipjack.fleet.bundle.format import Bundle, EntryKind, JobSlice, jobs_with, read_task
from skipjack.fleet.model import JobStage, JobState
from skipjack.fleet.store import BundleSelection, Store
from skipjack.fleet.store.schema import tables
from skipjack.processes import ProcessIdentity


def tasks_in(store: Store, path: Path) -> list[int]:
    with Bundle.open(path, store.key) as bundle:
        return jobs_with(bundle, EntryKind.TASK)


def test_a_bundle_holds_what_a_claim_would_give(store: Store, jobs: Path) -> None:
    load(store, 3)
    built = build(store, 2)
    told = export(store, jobs)
    assert (told.jobs, told.artifacts, told.lost) == (2, 3, 0)
    assert store.queue.live(LABEL) == {JobState.NEW: 1, JobState.BUILT: 2}
    with Bundle.open(jobs, store.key) as bundle:
        bundled = [read_task(bundle, job).task for job in built]
    owner = store.queue.start_lease(ProcessIdentity("head", 1), 60.0)
    _, claims = claimed(store, JobStage.EVALUATE, 2)
    assert [claim.job for claim in claims] == [task.job for task in bundled]
    assert all(len(task.artifacts) == 2 and task.facts for task in bundled)
    store.queue.end_lease(owner, "")


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_slices_are_all_jobs_and_none_twice(file_store: Store, tmp_path: Path, of: int) -> None:
    load(file_store, 14)
    built = build(file_store, 14)
    found = []
    for number in range(1, of + 1):
        path = tmp_path / f"{number}.skj"
        export(file_store, path, f"{number}/{of}")
        found += tasks_in(file_store, path)
    assert sorted(found) == sorted(built)


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/0", "a/b", "1/4/2", "-1/4"])
def test_a_slice_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="1/4"):
        JobSlice.parse(text)


def test_many_pages_are_one_bundle(file_store: Store, jobs: Path) -> None:
    load(file_store, 120)
    running_logs: list[int] = []
    built = build(file_store, 120)
    export_bundle(file_store, BundleSelection(LABEL), jobs, on_progress=running_logs.append)
    assert tasks_in(file_store, jobs) == sorted(built)
    assert running_logs == sorted(running_logs)
    assert running_logs[-1] == 120


def test_nothing_built_says_what_to_run(file_store: Store, jobs: Path) -> None:
    load(file_store, 12)
    with pytest.raises(UsageError, match=r"12 new; run `skipjack run -l nightly --build` first"):
        export(file_store, jobs)
    assert list(jobs.parent.glob("*.skj*")) == []
    assert list(jobs.parent.glob(".*.tmp*")) == []


def test_an_empty_slice_says_so(file_store: Store, jobs: Path) -> None:
    load(file_store, 1)
    (job,) = build(file_store, 1)
    with pytest.raises(UsageError, match="use fewer slices"):
        export(file_store, jobs, "2/4" if job % 4 != 1 else "1/4")


def test_an_unknown_label_and_an_unknown_device_are_named(file_store: Store, jobs: Path) -> None:
    load(file_store, 1)
    build(file_store, 1)
    with pytest.raises(UsageError, match="nightly"):
        export(file_store, jobs, label="nightli")
    with pytest.raises(UsageError, match="znver5/1"):
        export_bundle(file_store, BundleSelection(LABEL, "znver5/1"), jobs)


def test_a_job_whose_machine_code_is_damaged_is_built_again(file_store: Store, jobs: Path) -> None:
    load(file_store, 2)
    one, other = build(file_store, 2)
    damaged = update(tables.artifacts).where(
        tables.artifacts.c.data == f"the kernel of job {one}".encode()
    )
    with file_store.database.engine.begin() as connection:
        connection.execute(damaged.values(data=b"something else"))
    told = export(file_store, jobs)
    assert (told.jobs, told.lost) == (1, 1)
    assert tasks_in(file_store, jobs) == [other]
    assert file_store.jobs.get(one).status.state is JobState.NEW


def test_jobs_may_be_exported_again_but_results_are_never_replaced(
    file_store: Store, jobs: Path, tmp_path: Path
) -> None:
    load(file_store, 2)
    build(file_store, 2)
    export(file_store, jobs)
    export(file_store, jobs)
    results = tmp_path / "results.skj"
    evaluate(file_store, jobs, results)
    other = tmp_path / "letter.txt"
    other.write_text("dear reader")
    for path in (results, other):
        before = path.read_bytes()
        with pytest.raises(UsageError, match="choose another name"):
            export(file_store, path)
        assert path.read_bytes() == before
