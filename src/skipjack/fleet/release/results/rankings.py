"""A problem with its solvers ranked: its JSON, and rankings read from files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from skipjack.core import Problem, Value, is_valid_time
from skipjack.errors import (
    CorruptFileError,
    MissingFileError,
    ProblemError,
    SkipjackError,
    StorageError,
    UsageError,
)
from skipjack.interop import parse_find_db
from skipjack.interop.miopen import (
    ENTRIES,
    FIND,
    KEY,
    NS_PER_MS,
    DatabaseRecord,
    TextLine,
    file_bytes,
    find_results,
    line_of,
    numbered_objects,
    parse_db_name,
    read_text_db,
    record_of,
    scan,
)
from skipjack.storage import MAGIC, atomic_write

# A problem with its solvers ranked, from any source, and its JSON.


@dataclass(frozen=True, slots=True)
class RankedEntry:
    """The time of a solver with its best known config."""

    solver: str
    time_ns: float
    """The recorded time, which may be impossible: see `possible`."""
    workspace_bytes: int = 0
    algorithm: str = ""
    """In MIOpen's terms, ``miopenConvolutionFwdAlgoDirect``; empty except for convolutions."""
    config: Mapping[str, Value] = field(default_factory=dict)
    spread: float | None = None
    samples: int = 0
    version: int | None = None
    """The version of the solver; None if it was not recorded."""

    @property
    def possible(self) -> bool:
        """Whether the time is positive and finite."""
        return is_valid_time(self.time_ns)

    def to_json(self) -> dict[str, Any]:
        """The JSON object of an export."""
        return {name: getattr(self, name) for name in RankedEntry.__slots__} | {
            "config": dict(self.config)
        }


