"""The bank's file: sorted lines of JSON, read often, written whole."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skipjack.bank.entry import PERF, BankEntry, Key, NewerEntryError, merge_entries, to_lines
from skipjack.errors import CorruptFileError, NewerFormatError, StorageError, UsageError
from skipjack.storage import FileLock, atomic_write, ensure_directory, set_aside

if TYPE_CHECKING:
    # A program that only looks things up need not load SQLite.
    from skipjack.ledger import Ledger

FILE_NAME = "bank.jsonl"
PROJECTED = ("banked", "found")
"""Verdicts whose records are entries: a tuning's, and a find's."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Content:
    """What was read, and the file's identity when it was."""

    identity: tuple[int, int, int] | None
    entries: Mapping[Key, BankEntry]


class Bank:
    """What is known, in one file.

    Reading sees a whole file, old or new, and costs a look at the file's date while it does not
    change. Writing takes a lock, so that of many processes none loses an entry. A damaged file is
    set aside (`CorruptFileError`); a newer one is left as it is (`NewerFormatError`).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content = _Content(None, {})

    @classmethod
    def open(cls, directory: Path) -> Bank:
        """The bank in `directory`; without a file it is empty. Reading needs no right to write."""
        return cls(directory / FILE_NAME)

    def lookup(self, problem_key: str, device_class: str, kind: str = PERF) -> BankEntry | None:
        """What is known of a problem on a class of devices."""
        return self._entries().get((problem_key, device_class, kind))

    def entries(self) -> list[BankEntry]:
        """Everything, sorted by problem, device and kind."""
        return list(self._entries().values())

    def put(self, entry: BankEntry) -> None:
        """Add an entry; an older one of the same key gives way, a newer one stays."""
        self.add([entry])

    def merge(self, path: Path) -> int:
        """Add the entries of another bank file, which is only read; return how many were news."""
        try:
            added = _parse(path.read_bytes(), path)
        except FileNotFoundError:
            raise UsageError(f"there is no bank at {path}") from None
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}") from error
        except ValueError as error:
            raise CorruptFileError(
                f"{path} is not a bank: {error}; it was left as it is and nothing was merged"
            ) from error
        return self.add(added.values())

    def rebuild(self, ledger: Ledger) -> int:
        """Replace the file by what the ledger's verdicts say; return how many entries.

        A bank that holds more than the ledger knows (merged entries, or the ledger is new) is kept
        under another name.
        """
        with self._lock():
            # Verdicts are read under the lock: what is banked later is put into the new file.
            banked = [verdict for verdict in ledger.verdicts() if verdict.status in PROJECTED]
            try:
                entries = merge_entries(BankEntry.from_record(dict(v.record)) for v in banked)
            except NewerEntryError as error:
                raise NewerFormatError(f"a verdict in {ledger.path}: {error}") from None
            except ValueError as error:
                raise StorageError(
                    f"a banked verdict in {ledger.path} is not a bank entry: {error}"
                ) from error
            self._keep_unless_covered(entries)
            atomic_write(self.path, to_lines(entries))
        return len(entries)

    def _keep_unless_covered(self, entries: Mapping[Key, BankEntry]) -> None:
        try:
            lost = self._load().keys() - entries.keys()
        except ValueError:
            lost = {("", "", "")}  # a damaged file may hold anything
        if lost:
            kept = set_aside(self.path, mark="replaced")
            log.warning("the old bank knew more than the ledger; it was kept as %s", kept.name)

    def add(self, added: Iterable[BankEntry]) -> int:
        """Add many entries at once, by the rule of `put`; return how many were news."""
        with self._lock():
            before = self._read()
            after = merge_entries([*before.values(), *added])
            changed = sum(before.get(key) is not entry for key, entry in after.items())
            if changed:
                atomic_write(self.path, to_lines(after))
        return changed

    def _entries(self) -> Mapping[Key, BankEntry]:
        try:
            return self._load()
        except ValueError:
            # Perhaps another process is setting it aside right now: look again, alone.
            with self._lock():
                return self._read()

    def _read(self) -> Mapping[Key, BankEntry]:
        """The entries, under the lock: a damaged file is set aside."""
        try:
            return self._load()
        except ValueError as error:
            aside = set_aside(self.path)
            raise CorruptFileError(
                f"the bank {self.path} is damaged: {error}; it was set aside as {aside.name}, "
                "`skipjack bank rebuild` restores it from the ledger"
            ) from error

    def _load(self) -> Mapping[Key, BankEntry]:
        """The entries, parsed again only if the file changed; `ValueError` if it is damaged."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                identity = (status.st_ino, status.st_mtime_ns, status.st_size)
                if identity != self._content.identity:
                    self._content = _Content(identity, _parse(file.read(), self.path))
        except FileNotFoundError:
            self._content = _Content(None, {})
        except OSError as error:
            raise StorageError(f"cannot read the bank {self.path}: {error.strerror}") from error
        return self._content.entries

    def _lock(self) -> FileLock:
        ensure_directory(self.path.parent)
        return FileLock(self.path.with_name("bank.lock"), on_wait=log.info)


def _parse(data: bytes, path: Path) -> dict[Key, BankEntry]:
    entries = []
    lines = data.decode("utf-8").removesuffix("\n")
    for number, line in enumerate(lines.split("\n") if lines else (), start=1):
        try:
            entries.append(BankEntry.from_line(line))
        except NewerEntryError as error:
            raise NewerFormatError(
                f"{path} line {number}: {error}; it was left as it is, use a newer Skipjack"
            ) from None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number}: {error}") from None
    return merge_entries(entries)
