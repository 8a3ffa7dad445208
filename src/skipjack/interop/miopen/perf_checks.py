"""What can be wrong with the records of a perf-db, and between a perf-db and its find-db."""

from __future__ import annotations

import re
from collections.abc import Iterable

from skipjack.core.problem import shown
from skipjack.interop.miopen.find_values import find_text
from skipjack.interop.miopen.findings import FileReport
from skipjack.interop.miopen.keys import parse_find_key, perf_fields, sqlite_key
from skipjack.interop.miopen.records import Record

Numbered = tuple[int, Record]
_BATCHNORM = re.compile(r"[23](?:x-?\d+){8}(?:x[A-Za-z0-9]+){4}", re.ASCII)


def check_perf_records(records: Iterable[Numbered], report: FileReport) -> None:
    """Keys of all records; parameters are opaque."""
    for line, record in records:
        fields = perf_fields(record.key)
        if fields is None:
            if not (_BATCHNORM.fullmatch(record.key) or parse_find_key(record.key)):
                report.add("bad_key", f"{shown(record.key)!r} is no key of a perf-db", line)
            continue
        spatial, layout = int(fields[0]), str(fields[21])
        if layout.isalpha() and len(layout) != spatial + 2:
            # Old MIOpen wrote NCHW for all; it is what it looks for, so it is no error.
            message = f"{shown(record.key)}: {layout} is no layout of {spatial} spatial axes"
            report.add("old_layout", message, line)


def check_together(
    find: tuple[Iterable[Numbered], FileReport], perf: tuple[Iterable[Numbered], FileReport]
) -> None:
    """Parameters of problems that were never ranked, and ranked solvers without parameters.

    Solvers that occur in the perf-db are those that have parameters at all.
    """
    (find_records, find_report), (perf_records, perf_report) = find, perf
    params: dict[str, tuple[int, set[str]]] = {}
    for line, record in perf_records:
        if (text := sqlite_key(record.key)) is not None:
            params.setdefault(text, (line, set()))[1].update(item.id for item in record.items)
    tunable = set().union(*(solvers for _, solvers in params.values())) if params else set()
    ranked: set[str] = set()
    for line, record in find_records:
        key = parse_find_key(record.key)
        if key is None:
            continue
        text = key.perf_text
        ranked.add(text)
        have = params.get(text, (0, set()))[1]
        for item in record.items:
            fields = find_text(item)
            if fields and fields.solver in tunable and fields.solver not in have:
                message = f"{shown(record.key)}: no parameters of {fields.solver} in the perf-db"
                find_report.add("no_params", message, line)
    for text, (line, _) in params.items():
        if text not in ranked:
            perf_report.add("no_find_record", f"{shown(text)} is not in the find-db", line)
