"""The file of a bank as it is read: parsed as a whole, or line by line by its index, and opened
again when it changes. What writes is `skipjack.bank.writer`, which a program that only looks
things up does not load.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from skipjack.bank.content import (
    Content,
    PlacedEntry,
    UnreadableLine,
    bad_line,
    kept_of,
    read_content,
    unreadable_warning,
)
from skipjack.bank.entry import BankEntry, Key
from skipjack.bank.index import (
    TAIL,
    UNKNOWN,
    Identity,
    Index,
    IndexSummary,
    StaleIndexError,
    identity_of,
    key_hash,
    problem_hash,
    tail_digest,
)
from skipjack.errors import StorageError
from skipjack.reading import open_plain

# A bank's file at a point in time: parsed as a whole, or read line by line by its index.

INDEXED_BYTES = 1 << 16
"""A smaller file has no index: it is parsed in a few milliseconds."""
_LARGEST_TAIL = 1 << 18
"""If more bytes were appended since the index was made, it is rebuilt, so that not every reader has
to parse them."""
_LINE_BYTES = 4096
"""The bytes of a line that are read first."""
_MOST_CACHED = 4096
_ATTEMPTS = 4
_PAUSE_S = 0.005


class BankView(Protocol):
    """A file at a point in time. Several threads may use it."""

    bad: list[UnreadableLine]
    """The first line that cannot be read, and the first of a newer format."""
    bad_count: int
    torn: bytes
    """An unfinished last line."""

    @property
    def identity(self) -> Identity | None:
        """The state of the file; None if it does not exist."""
        ...

    def summary(self) -> IndexSummary:
        """The summary for an index of the file."""
        ...

    def kept(self, key: Key) -> list[PlacedEntry]:
        """The entries of a key that the bank keeps, the strongest first; `StaleIndexError`."""
        ...

    def keys_of(self, problem: str) -> set[Key]:
        """The keys of this problem that have entries; `StaleIndexError`."""
        ...


class WholeView:
    """The view of a file that was parsed as a whole."""

    def __init__(self, identity: Identity | None, data: bytes, content: Content) -> None:
        self.identity: Identity | None = identity
        self.content = content
        self.bad, self.bad_count = content.bad, len(content.bad)
        self.ends = data.endswith(b"\n") or not data
        self.torn = data[content.torn :] if content.torn is not None else b""
        indexed = len(data) >= INDEXED_BYTES
        self._digest = hashlib.sha256(data).digest() if indexed else UNKNOWN
        self._tail = tail_digest(data)
        self._kept: dict[Key, list[PlacedEntry]] = {}

    def kept(self, key: Key) -> list[PlacedEntry]:
        """See `BankView`."""
        if key not in self._kept:
            self._kept[key] = self.content.kept(key)
        return self._kept[key]

    def keys_of(self, problem: str) -> set[Key]:
        """See `BankView`."""
        return self.content.keys_of(problem)

    def summary(self) -> IndexSummary:
        """See `BankView`."""
        return self.content.summary(self.identity or (0, 0, 0), self._tail, self._digest)


class IndexedView:
    """The view of a file by its index, with the lines that were appended since."""

    def __init__(self, descriptor: int, identity: Identity, index: Index, tail: Content) -> None:
        self.identity, self.index = identity, index
        self._descriptor, self._tail = descriptor, tail
        weakref.finalize(self, os.close, descriptor)
        self._cache: dict[Key, list[PlacedEntry]] = {}
        summary = index.summary
        first = {summary.bad_at: summary.bad_number, summary.newer_at: summary.newer_number}
        found = [self._bad(at, number) for at, number in sorted(first.items()) if at >= 0]
        self.bad = [*found, *tail.bad]
        self.bad_count = summary.bad + len(tail.bad)
        self.torn = b"" if tail.torn is None else self._read(identity[2] - tail.torn, tail.torn)

    @property
    def current(self) -> bool:
        """Whether the index is of exactly this state of the file."""
        return self.index.summary.identity == self.identity

    def summary(self) -> IndexSummary:
        """See `BankView`."""
        known = self.index.summary
        if self.identity[2] != known.size:
            known = replace(known, tail=self._tail_digest(), content=UNKNOWN)
        for line in self._tail.bad:
            if not line.newer and known.bad_at < 0:
                known = replace(known, bad_at=line.offset, bad_number=line.number)
            if line.newer and known.newer_at < 0:
                known = replace(known, newer_at=line.offset, newer_number=line.number)
        return replace(known.at(self.identity), lines=self._tail.lines, bad=self.bad_count)

    def pending(self) -> list[tuple[int, int]]:
        """Hashes of keys and offsets of entries that are not in the index."""
        return self._tail.pairs()

    def _tail_digest(self) -> bytes:
        size = self.identity[2]
        return tail_digest(self._read(TAIL, max(0, size - TAIL)))

    def _read(self, length: int, offset: int) -> bytes:
        return os.pread(self._descriptor, length, offset)

    def kept(self, key: Key) -> list[PlacedEntry]:
        """See `BankView`."""
        found = self._cache.get(key)
        if found is None:
            found = kept_of([*self._indexed(key), *self._tail.placed.get(key, ())])
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            self._cache[key] = found
        return found

    def keys_of(self, problem: str) -> set[Key]:
        """See `BankView`."""
        hashed = problem_hash(problem)
        known = [self._placed(offset).entry for offset in self.index.offsets_of_problem(hashed)]
        if any(problem_hash(entry.problem) != hashed for entry in known):
            raise StaleIndexError(f"an entry that should be of {problem} is of another problem")
        return {one.key for one in known if one.problem == problem} | self._tail.keys_of(problem)

    def _indexed(self, key: Key) -> list[PlacedEntry]:
        hashed = key_hash(key)
        known = [self._placed(offset) for offset in self.index.offsets(hashed)]
        for one in known:
            if key_hash(one.entry.key) != hashed:
                raise StaleIndexError(f"the entry at {one.offset} is of another key")
        return [one for one in known if one.entry.key == key]

    def _placed(self, offset: int) -> PlacedEntry:
        line = self._line(offset)
        try:
            return PlacedEntry(offset, len(line) + 1, BankEntry.from_line(line))
        except ValueError as error:
            raise StaleIndexError(f"no entry begins at {offset}: {error}") from None

    def _line(self, offset: int) -> bytes:
        """The line that begins at this offset, without its end."""
        if not 0 <= offset < self.identity[2] + (1 << 40):
            raise StaleIndexError(f"offset {offset} is outside of the file")
        before = 1 if offset else 0
        length = _LINE_BYTES
        while True:
            data = self._read(length, offset - before)
            if before and not data.startswith(b"\n"):
                raise StaleIndexError(f"no line begins at {offset}")
            end = data.find(b"\n", before)
            if end >= 0:
                return data[before:end]
            if len(data) < length:
                raise StaleIndexError(f"the line at {offset} has no end")
            length *= 4

    def _bad(self, offset: int, number: int) -> UnreadableLine:
        line = self._line(offset)
        try:
            BankEntry.from_line(line)
        except ValueError as error:
            return bad_line(number, line, error, offset)
        raise StaleIndexError(f"an entry begins at {offset}")


def index_path(path: Path) -> Path:
    """The path of the index of a bank's file."""
    return path.with_suffix(".index")