@dataclass(frozen=True, slots=True)
class FoundProblem:
    """The solvers of a problem on a device, the fastest first."""

    problem: str
    """Its key, or the find-db key if the problem is not supported."""
    find_key: str | None
    """The key in a find-db of MIOpen; None if MIOpen has none."""
    device: str
    """Such as ``gfx908/120``; empty if a file does not contain it."""
    ranking: tuple[RankedEntry, ...]
    toolchain: str = ""
    updated: str = ""
    miopen: tuple[str, ...] = ()
    """Verbatim lines of a find-db that MIOpen wrote."""

    @property
    def possible(self) -> tuple[RankedEntry, ...]:
        """The ranking without impossible times."""
        return tuple(entry for entry in self.ranking if entry.possible)

    def record(self) -> dict[str, Any]:
        """The JSON object of an export."""
        return record_of(
            FIND,
            (self.problem, self.find_key, self.device),
            [entry.to_json() for entry in self.ranking],
            toolchain=self.toolchain,
            updated=self.updated,
            miopen=self.miopen,
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> FoundProblem:
        """The problem of a JSON line; `ValueError` if it is invalid."""
        if record.get("kind") != FIND:
            raise ValueError(f"its kind is {record.get('kind')!r}, not {FIND}")
        try:
            ranking = tuple(RankedEntry(**entry) for entry in record[ENTRIES[FIND]])
            key = record[KEY[FIND]]
            return cls(
                str(record["problem"]),
                None if key is None else str(key),
                str(record["device"]),
                ranked(_checked(entry) for entry in ranking),
                str(record["toolchain"]),
                str(record["updated"]),
                tuple(map(str, record["miopen"])),
            )
        except KeyError as error:
            raise ValueError(f"it has no field {error}") from None
        except TypeError as error:
            raise ValueError(f"a field has the wrong type: {error}") from None


def _checked(entry: RankedEntry) -> RankedEntry:
    numbers = (entry.time_ns, entry.workspace_bytes)
    if not all(isinstance(one, int | float) for one in numbers):
        raise ValueError(f"the time or workspace of {entry.solver} is not a number")
    return entry


def ranked(entries: Iterable[RankedEntry]) -> tuple[RankedEntry, ...]:
    """Entries sorted by time, then by name; times that are not numbers come last."""
    return tuple(sorted(entries, key=_rank))


def _rank(entry: RankedEntry) -> tuple[bool, float, str]:
    number = math.isfinite(entry.time_ns)
    return not number, entry.time_ns if number else 0.0, entry.solver


# Rankings from files: a find-db of MIOpen as text, or JSON lines of Skipjack.


def found_in_file(path: Path) -> Iterator[FoundProblem]:
    """The rankings of a file, in its order; of a repeated key only the first.

    For text of MIOpen, the device follows from the file name. Times are not checked and may be
    impossible: see `RankedEntry.possible`.
    """
    first = _beginning(path)
    if first.startswith(MAGIC):
        raise UsageError(f"{path} is an SQLite database, which has no rankings; give a find-db")
    return found_in_lines(path) if first.lstrip().startswith(b"{") else _records(path)


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(64)
    except FileNotFoundError:
        raise MissingFileError(f"the file {path} does not exist") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def _records(path: Path) -> Iterator[FoundProblem]:
    device = device_of_name(path.name)
    seen: set[str] = set()
    for record in read_text_db(path):
        if record.key not in seen:
            seen.add(record.key)
            try:
                found = found_of_record(record, device)
            except UsageError as error:
                raise CorruptFileError(f"{path} is not a find-db: {error}") from None
            yield found


def device_of_name(file_name: str) -> str:
    """The device in the name of a file of MIOpen, such as ``gfx908/120``; empty without one."""
    name = parse_db_name(file_name)
    return f"{name.arch}/{name.units}" if name and name.units else ""


def found_of_record(record: DatabaseRecord, device: str, *, parsed: bool = True) -> FoundProblem:
    """The ranking of a find-db record; without `parsed` it keeps its key, which is faster."""
    entries = (
        RankedEntry(line.solver, line.time_ms * NS_PER_MS, line.workspace_bytes, line.algorithm)
        for line in find_results(record)
    )
    problem = _problem_of(record.key) if parsed else record.key
    return FoundProblem(problem, record.key, device, ranked(entries))


def _problem_of(key: str) -> str:
    try:
        problem = parse_find_db(key)
    except ProblemError:
        return key
    return problem.key if isinstance(problem, Problem) else key


def found_in_lines(path: Path) -> Iterator[FoundProblem]:
    """The rankings of a file with JSON lines, packed or not."""
    seen: set[tuple[str, str]] = set()
    for number, record in numbered_objects(path):
        try:
            found = FoundProblem.from_record(record)
        except ValueError as error:
            raise CorruptFileError(
                f"{path}:{number} is not a ranking of a problem: {error}; export it again, or give "
                "a find-db"
            ) from None
        if (found.problem, found.device) not in seen:
            seen.add((found.problem, found.device))
            yield found


# Tolerant reading of baselines: invalid lines are skipped and recorded.
#
# Shipped find-dbs have been edited by hand or truncated by full disks. A few invalid lines do not
# matter for a comparison; a promotion reads strictly.


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """A line without a valid ranking."""

    file: str
    line: int
    reason: str


def found_in_text(path: Path, skipped: list[SkippedLine]) -> Iterator[FoundProblem]:
    """Like `found_in_file`, with repeated keys; invalid lines are added to `skipped`.

    Problems of a find-db keep its keys as names, as parsing 200,000 of them takes a minute.
    """
    name = path.name.removesuffix(".bz2")
    parsed = parse_db_name(name)
    if parsed and parsed.kind != "find":
        raise UsageError(f"{path} is not a find-db, so it has no times to compare; give a find-db")
    data = file_bytes(path)
    if data.startswith(MAGIC):
        raise UsageError(f"{path} is an SQLite database, which has no times; give a find-db")
    if data.lstrip().startswith(b"{"):
        yield from found_in_lines(path)
        return
    yield from _tolerant_records(path, scan(data, path).lines, device_of_name(name), skipped)


def _tolerant_records(
    path: Path, lines: Sequence[TextLine], device: str, skipped: list[SkippedLine]
) -> Iterator[FoundProblem]:
    bad: list[SkippedLine] = []
    for line in lines:
        found = _read(line, device, path, bad)
        if found is not None:
            yield found
    if 2 * len(bad) > len(lines):
        raise CorruptFileError(
            f"{path} is not a find-db: {len(bad)} of its {len(lines)} lines are invalid, first "
            f"line {bad[0].line}: {bad[0].reason}"
        )
    skipped += bad


def _read(line: TextLine, device: str, path: Path, bad: list[SkippedLine]) -> FoundProblem | None:
    if line.record is None:
        bad.append(SkippedLine(str(path), line.number, line.complaint))
        return None
    try:
        return found_of_record(line.record, device, parsed=False)
    except (SkipjackError, ValueError) as error:
        bad.append(SkippedLine(str(path), line.number, str(error)))
        return None


# Files with a JSON line for each problem, with sorted fields, in the order of problems.


class ProblemLine(Protocol):
    """A result for a problem on a device."""

    @property
    def problem(self) -> str:
        """The key of the problem."""
        ...

    @property
    def device(self) -> str:
        """The measured device."""
        ...

    def record(self) -> Mapping[str, Any]:
        """The JSON object of an export."""
        ...


def write_lines(path: Path, device: str, problems: Iterable[ProblemLine]) -> None:
    """Write lines for a device; if another one was measured, the lines record it."""
    ordered = sorted(problems, key=lambda problem: problem.problem)
    lines = [line_of({**one.record(), **_measured(one, device)}) for one in ordered]
    atomic_write(path, "".join(f"{line}\n" for line in lines).encode())


def _measured(problem: ProblemLine, device: str) -> dict[str, str]:
    if problem.device == device:
        return {}
    return {"device": device, "measured_on": problem.device}
