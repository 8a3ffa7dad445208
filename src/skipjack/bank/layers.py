"""The banks that a program asks, in order: the user's, those that are named, the system's.

An outline lists the problems of one without parsing its entries, to find problems that are
similar.
"""

from __future__ import annotations

import functools
import logging
import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf, log2
from pathlib import Path
from threading import Lock
from typing import TypeVar
from weakref import WeakSet

from skipjack.bank.bank import FILE_NAME, Bank
from skipjack.bank.entry import PERF, BankEntry
from skipjack.bank.file import NEW_COPY
from skipjack.bank.strength import is_damaged
from skipjack.core import Problem
from skipjack.errors import StorageError
from skipjack.reading import open_plain

# The banks that a program asks, in order: the user's, those that are named, the system's.
#
# Only the user's is written. Each is one file, which is read again only if it has changed.

USER, SYSTEM = "user", "system"
SYSTEM_DIR = Path(__file__).parents[1] / "system"
"""The directory of the bank that is shipped with Skipjack, if there is one."""

log = logging.getLogger(__name__)
_warned: set[Path] = set()
"""Banks for which this process has warned of damage."""


@dataclass(frozen=True, slots=True)
class BankLayer:
    """One of the banks in use. Reading it may raise `StorageError`."""

    name: str
    """``user``, ``bank NAME`` or ``system``: the `source` of its kernels."""
    path: Path
    """The file, which need not exist."""

    @property
    def bank(self) -> Bank:
        """The bank of this file; one object per process."""
        return _bank(self.path, self.name == USER)

    def ranked(
        self, problem: str, device_class: str, kind: str = PERF, protocol: str | None = None
    ) -> tuple[BankEntry, ...]:
        """The entries of a problem for a class of devices, the strongest evidence first."""
        found = self.bank.ranked(problem, device_class, kind, protocol)
        return tuple(one for one in found if self._is_whole(one))

    def of_problem(self, problem: str) -> list[BankEntry]:
        """The best entries of a problem, one for each class of devices and deployment."""
        found = self.bank.entries_of(problem)
        return [one for one in found if one.kind == PERF and self._is_whole(one)]

    def _is_whole(self, entry: BankEntry) -> bool:
        """Whether an entry is undamaged; warns of the first that is damaged."""
        if not is_damaged(entry):
            return True
        if self.path not in _warned:
            _warned.add(self.path)
            log.warning(
                "%s of the bank %s is damaged and left out, as are others like it; %s",
                *(entry.problem, self.path, NEW_COPY),
            )
        return False

    def outline(self) -> Outline:
        """The problems that have entries; for 100,000 it takes 0.2 s, once."""
        try:
            return _outline(self.path).get()
        except OSError as error:
            raise StorageError(f"cannot read the bank {self.path}: {error.strerror}") from error


def layers_of(
    user_dir: Path, banks: Iterable[Path] = (), system_dir: Path | None = None
) -> tuple[BankLayer, ...]:
    """The banks in use, in the order in which they are asked.

    `banks` are files, or directories with a bank. `system_dir` is the directory of the system's
    bank, by default Skipjack's own; see `has_system`.
    """
    layers = [BankLayer(USER, user_dir / FILE_NAME)]
    for place in banks:
        path = place if place.suffix == ".jsonl" else place / FILE_NAME
        name = path.parent.name if path.name == FILE_NAME else path.stem
        layers.append(BankLayer(f"bank {name}", path))
    if has_system(user_dir, system_dir):
        layers.append(BankLayer(SYSTEM, system_dir_of(system_dir) / FILE_NAME))
    return tuple(layers)


def system_dir_of(named: Path | None) -> Path:
    """The directory of the system's bank: the named one, or Skipjack's own."""
    return named or SYSTEM_DIR


def has_system(user_dir: Path, system_dir: Path | None) -> bool:
    """Whether there is a system's bank: false if its directory is the user's, or has no bank."""
    if system_dir is None:
        return True
    apart = os.path.realpath(system_dir) != os.path.realpath(user_dir)
    return apart and (system_dir / FILE_NAME).is_file()


def forget_banks() -> None:
    """Open every file again when it is next used."""
    _bank.cache_clear()
    _outline.cache_clear()


@functools.lru_cache(maxsize=64)
def _bank(path: Path, writable: bool) -> Bank:
    return Bank(path, writable=writable)


@functools.lru_cache(maxsize=64)
def _outline(path: Path) -> OutlineFile:
    pass  # not needed if the problem itself has an entry

    return OutlineFile(path)


# The problems and processors of a bank, found without parsing its entries.
#
# They are hints: a caller that follows one asks the bank for its entries. A file that has only
# grown is read from where it ended before.

