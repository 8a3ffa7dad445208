"""The banks that a program asks, in order: the user's, those that are named, the system's.

None of them but the user's is ever written. Each is one file, and is read as `Bank` reads it: again
only if it has changed.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skipjack.bank.bank import FILE_NAME, Bank
from skipjack.bank.entry import PERF, BankEntry
from skipjack.bank.evidence import is_damaged
from skipjack.bank.file import NEW_COPY
from skipjack.errors import StorageError

if TYPE_CHECKING:
    from skipjack.bank.outline import Outline, OutlineFile

USER, SYSTEM = "user", "system"
SYSTEM_DIR = Path(__file__).parents[1] / "system"
"""Where the bank is that comes with Skipjack, if one does."""

log = logging.getLogger(__name__)
_told: set[Path] = set()
"""Banks of whose damage this process has complained."""


@dataclass(frozen=True, slots=True)
class BankLayer:
    """One of the banks in force. Reading it may raise `StorageError`."""

    name: str
    """``user``, ``bank NAME`` or ``system``: what a kernel of it has as its `source`."""
    path: Path
    """The file, which may be missing."""

    @property
    def bank(self) -> Bank:
        """One object for each file of this process."""
        return _bank(self.path, self.name == USER)

    def ranked(
        self, problem: str, device_class: str, kind: str = PERF, protocol: str | None = None
    ) -> tuple[BankEntry, ...]:
        """What it knows of a problem on a class of devices, the strongest evidence first."""
        found = self.bank.ranked(problem, device_class, kind, protocol)
        return tuple(one for one in found if self._is_whole(one))

    def of_problem(self, problem: str) -> list[BankEntry]:
        """The best entries of a problem, one for each class of devices and deployment."""
        found = self.bank.entries_of(problem)
        return [one for one in found if one.kind == PERF and self._is_whole(one)]

    def _is_whole(self, entry: BankEntry) -> bool:
        """Whether it is as it was shipped; the first that is not is told."""
        if not is_damaged(entry):
            return True
        if self.path not in _told:
            _told.add(self.path)
            log.warning(
                "%s of the bank %s is damaged and left out, as are others like it; %s",
                *(entry.problem, self.path, NEW_COPY),
            )
        return False

    def outline(self) -> Outline:
        """Which problems it knows; of 100,000 it takes a fifth of a second, once."""
        try:
            return _outline(self.path).get()
        except OSError as error:
            raise StorageError(f"cannot read the bank {self.path}: {error.strerror}") from error


def layers_of(
    user_dir: Path, banks: Iterable[Path] = (), system_dir: Path | None = None
) -> tuple[BankLayer, ...]:
    """The banks in force, the first to be asked first.

    `banks` are files, or directories with a bank. `system_dir` is that of the system's bank, by
    default Skipjack's own; see `has_system`.
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
    """Where the system's bank is: the directory that is named, or Skipjack's own."""
    return named or SYSTEM_DIR


def has_system(user_dir: Path, system_dir: Path | None) -> bool:
    """Whether there is a system's bank: not where its directory is the user's, or has no bank."""
    if system_dir is None:
        return True
    apart = os.path.realpath(system_dir) != os.path.realpath(user_dir)
    return apart and (system_dir / FILE_NAME).is_file()


def forget_banks() -> None:
    """Open every file again when it is next asked for."""
    _bank.cache_clear()
    _outline.cache_clear()


@functools.lru_cache(maxsize=64)
def _bank(path: Path, writable: bool) -> Bank:
    return Bank(path, writable=writable)


@functools.lru_cache(maxsize=64)
def _outline(path: Path) -> OutlineFile:
    from skipjack.bank.outline import OutlineFile  # a program whose problems are known needs none

    return OutlineFile(path)
