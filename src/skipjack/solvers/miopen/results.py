"""What a run of MIOpenDriver leaves: its printed output and the user databases."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from skipjack.core import is_valid_time
from skipjack.interop.miopen import (
    DatabaseRecord,
    DbName,
    FileKind,
    KernelRow,
    db_name,
    find_results,
    parse_db_name,
    read_kernel_db,
    read_perf_sqlite,
    read_text_db,
    write_text_db,
)
from skipjack.solvers.miopen.environment import WorkerFolders

# Parses the output of MIOpenDriver, as far as it describes the result of a run.
#
# The formats are those of the program's published sources and of logs in public reports, from
# version 2 on; they were not tested on hardware. The exit status means little: it is 0 after an
# unknown flag, and also after a wrong result, whose bit is above the eight bits that the system
# keeps.

_WORDS = {
    "fwd": ("Forward", "Forward Convolution"),
    "bwd": ("Backward Data", "Backward Convolution Data"),
    "wrw": ("Backward Weights", "Backward Convolution Weights"),
}
"""By direction, the words in lines about time and in lines about checks."""
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|nan|inf)"
_REFUSED = re.compile(
    r"(?:Long Name|Input Flag): (?P<flag>\S+) Not Found !|(?P<illegal>Illegal input flag)"
    r"|(?P<base>Incorrect BaseArg|FAILED: Invalid Base Input Argument)"
)
_STEP_FAILED = re.compile(r"\b(?P<step>\w+)\(\) FAILED, rc = (?P<code>\S+)")
_ERROR = re.compile(r"(?:MIOpen\(\w+\)[^:]*: Error|MIOpen Error:)\s*(?P<text>.+)")
_LONGEST_LINE = 4096
"""Number of characters of a line in which errors are searched."""
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class DriverOutput:
    """The result of a run, as the program printed it."""

    solver: str = ""
    """The solver that was run, as ``ConvAsm1x1U``; old versions do not print it."""
    time_ms: float | None = None
    """Time of its kernels: the mean of all iterations but the first."""
    checked: bool | None = None
    """Whether the result is correct; None if it was not compared."""
    check: str = ""
    """The line about the comparison."""
    refused: str = ""
    """The part of the command that it does not know."""
    failed: str = ""
    """The step that failed, and its error code."""
    error: str = ""
    """The last error that MIOpen logged, possibly of a failing candidate of a search."""


def read_output(text: str, direction: str) -> DriverOutput:
    """Parse the output of a run in a direction (fwd, bwd, wrw)."""
    timed, checked = _WORDS[direction]
    chosen = re.search(
        rf"MIOpen {timed} Conv\. Algorithm: -?\d+(?:, Solution: \d+/([^\s:]+))?", text
    )
    time = re.search(rf"GPU Kernel Time {timed} Conv\. Elapsed: ({_NUMBER}) ms", text)
    check = re.search(rf"{checked} (?:(Verifies)|FAILED|Failed)\b[^\n]*", text)
    step = _STEP_FAILED.search(text)
    found = (_ERROR.search(line, 0, _LONGEST_LINE) for line in text.splitlines())
    errors = [match["text"] for match in found if match]
    return DriverOutput(
        chosen[1] or "" if chosen else "",
        float(time[1]) if time else None,
        bool(check[1]) if check else None,
        check[0].strip()[:_LONGEST] if check else "",
        _refused(text),
        f"{step['step']} failed with {step['code']}" if step else "",
        errors[-1].strip()[:_LONGEST] if errors else "",
    )


def believable(time_ms: float | None) -> bool:
    """Whether a time is possible: MIOpen of late 2024 stored zero and negative times.

    For each warm-up run it subtracted the sum of all runs so far from the total, not that run only.
    """
    return is_valid_time(time_ms)


def _refused(text: str) -> str:
    match = _REFUSED.search(text)
    if match is None:
        return ""
    if match["flag"]:
        return f"it does not know the flag {match['flag']}"
    return "it rejects a flag as illegal" if match["illegal"] else "it does not know the command"


# The user databases of a worker: write the known records, and read those that a run found.


@dataclass(frozen=True, slots=True)
class Installation:
    """The MIOpen version and the device, by which user databases are named."""

    arch: str
    units: int
    version: str
    """Version and build, as ``3_2_0_a1b2c3d``: databases of other builds are not read."""
    features: str = ""
    """Features of the device that are not the default: ``nosramecc``, ``xnack``."""

    @property
    def device(self) -> str:
        """The device, as ``gfx908/120``."""
        return f"{self.arch}/{self.units}"

    def file_name(self, kind: FileKind) -> str:
        """The name of a user database."""
        version = self.version if kind != "user_kernel" else ""
        name = DbName(kind, self.arch, self.units, user_version=version, features=self.features)
        return db_name(name)


@dataclass(frozen=True, slots=True)
class KernelName:
    """A kernel in a database, and the digest of its code."""

    name: str
    args: str
    digest: str


@dataclass(frozen=True, slots=True)
class ProblemRecords:
    """The records and kernels of one problem in the databases."""

    find: DatabaseRecord | None = None
    perf: DatabaseRecord | None = None
    kernels: tuple[KernelName, ...] = ()


def installation_of(place: WorkerFolders) -> Installation | None:
    """The installation, from the name of the find-db that a run wrote; None if there is none."""
    for _, name in _files(place.user_db, "find"):
        if name.user_version:
            return Installation(name.arch, name.units, name.user_version, name.features)
    return None


def put_records(place: WorkerFolders, installation: Installation, known: ProblemRecords) -> None:
    """Write records that were found before, perhaps on another machine, for the next run."""
    if known.find is not None:
        write_text_db(place.user_db / installation.file_name("find"), [known.find])
    if known.perf is not None:
        write_text_db(place.user_db / installation.file_name("perf"), [known.perf])


def take_records(place: WorkerFolders, find_key: str, perf_key: str) -> tuple[ProblemRecords, int]:
    """The records of a problem, and the number of other records in the find-db."""
    found = [record for path, _ in _files(place.user_db, "find") for record in read_text_db(path)]
    tuned = [record for record in _perf_records(place.user_db) if record.key == perf_key]
    mine = [record for record in found if record.key == find_key]
    problem_records = ProblemRecords(mine[0] if mine else None, tuned[0] if tuned else None)
    return problem_records, len(found) - len(mine)


def without_solver(problem_records: ProblemRecords, solver: str) -> ProblemRecords:
    """The records without a solver whose result is wrong, so that it is never run."""
    return replace(
        problem_records,
        find=_without_item(problem_records.find, solver),
        perf=_without_item(problem_records.perf, solver),
    )


def _without_item(record: DatabaseRecord | None, solver: str) -> DatabaseRecord | None:
    items = [item for item in record.items if item.id != solver] if record else []
    return DatabaseRecord(record.key, items) if record and items else None


def believable_record(record: DatabaseRecord | None) -> DatabaseRecord | None:
    """A find-db record without impossible times: MIOpen would rank a time of zero first."""
    if record is None:
        return None
    pairs = zip(record.items, find_results(record), strict=True)
    items = [item for item, line in pairs if believable(line.time_ms)]
    return DatabaseRecord(record.key, items) if items else None


def kernels_in(folder: Path) -> Iterator[KernelRow]:
    """All kernels in a cache."""
    for path, _ in _files(folder, "user_kernel"):
        yield from read_kernel_db(path)


def kernels_by_digest(rows: Iterable[KernelRow]) -> Iterator[tuple[KernelName, bytes]]:
    """Names, arguments and digests of kernels, with their code."""
    for row in rows:
        digest = hashlib.sha256(row.code).hexdigest()
        yield KernelName(row.name, row.args, digest), row.code


def _perf_records(folder: Path) -> Iterator[DatabaseRecord]:
    for path, _ in _files(folder, "perf"):
        yield from read_text_db(path)
    for path, _ in _files(folder, "perf_sqlite"):
        yield from read_perf_sqlite(path)


def _files(folder: Path, kind: FileKind) -> list[tuple[Path, DbName]]:
    if not folder.is_dir():
        return []
    named = [(path, parse_db_name(path.name)) for path in sorted(folder.rglob("*"))]
    return [(path, name) for path, name in named if name is not None and name.kind == kind]
