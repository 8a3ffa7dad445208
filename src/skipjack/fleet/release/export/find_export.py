"""Find-dbs: every problem with its solvers, fastest first, for MIOpen or as our own lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from skipjack.core.device import parse_device_name
from skipjack.fleet.release.export.contents import (
    MIOPEN,
    SKIPJACK,
    Contents,
    ReleaseFile,
    base_name,
)
from skipjack.fleet.release.export.find_records import find_records, first_place, harvested
from skipjack.fleet.release.results.found import FoundProblem
from skipjack.fleet.release.results.json_lines import write_lines
from skipjack.interop.miopen import DbName, Record, db_name, write_text_db
from skipjack.reading import numbered

KIND = "find-db"


@dataclass(slots=True)
class _Device:
    """What was gathered for a device."""

    problems: list[FoundProblem] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)
    toolchains: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Left:
    """What was left out."""

    impossible: int = 0
    empty: int = 0
    shared: int = 0
    operations: Counter[str] = field(default_factory=Counter)


def find_files(
    found: Iterable[FoundProblem], form: str, *, top: int | None = None, backend: str = "HIP"
) -> Contents:
    """A file for each device: `top` solvers of each problem, or all."""
    devices: dict[str, _Device] = {}
    left = _Left()
    for problem in found:
        kept = _without_the_impossible(problem, left)
        if not kept.ranking and not kept.miopen:
            left.empty += 1
            continue
        device = devices.setdefault(kept.device, _Device())
        taken = _take_record if form == MIOPEN else _take_problem
        if taken(device, kept, top, left):
            device.toolchains.update(filter(None, [kept.toolchain]))
    make = _text_file if form == MIOPEN else _json_file
    files = tuple(
        make(name, device, backend)
        for name, device in sorted(devices.items())
        if device.records or device.problems
    )
    counts = {
        "impossible_times": left.impossible,
        "without_a_time": left.empty,
        "shared_keys": left.shared,
        "not_in_this_format": left.operations.total(),
    }
    return Contents(KIND, form, files, counts, tuple(_remarks(left)))


def _without_the_impossible(problem: FoundProblem, left: _Left) -> FoundProblem:
    lines, lost = harvested(problem.miopen)
    dropped = {entry.solver for entry in problem.ranking if not entry.possible} | lost
    left.impossible += len(dropped)
    return replace(problem, ranking=problem.possible, miopen=lines)


def _take_problem(device: _Device, problem: FoundProblem, top: int | None, left: _Left) -> bool:
    device.problems.append(replace(problem, ranking=problem.ranking[:top]))
    return True


def _take_record(device: _Device, problem: FoundProblem, top: int | None, left: _Left) -> bool:
    records = list(find_records(problem, top))
    if not records:
        left.operations[problem.problem.partition(":")[0]] += 1
    for record in records:
        # A transposed convolution has the key of a plain one: the faster counts.
        known = device.records.get(record.key)
        left.shared += known is not None
        device.records[record.key] = min(known or record, record, key=first_place)
    return bool(records)


def _text_file(name: str, device: _Device, backend: str) -> ReleaseFile:
    records = list(device.records.values())
    items = sum(len(record.items) for record in records)
    return ReleaseFile(
        name,
        partial(_text_name, backend=backend),
        lambda path, _: write_text_db(path, records),
        {"problems": len(records), "entries": items},
        tuple(sorted(device.toolchains)),
    )


def _text_name(device: str, backend: str) -> str:
    arch, units = parse_device_name(device)
    return db_name(DbName("find", arch, units, backend))


def _json_file(name: str, device: _Device, backend: str) -> ReleaseFile:
    problems = device.problems
    return ReleaseFile(
        name,
        lambda device: f"{base_name(device)}.find.jsonl",
        partial(write_lines, problems=problems),
        {
            "problems": len(problems),
            "entries": sum(len(problem.ranking) for problem in problems),
        },
        tuple(sorted(device.toolchains)),
    )


def _remarks(left: _Left) -> Iterator[str]:
    if left.operations:
        names = ", ".join(f"{count} {name}" for name, count in sorted(left.operations.items()))
        yield (
            f"{numbered(left.operations.total(), 'problem')} left out, which MIOpen's find-db "
            f"cannot hold ({names}); --format {SKIPJACK} holds all"
        )
    if left.impossible:
        times = numbered(left.impossible, "time")
        yield f"{times} left out that cannot be: zero, less, or no number"
    if left.empty:
        yield f"{numbered(left.empty, 'problem')} left out of which nothing ran"
    if left.shared:
        yield f"{numbered(left.shared, 'record')} left out whose key a faster problem has"
