"""Rankings from files: a find-db of MIOpen as text, or our own lines of JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from skipjack.core.problem import Problem
from skipjack.errors import (
    CorruptFileError,
    MissingFileError,
    ProblemError,
    StorageError,
    UsageError,
)
from skipjack.fleet.release.results.found import FoundProblem, RankedEntry, ranked
from skipjack.interop import parse_find_db
from skipjack.interop.miopen import Record, find_results, parse_db_name, read_text_db
from skipjack.interop.miopen.json_format import numbered_objects
from skipjack.interop.miopen.json_lines import NS_PER_MS
from skipjack.storage.sqlite_files import MAGIC


def found_in_file(path: Path) -> Iterator[FoundProblem]:
    """The rankings of a file, in its order; of a key that is there twice the first counts.

    Text of MIOpen says its device by the file's name only. Times are given as they stand there,
    also those that cannot be: see `RankedEntry.possible`.
    """
    first = _beginning(path)
    if first.startswith(MAGIC):
        raise UsageError(f"{path} is a database of SQLite, which holds no rankings; give a find-db")
    return found_in_lines(path) if first.lstrip().startswith(b"{") else _records(path)


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(64)
    except FileNotFoundError:
        raise MissingFileError(f"there is no file {path}") from None
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
    """The rankings of a file of our own, packed or not."""
    seen: set[tuple[str, str]] = set()
    for number, record in numbered_objects(path):
        try:
            found = FoundProblem.from_record(record)
        except ValueError as error:
            raise CorruptFileError(
                f"{path}:{number} is no ranking of a problem: {error}; export it again, or give a "
                "find-db"
            ) from None
        if (found.problem, found.device) not in seen:
            seen.add((found.problem, found.device))
            yield found
