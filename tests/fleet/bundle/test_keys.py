"""A bundle is opened with a key that was copied here, never with one that was just made."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundle_makers import KEY, OTHER_KEY

from skipjack.errors import StorageError, UsageError
from skipjack.fleet import existing_key
from skipjack.fleet.signature import FILE_NAME, VARIABLE, fleet_key
from skipjack.settings import load_settings


@pytest.fixture(autouse=True)
def no_variable(user_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_a_machine_without_a_key_says_what_to_copy_and_makes_none(user_dir: Path) -> None:
    with pytest.raises(UsageError, match=rf"copy {FILE_NAME} .* to .*{FILE_NAME}.*--key"):
        existing_key(load_settings())
    assert not (user_dir / FILE_NAME).exists()


def test_the_key_of_this_machine_is_the_fleet_s(user_dir: Path) -> None:
    made = fleet_key(load_settings())
    assert existing_key(load_settings()) == made


def test_a_named_file_goes_before_the_variable_before_the_user_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet_key(load_settings())
    named, given = tmp_path / "named.key", tmp_path / "given.key"
    named.write_text(KEY.hex() + "\n")
    given.write_text(OTHER_KEY.hex())
    for file in (named, given):
        file.chmod(0o600)
    monkeypatch.setenv(VARIABLE, str(given))
    assert existing_key(load_settings()) == OTHER_KEY
    assert existing_key(load_settings(), named) == KEY


def test_a_file_that_is_no_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"none\.key"):
        existing_key(load_settings(), tmp_path / "none.key")
    (tmp_path / "bad.key").write_text("0123")
    (tmp_path / "bad.key").chmod(0o600)
    with pytest.raises(StorageError, match=r"bad\.key is not a fleet key"):
        existing_key(load_settings(), tmp_path / "bad.key")
