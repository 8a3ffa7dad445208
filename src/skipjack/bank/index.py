"""Where the lines of each key begin in a bank's file: a hash table in a file beside it.

The index is never the truth. It says of which state of the bank's file it is; of another state it
is not used. Whoever follows it reads the line that it points to and compares the key. A missing,
torn or forged index costs time, or hides an entry at worst.

Slots are on disk before the header that says so: after a power cut, too, an index that is of the
bank's file as it is knows all of its lines.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import sys
import weakref
import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

from skipjack.bank.entry import Key

Identity = tuple[int, int, int]
"""Inode, time of change and size of a file: compared for equality, so that clocks do not matter."""

_MAGIC = b"SKJBIX01"
_NUMBERS = struct.Struct("<12q")
_DIGEST_BYTES = 32
_TAIL_BYTES = 16
_CHECK = struct.Struct("<I")
_HEADER_BYTES = 256
_SLOT = struct.Struct("<QQ")
_EMPTY, _DEAD = 0, 2**64 - 1
_BLOCK = 16
"""Slots that are read at a time."""
_FEWEST_SLOTS = 1024
_FULL = 0.6
TAIL = 4096
"""Bytes before the end that tell whether a file that has grown was only appended to."""
UNKNOWN = b""
"""The digest of a content that was appended to since it was taken."""


def identity_of(status: os.stat_result) -> Identity:
    """Of the file that was looked at."""
    return status.st_ino % 2**63, status.st_mtime_ns, status.st_size


def key_hash(key: Key) -> int:
    """What a key is found by."""
    digest = hashlib.blake2b("\0".join(key).encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def tail_digest(end: bytes) -> bytes:
    """Of the last bytes of what an index covers."""
    return hashlib.blake2b(end[-TAIL:], digest_size=_TAIL_BYTES).digest()


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """What an index says of the bank's file as a whole."""

    inode: int
    changed_ns: int
    size: int
    lines: int
    dead_bytes: int = 0
    """Lines that others with stronger evidence have displaced: what compaction would free."""
    bad: int = 0
    """Lines that cannot be read; the place and the number of the first of them follow."""
    bad_at: int = -1
    bad_number: int = 0
    newer_at: int = -1
    """The first line of a format that is not known yet, and its number."""
    newer_number: int = 0
    slots: int = 0
    used: int = 0
    """Slots that are not empty, those of displaced lines among them."""
    tail: bytes = b""
    content: bytes = UNKNOWN
    """SHA-256 of the file: by it a copy of both files is known."""

    @property
    def identity(self) -> Identity:
        """The state of the file that the index is of."""
        return self.inode, self.changed_ns, self.size

    def at(self, identity: Identity) -> IndexSummary:
        """The same of another state of the file."""
        inode, changed_ns, size = identity
        return replace(self, inode=inode, changed_ns=changed_ns, size=size)

    def pack(self) -> bytes:
        """As the header of an index."""
        numbers = _NUMBERS.pack(*(getattr(self, name) for name in _NUMBER_NAMES))
        known = numbers + self.tail.ljust(_TAIL_BYTES, b"\0")
        known += self.content.ljust(_DIGEST_BYTES, b"\0")
        head = (_MAGIC + known).ljust(_HEADER_BYTES - _CHECK.size, b"\0")
        return head + _CHECK.pack(zlib.crc32(head))

    @classmethod
    def unpack(cls, data: bytes) -> IndexSummary | None:
        """What a header says; None if the header is invalid."""
        head, check = data[: -_CHECK.size], data[-_CHECK.size :]
        if len(data) != _HEADER_BYTES or not head.startswith(_MAGIC):
            return None
        if _CHECK.unpack(check) != (zlib.crc32(head),):
            return None
        numbers = _NUMBERS.unpack_from(head, len(_MAGIC))
        at = len(_MAGIC) + _NUMBERS.size
        tail, content = head[at : at + _TAIL_BYTES], head[at + _TAIL_BYTES :][:_DIGEST_BYTES]
        told = dict(zip(_NUMBER_NAMES, numbers, strict=True))
        return cls(**told, tail=tail, content=content if any(content) else UNKNOWN)


_NUMBER_NAMES = tuple(one.name for one in fields(IndexSummary))[:12]


