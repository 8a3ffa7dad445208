"""Rankings and best configs as records of MIOpen's find-db and perf-db."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from skipjack.core import parse_device_name
from skipjack.fleet.release.formats.export_format import (
    AND,
    MIOPEN,
    PERF_DB,
    SKIPJACK,
    Alias,
    Contents,
    GatheredConfigs,
    GatheredRankings,
    ReleaseFile,
    check_aliases,
    solver_of,
    time_ms_of,
)
from skipjack.fleet.release.results import FoundProblem, RankedEntry, TunedProblem
from skipjack.interop.miopen import (
    NS_PER_MS,
    DatabaseRecord,
    DbName,
    FindResultLine,
    RecordItem,
    complaint_of,
    db_name,
    find_item,
    write_perf_sqlite,
    write_perf_sqlite_of,
    write_text_db,
)
from skipjack.reading import numbered

# Rankings as records of MIOpen's find-db; lines that MIOpen wrote are kept unchanged.


@dataclass(slots=True)
class GatheredRecords:
    """The records of each device; the counts are complete after the last problem."""

    top: int | None = None
    toolchains: dict[str, set[str]] = field(default_factory=dict)
    """Toolchains by device."""
    _records: dict[str, dict[str, DatabaseRecord]] = field(default_factory=dict)
    _rankings: GatheredRankings = field(default_factory=GatheredRankings)
    _shared: int = 0
    _operations: Counter[str] = field(default_factory=Counter)

    def take(self, found: Iterable[FoundProblem]) -> None:
        """Add the records of problems with a key in MIOpen."""
        for problem in self._rankings.of(found):
            records = list(find_records(problem, self.top))
            if not records:
                self._operations[problem.problem.partition(":")[0]] += 1
                continue
            device_records = self._records.setdefault(problem.device, {})
            for record in records:
                # A transposed convolution has the key of a plain one: keep the faster result.
                known = device_records.get(record.key)
                self._shared += known is not None
                device_records[record.key] = min(known or record, record, key=rank_of_record)
            used = self.toolchains.setdefault(problem.device, set())
            used.update(filter(None, [problem.toolchain]))

    def devices(self) -> Iterator[tuple[str, list[DatabaseRecord]]]:
        """Devices with their records, sorted by name."""
        for device, records in sorted(self._records.items()):
            yield device, list(records.values())

    def counts(self) -> dict[str, int]:
        """Counts of what was left out."""
        operations = self._operations.total()
        own = {"shared_keys": self._shared, "not_in_this_format": operations}
        return {**self._rankings.counts(), **own}

    def remarks(self) -> Iterator[str]:
        """Sentences about what was left out."""
        if self._operations:
            yield (
                f"{numbered(self._operations.total(), 'problem')} left out, which MIOpen's find-db "
                f"cannot contain ({operation_counts(self._operations)}); --format {SKIPJACK} can"
            )
        yield from self._rankings.remarks()
        if self._shared:
            yield f"{numbered(self._shared, 'record')} left out: a faster problem has the same key"


def operation_counts(operations: Counter[str]) -> str:
    """Counts for a message: ``2 add, 1 matmul``."""
    return ", ".join(f"{count} {name}" for name, count in sorted(operations.items()))


def find_records(problem: FoundProblem, top: int | None = None) -> Iterator[DatabaseRecord]:
    """The records of a problem: its own, and others that MIOpen wrote in the same job.

    Items are sorted by their times as written, and equal times by solver. There are no records if
    MIOpen has no key for the problem.
    """
    lines = {record.key: record for record in map(DatabaseRecord.of_line, problem.miopen)}
    own = _own_items(problem, lines.values())
    keys = dict.fromkeys([*([problem.find_key] if own and problem.find_key else []), *lines])
    for key in keys:
        verbatim = lines.get(key)
        added = own if key == problem.find_key else []
        items = verbatim.items if verbatim else ()
        if verbatim and not added and (top is None or len(items) <= top):
            yield verbatim
        else:
            yield DatabaseRecord(key, sorted([*items, *added], key=_rank)[:top])


def rank_of_record(record: DatabaseRecord) -> tuple[float, str]:
    """The criterion for choosing one of several records of a key."""
    return min(map(time_ms_of, record.items)), record.contents


def _own_items(problem: FoundProblem, lines: Iterable[DatabaseRecord]) -> list[RecordItem]:
    """Items of solvers for which MIOpen wrote none."""
    known = {solver_of(item) for record in lines for item in record.items}
    return [_item(entry) for entry in problem.ranking if entry.solver not in known]


def _item(entry: RankedEntry) -> RecordItem:
    time_ms = entry.time_ns / NS_PER_MS
    line = FindResultLine(entry.solver, time_ms, entry.workspace_bytes, entry.algorithm)
    return find_item(line)


def _rank(item: RecordItem) -> tuple[float, str]:
    return time_ms_of(item), solver_of(item)


# Best configs as records of MIOpen's perf-db, in text or SQLite.
#
# MIOpen's key of a problem omits the size of the result. If problems share a key, the config of the
# fastest one is used for each solver.


@dataclass(frozen=True, slots=True, order=True)
class _Choice:
    """The parameters of a solver, ordered by preference."""

    time_ns: float
    problem: str
    params: str


@dataclass(slots=True)
class DevicePerf:
    """The records of a device."""

    records: dict[str, dict[str, _Choice]] = field(default_factory=dict)
    """Parameters by key and solver."""
    sharing: dict[str, set[str]] = field(default_factory=dict)
    """Problems by key."""
    toolchains: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class GatheredPerf:
    """The records of all devices, and what was left out."""

    devices: dict[str, DevicePerf]
    counts: dict[str, int]
    remarks: tuple[str, ...]


def one_perf_file(
    gathered: GatheredPerf, file_name: str, aliases: tuple[Alias, ...] = ()
) -> Contents:
    """One SQLite database for all devices, like MIOpen's ``miopen.db``."""
    devices, remarks = gathered.devices, gathered.remarks
    check_aliases(aliases, tuple(devices))
    records = {name: _sorted_records(device) for name, device in devices.items()}
    records |= {alias.target: records[alias.source] for alias in aliases}
    remarks += tuple(f"{alias.target} has the rows of {alias.source}" for alias in aliases)
    keys = {record.key for found in records.values() for record in found}
    entries = sum(len(record.items) for found in records.values() for record in found)
    toolchains = sorted(set().union(*(device.toolchains for device in devices.values())))
    file = ReleaseFile(
        AND.join(sorted(records)),
        lambda device: file_name,
        lambda path, device: write_perf_sqlite_of(path, dict(sorted(records.items()))),
        {"devices": len(records), "problems": len(keys), "entries": entries},
        tuple(toolchains),
    )
    return Contents(PERF_DB, MIOPEN, (file,) if records else (), gathered.counts, remarks)


