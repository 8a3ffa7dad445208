"""Checks of the keys and records of find-dbs, perf-dbs and kernel-dbs, and their report."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Literal, cast

from skipjack.core import excerpt
from skipjack.errors import CorruptFileError
from skipjack.interop.find_db_key import TYPES
from skipjack.interop.miopen.find_values import (
    SHORTEST_MS,
    FindText,
    TimeBounds,
    algorithm_parts,
    fields_of,
    is_algorithm,
)
from skipjack.interop.miopen.kernel_db import code_bytes, packed_kernels
from skipjack.interop.miopen.keys import FindKey, is_perf_key, parse_find_key, perf_fields
from skipjack.interop.miopen.text_db import DatabaseRecord

# Findings in databases: the first of each kind are listed, all are counted.

Severity = Literal["error", "warning"]
FINDING_KINDS: dict[str, Severity] = {
    "unreadable": "error",
    "wrong_name": "error",
    "bad_line": "error",
    "bad_key": "error",
    "bad_values": "error",
    "bad_time": "error",
    "impossible_time": "error",
    "bad_workspace": "error",
    "bad_sizes": "error",
    "bad_layout": "error",
    "wrong_direction": "error",
    "duplicate_key": "error",
    "duplicate_id": "error",
    "damaged_kernel": "error",
    "duplicate_kernel": "error",
    "dead_key": "warning",
    "empty": "warning",
    "odd_md5": "warning",
    "old_layout": "warning",
    "unsorted": "warning",
    "odd_lines": "warning",
    "unknown_algorithm": "warning",
    "orphan_row": "warning",
    "orphan_config": "warning",
    "no_find_record": "warning",
    "no_params": "warning",
    "not_as_noted": "warning",
}
"""Errors make MIOpen fail or use wrong data; warnings do not."""
MOST_LISTED = 5
"""Number of findings of a kind that are listed for a file."""


@dataclass(frozen=True, slots=True)
class DatabaseFinding:
    """One finding."""

    line: int
    """0 if the finding has no line."""
    kind: str
    message: str

    @property
    def severity(self) -> Severity:
        return FINDING_KINDS[self.kind]


@dataclass(slots=True)
class FileReport:
    """All findings in one file."""

    file: str
    database: str = ""
    records: int = 0
    limit: int = MOST_LISTED
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[DatabaseFinding] = field(default_factory=list)

    def add(self, kind: str, message: str, line: int = 0, count: int = 1) -> None:
        """Count a finding, and keep it if it is among the first of its kind."""
        if self.counts[kind] < self.limit:
            self.findings.append(DatabaseFinding(line, kind, message))
        self.counts[kind] += count

    def total(self, severity: Severity) -> int:
        """The number of findings of a severity."""
        return sum(count for kind, count in self.counts.items() if FINDING_KINDS[kind] == severity)


# Checks of well-formed keys: sizes, groups, layouts and types.

Fault = tuple[str, str]
"""The kind of a finding, and the message after the key."""
_TYPE = re.compile(f"(?:{'|'.join(TYPES)}){{1,3}}", re.ASCII)
_VECTORS = re.compile(r"c\d*\Z")
"""The ending of vectorised layouts."""
_AXES = {2: sorted("NCHW"), 3: sorted("NCDHW")}
_LARGEST_SIZE = (1 << 31) - 1
"""Maximum size, as MIOpen stores it in a signed 32-bit integer."""
_NAMES = (
    *("spatial_dim", "in_channels", "in_h", "in_w", "in_d", "fil_h", "fil_w", "fil_d"),
    *("out_channels", "batchsize", "pad_h", "pad_w", "pad_d", "stride_h", "stride_w", "stride_d"),
    *("dilation_h", "dilation_w", "dilation_d", "bias", "group_count"),
)
_MAY_BE_0 = {"pad_h", "pad_w", "pad_d", "bias"}
_FLAT = {"stride_d", "dilation_d"}
"""Fields that are 0 with two spatial axes."""
_GROUPS = _NAMES.index("group_count")
_AT_LEAST_1 = {
    spatial: itemgetter(*(at for at, name in enumerate(_NAMES) if name not in may_be_0))
    for spatial, may_be_0 in ((2, _MAY_BE_0 | _FLAT), (3, _MAY_BE_0))
}


def find_key_faults(key: FindKey) -> Iterator[Fault]:
    """The faults of a find key."""
    axes, groups = key.spatial, key.groups
    if set(map(len, key.layouts)) != {axes + 2}:
        yield "bad_layout", f": {'-'.join(key.layouts)} is not a layout with {axes} spatial axes"
    sizes = (*key.first, *key.second, *key.filter, *key.stride, *key.dilation, key.n, groups)
    if min(sizes) < 1:
        yield "bad_sizes", " has a size of 0"
        return
    if key.first[0] % groups or key.second[0] % groups:
        yield "bad_sizes", f": {groups} groups do not divide the channels"
    excess = key.excess
    if abs(excess) > 1:
        by = f"{abs(excess)} {'more' if excess > 0 else 'less'}"
        yield "bad_sizes", f": the result is {by} than the other sizes give"


def perf_key_faults(fields: tuple[int | str, ...]) -> Iterator[Fault]:
    """The faults of a perf key, from its 21 numbers and three words."""
    numbers = cast("tuple[int, ...]", fields[:21])
    spatial = numbers[0]
    at_least_1 = _AT_LEAST_1[spatial](numbers)
    # A fast test, as files may have a million keys and invalid sizes are rare.
    if min(at_least_1) < 1 or min(numbers) < 0 or max(numbers) > _LARGEST_SIZE:
        yield "dead_key", f": {', '.join(_wrong_sizes(numbers))}; no problem has such sizes"
    groups = numbers[_GROUPS]
    if groups > 0 and (numbers[1] % groups or numbers[8] % groups):
        yield "bad_key", f": {groups} groups do not divide the channels"
    yield from _word_faults(spatial, str(fields[21]), str(fields[22]))


def _wrong_sizes(numbers: tuple[int, ...]) -> Iterator[str]:
    may_be_0 = _MAY_BE_0 | _FLAT if numbers[0] == 2 else _MAY_BE_0
    for name, size in zip(_NAMES, numbers, strict=True):
        if not (name not in may_be_0) <= size <= _LARGEST_SIZE:
            yield f"{name} is {size}"


@lru_cache(maxsize=256)
def _word_faults(spatial: int, layout: str, kind: str) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    if not _TYPE.fullmatch(kind):
        faults.append(("bad_key", f": {kind} is not a type"))
    if fault := _layout_fault(spatial, layout):
        faults.append((fault, f": {layout} is not a layout with {spatial} spatial axes"))
    return tuple(faults)


def _layout_fault(spatial: int, layout: str) -> str | None:
    if sorted(_VECTORS.sub("", layout)) == _AXES[spatial]:
        return None
    # Old versions of MIOpen write NCHW for all layouts and look for it, so it is not an error.
    return "old_layout" if (spatial, layout) == (3, "NCHW") else "bad_layout"


# Checks of the records of a find-db.

_LARGEST_WORKSPACE = 1 << 62
"""Bytes; -1 as an unsigned number exceeds it."""
_DIRECTIONS = {"F": "fwd", "B": "bwd", "W": "wrw"}


def check_find_records(
    records: Iterable[tuple[int, DatabaseRecord]],
    report: FileReport,
    shortest_ms: float = SHORTEST_MS,
) -> list[FindKey | None]:
    """Check keys, values and times of all records; returns the parsed keys."""
    keys: list[FindKey | None] = []
    algorithms: dict[str, tuple[str, str] | None] = {}
    for line, record in records:
        key = parse_find_key(record.key)
        keys.append(key)
        if key is None:
            report.add("bad_key", f"{excerpt(record.key)!r} is not a key of a find-db", line)
        else:
            _check_key(key, record, line, report)
        bounds = TimeBounds(key, shortest_ms) if key and min(*key.stride, key.groups) > 0 else None
        direction = _DIRECTIONS[key.direction] if key else None
        # A fast test accepts most values; only the others are examined in detail.
        harmless_ms = bounds.harmless_ms if bounds else math.inf
        for text in record.item_texts:
            fields = fields_of(text)
            if fields is None:
                report.add("bad_values", f"{excerpt(text)!r} is not a find result", line)
                continue
            if fields.algorithm not in algorithms:
                algorithms[fields.algorithm] = algorithm_parts(fields.algorithm)
            parts = algorithms[fields.algorithm]
            if parts is None or parts[0] != direction:
                _check_algorithm(fields, parts, key, line, report)
            if not harmless_ms <= float(fields.time) < math.inf:
                least_ms = bounds.least_ms(parts[1] if parts else "") if bounds else shortest_ms
                _check_time(fields, least_ms, line, report)
            if not 0 <= int(fields.workspace) < _LARGEST_WORKSPACE:
                message = f"{fields.solver} needs {fields.workspace} bytes"
                report.add("bad_workspace", message, line)
    return keys


def _check_key(key: FindKey, record: DatabaseRecord, line: int, report: FileReport) -> None:
    for kind, fault in find_key_faults(key):
        report.add(kind, f"{excerpt(record.key)}{fault}", line)


def _check_algorithm(
    fields: FindText,
    parts: tuple[str, str] | None,
    key: FindKey | None,
    line: int,
    report: FileReport,
) -> None:
    if parts is None:
        name = excerpt(fields.algorithm)
        report.add("unknown_algorithm", f"{fields.solver}: {name!r} is an unknown algorithm", line)
    elif key is not None and parts[0] != _DIRECTIONS[key.direction]:
        message = (
            f"{fields.solver}: {excerpt(fields.algorithm)} in a key with direction {key.direction}"
        )
        report.add("wrong_direction", message, line)


def _check_time(fields: FindText, least_ms: float, line: int, report: FileReport) -> None:
    time = float(fields.time)
    if not math.isfinite(time) or time <= 0:
        report.add("bad_time", f"{fields.solver} took {fields.time} ms", line)
    elif time < least_ms:
        message = (
            f"{fields.solver} took {fields.time} ms; no device can take less than {least_ms:.3g} ms"
        )
        report.add("impossible_time", message, line)


# Checks of the records of a perf-db, and of a perf-db together with its find-db.

Numbered = tuple[int, DatabaseRecord]
_BATCHNORM = re.compile(r"[23](?:x\d{1,10}){8}(?:x[A-WYZa-wyz0-9]+){4}", re.ASCII)


def check_perf_records(records: Iterable[Numbered], report: FileReport) -> None:
    """Check the keys of all records; parameters are opaque."""
    for line, record in records:
        for kind, fault in _faults(record.key):
            report.add(kind, f"{excerpt(record.key)}{fault}", line)


def _faults(text: str) -> Iterable[Fault]:
    if fields := perf_fields(text):
        return perf_key_faults(fields)
    if key := parse_find_key(text):
        return find_key_faults(key)
    return () if _BATCHNORM.fullmatch(text) else (("bad_key", " is not a key of a perf-db"),)


def check_together(
    find: tuple[Iterable[Numbered], Iterable[FindKey | None], FileReport],
    perf: tuple[Iterable[Numbered], FileReport],
) -> None:
    """Report parameters of problems without a ranking, and ranked solvers without parameters.

    Only solvers that occur in the perf-db are expected to have parameters.
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
                message = f"{excerpt(record.key)}: no parameters of {solver} in the perf-db"
                find_report.add("no_params", message, line)
    for text, (line, _) in params.items():
        if text not in ranked and is_perf_key(text):
            perf_report.add("no_find_record", f"{excerpt(text)} is not in the find-db", line)


def _perf_text(text: str) -> str:
    """The perf key of a record; records of old perf-dbs have find keys."""
    key = parse_find_key(text) if "-" in text else None
    return key.perf_text if key else text


def _solvers(record: DatabaseRecord) -> Iterator[str]:
    for name, text in zip(record.ids, record.item_texts, strict=True):
        if not is_algorithm(name):
            yield name
        elif fields := fields_of(text):
            yield fields.solver


# Checks of the rows of a kernel-db.


def check_kernels(path: Path, report: FileReport) -> None:
    """Check the size and MD5 of each row, and for repeated names."""
    first: dict[tuple[str, str], int] = {}
    for packed in packed_kernels(path):
        report.records += 1
        where = f"row {packed.row} ({excerpt(packed.name)})"
        before = first.setdefault((packed.name, packed.args), packed.row)
        if before != packed.row:
            message = f"{where} has the same name and arguments as row {before}"
            report.add("duplicate_kernel", message)
        if packed.md5 != packed.md5.lower():
            report.add("odd_md5", f"{where} has its MD5 in upper case, which MIOpen never writes")
        try:
            code_bytes(packed, path)
        except CorruptFileError as error:
            report.add("damaged_kernel", str(error))
