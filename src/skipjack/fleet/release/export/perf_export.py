"""Perf-dbs: the best config of every solver of a problem, for MIOpen or as our own lines.

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
from skipjack.fleet.release.export.contents import (
    AND,
    MIOPEN,
    SKIPJACK,
    Alias,
    Contents,
    ReleaseFile,
    base_name,
    check_aliases,
)
from skipjack.fleet.release.results.best_configs import TunedProblem
from skipjack.fleet.release.results.json_lines import write_lines
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

KIND = "perf-db"


@dataclass(frozen=True, slots=True, order=True)
class _Choice:
    """The parameters of a solver, and what decides between several."""

    time_ns: float
    problem: str
    params: str


@dataclass(slots=True)
class _Device:
    """What was gathered for a device."""

    problems: list[TunedProblem] = field(default_factory=list)
    records: dict[str, dict[str, _Choice]] = field(default_factory=dict)
    """By key and solver."""
    sharing: dict[str, set[str]] = field(default_factory=dict)
    """Problems by key."""
    toolchains: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Gathered:
    """What there is to write, by device, and what had to be left out."""

    devices: dict[str, _Device]
    counts: dict[str, int]
    remarks: tuple[str, ...]


def perf_files(tuned: Iterable[TunedProblem], form: str, *, sqlite: bool = False) -> Contents:
    """A file for each device."""
    gathered = _gather(tuned, form)
    make = partial(_miopen_file, sqlite=sqlite) if form == MIOPEN else _json_file
    files = tuple(make(name, device) for name, device in gathered.devices.items())
    return Contents(KIND, form, files, gathered.counts, gathered.remarks)


def one_perf_file(
    tuned: Iterable[TunedProblem], file_name: str, aliases: Iterable[Alias] = ()
) -> Contents:
    """One database of SQLite for all devices, as MIOpen's ``miopen.db``."""
    aliases = tuple(aliases)
    gathered = _gather(tuned, MIOPEN)
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
    return Contents(KIND, MIOPEN, (file,) if records else (), gathered.counts, remarks)


def _gather(tuned: Iterable[TunedProblem], form: str) -> _Gathered:
    devices: dict[str, _Device] = {}
    operations: Counter[str] = Counter()
    impossible = nothing = 0
    for problem in tuned:
        impossible += problem.impossible
        if not problem.configs and not problem.miopen:
            nothing += 1
            continue
        device = devices.setdefault(problem.device, _Device())
        if form != MIOPEN:
            device.problems.append(problem)
        elif not _take(device, problem):
            operations[problem.problem.partition(":")[0]] += 1
            continue
        device.toolchains.update(filter(None, [problem.toolchain]))
    shared = [
        len(problems)
        for device in devices.values()
        for problems in device.sharing.values()
        if len(problems) > 1
    ]
    counts = {
        "impossible_times": impossible,
        "without_settings": nothing,
        "shared_keys": len(shared),
        "sharing_problems": sum(shared),
        "not_in_this_format": operations.total(),
    }
    there = {
        name: device
        for name, device in sorted(devices.items())
        if device.records or device.problems
    }
    return _Gathered(there, counts, tuple(_remarks(counts, operations)))


def _take(device: _Device, problem: TunedProblem) -> bool:
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


def _miopen_file(name: str, device: _Device, *, sqlite: bool) -> ReleaseFile:
    records = _sorted_records(device)
    return ReleaseFile(
        name,
        partial(_miopen_name, sqlite=sqlite),
        partial(_write_records, records=records, sqlite=sqlite),
        {"problems": len(records), "entries": sum(map(len, device.records.values()))},
        tuple(sorted(device.toolchains)),
    )


def _sorted_records(device: _Device) -> list[Record]:
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


def _json_file(name: str, device: _Device) -> ReleaseFile:
    problems = device.problems
    entries = sum(len(problem.configs) for problem in problems)
    return ReleaseFile(
        name,
        lambda device: f"{base_name(device)}.perf.jsonl",
        partial(write_lines, problems=problems),
        {"problems": len(problems), "entries": entries},
        tuple(sorted(device.toolchains)),
    )


def _remarks(counts: dict[str, int], operations: Counter[str]) -> Iterator[str]:
    if operations:
        names = ", ".join(f"{count} {name}" for name, count in sorted(operations.items()))
        yield (
            f"{numbered(operations.total(), 'problem')} left out, which MIOpen's perf-db cannot "
            f"hold ({names}); --format {SKIPJACK} holds all"
        )
    if counts["shared_keys"]:
        yield (
            f"{numbered(counts['sharing_problems'], 'problem')} share "
            f"{numbered(counts['shared_keys'], 'key')}, which leave out the size of the result; "
            "the config of the fastest counts"
        )
    if counts["impossible_times"]:
        times = numbered(counts["impossible_times"], "time")
        yield f"{times} left out that cannot be: zero, less, or no number"
    if counts["without_settings"]:
        yield (
            f"{numbered(counts['without_settings'], 'problem')} left out whose solvers have "
            "nothing to set"
        )
