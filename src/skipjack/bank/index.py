"""The index of a bank's file: a hash table, in a file next to it, of where each key's lines begin.

The index is not authoritative. It names the state of the bank's file that it describes, and is not
used for another state. A reader reads the line that it points to and compares the key. Slots are in
blocks with a checksum each, and a key is found, or proven to be missing, by checked blocks. So a
missing, torn or damaged index costs time; only a forged one hides an entry.

Slots are on disk before the header that refers to them: even after a power cut, an index of the
present state of the bank's file knows all of its lines.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import sys
import time
import weakref
import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path

from skipjack.bank.entry import Key

Identity = tuple[int, int, int]
"""Inode, time of change and size of a file: compared for equality, so that clocks do not matter."""

Pair = tuple[int, int]
"""The hash of a key, and where a line of this key begins."""
Slots = list[tuple[int, int]]
"""Hashes and places; a place is one more than the offset of the line."""

_MAGIC = b"SKJBIX05"
_NUMBERS = struct.Struct("<12q")
_DIGEST_BYTES = 32
_TAIL_BYTES = 16
_CHECK = struct.Struct("<I")
_HEADER_BYTES = 256
_SLOT = struct.Struct("<QQ")
_KEY_BITS = 32
_EMPTY, _DEAD = 0, 2**64 - 1
_BLOCK = 15
"""Slots that are read, checked and written at a time. The slots of a problem are in the block of
its hash modulo the number of blocks, and in the next block if that is full."""
_BLOCK_BYTES = 256
"""The size of slots and their CRC-32, which starts from the block's number, padded with zeros. No
block is on two pages."""
_FEWEST_BLOCKS = 64
_FULL = 0.6
_ATTEMPTS = 4
_PAUSE_S = 0.001
TAIL = 4096
"""The bytes before the end that show whether a file that has grown was only appended to."""
UNKNOWN = b""
"""In place of the digest of a file that was appended to."""


class StaleIndexError(Exception):
    """The index is damaged, or does not match the file."""


def identity_of(status: os.stat_result) -> Identity:
    """The identity of the file with this status."""
    return status.st_ino % 2**63, status.st_mtime_ns, status.st_size


def key_hash(key: Key) -> int:
    """The hash of a key: the hash of its problem, then 32 bits of the whole key."""
    return problem_hash(key[0]) << _KEY_BITS | _hash("\0".join(key))


def problem_hash(problem: str) -> int:
    """The hash that all keys of a problem begin with."""
    return _hash(problem)


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=_KEY_BITS // 8).digest()
    return int.from_bytes(digest, "little")


def tail_digest(end: bytes) -> bytes:
    """The digest of the last bytes that an index covers."""
    return hashlib.blake2b(end[-TAIL:], digest_size=_TAIL_BYTES).digest()


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """The header of an index: facts about the bank's file as a whole."""

    inode: int
    changed_ns: int
    size: int
    lines: int
    dead_bytes: int = 0
    """Bytes of replaced lines, which are removed when the file is rewritten."""
    bad: int = 0
    """The number of lines that cannot be read or are of a newer format."""
    bad_at: int = -1
    """The offset of the first line that cannot be read."""
    bad_number: int = 0
    newer_at: int = -1
    """The offset of the first line of a newer format."""
    newer_number: int = 0
    slots: int = 0
    used: int = 0
    """The number of slots that are not empty, including those of replaced lines."""
    tail: bytes = b""
    content: bytes = UNKNOWN
    """SHA-256 of the file, by which a copy of both files is recognized."""

    @property
    def identity(self) -> Identity:
        """The state of the file that the index describes."""
        return self.inode, self.changed_ns, self.size

    def at(self, identity: Identity) -> IndexSummary:
        """The same summary for another state of the file."""
        inode, changed_ns, size = identity
        return replace(self, inode=inode, changed_ns=changed_ns, size=size)

    def pack(self) -> bytes:
        """The bytes of the header."""
        numbers = _NUMBERS.pack(*(getattr(self, name) for name in _NUMBER_NAMES))
        known = numbers + self.tail.ljust(_TAIL_BYTES, b"\0")
        known += self.content.ljust(_DIGEST_BYTES, b"\0")
        head = (_MAGIC + known).ljust(_HEADER_BYTES - _CHECK.size, b"\0")
        return head + _CHECK.pack(zlib.crc32(head))

    @classmethod
    def unpack(cls, data: bytes) -> IndexSummary | None:
        """The summary of a header; None if the header is invalid."""
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
        """The index in a file; None if there is none that is valid."""
        try:
            # Without O_NONBLOCK, opening a FIFO of this name would wait.
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
            or summary.slots % _BLOCK
            or status.st_size != _place(summary.slots // _BLOCK)
        ):
            os.close(descriptor)
            return None
        return cls(path, descriptor, summary)

    def offsets(self, hashed: int) -> list[int]:
        """The offsets of lines whose keys have this hash; `StaleIndexError` if it is damaged."""
        found = self._of_problem(hashed >> _KEY_BITS)
        return [place - 1 for known, place in found if known == hashed]

    def offsets_of_problem(self, hashed: int) -> list[int]:
        """The offsets of lines whose problems have this hash."""
        return [place - 1 for _, place in self._of_problem(hashed)]

    def _of_problem(self, hashed: int) -> Iterator[tuple[int, int]]:
        for _, slots in self._probe(hashed):
            for found, place in slots:
                if found >> _KEY_BITS == hashed and place not in (_EMPTY, _DEAD):
                    yield found, place

    def _probe(self, hashed: int) -> Iterator[tuple[int, Slots]]:
        """The blocks that may hold a problem, with their numbers. The last has an empty slot."""
        blocks = self.summary.slots // _BLOCK
        first = hashed % blocks
        for number in chain(range(first, blocks), range(first)):
            slots = self._block(number)
            yield number, slots
            if any(place == _EMPTY for _, place in slots):
                return

    def _block(self, number: int) -> Slots:
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE_S)  # a writer may be writing it
            data = os.pread(self._descriptor, _BLOCK_BYTES, _place(number))
            if data == _sealed(data[: _BLOCK * _SLOT.size], number):
                return list(_SLOT.iter_unpack(data[: _BLOCK * _SLOT.size]))
        raise StaleIndexError(f"block {number} of {self.path} is damaged")

    def update(self, summary: IndexSummary, new: Iterable[Pair], gone: Iterable[Pair]) -> None:
        """Add appended lines and remove those that they replaced, as pairs of hash and offset.

        `summary` describes the present file, which is on disk.
        """
        try:
            self._update(summary, list(new), set(gone))
        except StaleIndexError:
            self.path.unlink(missing_ok=True)  # the next reader makes a new one

    def _update(self, summary: IndexSummary, added: list[Pair], gone: set[Pair]) -> None:
        table = self.summary.slots
        if self.summary.used + len(added) > _FULL * table:
            pairs = [pair for pair in self._pairs() if pair not in gone]
            write_index(self.path, summary, [*pairs, *added])
            return
        writable = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if not os.path.sameopenfile(writable, self._descriptor):
                return  # another process has made an index, of an older state
            for hashed, offset in gone:
                self._change(writable, hashed, offset + 1, _DEAD)
            for hashed, offset in added:
                self._change(writable, hashed, _EMPTY, offset + 1)
            os.fdatasync(writable)
            used = self.summary.used + len(added)
            self.summary = replace(summary, slots=table, used=used)
            os.pwrite(writable, self.summary.pack(), 0)
        finally:
            os.close(writable)

    def _change(self, writable: int, hashed: int, before: int, after: int) -> None:
        """Change the first slot that has this hash and the place `before`, or is empty."""
        for number, slots in self._probe(hashed >> _KEY_BITS):
            for at, (found, place) in enumerate(slots):
                if place == before and (found == hashed or place == _EMPTY):
                    slots[at] = hashed, after
                    data = b"".join(_SLOT.pack(*slot) for slot in slots)
                    os.pwrite(writable, _sealed(data, number), _place(number))
                    return

    def _pairs(self) -> Iterator[Pair]:
        for number in range(self.summary.slots // _BLOCK):
            for hashed, place in self._block(number):
                if place not in (_EMPTY, _DEAD):
                    yield hashed, place - 1


def write_index(path: Path, summary: IndexSummary, pairs: Iterable[Pair]) -> None:
    """Write an index of these pairs of hash and offset."""
    known = list(pairs)
    blocks = _FEWEST_BLOCKS
    while len(known) * 3 > blocks * _BLOCK:
        blocks *= 2
    table = array("Q", bytes(blocks * _BLOCK * _SLOT.size))
    filled = bytearray(blocks)
    for hashed, offset in known:
        block = (hashed >> _KEY_BITS) % blocks
        while filled[block] == _BLOCK:
            block = (block + 1) % blocks
        slot = block * _BLOCK + filled[block]
        table[2 * slot], table[2 * slot + 1] = hashed, offset + 1
        filled[block] += 1
    if sys.byteorder == "big":
        table.byteswap()
    # Readers do not load the module that writes files.
    from skipjack.storage import atomic_write

    header = replace(summary, slots=blocks * _BLOCK, used=len(known)).pack()
    data, size = table.tobytes(), _BLOCK * _SLOT.size
    sealed = (_sealed(data[at * size : (at + 1) * size], at) for at in range(blocks))
    atomic_write(path, header + b"".join(sealed))


def _sealed(slots: bytes, number: int) -> bytes:
    """The bytes of a block with these slots."""
    return (slots + _CHECK.pack(zlib.crc32(slots, number))).ljust(_BLOCK_BYTES, b"\0")


def _place(block: int) -> int:
    return _HEADER_BYTES + block * _BLOCK_BYTES
