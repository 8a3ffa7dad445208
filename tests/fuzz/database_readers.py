"""Banks, which people copy, merge and send, and the addresses of stores."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reader import Reader, of_file, of_text, these


def _emptied(directory: Path) -> Path:
    """A directory inside, without what earlier inputs left."""
    folder = directory / "inside"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _bank(path: Path) -> object:
    from skipjack.bank import Bank

    bank = Bank.open(path.parent)
    entries = bank.entries()
    other = Bank.open(_emptied(path.parent))
    return bank.lookup("add:256", "d"), len(entries), other.merge(path), len(other.entries())


def _bank_lines() -> Sequence[bytes]:
    from skipjack.bank import BankEntry

    def entry(problem: str, **more: Any) -> bytes:
        ratio = {"ratio": 1.5, "low": 1.4, "high": 1.6}
        plain = ("d", "znver4/1", "nest", 1, {"schedule": "i:32"}, 100.5, 150.75, 120.0, "numpy")
        made = BankEntry(problem, *plain, {"default": ratio, "vendor": ratio}, **more)
        return made.line.encode() + b"\n"

    evidence = {"alpha": 0.01, "samples": 120, "artifact": "ab", "ties": []}
    created = "2025-01-01T00:00:00.000000Z"
    lines = [entry("add:256", created=created, evidence=evidence), entry("add:512")]
    return [b"".join(lines)]


def _url(text: str) -> object:
    from skipjack.fleet.store.urls import database_url, for_people
    from skipjack.settings import Settings

    return for_people(database_url(text, Settings(Path("/nowhere"))))


READERS = (
    Reader("bank", of_file("bank.jsonl", _bank), _bank_lines, 100),
    Reader(
        "URL of a store",
        of_text(_url),
        these(
            b"sqlite:///~/x.db",
            b"postgresql://user:secret@host:5432/db?sslmode=require",
            b"mysql+pymysql://user@[::1]/db",
        ),
    ),
)
