"""Logs are told from products that are written anew by how they were written."""

from pathlib import Path

import pytest

from skipjack.sweep.commands import working_directory
from skipjack.sweep.commands.working_directory import AppendDetector


@pytest.fixture
def before(tmp_path: Path) -> AppendDetector:
    for name in ("log", "anew", "replaced", "same", "b.log"):
        (tmp_path / name).write_text("1\n")
    (tmp_path / "binary").write_text("1")
    return AppendDetector(
        tmp_path, ["log", "anew", "replaced", "same", "binary", "missing", "b.log"]
    )


def write(directory: Path) -> None:
    for name in ("log", "b.log"):
        with (directory / name).open("a") as file:
            file.write("2\n")
    (directory / "anew").write_text("1\n2\n")
    (directory / "new").write_text("1\n2\n")
    (directory / "new").replace(directory / "replaced")


def test_only_what_was_appended_to_is_a_log(before: AppendDetector, tmp_path: Path) -> None:
    write(tmp_path)
    assert set(before.appended()) == {"log", "b.log"}
    assert (tmp_path / "log").read_text() == "1\n2\n"


def test_looking_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("1\n")
    then = path.stat()
    looking = AppendDetector(tmp_path, ["log"])
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (then.st_size, then.st_mtime_ns)
    assert looking.appended() == ()
    now = path.stat()
    assert (now.st_blocks, now.st_mtime_ns) == (then.st_blocks, then.st_mtime_ns)


def test_a_file_written_anew_with_much_more_is_no_log(
    before: AppendDetector, tmp_path: Path
) -> None:
    (tmp_path / "anew").write_text("1\n" * 2_000_000)
    assert before.appended() == ()


def test_where_the_file_system_cannot_tell_the_name_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working_directory.sys, "platform", "another")
    for name in ("log", "anew", "replaced", "b.log"):
        (tmp_path / name).write_text("1\n")
    looking = AppendDetector(tmp_path, ["log", "anew", "replaced", "b.log"])
    write(tmp_path)
    assert looking.appended() == ("b.log",)
