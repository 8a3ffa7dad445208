"""Signatures: only a holder of the fleet's key can sign machine code."""

from __future__ import annotations

from pathlib import Path

import pytest

from skipjack.errors import StorageError
from skipjack.fleet.signature import fleet_key, is_signed, sign
from skipjack.settings import Settings


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKIPJACK_FLEET_KEY", raising=False)


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "user")
    key = fleet_key(settings)
    assert len(key) == 32
    assert fleet_key(settings) == key
    assert (tmp_path / "user" / "fleet.key").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in (tmp_path / "user").iterdir()] == ["fleet.key"]
    assert fleet_key(Settings(tmp_path / "other")) != key


def test_a_key_that_appears_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fleet_key(Settings(tmp_path))
    # As if it had not been there when this process looked.
    monkeypatch.setattr(Path, "exists", lambda path: False)
    assert fleet_key(Settings(tmp_path)) == first


def test_a_named_file_is_used_and_must_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "shared.key"
    monkeypatch.setenv("SKIPJACK_FLEET_KEY", str(file))
    with pytest.raises(StorageError, match=r"shared\.key.*copy it from a machine"):
        fleet_key(Settings(tmp_path))
    file.write_text("ab" * 32 + "\n")
    file.chmod(0o600)
    assert fleet_key(Settings(tmp_path)) == b"\xab" * 32


@pytest.mark.parametrize("content", ["", "ab", "zz" * 32, "ü" * 64])
def test_what_is_no_key_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "fleet.key").write_text(content)
    (tmp_path / "fleet.key").chmod(0o600)
    with pytest.raises(StorageError, match=r"fleet\.key is not a fleet key"):
        fleet_key(Settings(tmp_path))


@pytest.mark.parametrize(
    ("mode", "who"), [(0o644, "read"), (0o640, "read"), (0o602, "write to"), (0o666, "write to")]
)
def test_a_key_that_others_have_is_refused(tmp_path: Path, mode: int, who: str) -> None:
    settings = Settings(tmp_path / "a user")
    key = fleet_key(settings)
    file = settings.user_dir / "fleet.key"
    file.chmod(mode)
    with pytest.raises(StorageError, match=f"other users may {who} .*: run chmod 600 '{file}'"):
        fleet_key(settings)
    file.chmod(0o400)
    assert fleet_key(settings) == key


def test_a_seal_holds_for_one_digest_and_one_key() -> None:
    text = sign(b"k" * 32, "digest")
    assert is_signed(b"k" * 32, "digest", text)
    assert not is_signed(b"k" * 32, "another", text)
    assert not is_signed(b"x" * 32, "digest", text)
    assert not is_signed(b"k" * 32, "digest", "")
    assert not is_signed(b"k" * 32, "digest", "ü")
