"""Opening a ledger: created, migrated, refused, or quarantined."""

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import earlier_ledgers
from skipjack.core import Config, Study, Trial
from skipjack.errors import CorruptFileError, NewerFormatError, StorageError
from skipjack.ledger import Ledger, connection, migrations
from skipjack.ledger.migrations import migrate
from skipjack.ledger.schema import MIGRATIONS
from small_disks import disk, make_read_only

__all__ = ["disk"]


def schema(path: Path) -> list[tuple[str, ...]]:
    opened = sqlite3.connect(path)
    found = opened.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name")
    try:
        return found.fetchall()
    finally:
        opened.close()


def filled(directory: Path, study: Study, count: int = 300) -> Path:
    with Ledger.open(directory) as ledger:
        ledger.start_study(study, 1)
        ledger.log_tells(study.id, [Trial(Config(n=n), value=float(n)) for n in range(count)])
        return ledger.path


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_a_migrated_file_equals_a_fresh_one_and_keeps_its_rows(
    tmp_path: Path, study: Study, version: int
) -> None:
    with Ledger.open(tmp_path / "fresh") as ledger:
        fresh = ledger.path
    (tmp_path / "old").mkdir()
    old = sqlite3.connect(tmp_path / "old" / "ledger.sqlite", isolation_level=None)
    migrate(old, target=version)
    old.execute(
        "INSERT INTO protocols (id, text, created) "
        "VALUES ('1', '{}', '2024-01-01T00:00:00.000000Z')"
    )
    old.close()
    assert schema(tmp_path / "old" / "ledger.sqlite") != schema(fresh)
    with Ledger.open(tmp_path / "old") as ledger:
        assert schema(ledger.path) == schema(fresh)
        rows = sqlite3.connect(ledger.path)
        assert rows.execute("SELECT id FROM protocols").fetchall() == [("1",)]
        assert rows.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        rows.close()


def test_a_step_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = earlier_ledgers.make(tmp_path, 2)
    before = earlier_ledgers.rows(path)
    half = ("CREATE TABLE half (x)", "CREATE TABLE half (x)")
    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS[:4], half))
    with pytest.raises(StorageError, match="already exists"):
        Ledger.open(tmp_path)
    assert earlier_ledgers.version(path) == 2
    assert earlier_ledgers.rows(path) == before


def test_a_newer_file_is_refused_by_name_and_untouched(tmp_path: Path, study: Study) -> None:
    path = filled(tmp_path, study)
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    before = path.read_bytes()
    with pytest.raises(NewerFormatError, match=rf"{path} has format 99.*knows {len(MIGRATIONS)}"):
        Ledger.open(tmp_path)
    assert path.read_bytes() == before


def test_a_database_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "ledger.sqlite")
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = (tmp_path / "ledger.sqlite").read_bytes()
    with pytest.raises(StorageError, match="not a Skipjack ledger"):
        Ledger.open(tmp_path)
    assert (tmp_path / "ledger.sqlite").read_bytes() == before


def garbage(data: bytes) -> bytes:
    return b"not a database at all" * 1000


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def a_page_lost(data: bytes) -> bytes:
    # A table's own page, not the schema's: only a look at the pages finds it.
    return data[:-8192] + b"\xff" * 4096 + data[-4096:]


def the_schema_lost(data: bytes) -> bytes:
    return data[:100] + b"\xee" * 3996 + data[4096:]


@pytest.mark.parametrize("damage", [garbage, truncated, a_page_lost, the_schema_lost])
def test_a_damaged_file_is_set_aside_and_the_next_run_starts_anew(
    tmp_path: Path, study: Study, damage: object
) -> None:
    assert callable(damage)
    path = filled(tmp_path, study)
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    with pytest.raises(CorruptFileError, match=r"renamed to .*corrupt-.*next run starts a new"):
        Ledger.open(tmp_path)
    (aside,) = tmp_path.glob("ledger.sqlite.corrupt-*[0-9]")
    assert aside.read_bytes() == damaged
    with Ledger.open(tmp_path) as ledger:
        assert ledger.summary().studies == 0


@pytest.mark.parametrize("damage", [garbage, truncated, a_page_lost, the_schema_lost])
def test_a_reader_leaves_a_damaged_file_where_it_is(
    tmp_path: Path, study: Study, damage: Callable[[bytes], bytes]
) -> None:
    path = filled(tmp_path, study)
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    with pytest.raises(CorruptFileError, match="it was not changed"):
        Ledger.read(tmp_path).close()
    assert path.read_bytes() == damaged
    assert not list(tmp_path.glob("*corrupt*"))


def test_the_journal_of_a_damaged_file_goes_with_it(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").write_bytes(b"garbage" * 1000)
    (tmp_path / "ledger.sqlite-wal").write_bytes(b"journal")
    with pytest.raises(CorruptFileError):
        Ledger.open(tmp_path)
    (journal,) = tmp_path.glob("ledger.sqlite.corrupt-*-wal")
    assert journal.read_bytes() == b"journal"
    assert not (tmp_path / "ledger.sqlite-wal").exists()


def test_damage_found_while_working_sets_the_file_aside(
    tmp_path: Path, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(tmp_path, study, 3000)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2].ljust(len(data), b"\xff"))
    monkeypatch.setattr(connection, "_LARGEST_QUICK_CHECK_BYTES", 0)
    ledger = Ledger.open(tmp_path)
    with pytest.raises(CorruptFileError, match="renamed to"):
        ledger.trials(study.id)
    assert not path.exists()


def test_local_files_use_a_write_ahead_log(ledger: Ledger) -> None:
    opened = sqlite3.connect(ledger.path)
    assert opened.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    opened.close()


def test_on_a_network_file_system_there_is_no_shared_memory(
    tmp_path: Path, study: Study, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "is_network_file_system", lambda path: "nfs4")
    with caplog.at_level(logging.WARNING), Ledger.open(tmp_path) as ledger:
        ledger.start_study(study, 1)
        names = {path.name for path in tmp_path.iterdir()}
        opened = sqlite3.connect(ledger.path)
        assert opened.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        opened.close()
    assert names == {"ledger.sqlite", "ledger.lock"}
    assert "nfs4" in caplog.text


def test_a_place_that_is_no_directory_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="not a directory"):
        Ledger.open(tmp_path / "file")


def test_a_ledger_that_cannot_be_written_to_is_read(disk: Path, study: Study) -> None:
    path = filled(disk, study)
    make_read_only(disk)
    with Ledger.read(disk) as ledger:
        assert ledger.summary().tells == 300
        with pytest.raises(StorageError):
            ledger.start_study(study, 2)
    with pytest.raises(StorageError, match="cannot use the directory"):
        Ledger.open(disk)
    assert sorted(one.name for one in disk.iterdir()) == ["ledger.lock", path.name]


def test_an_earlier_ledger_that_cannot_be_written_to_is_refused(
    tmp_path: Path, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(tmp_path, study)
    with closing(sqlite3.connect(path)) as opened:
        opened.execute(f"PRAGMA user_version = {len(MIGRATIONS) - 1}")
    monkeypatch.setattr(connection, "can_create_in", lambda directory: False)
    with pytest.raises(StorageError, match="is read-only; copy it to a directory"):
        Ledger.read(tmp_path)


def test_who_only_reads_gets_an_empty_ledger_where_there_is_none(tmp_path: Path) -> None:
    with Ledger.read(tmp_path / "new") as ledger:
        assert ledger.summary().tells == 0
