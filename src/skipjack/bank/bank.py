"""The bank's file: sorted lines of JSON, read often, written whole."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skipjack.bank.entry import PERF, BankEntry, Key, to_lines
from skipjack.bank.entry_reading import NewerEntryError
from skipjack.bank.evidence import merge_entries, strength
from skipjack.errors import CorruptFileError, NewerFormatError, StorageError, UsageError
from skipjack.storage import FileLock, atomic_write, ensure_directory

if TYPE_CHECKING:
    # A program that only looks things up need not load SQLite.
    from skipjack.ledger import Ledger

FILE_NAME = "bank.jsonl"
BAD_LINES = "bank.jsonl.bad-lines"
"""Where a rebuilt bank leaves the lines that nobody can read."""
PROJECTED = ("banked", "found")
"""Verdicts whose records are entries: a tuning's, and a find's."""
_RESTORE = "`skipjack bank rebuild` restores it from the ledger"
_MEND = "its other lines are merged; for these, ask whoever made the file for a new one"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of entries that were offered to a bank."""

    new: int = 0
    replaced: int = 0
    """The entry that was offered was timed beside the bank's, or has stronger evidence."""
    kept: int = 0
    """The bank's entry stayed, having the stronger evidence."""
    same: int = 0
    """The bank had the very entry."""

    @property
    def changed(self) -> int:
        """Entries of the bank that are new or different now."""
        return self.new + self.replaced

    @property
    def offered(self) -> int:
        """How many problems, devices and kinds there was an entry for."""
        return self.changed + self.kept + self.same


@dataclass(frozen=True, slots=True)
class _BadLine:
    """A line that is not an entry. The other lines are read all the same."""

    number: int
    data: bytes
    reason: str
    newer: bool
    """It is of a format that only a newer Skipjack knows."""

    def __str__(self) -> str:
        return f"line {self.number}: {self.reason}"


@dataclass(frozen=True, slots=True)
class _Content:
    """What was read, and the file's identity when it was."""

    entries: Mapping[Key, BankEntry] = field(default_factory=dict)
    bad: tuple[_BadLine, ...] = ()
    identity: tuple[int, int, int] | None = None


class Bank:
    """What is known, in one file.

    Reading sees a whole file, old or new, and costs a look at the file's date while it does not
    change. Writing takes a lock, so that of many processes none loses an entry. Of two entries for
    one key the one with the stronger evidence is kept (`skipjack.bank.evidence`).

    A line that cannot be read is left out with a warning, and stays in the file until the bank is
    rebuilt. A file with a line of a newer format is read likewise and never written
    (`NewerFormatError`).
    """

    writes: ClassVar[int] = 0
    """How often this process has written to a bank."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content = _Content()

    @classmethod
    def open(cls, directory: Path) -> Bank:
        """The bank in `directory`; without a file it is empty. Reading needs no right to write."""
        return cls(directory / FILE_NAME)

    def lookup(self, problem_key: str, device_class: str, kind: str = PERF) -> BankEntry | None:
        """What is known of a problem on a class of devices."""
        return self._load().entries.get((problem_key, device_class, kind))

    def entries(self) -> list[BankEntry]:
        """Everything, sorted by problem, device and kind."""
        return list(self._load().entries.values())

    def put(self, entry: BankEntry) -> Changes:
        """Add an entry; one that is there gives way to stronger evidence, or stays."""
        return self.add([entry])

    def add(self, offered: Iterable[BankEntry]) -> Changes:
        """Add many entries at once, by the rule of `put`."""
        with self._lock():
            content = self._writable()
            return self._write(content.entries, merge_entries(offered), content.bad)

    def merge(self, path: Path) -> Changes:
        """Add the entries of another bank file, which is only read."""
        try:
            content = _parse(path.read_bytes())
        except FileNotFoundError:
            raise UsageError(f"there is no bank at {path}") from None
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}") from error
        if content.bad and not content.entries:
            _refuse_newer(content.bad, path)
            raise CorruptFileError(
                f"{path} is not a bank: {content.bad[0]}; it was left as it is and nothing "
                "was merged"
            )
        if content.bad:
            log.warning("%s", _complaint(path, content.bad, _MEND))
        return self.add(content.entries.values())

    def rebuild(self, ledger: Ledger) -> Changes:
        """Take in all that the ledger's verdicts say; lines that cannot be read leave the file.

        What the ledger does not know, having come from other banks, stays by the rule of `put`.
        Without a file the bank becomes what the ledger says. Lines that leave are kept beside it.
        """
        with self._lock():
            # Verdicts are read under the lock: what is banked later is put into the new file.
            offered = merge_entries(_verdicts(ledger))
            content = self._writable()
            if content.bad:
                self._keep_aside(content.bad)
            return self._write(content.entries, offered, always=True)

    def _keep_aside(self, lines: Iterable[_BadLine]) -> None:
        """Add lines to the file of those that cannot be read."""
        aside = self.path.with_name(BAD_LINES)
        known = aside.read_bytes() if aside.exists() else b""
        atomic_write(aside, known + b"".join(line.data + b"\n" for line in lines))

    def _write(
        self,
        before: Mapping[Key, BankEntry],
        offered: Mapping[Key, BankEntry],
        bad: Iterable[_BadLine] = (),
        *,
        always: bool = False,
    ) -> Changes:
        """Merge and write, if it changes something or `always`; under the lock."""
        after = merge_entries([*before.values(), *offered.values()])
        changes = _changes(before, offered, after)
        if changes.changed or always:
            unread = b"".join(line.data + b"\n" for line in bad)
            atomic_write(self.path, to_lines(after) + unread)
            Bank.writes += 1
        return changes

    def _writable(self) -> _Content:
        """The content, for a caller that writes a new file; under the lock."""
        content = self._load()
        _refuse_newer(content.bad, self.path)
        return content

    def _load(self) -> _Content:
        """The content, parsed again only if the file changed."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                identity = (status.st_ino, status.st_mtime_ns, status.st_size)
                if identity != self._content.identity:
                    self._content = _parse(file.read(), identity)
                    if self._content.bad:
                        log.warning("%s", _complaint(self.path, self._content.bad, _RESTORE))
        except FileNotFoundError:
            self._content = _Content()
        except OSError as error:
            raise StorageError(f"cannot read the bank {self.path}: {error.strerror}") from error
        return self._content

    def _lock(self) -> FileLock:
        ensure_directory(self.path.parent)
        return FileLock(self.path.with_name("bank.lock"), on_wait=log.info)


