"""Tables of measured times of schedules: files of JSON lines, which can grow and be joined.

The first line describes the device and how it was measured::

    {"format": "skipjack-loop-table", "version": 1, "device": {...}, "compiler": "llvm 20.1.8",
     "protocol": "{...}", "skipjack": "0.9.0"}

Each following line has schedules of one problem with their times in nanoseconds, or null if a
schedule could not be built, crashed, hung or computed wrong results::

    {"problem": "matmul:64x64x64:f32", "solver": "nest", "schedules": [...], "time_ns": [...]}

Times of one problem are comparable: they were measured alternately with its fastest schedule. An
incomplete last line is ignored, so a file is valid whenever its writer stops. Files that end in
``.gz`` are compressed. A line may have further keys.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from skipjack.core import Device, Problem
from skipjack.errors import MalformedError, StorageError
from skipjack.reading import Field, parse_json
from skipjack.storage import atomic_write

FORMAT, VERSION = "skipjack-loop-table", 1


@dataclass(frozen=True, slots=True)
class TableHeader:
    """The device, the compiler and the protocol of a table."""

    device: Device
    compiler: str
    protocol: str
    """Key of the timing protocol."""
    skipjack: str = ""
    """The version of Skipjack that measured the table."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for tables of comparable times: class of device, compiler and protocol."""
        return self.device.class_key, self.compiler, self.protocol

    def line(self) -> str:
        """The first line of a file."""
        return _line({"format": FORMAT, "version": VERSION, **asdict(self)})


@dataclass(slots=True)
class LoopTable:
    """Measured times in nanoseconds by problem and schedule; None for one that cannot run."""

    header: TableHeader
    times_ns: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """Times by the key of the problem and the text of the schedule."""
    solvers: dict[str, str] = field(default_factory=dict)
    """The solver that built the schedules, by the key of the problem."""

    @property
    def entries(self) -> int:
        """The number of measured schedules."""
        return sum(map(len, self.times_ns.values()))

    def add(self, problem: str, solver: str, times_ns: Mapping[str, float | None]) -> None:
        """Add times of a problem; existing times stay."""
        self.solvers.setdefault(problem, solver)
        known = self.times_ns.setdefault(problem, {})
        for schedule, time_ns in times_ns.items():
            known.setdefault(schedule, time_ns)

    def of(self, problem: Problem) -> Mapping[str, float | None]:
        """The times of a problem by the text of the schedule."""
        return self.times_ns.get(problem.key, {})

    def best_ns(self, problem: Problem) -> float | None:
        """The shortest time of a problem."""
        return min((ns for ns in self.of(problem).values() if ns is not None), default=None)


def problem_line(
    problem: str, solver: str, times_ns: Mapping[str, float | None], **further: Any
) -> str:
    """A line of a file with times of one problem."""
    return _line(
        {
            "problem": problem,
            "solver": solver,
            "schedules": list(times_ns),
            "time_ns": [_rounded(ns) for ns in times_ns.values()],
            **further,
        }
    )


def write_table(path: Path, table: LoopTable) -> None:
    """Write a whole table atomically."""
    lines = [table.header.line()]
    for problem, times_ns in table.times_ns.items():
        lines.append(problem_line(problem, table.solvers[problem], times_ns))
    data = "".join(lines).encode()
    atomic_write(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def read_table(path: Path) -> LoopTable:
    """Read a table; raises `StorageError` or `MalformedError`."""
    lines = _lines(path)
    header = _header(next(lines, ""), str(path))
    table = LoopTable(header)
    for number, line in enumerate(lines, 2):
        if not line.endswith("\n"):
            break  # incomplete: its writer was stopped
        where = f"{path}, line {number}"
        record = _record(line, where)
        try:
            problem, solver = str(record["problem"]), str(record["solver"])
            schedules, times = record["schedules"], record["time_ns"]
            pairs = zip(map(_text, schedules), map(_time, times), strict=True)
            table.add(problem, solver, dict(pairs))
        except (KeyError, TypeError, ValueError):
            raise MalformedError(
                f"{where}: invalid schedules or times of a problem; measure the table again"
            ) from None
    return table


def join_tables(paths: Sequence[Path]) -> list[LoopTable]:
    """The tables of several files; those of one device, compiler and protocol are joined."""
    joined: dict[tuple[str, str, str], LoopTable] = {}
    for path in paths:
        table = read_table(path)
        known = joined.setdefault(table.header.key, LoopTable(table.header))
        for problem, times_ns in table.times_ns.items():
            known.add(problem, table.solvers[problem], times_ns)
    return list(joined.values())


def table_files(paths: Iterable[Path]) -> list[Path]:
    """The files among the paths, and the tables in the folders among them."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted([*path.glob("*.jsonl"), *path.glob("*.jsonl.gz")])
        else:
            found.append(path)
    return found


def _header(line: str, where: str) -> TableHeader:
    record = _record(line, f"{where}, line 1")
    if record.get("format") != FORMAT:
        raise MalformedError(
            f"{where} is not a table of schedules; make one with `skipjack loops measure`"
        )
    if record.get("version") != VERSION:
        raise MalformedError(
            f"{where} is a table of version {record.get('version')!r}, but this Skipjack reads "
            f"version {VERSION}; measure it again, or use the Skipjack that wrote it"
        )
    fields = Field(record, where)
    return TableHeader(
        Device.from_record(record.get("device"), where),
        *(fields[name].text() for name in ("compiler", "protocol", "skipjack")),
    )


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        record = parse_json(line.rstrip("\n"))
    except MalformedError as error:
        raise MalformedError(f"{where}: {error}") from None
    if not isinstance(record, dict):
        raise MalformedError(f"{where}: not a JSON object")
    return record


def _lines(path: Path) -> Iterator[str]:
    try:
        with _opened(path) as file:
            yield from file
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise StorageError(f"cannot read the table {path}: {error}") from None


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"


def _rounded(time_ns: float | None) -> float | None:
    return None if time_ns is None else float(f"{time_ns:.5g}")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _time(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(value)
    return float(value)
