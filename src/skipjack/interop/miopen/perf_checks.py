"""What can be wrong with the records of a perf-db, and between a perf-db and its find-db."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from skipjack.core.problem import shown
from skipjack.interop.miopen.find_values import fields_of, is_algorithm
from skipjack.interop.miopen.findings import FileReport
from skipjack.interop.miopen.key_checks import Fault, find_key_faults, perf_key_faults
from skipjack.interop.miopen.keys import FindKey, is_perf_key, parse_find_key, perf_fields
from skipjack.interop.miopen.records import Record

Numbered = tuple[int, Record]
_BATCHNORM = re.compile(r"[23](?:x\d{1,10}){8}(?:x[A-WYZa-wyz0-9]+){4}", re.ASCII)


def check_perf_records(records: Iterable[Numbered], report: FileReport) -> None:
    """Keys of all records; parameters are opaque."""
    for line, record in records:
        for kind, fault in _faults(record.key):
            report.add(kind, f"{shown(record.key)}{fault}", line)


def _faults(text: str) -> Iterable[Fault]:
    if fields := perf_fields(text):
        return perf_key_faults(fields)
    if key := parse_find_key(text):
        return find_key_faults(key)
    return () if _BATCHNORM.fullmatch(text) else (("bad_key", " is no key of a perf-db"),)


def check_together(
    find: tuple[Iterable[Numbered], Iterable[FindKey | None], FileReport],
    perf: tuple[Iterable[Numbered], FileReport],
) -> None:
    """Parameters of problems that were never ranked, and ranked solvers without parameters.

    Solvers that occur in the perf-db are those that have parameters at all.
    """
    (find_records, keys, find_report), (perf_records, perf_report) = find, perf
    params: dict[str, tuple[int, set[str]]] = {}
    for line, record in perf_records:
        params.setdefault(_perf_text(record.key), (line, set()))[1].update(record.ids)
    tunable = set().union(*(solvers for _, solvers in params.values())) if params else set()
    ranked: set[str] = set()
    for (line, record), key in zip(find_records, keys, strict=True):
        if key is None:
            continue
        text = key.perf_text
        ranked.add(text)
        have = params.get(text, (0, set()))[1]
        for solver in _solvers(record):
            if solver in tunable and solver not in have:
                message = f"{shown(record.key)}: no parameters of {solver} in the perf-db"
                find_report.add("no_params", message, line)
    for text, (line, _) in params.items():
        if text not in ranked and is_perf_key(text):
            perf_report.add("no_find_record", f"{shown(text)} is not in the find-db", line)


def _perf_text(text: str) -> str:
    """Old perf-dbs have find keys."""
    key = parse_find_key(text) if "-" in text else None
    return key.perf_text if key else text


def _solvers(record: Record) -> Iterator[str]:
    for name, text in zip(record.ids, record.item_texts, strict=True):
        if not is_algorithm(name):
            yield name
        elif fields := fields_of(text):
            yield fields.solver
