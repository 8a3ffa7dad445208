"""Databases, ledgers, banks and bundles: files that people copy, merge and send."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from reader import Reader, of_file, of_text, these

_KEY = bytes(range(32))


def _made(name: str, write: Callable[[Path], object]) -> Callable[[], Sequence[bytes]]:
    """The bytes of a file that is written into a directory of its own."""

    @cache
    def seeds() -> Sequence[bytes]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            write(path)
            return [path.read_bytes()]

    return seeds


def _emptied(directory: Path) -> Path:
    """A directory inside, without what earlier inputs left."""
    folder = directory / "inside"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


# MIOpen's databases in SQLite.


def _checked_database(path: Path) -> object:
    from skipjack.interop.miopen.checking import check_paths

    return check_paths([path])


def _write_perf_db(path: Path) -> None:
    from skipjack.interop.miopen import Item, Record, write_perf_sqlite

    key = "2x128x28x28x1x3x3x1x256x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"
    write_perf_sqlite(path, [Record(key, [Item("ConvA", "8,8<64, 32>+1"), Item("ConvB", "")])])


def _write_kernel_db(path: Path) -> None:
    from skipjack.interop.miopen.kernel_db import KernelRow, write_kernel_db

    rows = [KernelRow("a.o", "-x", b"code" * 400), KernelRow("b.o", "", b"x")]
    write_kernel_db(path, rows)


# Our own files.


def _kernel_file(path: Path) -> object:
    from skipjack.bank.kernel_db import KernelDb

    with KernelDb.open(path) as database:
        database.devices("add:256")
        return [database.code(record) for record in database.records()]


def _write_kernel_file(path: Path) -> None:
    from skipjack.bank.kernel_db import KernelRecord, write_kernel_db

    code = b"machine code" * 30
    digest = hashlib.sha256(code).hexdigest()
    slots = ("a", "b", 256)
    record = KernelRecord(
        *("add:256", "znver4/1", "cpu:x86-64-v3", "nest", 1, {"schedule": "i:32"}, digest),
        *("kernel", "native-1", slots, 5.0, "numpy", 6.0),
    )
    write_kernel_db(path, [(record, code)])


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


def _filled_ledger(directory: Path) -> Any:
    """An open ledger with a study in it."""
    from skipjack.core.config import Config
    from skipjack.core.device import Device
    from skipjack.core.problem import Problem
    from skipjack.core.study import Study
    from skipjack.core.trial import Trial
    from skipjack.ledger import Ledger

    ledger = Ledger.open(directory)
    study = Study(Problem("matmul", (8, 8, 8)), "loops", "cpu:znver4/1:abc", "genetic", seed=3)
    ledger.start_study(study, 5)
    ledger.log_ask(study.id, Config(tile=3))
    ledger.log_tells(study.id, [Trial(Config(tile=3), value=1.0)])
    ledger.add_device(Device("cpu", "znver4", 1))
    return ledger


@cache
def _ledger_seeds() -> Sequence[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        with _filled_ledger(Path(folder)) as ledger:
            path: Path = ledger.path
        return [path.read_bytes()]


@cache
def _facts_seeds() -> Sequence[bytes]:
    from skipjack.ledger import Ledger

    with tempfile.TemporaryDirectory() as folder, _filled_ledger(Path(folder)) as ledger:
        nothing = Ledger.in_memory()
        try:
            return [ledger.facts_beyond(nothing.snapshot()).encode()]
        finally:
            nothing.close()


def _facts(text: str) -> object:
    from skipjack.ledger import Ledger

    ledger = Ledger.in_memory()
    try:
        added = ledger.add_facts(text)
        return added, ledger.studies(), ledger.devices(), ledger.verdicts()
    finally:
        ledger.close()


def _merged_ledger(path: Path) -> object:
    from skipjack.ledger import Ledger

    with Ledger.open(_emptied(path.parent)) as ledger:
        return ledger.merge(path), ledger.studies(), ledger.devices()


def _own_ledger(data: bytes, directory: Path) -> object:
    from skipjack.ledger import Ledger

    folder = _emptied(directory)
    (folder / "ledger.sqlite").write_bytes(data)
    with Ledger.open(folder) as ledger:
        return ledger.studies(), ledger.devices(), ledger.verdicts(), ledger.winners("matmul")


def _bundle(path: Path) -> object:
    from skipjack.fleet.bundle.container import Bundle, Part

    with Bundle.open(path, _KEY) as bundle:
        return [
            (part, name, bundle.body(part, name)) for part in Part for name in bundle.names(part)
        ]


def _write_bundle(path: Path) -> None:
    from skipjack.fleet.bundle.container import Bundle, Entry, Part
    from skipjack.fleet.bundle.manifest import Kind, Manifest
    from skipjack.fleet.seal import fingerprint

    manifest = Manifest(Kind.JOBS, "nightly", "a store", fingerprint(_KEY))
    with Bundle.create(path, manifest, _KEY) as bundle:
        bundle.append([Entry(Part.ARTIFACT, "ab", b"code"), Entry(Part.TASK, "1", b"{}")])


def _url(text: str) -> object:
    from skipjack.fleet.store.urls import database_url, for_people
    from skipjack.settings import Settings

    return for_people(database_url(text, Settings(Path("/nowhere"))))


READERS = (
    Reader("perf-db", of_file("x.db", _checked_database), _made("x.db", _write_perf_db), 100),
    Reader("kernel-db", of_file("x.kdb", _checked_database), _made("x.kdb", _write_kernel_db), 100),
    Reader("kernel file", of_file("x.skk", _kernel_file), _made("x.skk", _write_kernel_file), 150),
    Reader("bank", of_file("bank.jsonl", _bank), _bank_lines, 100),
    Reader("facts of a ledger", of_text(_facts), _facts_seeds, 100),
    Reader("foreign ledger", of_file("other.sqlite", _merged_ledger), _ledger_seeds, 20),
    Reader("own ledger", _own_ledger, _ledger_seeds, 20),
    Reader("bundle", of_file("x.bundle", _bundle), _made("x.bundle", _write_bundle), 150),
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
