"""Best configs as records of MIOpen's perf-db, in text or SQLite.

MIOpen's key of a problem leaves out the size of the result. Where problems share one, the config of
the fastest counts for each solver.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from skipjack.core.device import parse_device_name
from skipjack.fleet.release.formats.contents import (
    AND,
    MIOPEN,
    PERF_DB,
    SKIPJACK,
    Alias,
    Contents,
    ReleaseFile,
    check_aliases,
)
from skipjack.fleet.release.formats.gathered import GatheredConfigs
from skipjack.fleet.release.formats.miopen_find import named
from skipjack.fleet.release.results import TunedProblem
from skipjack.interop.miopen import (
    DbName,
    Item,
    Record,
    db_name,
    write_perf_sqlite,
    write_perf_sqlite_of,
    write_text_db,
)
from skipjack.interop.miopen.records import complaint_of
from skipjack.reading import numbered


@dataclass(frozen=True, slots=True, order=True)
class _Choice:
    """The parameters of a solver, and what decides between several."""

    time_ns: float
    problem: str
    params: str


@dataclass(slots=True)
class DevicePerf:
    """What was gathered for a device."""

    records: dict[str, dict[str, _Choice]] = field(default_factory=dict)
    """By key and solver."""
    sharing: dict[str, set[str]] = field(default_factory=dict)
    """Problems by key."""
    toolchains: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class GatheredPerf:
    """What there is to write, by device, and what had to be left out."""

    devices: dict[str, DevicePerf]
    counts: dict[str, int]
    remarks: tuple[str, ...]


def one_perf_file(
    gathered: GatheredPerf, file_name: str, aliases: tuple[Alias, ...] = ()
) -> Contents:
    """One database of SQLite for all devices, as MIOpen's ``miopen.db``."""
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
    """Add a problem's configs to the records of its keys; whether it has any key."""
    times = {config.solver: config.time_ns for config in problem.configs}
    choices: dict[tuple[str, str], _Choice] = {}
    for key, items in _harvested(problem.miopen):  # of two jobs the later counts
        for item in items:
            time_ns = times.get(item.id, math.inf)  # what was not timed gives way
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


def _harvested(lines: Iterable[str]) -> Iterator[tuple[str, tuple[Item, ...]]]:
    for line in lines:
        if complaint_of(line) is None:  # else half a line: its job was ended while MIOpen wrote
            record = Record.of_line(line)
            yield record.key, record.items


def perf_file(name: str, device: DevicePerf, *, sqlite: bool) -> ReleaseFile:
    """One device's file, in text or SQLite."""
    records = _sorted_records(device)
    return ReleaseFile(
        name,
        partial(_miopen_name, sqlite=sqlite),
        partial(_write_records, records=records, sqlite=sqlite),
        {"problems": len(records), "entries": sum(map(len, device.records.values()))},
        tuple(sorted(device.toolchains)),
    )


def _sorted_records(device: DevicePerf) -> list[Record]:
    return [
        Record(key, [Item(solver, choices[solver].params) for solver in sorted(choices)])
        for key, choices in sorted(device.records.items())
    ]


def _miopen_name(device: str, sqlite: bool) -> str:
    arch, units = parse_device_name(device)
    return db_name(DbName("perf_sqlite" if sqlite else "perf", arch, units))


def _write_records(path: Path, device: str, records: list[Record], sqlite: bool) -> None:
    if sqlite:
        write_perf_sqlite(path, records)
    else:
        write_text_db(path, records)


def _remarks(counts: dict[str, int], operations: Counter[str]) -> Iterator[str]:
    if operations:
        yield (
            f"{numbered(operations.total(), 'problem')} left out, which MIOpen's perf-db cannot "
            f"hold ({named(operations)}); --format {SKIPJACK} holds all"
        )
    if counts["shared_keys"]:
        yield (
            f"{numbered(counts['sharing_problems'], 'problem')} share "
            f"{numbered(counts['shared_keys'], 'key')}, which leave out the size of the result; "
            "the config of the fastest counts"
        )
