"""What can be wrong with the records of a find-db."""

from __future__ import annotations

import math
from collections.abc import Iterable

from skipjack.core.problem import shown
from skipjack.interop.miopen.find_values import FindText, algorithm_parts, find_text
from skipjack.interop.miopen.findings import FileReport
from skipjack.interop.miopen.keys import FindKey, parse_find_key
from skipjack.interop.miopen.plausible import SHORTEST_MS, Bounds
from skipjack.interop.miopen.records import Record

_LARGEST = 1 << 62
"""Bytes; -1 as an unsigned number is more."""
_DIRECTIONS = {"F": "fwd", "B": "bwd", "W": "wrw"}


def check_find_records(records: Iterable[tuple[int, Record]], report: FileReport) -> None:
    """Keys, values and times of all records with their lines."""
    algorithms: dict[str, tuple[str, str] | None] = {}
    for line, record in records:
        key = parse_find_key(record.key)
        if key is None:
            report.add("bad_key", f"{shown(record.key)!r} is no key of a find-db", line)
        else:
            _check_key(key, record, line, report)
        bounds = Bounds(key) if key else None
        for item in record.items:
            fields = find_text(item)
            if fields is None:
                report.add("bad_values", f"{shown(item.text)!r} is no find result", line)
                continue
            if fields.algorithm not in algorithms:
                algorithms[fields.algorithm] = algorithm_parts(fields.algorithm)
            parts = algorithms[fields.algorithm]
            _check_algorithm(fields, parts, key, line, report)
            _check_numbers(fields, parts[1] if parts else "", bounds, line, report)


def _check_key(key: FindKey, record: Record, line: int, report: FileReport) -> None:
    where = shown(record.key)
    if any(len(layout) != key.spatial + 2 for layout in key.layouts):
        message = f"{where}: {'-'.join(key.layouts)} is no layout of {key.spatial} spatial axes"
        report.add("bad_layout", message, line)
    sizes = (*key.first, *key.second, *key.filter, *key.stride, *key.dilation, key.n, key.groups)
    if min(sizes) < 1:
        report.add("bad_sizes", f"{where} has a size of 0", line)
        return
    if key.first[0] % key.groups or key.second[0] % key.groups:
        report.add("bad_sizes", f"{where}: {key.groups} groups do not divide the channels", line)
    if abs(key.excess) > 1:
        by = f"{abs(key.excess)} {'more' if key.excess > 0 else 'less'}"
        report.add("bad_sizes", f"{where}: the result is {by} than its other sizes give", line)


def _check_algorithm(
    fields: FindText,
    parts: tuple[str, str] | None,
    key: FindKey | None,
    line: int,
    report: FileReport,
) -> None:
    name = shown(fields.algorithm)
    if parts is None:
        report.add("unknown_algorithm", f"{fields.solver}: {name!r} is no name like others", line)
    elif key is not None and parts[0] != _DIRECTIONS[key.direction]:
        message = f"{fields.solver}: {name} in a key of direction {key.direction}"
        report.add("wrong_direction", message, line)


def _check_numbers(
    fields: FindText, family: str, bounds: Bounds | None, line: int, report: FileReport
) -> None:
    time = float(fields.time)
    if not math.isfinite(time) or time <= 0:
        report.add("bad_time", f"{fields.solver} took {fields.time} ms", line)
    elif (bounds is None or time < bounds.harmless_ms or time < SHORTEST_MS) and time < (
        least := bounds.least_ms(family) if bounds else SHORTEST_MS
    ):
        message = f"{fields.solver} took {fields.time} ms; no device needs less than {least:.3g} ms"
        report.add("impossible_time", message, line)
    if not 0 <= int(fields.workspace) < _LARGEST:
        report.add("bad_workspace", f"{fields.solver} needs {fields.workspace} bytes", line)
