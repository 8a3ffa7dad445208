"""What an export format is: a class that writes files and says how they are read and merged.

It receives rankings and configs without impossible times and returns the contents of the files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skipjack.core import is_valid_time, parse_device_name
from skipjack.errors import UsageError
from skipjack.fleet.release.results import (
    Fetch,
    FoundProblem,
    Shipment,
    SkippedLine,
    TunedProblem,
    found_in_text,
)
from skipjack.interop.miopen import (
    DatabaseRecord,
    DbName,
    RecordItem,
    complaint_of,
    db_name,
    find_text,
)
from skipjack.reading import numbered

# The contents of an export: a file for each device, and what is left out.

MIOPEN, SKIPJACK = "miopen", "skipjack"
FIND_DB, PERF_DB, KERNEL_DB = "find-db", "perf-db", "kernel-db"
"""The kinds of databases."""
AND = ", "


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """The file of one device in an export."""

    device: str
    """If one file is for several devices, they are joined by `AND`."""
    name: Callable[[str], str]
    """Maps a device, this or an alias, to the name of its file."""
    write: Callable[[Path, str], None]
    """Writes the file to a path for a device."""
    counts: Mapping[str, int] = field(default_factory=dict)
    toolchains: tuple[str, ...] = ()
    is_code: bool = False
    """Whether it contains machine code, which other architectures cannot load."""


@dataclass(frozen=True, slots=True)
class Contents:
    """All files of an export."""

    kind: str
    format: str
    files: tuple[ReleaseFile, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts of what was left out, by reason."""
    remarks: tuple[str, ...] = ()
    """Sentences about what was left out."""


@dataclass(frozen=True, slots=True)
class Alias:
    """A device that gets the file of another device."""

    target: str
    source: str

    @classmethod
    def parse(cls, text: str) -> Alias:
        """Parse ``gfx803/56=gfx900/64``: the first device gets the results of the second."""
        target, equals, source = text.partition("=")
        if not equals:
            raise UsageError(
                f"alias {text!r} is not of the form target=source, such as gfx803/56=gfx900/64"
            )
        for name in (target, source):
            parse_device_name(name)
        if target == source:
            raise UsageError(f"alias {text!r} has the same device twice; omit it")
        return cls(target, source)

    @property
    def same_architecture(self) -> bool:
        """Whether the target can load machine code of the source."""
        return parse_device_name(self.target)[0] == parse_device_name(self.source)[0]


def check_aliases(aliases: Iterable[Alias], exported: Sequence[str]) -> None:
    """`UsageError` if a source is not among the exported devices, or a target gets two files."""
    taken = set(exported)
    for alias in aliases:
        if alias.source not in exported:
            have = ", ".join(exported) or "nothing"
            raise UsageError(
                f"alias {alias.target}={alias.source}: {alias.source} is not exported in this run; "
                f"it exports {have}"
            )
        if alias.target in taken:
            raise UsageError(
                f"alias {alias.target}={alias.source}: {alias.target} already has a file; "
                "use --device, or omit the alias"
            )
        taken.add(alias.target)


def base_name(device: str) -> str:
    """The prefix of the names of a device's files: ``gfx90878``, ``znver4_1``."""
    arch, units = parse_device_name(device)
    return db_name(DbName("kernel", arch, units)).removesuffix(".kdb")


# The base class of export formats, which write files and define how to read and merge them.

Keyed = tuple[Hashable, Any]


@dataclass(frozen=True, slots=True)
class FindOptions:
    """Options of a find-db."""

    top: int | None = None
    """Number of solvers for each problem; None for all."""
    backend: str = "HIP"
    """The backend in the names of MIOpen's files."""


@dataclass(frozen=True, slots=True)
class PerfOptions:
    """Options of a perf-db."""

    sqlite: bool = False
    """MIOpen: write SQLite instead of text."""
    one_file: str = ""
    """MIOpen: the name of one SQLite database for all devices."""
    aliases: tuple[Alias, ...] = ()
    """With `one_file`: devices that get the rows of other devices."""


@dataclass(frozen=True, slots=True)
class KeyedFile:
    """How files with certain endings are read and written as keyed records, for merging."""

    endings: tuple[str, ...]
    read: Callable[[Path], Iterable[Keyed]]
    write: Callable[[Path, Iterable[Any], Path | None], None]
    """Writes records to a new file, in the form of an old file, if there is one."""
    same: Callable[[Any, Any], bool]
    """Whether an old and a new record are equivalent, so that the old one is kept."""
    join: Callable[[Any, Any], Any] | None = None
    """Merges an old and a new record of one key by solvers, if records allow it."""
    by_line: bool = False
    """Whether each record is a line, so that records can be counted without parsing."""


