"""What can be wrong with the records of a find-db."""

from __future__ import annotations

import math
from collections.abc import Iterable

from skipjack.core.problem import shown
from skipjack.interop.miopen.find_values import FindText, algorithm_parts, fields_of
from skipjack.interop.miopen.findings import FileReport
from skipjack.interop.miopen.key_checks import find_key_faults
from skipjack.interop.miopen.keys import FindKey, parse_find_key
from skipjack.interop.miopen.plausible import SHORTEST_MS, Bounds
from skipjack.interop.miopen.records import Record

_LARGEST = 1 << 62
"""Bytes; -1 as an unsigned number is more."""
_DIRECTIONS = {"F": "fwd", "B": "bwd", "W": "wrw"}


def check_find_records(
    records: Iterable[tuple[int, Record]], report: FileReport, shortest_ms: float = SHORTEST_MS
) -> list[FindKey | None]:
    """Keys, values and times of all records with their lines; gives the keys' parts."""
    keys: list[FindKey | None] = []
    algorithms: dict[str, tuple[str, str] | None] = {}
    for line, record in records:
        key = parse_find_key(record.key)
        keys.append(key)
        if key is None:
            report.add("bad_key", f"{shown(record.key)!r} is no key of a find-db", line)
        else:
            _check_key(key, record, line, report)
        bounds = Bounds(key, shortest_ms) if key and min(*key.stride, key.groups) > 0 else None
        direction = _DIRECTIONS[key.direction] if key else None
        # What is in order is told at once; the others are looked at closely.
        harmless_ms = bounds.harmless_ms if bounds else math.inf
        for text in record.item_texts:
            fields = fields_of(text)
            if fields is None:
                report.add("bad_values", f"{shown(text)!r} is no find result", line)
                continue
            if fields.algorithm not in algorithms:
                algorithms[fields.algorithm] = algorithm_parts(fields.algorithm)
            parts = algorithms[fields.algorithm]
            if parts is None or parts[0] != direction:
                _check_algorithm(fields, parts, key, line, report)
            if not harmless_ms <= float(fields.time) < math.inf:
                least_ms = bounds.least_ms(parts[1] if parts else "") if bounds else shortest_ms
                _check_time(fields, least_ms, line, report)
            if not 0 <= int(fields.workspace) < _LARGEST:
                message = f"{fields.solver} needs {fields.workspace} bytes"
                report.add("bad_workspace", message, line)
    return keys


def _check_key(key: FindKey, record: Record, line: int, report: FileReport) -> None:
    for kind, fault in find_key_faults(key):
        report.add(kind, f"{shown(record.key)}{fault}", line)


def _check_algorithm(
    fields: FindText,
    parts: tuple[str, str] | None,
    key: FindKey | None,
    line: int,
    report: FileReport,
) -> None:
    if parts is None:
        name = shown(fields.algorithm)
        report.add("unknown_algorithm", f"{fields.solver}: {name!r} is no name like others", line)
    elif key is not None and parts[0] != _DIRECTIONS[key.direction]:
        message = (
            f"{fields.solver}: {shown(fields.algorithm)} in a key of direction {key.direction}"
        )
        report.add("wrong_direction", message, line)


def _check_time(fields: FindText, least_ms: float, line: int, report: FileReport) -> None:
    time = float(fields.time)
    if not math.isfinite(time) or time <= 0:
        report.add("bad_time", f"{fields.solver} took {fields.time} ms", line)
    elif time < least_ms:
        message = (
            f"{fields.solver} took {fields.time} ms; no device needs less than {least_ms:.3g} ms"
        )
        report.add("impossible_time", message, line)