def open_view(path: Path) -> BankView:
    """A view of the present file; raises `OSError`."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_S)  # a writer replaces the file and its index one after the other
        descriptor = open_plain(path)
        try:
            identity = identity_of(os.fstat(descriptor))
            if identity[2] < INDEXED_BYTES:
                break
            index = Index.open(index_path(path))
            tail = _tail(descriptor, identity, index) if index else None
            if index and tail:
                # From here on the view closes the file.
                descriptor, owned = -1, descriptor
                return IndexedView(owned, identity, index, tail)
            if index is None:
                break
        except StaleIndexError:
            break
        finally:
            if descriptor >= 0:
                os.close(descriptor)
    return open_whole(path)


def open_whole(path: Path) -> WholeView:
    """A view of the whole file, parsed; raises `OSError`."""
    with os.fdopen(open_plain(path), "rb") as file:
        identity = identity_of(os.fstat(file.fileno()))
        data = file.read(identity[2])
    return WholeView(identity, data, read_content(data, growing=True))


def _tail(descriptor: int, identity: Identity, index: Index) -> Content | None:
    """The lines of a file that an index does not cover; None if it is of another file."""
    summary = index.summary
    if summary.identity == identity:
        return Content(summary.lines)
    inode, _, size = identity
    if summary.size == size and summary.content:
        return Content(summary.lines) if _sha256(descriptor) == summary.content else None
    grown = size - summary.size
    if summary.inode != inode or not 0 < grown <= _LARGEST_TAIL or summary.size <= 0:
        return None
    overlap = min(summary.size, TAIL)
    data = os.pread(descriptor, overlap + grown, summary.size - overlap)
    if tail_digest(data[:overlap]) != summary.tail:
        return None
    return read_content(data[overlap:], start=summary.size, lines=summary.lines, growing=True)


def _sha256(descriptor: int) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        return hashlib.file_digest(file, "sha256").digest()


# The file of a bank, which is opened again when it changes.

RESTORE = "`skipjack bank rebuild` restores it from the ledger"
NEW_COPY = "get a new copy of the file from its owner"
"""The advice for a bank of another user."""

log = logging.getLogger(__name__)
_warned: set[Path] = set()
"""Files for which this process has warned of unreadable lines."""
V = TypeVar("V", bound=BankView)


class BankFile:
    """The file of a `Bank`. Several threads may read it."""

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        self.path = path
        self._writable = writable
        self.view: BankView = empty_view()
        """The file as it was when it was last opened."""

    def kept(self, key: Key) -> list[PlacedEntry]:
        """The kept entries of a key, the strongest first, even if the index is stale."""
        with self.as_storage_errors():
            try:
                return self._load().kept(key)
            except StaleIndexError as error:
                return self._without_index(error).kept(key)

    def keys_of(self, problem: str) -> set[Key]:
        """The keys of this problem that have entries, even if the index is stale."""
        with self.as_storage_errors():
            try:
                return self._load().keys_of(problem)
            except StaleIndexError as error:
                return self._without_index(error).keys_of(problem)

    def whole(self) -> Content:
        """The content of the whole file, which is parsed again only if it changed."""
        with self.as_storage_errors():
            view = self._load()
            if not isinstance(view, WholeView):
                view = self.adopt(open_whole(self.path))
            return view.content

    def identity(self) -> Identity:
        """The present state of the file; raises `OSError`."""
        return identity_of(self.path.stat())

    def adopt(self, view: V) -> V:
        """Use a view from now on; warn of unreadable lines, once per process."""
        self.view = view
        if self.path not in _warned and view.identity:
            bad, count = list(view.bad), view.bad_count
            if unfinished := self._unfinished(view):
                bad, count = [*bad, unfinished], count + 1
            if bad:
                _warned.add(self.path)
                remedy = RESTORE if self._writable else NEW_COPY
                log.warning("%s", unreadable_warning(self.path, bad, count, remedy))
        return view

    def _unfinished(self, view: BankView) -> UnreadableLine | None:
        """The last line if it is damaged by having no end.

        In the user's bank an unfinished line after others is being written, or the next writer
        warns of it.
        """
        if not view.torn:
            return None
        lines = view.summary().lines
        if self._writable and lines:
            return None
        return UnreadableLine(lines + 1, view.torn, "it is cut off before its end", newer=False)

    @contextlib.contextmanager
    def as_storage_errors(self) -> Iterator[None]:
        """Within the block, an `OSError` becomes a `StorageError`."""
        try:
            yield
        except OSError as error:
            raise StorageError(f"cannot read the bank {self.path}: {error.strerror}") from error

    def _load(self) -> BankView:
        """The present view of the file, opened again only if it changed."""
        view = self.view
        try:
            if self.identity() == view.identity:
                return view
            view = self.adopt(open_view(self.path))
        except FileNotFoundError:
            return self.adopt(empty_view())
        self._offer_index(view)
        return view

    def _without_index(self, error: StaleIndexError) -> BankView:
        """The view of the whole file, whose index is rebuilt."""
        log.info("rebuilding the index of %s: %s", self.path, error)
        view = self.adopt(open_whole(self.path))
        self._offer_index(view)
        return view

    def _offer_index(self, view: BankView) -> None:
        """Write an index for the next reader, if the file is large and can be written."""
        if view.identity is None or view.identity[2] < INDEXED_BYTES:
            return
        if view.torn or (isinstance(view, IndexedView) and view.current):
            return
        if self._writable and os.access(self.path.parent, os.W_OK):
            from skipjack.bank.writer import offer_index

            offer_index(self, view)


def empty_view() -> WholeView:
    """The view of a file that does not exist."""
    return WholeView(None, b"", Content())
