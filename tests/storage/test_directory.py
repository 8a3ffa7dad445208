"""The user directory exists and is usable, or one sentence says why not."""

from pathlib import Path

import pytest

from skipjack.errors import StorageError
from skipjack.settings import Settings
from skipjack.storage import user_directory


def test_a_new_directory_is_private(tmp_path: Path) -> None:
    directory = user_directory(Settings(tmp_path / "deep" / "down"))
    assert directory.is_dir()
    assert directory.stat().st_mode & 0o777 == 0o700
    assert list(directory.iterdir()) == []


def test_an_old_directory_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o750)
    user_directory(Settings(tmp_path / "mine"))
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_file_in_the_way_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=rf"{place}.*SKIPJACK_USER_DB_PATH"):
        user_directory(Settings(tmp_path / place))