def next_best(ledger: Ledger, entry: BankEntry) -> list[BankEntry]:
    """What else a ledger knows for the key of an entry, the strongest evidence first."""
    known = {one.line: one for one in _verdicts(ledger, entry.problem) if one.key == entry.key}
    known.pop(entry.line, None)
    return sorted(known.values(), key=lambda one: (strength(one), one.line), reverse=True)


def _verdicts(ledger: Ledger, problem: str | None = None) -> Iterator[BankEntry]:
    """The entries of a ledger's verdicts, without those that cannot be read."""
    for verdict in ledger.verdicts(problem):
        if verdict.status in PROJECTED:
            try:
                yield BankEntry.from_record(dict(verdict.record))
            except ValueError as error:
                log.warning(
                    "left out a verdict on %s in %s: %s", verdict.problem, ledger.path, error
                )


def _changes(
    before: Mapping[Key, BankEntry],
    offered: Mapping[Key, BankEntry],
    after: Mapping[Key, BankEntry],
) -> Changes:
    known = [key for key in offered if key in before]
    same = sum(offered[key] == before[key] for key in known)
    replaced = sum(after[key] != before[key] for key in known)
    return Changes(len(offered) - len(known), replaced, len(known) - same - replaced, same)


def _refuse_newer(bad: Iterable[_BadLine], path: Path) -> None:
    for line in bad:
        if line.newer:
            raise NewerFormatError(f"{path} {line}; it was left as it is, use a newer Skipjack")


def _complaint(path: Path, bad: tuple[_BadLine, ...], remedy: str) -> str:
    """What to say of lines that are left out."""
    more = f", and {len(bad) - 1} more lines" if len(bad) > 1 else ""
    if any(line.newer for line in bad):
        remedy = "use a newer Skipjack"
    return f"left out of the bank {path}: {bad[0]}{more}; {remedy}"


def _parse(data: bytes, identity: tuple[int, int, int] | None = None) -> _Content:
    entries: list[BankEntry] = []
    bad: list[_BadLine] = []
    lines = data.removesuffix(b"\n")
    for number, line in enumerate(lines.split(b"\n") if lines else (), start=1):
        try:
            entries.append(BankEntry.from_line(line))
        except ValueError as error:
            reason = str(error).removeprefix("line 1: ")  # of the document that a line is
            bad.append(_BadLine(number, line, reason, isinstance(error, NewerEntryError)))
    return _Content(merge_entries(entries), tuple(bad), identity)