class ExportFormat:
    """A format of files; subclasses override the kinds of databases that it supports.

    `find`, `perf` and `kernel` return the files of an export, one for each device; a `ReleaseFile`
    writes itself later. Methods that are not overridden raise `UsageError`.
    """

    name = ""
    """The name for ``--format``."""
    kernel_ending = ""
    """Ending of a file for the kernels of all devices, such as ``.skk``; empty if unsupported."""
    keyed: tuple[KeyedFile, ...] = ()
    """Files that `promote` can merge."""

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings of its files."""
        merged = (ending for keyed in self.keyed for ending in keyed.endings)
        own = (*self.find_endings(), *merged, self.kernel_ending)
        return tuple(dict.fromkeys(filter(None, own)))

    def find_endings(self, backend: str = "HIP") -> tuple[str, ...]:
        """The endings of find-dbs that `read_find` reads, the preferred one first."""
        return ()

    def find(self, found: Iterable[FoundProblem], options: FindOptions) -> Contents:
        """The files of find-dbs: every problem with its solvers, the fastest first."""
        raise self._refusal("find-dbs")

    def read_find(self, path: Path, skipped: list[SkippedLine]) -> Iterator[FoundProblem]:
        """The rankings of a find-db for `compare`; invalid lines are added to `skipped`."""
        return found_in_text(path, skipped)

    def find_stem(self, name: str) -> str:
        """The part of a name that all find-dbs of a device share, such as ``gfx90a68``."""
        ending = next(one for one in self.find_endings() if name.endswith(one))
        return name.removesuffix(ending)

    def check_perf(self, options: PerfOptions) -> None:
        """`UsageError` for options of perf-dbs that it does not support."""
        if options.sqlite or options.one_file:
            option = "--sqlite" if options.sqlite else "--one-file"
            raise UsageError(
                f"{option} requires --format {MIOPEN}; format {self.name} does not support it"
            )

    def perf(self, tuned: Iterable[TunedProblem], options: PerfOptions) -> Contents:
        """The files of perf-dbs: the best config of every solver for every problem."""
        raise self._refusal("perf-dbs")

    def kernel(self, shipments: Mapping[str, Shipment], fetch: Fetch) -> Contents:
        """The files of kernel-dbs: machine code of the winners, by device."""
        raise self._refusal("kernel-dbs")

    def one_kernel_file(self, path: Path, shipments: Mapping[str, Shipment], fetch: Fetch) -> int:
        """Write the kernels of all devices to one file; returns their number."""
        raise self._refusal("files for all kernels")

    def other_names(self, name: str) -> tuple[str, ...]:
        """Other names of files with the same content, into which `promote` merges."""
        return ()

    def remarks_beside(self, directory: Path, name: str) -> list[str]:
        """Remarks of `promote` about a file that is new in a directory."""
        return []

    def _refusal(self, what: str) -> UsageError:
        return UsageError(
            f"format {self.name} does not support {what}; choose another one with --format"
        )


# Rankings and configs that are exported in any format, and counts of what is left out.


@dataclass(slots=True)
class GatheredRankings:
    """Rankings without impossible times; the counts are complete after the last one."""

    impossible: int = 0
    empty: int = 0

    def of(self, found: Iterable[FoundProblem]) -> Iterator[FoundProblem]:
        """The problems of which something is left."""
        for problem in found:
            lines, lost = _valid_lines(problem.miopen)
            dropped = {entry.solver for entry in problem.ranking if not entry.possible} | lost
            self.impossible += len(dropped)
            kept = replace(problem, ranking=problem.possible, miopen=lines)
            if kept.ranking or kept.miopen:
                yield kept
            else:
                self.empty += 1

    def counts(self) -> dict[str, int]:
        """Counts of what was left out."""
        return {
            "impossible_times": self.impossible,
            "without_a_time": self.empty,
            "shared_keys": 0,
            "not_in_this_format": 0,
        }

    def remarks(self) -> Iterator[str]:
        """Sentences about what was left out."""
        if self.impossible:
            yield _invalid_times(self.impossible)
        if self.empty:
            yield f"{numbered(self.empty, 'problem')} left out: no solver ran"


@dataclass(slots=True)
class GatheredConfigs:
    """Problems whose solvers have settings; the counts are complete after the last one."""

    impossible: int = 0
    empty: int = 0

    def of(self, tuned: Iterable[TunedProblem]) -> Iterator[TunedProblem]:
        """The problems of which something is left."""
        for problem in tuned:
            self.impossible += problem.impossible
            if problem.configs or problem.miopen:
                yield problem
            else:
                self.empty += 1

    def counts(self) -> dict[str, int]:
        """Counts of what was left out."""
        return {
            "impossible_times": self.impossible,
            "without_settings": self.empty,
            "shared_keys": 0,
            "sharing_problems": 0,
            "not_in_this_format": 0,
        }

    def remarks(self) -> Iterator[str]:
        """Sentences about what was left out."""
        if self.impossible:
            yield _invalid_times(self.impossible)
        if self.empty:
            problems = numbered(self.empty, "problem")
            yield f"{problems} left out: the solvers have no settings"


def _invalid_times(count: int) -> str:
    return f"{numbered(count, 'impossible time')} left out: zero, negative or not a number"


def _valid_lines(lines: Iterable[str]) -> tuple[tuple[str, ...], set[str]]:
    """Lines of MIOpen without impossible times, and the solvers that had such a time."""
    kept: list[str] = []
    lost: set[str] = set()
    for line in lines:
        if complaint_of(line) is not None:
            continue  # an incomplete line: its job was killed while MIOpen wrote it
        record = DatabaseRecord.of_line(line)
        good = [item for item in record.items if _has_valid_time(item)]
        if len(good) == len(record.items):
            kept.append(line)
            continue
        lost |= {solver_of(item) for item in record.items if not _has_valid_time(item)}
        if good:
            kept.append(DatabaseRecord(record.key, good).line)
    return tuple(kept), lost


def solver_of(item: RecordItem) -> str:
    """The solver of an item."""
    text = find_text(item)
    return text.solver if text else item.id


def time_ms_of(item: RecordItem) -> float:
    """The time of an item; NaN if it cannot be parsed."""
    text = find_text(item)
    return float(text.time) if text else math.nan


def _has_valid_time(item: RecordItem) -> bool:
    return is_valid_time(time_ms_of(item))
