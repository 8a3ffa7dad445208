"""Rankings from files: a find-db of MIOpen as text, or our own lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from skipjack.core.problem import Problem
from skipjack.errors import (
    CorruptFileError,
    NewerFormatError,
    ProblemError,
    StorageError,
    UsageError,
)
from skipjack.fleet.release.results.found import FORMAT, FoundProblem, RankedEntry, ranked
from skipjack.interop import parse_find_db
from skipjack.interop.miopen import Record, find_results, parse_db_name, read_text_db

_NS_PER_MS = 1e6
_SQLITE = b"SQLite format 3"


def found_in_file(path: Path) -> Iterator[FoundProblem]:
    """The rankings of a file, in its order; of a key that is there twice the first counts.

    Text of MIOpen says its device by the file's name only. Times are given as they stand there,
    also those that cannot be: see `RankedEntry.possible`.
    """
    first = _beginning(path)
    if first.startswith(_SQLITE):
        raise UsageError(f"{path} is a database of SQLite, which holds no rankings; give a find-db")
    return _lines(path) if first.lstrip().startswith(b"{") else _records(path)


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(64)
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
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
                raise CorruptFileError(f"{path} is no find-db: {error}") from None
            yield found


def device_of_name(file_name: str) -> str:
    """The device that a file of MIOpen is for, as ``gfx908/120``; empty if its name says none."""
    name = parse_db_name(file_name)
    return f"{name.arch}/{name.units}" if name and name.units else ""


def found_of_record(record: Record, device: str, *, parsed: bool = True) -> FoundProblem:
    """The ranking of a find-db's record; not `parsed`, it keeps its key, which is much faster."""
    entries = (
        RankedEntry(line.solver, line.time_ms * _NS_PER_MS, line.workspace_bytes, line.algorithm)
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


def _lines(path: Path) -> Iterator[FoundProblem]:
    seen: set[tuple[str, str]] = set()
    with path.open(encoding="utf-8") as file:
        number = 0
        try:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                record = json.loads(line)
                if isinstance(record, dict) and record.get("format", 0) > FORMAT:
                    raise NewerFormatError(
                        f"{path} line {number} has format {record['format']}, this Skipjack reads "
                        f"up to {FORMAT}; update Skipjack"
                    )
                found = FoundProblem.from_record(record)
                if (found.problem, found.device) not in seen:
                    seen.add((found.problem, found.device))
                    yield found
        except (ValueError, TypeError, RecursionError) as error:
            raise CorruptFileError(
                f"{path} line {max(number, 1)} is no ranking of a problem: {error}; "
                "export it again, or give a find-db"
            ) from None
