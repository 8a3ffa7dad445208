"""A bank's file as it is at a time: parsed as a whole, or read line by line by its index."""

from __future__ import annotations

import hashlib
import os
import time
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from skipjack.bank.content import Content, PlacedEntry, UnreadLine, bad_line, kept_of, read_content
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
from skipjack.reading import open_plain

INDEXED_BYTES = 1 << 16
"""Of a smaller file there is no index: it is parsed in a few milliseconds."""
_LARGEST_TAIL = 1 << 18
"""More bytes behind what an index covers are not parsed by every reader: the index is made anew."""
_LINE_BYTES = 4096
"""What is read of a line at first."""
_MOST_CACHED = 4096
_ATTEMPTS = 4
_PAUSE_S = 0.005


class BankView(Protocol):
    """What a file says at a time. Several threads may use it."""

    bad: list[UnreadLine]
    """Lines that cannot be read: the first of them, and the first of a newer format."""
    bad_count: int
    torn: bytes
    """A last line that was not finished."""

    @property
    def identity(self) -> Identity | None:
        """The state of the file; None if there is none."""
        ...

    def summary(self) -> IndexSummary:
        """What an index of it says."""
        ...

    def kept(self, key: Key) -> list[PlacedEntry]:
        """What the bank keeps of a key, the strongest first; `StaleIndexError`."""
        ...

    def keys_of(self, problem: str) -> set[Key]:
        """Keys of which something is known that have this problem; `StaleIndexError`."""
        ...


class WholeView:
    """All of a file."""

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
    """A file by its index, and what was appended since the index was made."""

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
        """Whether the index is of this very state of the file."""
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
        """Hashes of keys and places of entries that the index does not know."""
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
        """The line that begins there, without its end."""
        if not 0 <= offset < self.identity[2] + (1 << 40):
            raise StaleIndexError(f"{offset} is no place in the file")
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

    def _bad(self, offset: int, number: int) -> UnreadLine:
        line = self._line(offset)
        try:
            BankEntry.from_line(line)
        except ValueError as error:
            return bad_line(number, line, error, offset)
        raise StaleIndexError(f"an entry begins at {offset}")


def index_path(path: Path) -> Path:
    """Where the index of a bank's file lies."""
    return path.with_suffix(".index")


def open_view(path: Path) -> BankView:
    """The file as it is; `OSError`."""
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
    """The file, parsed; `OSError`."""
    with os.fdopen(open_plain(path), "rb") as file:
        identity = identity_of(os.fstat(file.fileno()))
        data = file.read(identity[2])
    return WholeView(identity, data, read_content(data, growing=True))


def _tail(descriptor: int, identity: Identity, index: Index) -> Content | None:
    """What an index does not cover of a file; None if it is of another file."""
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
