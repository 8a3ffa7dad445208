"""A damaged file keeps its bytes under a new name."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from skipjack.errors import StorageError
from skipjack.storage import quarantine


def noon() -> datetime:
    return datetime(2025, 3, 4, 12, 0, 0, tzinfo=UTC)


def test_the_name_says_when(tmp_path: Path) -> None:
    (tmp_path / "bank").write_bytes(b"x")
    aside = quarantine(tmp_path / "bank", clock=noon)
    assert aside == tmp_path / "bank.corrupt-20250304T120000"
    assert aside.read_bytes() == b"x"
    assert not (tmp_path / "bank").exists()


def test_nothing_set_aside_before_is_overwritten(tmp_path: Path) -> None:
    names = []
    for content in (b"1", b"2", b"3"):
        (tmp_path / "bank").write_bytes(content)
        names.append(quarantine(tmp_path / "bank", clock=noon))
    assert [name.read_bytes() for name in names] == [b"1", b"2", b"3"]
    assert names[2].name == "bank.corrupt-20250304T120000-2"


def test_companions_move_along_under_matching_names(tmp_path: Path) -> None:
    for name in ("db", "db-wal"):
        (tmp_path / name).write_text(name)
    aside = quarantine(tmp_path / "db", companions=("-wal", "-shm"), clock=noon)
    assert {path.name for path in tmp_path.iterdir()} == {aside.name, f"{aside.name}-wal"}


def test_a_file_that_is_gone_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        quarantine(tmp_path / "gone")
    assert list(tmp_path.iterdir()) == []