def gather(tuned: Iterable[TunedProblem]) -> GatheredPerf:
    """The records of each device, and what was left out."""
    devices: dict[str, DevicePerf] = {}
    operations: Counter[str] = Counter()
    configs = GatheredConfigs()
    for problem in configs.of(tuned):
        device = devices.setdefault(problem.device, DevicePerf())
        if _take(device, problem):
            device.toolchains.update(filter(None, [problem.toolchain]))
        else:
            operations[problem.problem.partition(":")[0]] += 1
    shared = [
        len(problems)
        for device in devices.values()
        for problems in device.sharing.values()
        if len(problems) > 1
    ]
    counts = {
        **configs.counts(),
        "shared_keys": len(shared),
        "sharing_problems": sum(shared),
        "not_in_this_format": operations.total(),
    }
    there = {name: device for name, device in sorted(devices.items()) if device.records}
    remarks = (*_remarks(counts, operations), *configs.remarks())
    return GatheredPerf(there, counts, remarks)


def _take(device: DevicePerf, problem: TunedProblem) -> bool:
    """Add the configs of a problem to the records of its keys; returns whether it has a key."""
    times = {config.solver: config.time_ns for config in problem.configs}
    choices: dict[tuple[str, str], _Choice] = {}
    for key, items in _items_by_key(problem.miopen):  # the later of two jobs takes precedence
        for item in items:
            time_ns = times.get(item.id, math.inf)  # without a time, any other config is preferred
            choices[key, item.id] = _Choice(time_ns, problem.problem, item.values)
    written = {solver for _, solver in choices}
    for config in problem.configs:
        if problem.perf_key is not None and config.solver not in written:
            choice = _Choice(config.time_ns, problem.problem, config.params)
            choices[problem.perf_key, config.solver] = choice
    for (key, solver), choice in choices.items():
        record = device.records.setdefault(key, {})
        record[solver] = min(record.get(solver, choice), choice)
        device.sharing.setdefault(key, set()).add(problem.problem)
    return bool(choices)


def _items_by_key(lines: Iterable[str]) -> Iterator[tuple[str, tuple[RecordItem, ...]]]:
    for line in lines:
        if complaint_of(line) is None:  # otherwise incomplete: its job was killed
            record = DatabaseRecord.of_line(line)
            yield record.key, record.items


def perf_file(name: str, device: DevicePerf, *, sqlite: bool) -> ReleaseFile:
    """The file of one device, as text or SQLite."""
    records = _sorted_records(device)
    return ReleaseFile(
        name,
        partial(_perf_name, sqlite=sqlite),
        partial(_write_records, records=records, sqlite=sqlite),
        {"problems": len(records), "entries": sum(map(len, device.records.values()))},
        tuple(sorted(device.toolchains)),
    )


def _sorted_records(device: DevicePerf) -> list[DatabaseRecord]:
    return [
        DatabaseRecord(
            key, [RecordItem(solver, choices[solver].params) for solver in sorted(choices)]
        )
        for key, choices in sorted(device.records.items())
    ]


def _perf_name(device: str, sqlite: bool) -> str:
    arch, units = parse_device_name(device)
    return db_name(DbName("perf_sqlite" if sqlite else "perf", arch, units))


def _write_records(path: Path, device: str, records: list[DatabaseRecord], sqlite: bool) -> None:
    if sqlite:
        write_perf_sqlite(path, records)
    else:
        write_text_db(path, records)


def _remarks(counts: dict[str, int], operations: Counter[str]) -> Iterator[str]:
    if operations:
        yield (
            f"{numbered(operations.total(), 'problem')} left out, which MIOpen's perf-db cannot "
            f"contain ({operation_counts(operations)}); --format {SKIPJACK} can"
        )
    if counts["shared_keys"]:
        yield (
            f"{numbered(counts['sharing_problems'], 'problem')} share "
            f"{numbered(counts['shared_keys'], 'key')}, which omit the size of the result; "
            "the config of the fastest is used"
        )
