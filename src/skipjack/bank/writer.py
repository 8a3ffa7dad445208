"""Writing the file of a bank: it is appended to or replaced, under its lock, with its index.

The caller decides which lines are new and which are replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from skipjack.bank.content import PlacedEntry, UnreadableLine, laid_out, refuse_newer
from skipjack.bank.entry import BankEntry, Key
from skipjack.bank.file import (
    INDEXED_BYTES,
    RESTORE,
    BankFile,
    BankView,
    IndexedView,
    WholeView,
    empty_view,
    index_path,
    open_view,
)
from skipjack.bank.index import (
    TAIL,
    UNKNOWN,
    IndexSummary,
    identity_of,
    key_hash,
    tail_digest,
    write_index,
)
from skipjack.errors import StorageError
from skipjack.storage import (
    AppendedFile,
    FileLock,
    atomic_replacement,
    atomic_write,
    ensure_directory,
    write_synced,
)

BAD_LINES = "bank.jsonl.bad-lines"
"""The file for lines of a bank that cannot be read."""

log = logging.getLogger(__name__)


class BankWriter:
    """``with BankWriter(file) as writer``: the file of a bank, locked and ready to be written.

    An unfinished last line of a killed writer is removed. `NewerFormatError` if a line is of a
    newer format.
    """

    def __init__(self, file: BankFile) -> None:
        self._file, self._path = file, file.path
        self._lock = FileLock(_lock_path(file), on_wait=log.info)

    def __enter__(self) -> BankWriter:
        ensure_directory(self._path.parent)
        self._lock.__enter__()
        try:
            self._prepare()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.__exit__(kind, error, trace)

    def _prepare(self) -> None:
        file = self._file
        with file.as_storage_errors():
            try:
                if not isinstance(file.view, WholeView) or file.view.identity != file.identity():
                    file.adopt(open_view(self._path))
                if torn := file.view.torn:
                    self.quarantine([torn])
                    os.truncate(self._path, file.identity()[2] - len(torn))
                    said = "the last line of the bank %s was not finished; %s"
                    log.warning(said, self._path, RESTORE)
                    file.adopt(open_view(self._path))
            except FileNotFoundError:
                file.adopt(empty_view())
        refuse_newer(file.view.bad, self._path)

    def append(self, new: Iterable[BankEntry], gone: Iterable[PlacedEntry]) -> bool:
        """Append entries and note which lines they replace.

        Returns False if the file has to be rewritten instead: it does not exist, it has other
        links, or replaced lines would be half of it.
        """
        view, displaced = self._file.view, list(gone)
        if view.identity is None:
            return False
        known = view.summary()
        dead = known.dead_bytes + sum(one.length for one in displaced)
        if 2 * dead > known.size + INDEXED_BYTES:
            return False
        with AppendedFile(self._path) as file:
            if file.status().st_nlink > 1:
                return False
            placed = _write(file, new)
            after = replace(
                known.at(identity_of(file.status())),
                lines=known.lines + len(placed),
                dead_bytes=dead,
                tail=tail_digest(file.end(TAIL)),
                content=UNKNOWN,
            )
        self._note(view, after, placed, displaced)
        return True

    def _note(
        self,
        view: BankView,
        after: IndexSummary,
        new: Iterable[PlacedEntry],
        gone: Iterable[PlacedEntry],
    ) -> None:
        """Update the index; if that fails, the next reader rebuilds it."""
        added, left = _pairs(new), set(_pairs(gone))
        with contextlib.suppress(OSError, StorageError):
            if isinstance(view, IndexedView):
                pending = [pair for pair in view.pending() if pair not in left]
                view.index.update(after, [*pending, *added], left)
            elif isinstance(view, WholeView) and after.size >= INDEXED_BYTES:
                kept = [pair for pair in view.content.pairs() if pair not in left]
                write_index(index_path(self._path), after, [*kept, *added])

    def replace(
        self,
        entries: Mapping[Key, Iterable[BankEntry]],
        bad: Iterable[UnreadableLine],
        *,
        always: bool = False,
    ) -> bool:
        """Write these entries and lines, unless the file already has them; returns whether."""
        data, content = laid_out(entries, bad)
        if not always and data == self._bytes():
            return False
        with atomic_replacement(self._path) as temporary:
            write_synced(temporary, data)
            if len(data) >= INDEXED_BYTES:
                identity = identity_of(temporary.stat())  # renaming does not change it
                digest = hashlib.sha256(data).digest()
                summary = content.summary(identity, tail_digest(data), digest)
                with contextlib.suppress(StorageError):
                    write_index(index_path(self._path), summary, content.pairs())
        return True

    def quarantine(self, lines: Iterable[bytes], name: str = BAD_LINES) -> None:
        """Add lines to a file next to the bank's, by default the one for unreadable lines."""
        aside = self._path.with_name(name)
        known = aside.read_bytes() if aside.exists() else b""
        atomic_write(aside, known + b"".join(line + b"\n" for line in lines))

    def _bytes(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""


def offer_index(file: BankFile, view: BankView) -> None:
    """Write an index of a file as it was read, if no process is writing the file."""
    with contextlib.suppress(OSError, StorageError), FileLock(_lock_path(file), timeout_s=0.0):
        if view.identity is None or file.identity() != view.identity:
            return
        if isinstance(view, IndexedView):
            view.index.update(view.summary(), view.pending(), ())
        elif isinstance(view, WholeView) and view.ends:
            write_index(index_path(file.path), view.summary(), view.content.pairs())


def _write(file: AppendedFile, entries: Iterable[BankEntry]) -> list[PlacedEntry]:
    """Write a line for each entry, and return their places."""
    lines = [] if file.end(1) in (b"\n", b"") else [b"\n"]
    offset = file.size + len(lines)
    placed = []
    for entry in entries:
        lines.append(f"{entry.line}\n".encode())
        placed.append(PlacedEntry(offset, len(lines[-1]), entry))
        offset += len(lines[-1])
    file.write(b"".join(lines))
    return placed


def _pairs(placed: Iterable[PlacedEntry]) -> list[tuple[int, int]]:
    return [(key_hash(one.entry.key), one.offset) for one in placed]


def _lock_path(file: BankFile) -> Path:
    return file.path.with_name("bank.lock")
