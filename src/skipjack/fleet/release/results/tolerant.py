"""Reading a baseline that has odd lines in it: they are skipped, and said where they are.

Shipped find-dbs have been edited by hand and cut off by full disks. For a comparison one bad line
of 100,000 matters little; for a promotion it does, so that one reads strictly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from skipjack.errors import CorruptFileError, SkipjackError, UsageError
from skipjack.fleet.release.results.found import FoundProblem
from skipjack.fleet.release.results.found_files import (
    device_of_name,
    found_in_lines,
    found_of_record,
)
from skipjack.interop.miopen import parse_db_name
from skipjack.interop.miopen.file_bytes import file_bytes
from skipjack.interop.miopen.text_db import Line, scan
from skipjack.storage.sqlite_files import MAGIC


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that holds no ranking."""

    file: str
    line: int
    reason: str


def found_in_text(path: Path, skipped: list[Skipped]) -> Iterator[FoundProblem]:
    """As `found_in_file`, repeated keys too; lines that cannot be read are added to `skipped`.

    Problems of a find-db are called by their keys there: parsing 200,000 of them takes a minute.
    """
    name = path.name.removesuffix(".bz2")
    parsed = parse_db_name(name)
    if parsed and parsed.kind != "find":
        raise UsageError(f"{path} is no find-db, so it has no times to compare; give a find-db")
    data = file_bytes(path)
    if data.startswith(MAGIC):
        raise UsageError(f"{path} is a database of SQLite, which has no times; give a find-db")
    if data.lstrip().startswith(b"{"):
        yield from found_in_lines(path)
        return
    yield from _records(path, scan(data, path).lines, device_of_name(name), skipped)


def _records(
    path: Path, lines: Sequence[Line], device: str, skipped: list[Skipped]
) -> Iterator[FoundProblem]:
    bad: list[Skipped] = []
    for line in lines:
        found = _read(line, device, path, bad)
        if found is not None:
            yield found
    if 2 * len(bad) > len(lines):
        raise CorruptFileError(
            f"{path} is no find-db: {len(bad)} of its {len(lines)} lines are not of one, first "
            f"line {bad[0].line}: {bad[0].reason}"
        )
    skipped += bad


def _read(line: Line, device: str, path: Path, bad: list[Skipped]) -> FoundProblem | None:
    if line.record is None:
        bad.append(Skipped(str(path), line.number, line.complaint))
        return None
    try:
        return found_of_record(line.record, device, parsed=False)
    except (SkipjackError, ValueError) as error:
        bad.append(Skipped(str(path), line.number, str(error)))
        return None
