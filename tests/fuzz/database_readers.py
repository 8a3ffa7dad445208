"""Banks, which people copy, merge and send, and the addresses of stores."""

from __future__ import annotations

import random
import shutil
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mutations import mutated
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
    from skipjack.bank import BankEntry, EntryOrigin, LaunchData

    def entry(problem: str, **more: Any) -> bytes:
        ratio = {"ratio": 1.5, "low": 1.4, "high": 1.6}
        plain = ("d", "znver4/1", "nest", 1, {"schedule": "i:32"}, 100.5, 150.75, 120.0, "numpy")
        made = BankEntry(problem, *plain, {"default": ratio, "vendor": ratio}, **more)
        return made.line.encode() + b"\n"

    evidence = {"alpha": 0.01, "samples": 120, "ties": []}
    created = "2025-01-01T00:00:00.000000Z"
    launch = LaunchData("ab", "kernel", "x", ("a", "out", 256), 64, "cpu:x86-64-v3")
    parts = {"launch": launch, "origin": EntryOrigin("tune", "cd"), "toolchain": "llvm"}
    lines = [entry("add:256", created=created, evidence=evidence, **parts), entry("add:512")]
    return [b"".join(lines)]


_FIRST = 3
"""Of the entries of a bank that is large enough for an index."""


@cache
def _large_bank() -> tuple[bytes, bytes]:
    """A bank in its canonical form, and its index."""
    from dataclasses import replace

    from skipjack.bank import Bank, BankEntry

    sound = BankEntry.from_line(_bank_lines()[0].splitlines()[0])
    with TemporaryDirectory() as name:
        bank = Bank.open(Path(name))
        bank.add(replace(sound, problem=f"add:{number}") for number in range(150))
        bank.join({})
        return bank.path.read_bytes(), (Path(name) / "bank.index").read_bytes()


def _bank_index(path: Path) -> object:
    """Whatever an index says, what is found is what was asked for; at worst nothing is."""
    from skipjack.bank import Bank

    path.with_name("bank.jsonl").write_bytes(_large_bank()[0])
    bank = Bank.open(path.parent)
    found = bank.lookup(f"add:{_FIRST}", "d")
    assert found is None or found.problem == f"add:{_FIRST}"
    assert bank.lookup("add:none", "d") is None
    return found


def _sealed(source: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A changed index, often with the checksums that its header and blocks should have."""
    data = mutated(source, seeds)
    if source.random() < 0.3 or len(data) < 256:
        return data
    head = seeds[0][:252] if source.random() < 0.5 else data[:252]
    blocks = data[256:]
    if source.random() < 0.5:
        parts = (blocks[at : at + 240] for at in range(0, len(blocks), 256))
        blocks = b"".join(
            (part + zlib.crc32(part, number).to_bytes(4, "little")).ljust(256, b"\0")
            for number, part in enumerate(parts)
        )
    return head + zlib.crc32(head).to_bytes(4, "little") + blocks


def _url(text: str) -> object:
    from skipjack.fleet.store.sql.urls import database_url, displayed_url
    from skipjack.settings import Settings

    return displayed_url(database_url(text, Settings(Path("/nowhere"))))


READERS = (
    Reader("bank", of_file("bank.jsonl", _bank), _bank_lines, 100),
    Reader(
        "index of a bank",
        of_file("bank.index", _bank_index),
        lambda: [_large_bank()[1]],
        40,
        _sealed,
    ),
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
