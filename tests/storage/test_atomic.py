"""A file is replaced as a whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from skipjack.errors import StorageError
from skipjack.storage import atomic_replacement, atomic_write, write_failure


def test_new_content_replaces_old(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic_write(path, b"old")
    atomic_write(path, b"new" * 100_000)
    assert path.read_bytes() == b"new" * 100_000
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("code", "complaint"), [(errno.ENOSPC, "disk full"), (errno.EIO, "cannot write")]
)
def test_a_failure_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, complaint: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match=f"{complaint}.*{path.name}"):
        atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_need_not_be_that_of_the_user_directory(tmp_path: Path) -> None:
    said = str(write_failure(tmp_path / "out", OSError(errno.ENOSPC, "full")))
    assert f"no room to write {tmp_path / 'out'}, " in said
    assert "free some space there or choose another place (SKIPJACK_USER_DB_PATH for" in said


def test_an_interrupt_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        atomic_write(tmp_path / "file", b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write"):
        atomic_write(tmp_path / "nowhere" / "file", b"")


def test_what_others_write_replaces_the_old_file_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), atomic_replacement(path) as temporary:
        temporary.write_bytes(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    with atomic_replacement(path) as temporary:
        temporary.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_one_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to("file")
    atomic_write(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"


def test_devices_are_left_alone(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="not a plain file"):
        atomic_write(Path("/dev/stdout"), b"new")
    (tmp_path / "null").symlink_to("/dev/null")
    with pytest.raises(StorageError, match="not a plain file"):
        atomic_write(tmp_path / "null", b"new")
