"""Terminals whose encoding has no micro sign get ``us``; file names are not changed."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest

from processes import command
from skipjack.bank import Bank, BankEntry
from skipjack.report import use_plain_characters

ENTRY = BankEntry(
    "add:8:f32", "cpu:znver4/1:abc", "znver4/1", "nest", 1, {"schedule": "n"}, 2e3, 4e3, None, "",
    {}, {},
)  # fmt: skip


def listed(user_dir: Path, **variables: str) -> bytes:
    """What ``skipjack bank list`` writes in a locale."""
    user_dir.mkdir(exist_ok=True)
    Bank.open(user_dir).add([ENTRY])
    names = ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONUTF8", "PYTHONIOENCODING")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        command(["bank", "list"]), env={**kept, **variables}, capture_output=True, check=True
    )
    return done.stdout


def test_the_c_locale_has_us(user_dir: Path) -> None:
    shown = listed(user_dir, LC_ALL="C")
    assert shown.isascii()
    assert b"2 us" in shown and b"4 us" in shown
    assert "2 µs" in listed(user_dir, LC_ALL="C", PYTHONIOENCODING="utf-8").decode()


def written(text: str, encoding: str) -> bytes:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    use_plain_characters(stream)
    stream.write(text)
    stream.flush()
    return raw.getvalue()


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", "2 us +-1 %, 40 C, caf\u00e9"),
        ("latin-1", "2 µs ±1 %, 40 °C, café"),
        ("cp437", "2 µs ±1 %, 40 °C, café"),
        ("utf-8", "2 µs ±1 %, 40 °C, café"),
    ],
)
def test_an_encoding_keeps_the_letters_that_it_has(
    encoding: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    # A name in a plain terminal goes out as the bytes that it has on the disk.
    expected = shown.encode("utf-8" if encoding == "ascii" else encoding)
    assert written("2 µs ±1 %, 40 °C, café", encoding) == expected


def test_what_has_no_plain_letters_is_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    assert written("鰹 ─", "latin-1") == b"? -"
