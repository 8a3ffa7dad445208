"""The content of a bank: entries, and lines that cannot be read. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from skipjack.bank.entry import BankEntry, Key, NewerEntryError
from skipjack.bank.index import Identity, IndexSummary, key_hash
from skipjack.bank.strength import ranked
from skipjack.errors import NewerFormatError
from skipjack.reading import numbered


@dataclass(frozen=True, slots=True)
class UnreadableLine:
    """A line that is not an entry. The other lines are read nevertheless."""

    number: int
    data: bytes
    reason: str
    newer: bool
    """Whether it is of a format that only a newer Skipjack knows."""
    offset: int = 0

    def __str__(self) -> str:
        return f"line {self.number}: {self.reason}"


@dataclass(frozen=True, slots=True)
class PlacedEntry:
    """An entry and where its line is."""

    offset: int
    length: int
    """Bytes of the line with its end."""
    entry: BankEntry


@dataclass(slots=True)
class Content:
    """The entries of some lines."""

    lines: int = 0
    """The number of lines."""
    placed: dict[Key, list[PlacedEntry]] = field(default_factory=dict)
    """All entries, including those that were replaced."""
    bad: list[UnreadableLine] = field(default_factory=list)
    torn: int | None = None
    """The offset of an unfinished last line."""

    def kept(self, key: Key) -> list[PlacedEntry]:
        """The entries of a key that the bank keeps, the strongest first."""
        return kept_of(self.placed.get(key, ()))

    def keys_of(self, problem: str) -> set[Key]:
        """The keys of this problem that have entries."""
        return {key for key in self.placed if key[0] == problem}

    def entries(self) -> dict[Key, tuple[BankEntry, ...]]:
        """The entries that the bank keeps, sorted by key."""
        return {key: tuple(one.entry for one in self.kept(key)) for key in sorted(self.placed)}

    def summary(self, identity: Identity, tail: bytes, content: bytes) -> IndexSummary:
        """The summary of an index of a file with these lines."""
        inode, changed_ns, size = identity
        newer = next((line for line in self.bad if line.newer), None)
        known = IndexSummary(inode, changed_ns, size, self.lines, self._dead(), len(self.bad))
        damaged = next((line for line in self.bad if not line.newer), None)
        if damaged:
            known = replace(known, bad_at=damaged.offset, bad_number=damaged.number)
        if newer:
            known = replace(known, newer_at=newer.offset, newer_number=newer.number)
        return replace(known, tail=tail, content=content)

    def pairs(self) -> list[tuple[int, int]]:
        """Hashes of keys and offsets of the entries that the bank keeps."""
        return [(key_hash(key), one.offset) for key in self.placed for one in self.kept(key)]

    def _dead(self) -> int:
        """Bytes of lines that were replaced."""
        dead = 0
        for key, placed in self.placed.items():
            if len(placed) > 1:
                dead += _bytes(placed) - _bytes(self.kept(key))
        return dead


def _bytes(placed: Iterable[PlacedEntry]) -> int:
    return sum(one.length for one in placed)


def kept_of(placed: Iterable[PlacedEntry]) -> list[PlacedEntry]:
    """The entries of one key that a bank keeps, the strongest first."""
    known = list(placed)
    if len(known) < 2:
        return known
    by_id = {id(one.entry): one for one in known}
    return [by_id[id(entry)] for entry in ranked(one.entry for one in known)]


def read_content(data: bytes, *, start: int = 0, lines: int = 0, growing: bool = False) -> Content:
    """The content of lines that follow `start` bytes and `lines` lines.

    In a file that is `growing`, an invalid last line without an end is being written, or its writer
    was killed: it does not count as a line.
    """
    content = Content(lines)
    place = 0
    while place < len(data):
        end = data.find(b"\n", place)
        line = data[place:] if end < 0 else data[place:end]
        offset = start + place
        place = len(data) if end < 0 else end + 1
        content.lines += 1
        try:
            entry = BankEntry.from_line(line)
            content.placed.setdefault(entry.key, []).append(
                PlacedEntry(offset, start + place - offset, entry)
            )
        except ValueError as error:
            if end < 0 and growing and line.startswith(b"{"):
                content.torn = offset
                content.lines -= 1
            else:
                content.bad.append(bad_line(content.lines, line, error, offset))
    return content


def laid_out(
    entries: Mapping[Key, Iterable[BankEntry]], bad: Iterable[UnreadableLine]
) -> tuple[bytes, Content]:
    """The canonical bytes of a bank, with unreadable lines at the end, and their content."""
    content, parts, offset = Content(), [], 0
    for key in sorted(entries):
        for entry in entries[key]:
            parts.append(f"{entry.line}\n".encode())
            placed = PlacedEntry(offset, len(parts[-1]), entry)
            content.placed.setdefault(key, []).append(placed)
            offset += placed.length
    for line in bad:
        content.bad.append(replace(line, number=len(parts) + 1, offset=offset))
        parts.append(line.data + b"\n")
        offset += len(parts[-1])
    content.lines = len(parts)
    return b"".join(parts), content


def bad_line(number: int, data: bytes, error: ValueError, offset: int) -> UnreadableLine:
    """The record of a line that cannot be parsed."""
    reason = str(error).removeprefix("line 1: ")  # of the document that a line is
    return UnreadableLine(number, data, reason, isinstance(error, NewerEntryError), offset)


def refuse_newer(bad: Iterable[UnreadableLine], path: Path) -> None:
    """Raise `NewerFormatError` if a line is of a newer format."""
    for line in bad:
        if line.newer:
            raise NewerFormatError(f"{path} {line}; it was not changed, use a newer Skipjack")


def unreadable_warning(path: Path, bad: list[UnreadableLine], count: int, remedy: str) -> str:
    """The warning about `count` lines that are left out, with the advice that fits each cause.

    `bad` has the first unreadable line and the first of a newer format, if there are any.
    """
    damaged = next((line for line in bad if not line.newer), None)
    newer = next((line for line in bad if line.newer), None)
    said = [f"{damaged}; {remedy}"] if damaged else []
    said += [f"{newer}; use a newer Skipjack"] if newer else []
    more = count - len(said)
    said += [f"and {numbered(more, 'more line')}"] if more else []
    return f"left out of the bank {path}: {'; '.join(said)}"
