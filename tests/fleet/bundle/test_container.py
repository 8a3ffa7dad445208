"""A bundle that is damaged or not signed with the fleet's key is refused with one sentence."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from bundle_makers import KEY, OTHER_KEY, jobs_bundle, task_of

from skipjack.errors import NewerFormatError, StorageError
from skipjack.fleet.bundle.format import Bundle, EntryKind, read_task
from skipjack.fleet.bundle.format.container import BundleEntry

Content = list[tuple[EntryKind, str, bytes]]


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    return jobs_bundle(tmp_path / "jobs.skj", [task_of(job) for job in range(1, 7)])


def content_of(path: Path, key: bytes = KEY) -> Content:
    with Bundle.open(path, key) as bundle:
        return [
            (part, name, bundle.body(part, name))
            for part in EntryKind
            for name in bundle.names(part)
        ]


def changed(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


def test_what_went_in_comes_out(jobs: Path) -> None:
    with Bundle.open(jobs, KEY) as bundle:
        assert [read_task(bundle, job).task for job in range(1, 7)] == [
            task_of(job) for job in range(1, 7)
        ]
        assert len(bundle.names(EntryKind.ARTIFACT)) == 7  # what they share is there once
        assert bundle.manifest.label == "nightly"


def test_what_is_appended_later_is_covered_too(jobs: Path) -> None:
    with Bundle.open(jobs, KEY, writable=True) as bundle:
        bundle.append([BundleEntry(EntryKind.OUTCOME, "1", b"{}")])
    assert (EntryKind.OUTCOME, "1", b"{}") in content_of(jobs)


@pytest.mark.parametrize("tenths", range(10))
def test_a_truncated_bundle_is_refused(jobs: Path, tenths: int) -> None:
    data = jobs.read_bytes()
    jobs.write_bytes(data[: len(data) * tenths // 10])
    with pytest.raises(StorageError, match=r"truncated|empty"):
        Bundle.open(jobs, KEY)


def test_one_missing_byte_is_noticed(jobs: Path) -> None:
    jobs.write_bytes(jobs.read_bytes()[:-1])
    with pytest.raises(StorageError, match="truncated"):
        Bundle.open(jobs, KEY)


def test_a_flipped_byte_is_refused_or_touches_nothing_that_is_read(jobs: Path) -> None:
    data, before = jobs.read_bytes(), content_of(jobs)
    refused = 0
    places = range(0, len(data), 61)
    for at in places:
        jobs.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        try:
            after = content_of(jobs)
        except StorageError as error:
            assert str(jobs) in str(error)
            refused += 1
        else:
            assert after == before  # free space of a page, or a counter of SQLite's own
    assert refused > len(places) / 3


def test_every_byte_of_a_body_counts(jobs: Path) -> None:
    data = jobs.read_bytes()
    at = data.index(b"the kernel of job 3")
    jobs.write_bytes(data[:at] + b"T" + data[at + 1 :])
    with pytest.raises(StorageError, match=r"it was signed .*signature of entry . is wrong"):
        Bundle.open(jobs, KEY)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entries WHERE position = (SELECT max(position) FROM entries)",
        "DELETE FROM entries WHERE position = 2",
        "DELETE FROM manifest",
        "UPDATE manifest SET count = count - 1",
        "UPDATE manifest SET text = replace(text, 'nightly', 'release')",
        "UPDATE entries SET name = '99' WHERE kind = 'task' AND name = '1'",
        "UPDATE entries SET position = position + 100 WHERE position = 13",
        "UPDATE entries SET seal = x'00' WHERE position = 1",
        "UPDATE entries SET body = 7 WHERE position = 1",
        "CREATE TRIGGER mine AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
        "CREATE VIEW another AS SELECT 1",
    ],
)
def test_a_change_made_with_sql_is_refused(jobs: Path, statement: str) -> None:
    changed(jobs, statement)
    with pytest.raises(StorageError, match="changed after it was signed"):
        Bundle.open(jobs, KEY)


def test_artifacts_that_changed_places_are_refused(jobs: Path) -> None:
    with closing(sqlite3.connect(jobs)) as connection, connection:
        (one, two) = connection.execute(
            "SELECT body, seal FROM entries WHERE kind = 'artifact' AND position IN (2, 3)"
        ).fetchall()
        connection.execute("UPDATE entries SET body = ?, seal = ? WHERE position = 2", two)
        connection.execute("UPDATE entries SET body = ?, seal = ? WHERE position = 3", one)
    with pytest.raises(StorageError, match="the signature of entry 2 is wrong"):
        Bundle.open(jobs, KEY)


def test_an_entry_of_another_bundle_of_the_fleet_is_refused(jobs: Path, tmp_path: Path) -> None:
    other = jobs_bundle(tmp_path / "other.skj", [task_of(job) for job in range(1, 7)])
    with closing(sqlite3.connect(other)) as connection:
        body, seal = connection.execute(
            "SELECT body, seal FROM entries WHERE position = 9"
        ).fetchone()
    changed(jobs, "UPDATE entries SET body = ?, seal = ? WHERE position = 9", body, seal)
    with pytest.raises(StorageError, match="the signature of entry 9 is wrong"):
        Bundle.open(jobs, KEY)


def test_another_key_is_named_as_such(jobs: Path) -> None:
    with pytest.raises(StorageError, match=r"signed with another fleet's key .*--key"):
        Bundle.open(jobs, OTHER_KEY)


def test_who_pretends_to_have_the_key_is_found_out(tmp_path: Path) -> None:
    from skipjack.fleet.signature import fingerprint

    forged = jobs_bundle(tmp_path / "forged.skj", [task_of(1)], OTHER_KEY)
    changed(
        forged,
        "UPDATE manifest SET text = replace(text, ?, ?)",
        fingerprint(OTHER_KEY),
        fingerprint(KEY),
    )
    with pytest.raises(StorageError, match="the signature of its manifest is wrong"):
        Bundle.open(forged, KEY)


def test_a_newer_format_is_refused_by_name(jobs: Path) -> None:
    changed(jobs, "PRAGMA user_version = 2")
    with pytest.raises(NewerFormatError, match="format 2; this Skipjack reads formats up to 1"):
        Bundle.open(jobs, KEY)


@pytest.mark.parametrize("content", [b"PK\3\4 something else", b"x" * 4096])
def test_another_kind_of_file_is_no_bundle(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(StorageError, match="is not a bundle"):
        Bundle.open(path, KEY)


def test_another_program_s_database_is_no_bundle(tmp_path: Path) -> None:
    changed(tmp_path / "theirs", "CREATE TABLE t (x)")
    with pytest.raises(StorageError, match="is not a bundle"):
        Bundle.open(tmp_path / "theirs", KEY)


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        Bundle.open(tmp_path / "none.skj", KEY)
    with pytest.raises(StorageError, match="directory"):
        Bundle.open(tmp_path, KEY)


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere/jobs\.skj.*check that its directory exists"):
        jobs_bundle(tmp_path / "nowhere" / "jobs.skj", [task_of(1)])


def test_only_one_writes_at_a_time(jobs: Path) -> None:
    with (
        Bundle.open(jobs, KEY, writable=True),
        pytest.raises(StorageError, match="another process is writing"),
    ):
        Bundle.open(jobs, KEY)


def test_a_journal_that_names_another_file_is_refused(jobs: Path) -> None:
    journal = jobs.with_name("jobs.skj-journal")
    journal.write_bytes(b"somebody's file" + bytes.fromhex("d9d505f920a163d7"))
    with pytest.raises(StorageError, match="its journal"):
        Bundle.open(jobs, KEY)
    with pytest.raises(StorageError, match="its journal"):
        Bundle.open(jobs, KEY, writable=True)


def test_reading_leaves_no_trace(jobs: Path) -> None:
    before = jobs.read_bytes()
    jobs.chmod(0o400)
    content_of(jobs)
    assert jobs.read_bytes() == before
    assert [path.name for path in jobs.parent.iterdir()] == [jobs.name]