_PROBLEM, _DEVICE = b'"problem":"', b'"device":"'


@dataclass(slots=True)
class Outline:
    """The problems of a bank's file."""

    families: dict[Family, dict[str, str]] = field(default_factory=dict)
    """Problems that differ only in their sizes, by their shapes."""

    def add(self, problem: str) -> None:
        """Add a problem."""
        family, shape = family_of(problem)
        self.families.setdefault(family, {})[shape] = problem


Family = tuple[str, str]
"""The operation, and what follows the sizes in a problem's key."""


def family_of(problem: str) -> tuple[Family, str]:
    """The two parts of a problem's key: its family, and its sizes."""
    operation, _, rest = problem.partition(":")
    ends = [at for at in (rest.find("/"), rest.find(":")) if at >= 0]
    end = min(ends, default=len(rest))
    return (operation, rest[end:]), rest[:end]


_files: WeakSet[OutlineFile] = WeakSet()


def _after_fork() -> None:
    """Forget outlines in a forked child, since another thread may have been reading them."""
    for file in _files:
        file.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class OutlineFile:
    """The outline of a bank's file, read when it is needed. Several threads may use it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = (0, 0, 0)
        """Inode, date and size of the file that was read."""
        self._outline = Outline()
        self._reading = Lock()
        _files.add(self)

    def forget(self) -> None:
        """Read it again when it is next needed; no thread may be reading it now."""
        self._seen, self._outline, self._reading = (0, 0, 0), Outline(), Lock()

    def get(self) -> Outline:
        """The outline of the present file, empty if there is none; raises `OSError`."""
        with self._reading:
            try:
                descriptor = open_plain(self.path)
            except FileNotFoundError:
                self._seen, self._outline = (0, 0, 0), Outline()
                return self._outline
            try:
                self._read(descriptor)
            finally:
                os.close(descriptor)
            return self._outline

    def _read(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        now = (status.st_ino, status.st_mtime_ns, status.st_size)
        if now == self._seen or not status.st_size:
            return
        inode, _, size = self._seen
        start = size if inode == status.st_ino and size < status.st_size else 0
        if not start:
            self._outline = Outline()
        with mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ) as data:
            for problem in _texts(data, _PROBLEM, start):
                self._outline.add(problem)
        self._seen = now


def processors_of(path: Path) -> set[str]:
    """The processors for which a bank's file has entries, as ``cpu:znver4``; raises `OSError`."""
    descriptor = open_plain(path)
    try:
        if not os.fstat(descriptor).st_size:
            return set()
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
            return {device.partition("/")[0] for device in _texts(data, _DEVICE, 0)}
    finally:
        os.close(descriptor)


def _texts(data: mmap.mmap, name: bytes, start: int) -> Iterator[str]:
    """The text that follows a field's name in each line."""
    place = data.rfind(b"\n", 0, start) + 1
    while (at := data.find(name, place)) >= 0:
        at += len(name)
        yield data[at : data.find(b'"', at)].decode(errors="replace")
        end = data.find(b"\n", at)
        place = len(data) if end < 0 else end + 1


# The distance between problems, in doublings of their sizes. Pure.

T = TypeVar("T")

_NOTHING = 0.5
"""The value of a size of 0, as of paddings: one doubling away from 1."""


def doublings(one: Problem, other: Problem) -> tuple[float, ...] | None:
    """The doublings of each size; None if problems differ in more than sizes and element types."""
    same = (one.operation, one.attributes, one.layout, one.direction, len(one.shape))
    if same != (
        *(other.operation, other.attributes, other.layout, other.direction),
        len(other.shape),
    ):
        return None
    return size_doublings(one.shape, other.shape)


def size_doublings(one: Iterable[int], other: Iterable[int]) -> tuple[float, ...]:
    """How many times each size doubles from one to the other."""
    pairs = zip(one, other, strict=True)
    return tuple(abs(log2(max(a, _NOTHING) / max(b, _NOTHING))) for a, b in pairs)


def distance(one: Problem, other: Problem) -> float:
    """The distance of two problems in doublings of their sizes; infinite if not comparable."""
    apart = doublings(one, other)
    return inf if apart is None else sum(apart) + (one.dtype != other.dtype)


def nearest(problem: Problem, known: Iterable[tuple[Problem, T]]) -> list[tuple[Problem, T]]:
    """The other problems that are comparable with this one, the nearest first."""
    ranked = [
        (far, other.key, (other, thing))
        for other, thing in known
        if other.key != problem.key and (far := distance(problem, other)) != inf
    ]
    return [pair for _, _, pair in sorted(ranked, key=lambda one: one[:2])]
