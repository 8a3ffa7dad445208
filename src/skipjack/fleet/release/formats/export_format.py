"""What an export format is: a class that writes files, and says how they are read and merged."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skipjack.errors import UsageError
from skipjack.fleet.release.formats.contents import MIOPEN, Alias, Contents
from skipjack.fleet.release.results import (
    Fetch,
    FoundProblem,
    Shipment,
    Skipped,
    TunedProblem,
    found_in_text,
)

Keyed = tuple[Hashable, Any]


@dataclass(frozen=True, slots=True)
class FindOptions:
    """What is asked of a find-db."""

    top: int | None = None
    """Solvers of each problem; all."""
    backend: str = "HIP"
    """In the names of MIOpen's files."""


@dataclass(frozen=True, slots=True)
class PerfOptions:
    """What is asked of a perf-db."""

    sqlite: bool = False
    """MIOpen: a database of SQLite instead of text."""
    one_file: str = ""
    """MIOpen: the name of one database of SQLite for all devices."""
    aliases: tuple[Alias, ...] = ()
    """With `one_file`: devices that get the rows of others."""


@dataclass(frozen=True, slots=True)
class KeyedFile:
    """How files with certain endings are read and written as keyed records, to be merged."""

    endings: tuple[str, ...]
    read: Callable[[Path], Iterable[Keyed]]
    write: Callable[[Path, Iterable[Any], Path | None], None]
    """Records to a new file, in the manner of an old one."""
    same: Callable[[Any, Any], bool]
    """Whether an old and a new record say the same, so that the old one can stay."""
    join: Callable[[Any, Any], Any] | None = None
    """An old and a new record of one key, where solvers can be told apart in it."""
    by_line: bool = False
    """A record is a line, so that records can be counted without reading them."""


class ExportFormat:
    """One format of files; subclasses override what it can hold.

    `find`, `perf` and `kernel` return the files of an export, one for each device, and write
    nothing: a `ReleaseFile` knows how to. What is not overridden is refused with a sentence.
    """

    name = ""
    """What ``--format`` says."""
    kernel_ending = ""
    """Of a file for the kernels of all devices, as ``.skk``; empty if there are none."""
    keyed: tuple[KeyedFile, ...] = ()
    """Files that `promote` can merge."""

    @property
    def endings(self) -> tuple[str, ...]:
        """What the names of its files end with."""
        merged = (ending for keyed in self.keyed for ending in keyed.endings)
        own = (*self.find_endings(), *merged, self.kernel_ending)
        return tuple(dict.fromkeys(filter(None, own)))

    def find_endings(self, backend: str = "HIP") -> tuple[str, ...]:
        """What the names of find-dbs that `read_find` reads end with, the preferred first."""
        return ()

    def find(self, found: Iterable[FoundProblem], options: FindOptions) -> Contents:
        """Every problem with its solvers, fastest first."""
        raise self._refusal("find-dbs")

    def read_find(self, path: Path, skipped: list[Skipped]) -> Iterator[FoundProblem]:
        """The rankings of a find-db for `compare`; what cannot be read is added to `skipped`."""
        return found_in_text(path, skipped)

    def find_stem(self, name: str) -> str:
        """``gfx90a68`` of all the names that a find-db of this device has."""
        ending = next(one for one in self.find_endings() if name.endswith(one))
        return name.removesuffix(ending)

    def check_perf(self, options: PerfOptions) -> None:
        """`UsageError` for what its perf-dbs cannot be."""
        if options.sqlite or options.one_file:
            option = "--sqlite" if options.sqlite else "--one-file"
            raise UsageError(f"{option} is for --format {MIOPEN}, not for {self.name}")

    def perf(self, tuned: Iterable[TunedProblem], options: PerfOptions) -> Contents:
        """The best config of every solver of every problem."""
        raise self._refusal("perf-dbs")

    def kernel(self, shipments: Mapping[str, Shipment], fetch: Fetch) -> Contents:
        """The winners' machine code, by device."""
        raise self._refusal("kernel-dbs")

    def one_kernel_file(self, path: Path, shipments: Mapping[str, Shipment], fetch: Fetch) -> int:
        """Write the kernels of all devices into one file; how many there are."""
        raise self._refusal("files for all kernels")

    def other_names(self, name: str) -> tuple[str, ...]:
        """Names under which a directory may hold the same content: `promote` merges into those."""
        return ()

    def remarks_beside(self, directory: Path, name: str) -> list[str]:
        """What `promote` should say of a file that is new in a directory."""
        return []

    def _refusal(self, what: str) -> UsageError:
        return UsageError(f"format {self.name} has no {what}; choose another with --format")