class Index:
    """An open index. Its file may be updated in place by a writer that holds the bank's lock."""

    def __init__(self, path: Path, descriptor: int, summary: IndexSummary) -> None:
        self.path, self.summary = path, summary
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    @classmethod
    def open(cls, path: Path) -> Index | None:
        """The index in a file; None if there is none that makes sense."""
        try:
            # A FIFO of this name would make the program wait.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            summary = IndexSummary.unpack(os.pread(descriptor, _HEADER_BYTES, 0))
        except OSError:
            status, summary = None, None
        if (
            summary is None
            or status is None
            or not stat.S_ISREG(status.st_mode)
            or summary.slots < 1
            or status.st_size != _HEADER_BYTES + summary.slots * _SLOT.size
        ):
            os.close(descriptor)
            return None
        return cls(path, descriptor, summary)

    def offsets(self, hashed: int) -> list[int]:
        """Where lines begin whose keys have this hash."""
        return [offset for _, found, offset in self._probe(hashed) if found == hashed]

    def _probe(self, hashed: int) -> Iterator[tuple[int, int, int]]:
        """Slots in which the hash may stand, each with its number, hash and offset."""
        slots = self.summary.slots
        slot = hashed % slots
        seen = 0
        while seen < slots:
            count = min(_BLOCK, slots - slot)
            data = os.pread(self._descriptor, count * _SLOT.size, _place(slot))
            for number, (found, place) in enumerate(_SLOT.iter_unpack(data), slot):
                if place == _EMPTY:
                    return
                if place != _DEAD:
                    yield number, found, place - 1
            if len(data) < count * _SLOT.size:
                return
            slot, seen = (slot + count) % slots, seen + count

    def update(
        self, summary: IndexSummary, new: Iterable[tuple[int, int]], gone: Iterable[tuple[int, int]]
    ) -> None:
        """Note lines that were appended, and those that they displaced, as pairs of hash and place.

        `summary` is what is known of the file now, which is on disk.
        """
        added = list(new)
        table = self.summary.slots
        if self.summary.used + len(added) > _FULL * table:
            left = set(gone)
            pairs = [pair for pair in self._pairs() if pair not in left]
            write_index(self.path, summary, [*pairs, *added])
            return
        writable = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if not os.path.sameopenfile(writable, self._descriptor):
                return  # somebody made another one, which is of an older state
            for hashed, offset in gone:
                for number, found, at in self._probe(hashed):
                    if (found, at) == (hashed, offset):
                        os.pwrite(writable, _SLOT.pack(hashed, _DEAD), _place(number))
            for hashed, offset in added:
                place = _place(self._free(hashed))
                os.pwrite(writable, _SLOT.pack(hashed, offset + 1), place)
            os.fdatasync(writable)
            used = self.summary.used + len(added)
            self.summary = replace(summary, slots=table, used=used)
            os.pwrite(writable, self.summary.pack(), 0)
        finally:
            os.close(writable)

    def _free(self, hashed: int) -> int:
        """The empty slot in which a probe for this hash ends."""
        slots = self.summary.slots
        slot = hashed % slots
        for _ in range(slots):
            data = os.pread(self._descriptor, _SLOT.size, _place(slot))
            if _SLOT.unpack(data)[1] == _EMPTY:
                return slot
            slot = (slot + 1) % slots
        raise OSError(f"{self.path} is full")

    def _pairs(self) -> Iterator[tuple[int, int]]:
        size = self.summary.slots * _SLOT.size
        with open(self._descriptor, "rb", closefd=False) as file:
            file.seek(_HEADER_BYTES)
            data = file.read(size)
        whole = data[: len(data) // _SLOT.size * _SLOT.size]
        for hashed, place in _SLOT.iter_unpack(whole):
            if place not in (_EMPTY, _DEAD):
                yield hashed, place - 1


def write_index(path: Path, summary: IndexSummary, pairs: Iterable[tuple[int, int]]) -> None:
    """Make an index of these pairs of hash and place."""
    known = list(pairs)
    slots = _FEWEST_SLOTS
    while len(known) * 3 > slots:
        slots *= 2
    table = array("Q", bytes(slots * _SLOT.size))
    for hashed, offset in known:
        slot = hashed % slots
        while table[2 * slot + 1]:
            slot = (slot + 1) % slots
        table[2 * slot], table[2 * slot + 1] = hashed, offset + 1
    if sys.byteorder == "big":
        table.byteswap()
    # Readers, which find indexes, do not load what writes them.
    from skipjack.storage import atomic_write

    header = replace(summary, slots=slots, used=len(known)).pack()
    atomic_write(path, header + table.tobytes())


def _place(slot: int) -> int:
    return _HEADER_BYTES + slot * _SLOT.size
