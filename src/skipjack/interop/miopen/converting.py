"""One format of a database into another; what gets lost on the way is said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

from skipjack.core.problem import shown
from skipjack.errors import CorruptFileError, UsageError
from skipjack.interop.miopen.find_values import (
    FindText,
    current_of,
    find_text,
    is_legacy,
    legacy_of,
)
from skipjack.interop.miopen.formats import Format, format_of, wanted_format
from skipjack.interop.miopen.json_lines import FORMAT, json_bytes
from skipjack.interop.miopen.kernel_db import (
    PackedKernel,
    code_of,
    packed_kernels,
    write_packed,
)
from skipjack.interop.miopen.keys import sqlite_key
from skipjack.interop.miopen.merging import merged
from skipjack.interop.miopen.opening import Database, open_database
from skipjack.interop.miopen.perf_sqlite import write_perf_sqlite
from skipjack.interop.miopen.records import Item, Record
from skipjack.interop.miopen.text_db import in_canonical_order, write_text_db
from skipjack.storage.atomic import atomic_write

Values = Literal["current", "legacy"]
VALUES: dict[str, Values] = {"current": "current", "legacy": "legacy"}


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """How a database is written."""

    values: Values | None = None
    """The format of find values; None leaves each as it is."""
    keep_order: bool = False
    """Of records that are not in canonical order."""
    device: str | None = None
    """Which one, where an old perf-db holds several."""
    merge: tuple[Path, ...] = ()
    """Other databases of the kind, which add what is missing."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was done."""

    source: Format
    target: Format
    records: int
    losses: tuple[str, ...] = ()
    """What the new file does not have of the old one."""


def convert(source: Path, target: Path, options: ConvertOptions | None = None) -> Conversion:
    """Write what is in `source` as `target`, whose name says the format; all of it or nothing."""
    options = options or ConvertOptions()
    have = format_of(source)
    want = wanted_format(target, have)
    if options.values and have.kind != "find":
        raise UsageError(f"--values is about find-dbs; {source} is a {have}")
    if have.kind == "kernel":
        return _convert_kernels(source, target, have, want, options)
    database = open_database(source, options.device)
    losses = list(database.left_out)
    databases = [database, *(open_database(each, options.device) for each in options.merge)]
    if options.values:
        changed = [with_values(each, options.values) for each in databases]
        databases = [each for each, _ in changed]
        losses += [loss for _, lost in changed for loss in lost]
    if options.merge:
        _refuse_mixture(databases)
    database = merged(databases[0], databases[1:])
    if want.storage == "sqlite":
        database, lost = _with_perf_keys(database)
        losses += [*lost, *_lost_in_sqlite(database.records)]
    _write(target, want, database, options)
    return Conversion(have, want, len(database.records), tuple(losses))


def _refuse_mixture(databases: Sequence[Database]) -> None:
    """One record with values of two formats would name the same results twice."""
    if databases[0].format.kind != "find":
        return
    records = chain.from_iterable(each.records for each in databases)
    if len({is_legacy(item) for record in records for item in record.items}) > 1:
        raise UsageError(
            "these find-dbs have values in two formats; say which one to write with "
            "--values current or --values legacy"
        )


def _write(target: Path, want: Format, database: Database, options: ConvertOptions) -> None:
    sort = not options.keep_order
    if want.storage == "sqlite":
        write_perf_sqlite(target, database.records)
    elif want.storage == "jsonl":
        records = in_canonical_order(database.records) if sort else database.records
        atomic_write(target, json_bytes(want.kind, records, database.form, database.path))
    else:
        write_text_db(target, database.records, sort=sort, form=database.form)


def with_values(database: Database, values: Values) -> tuple[Database, list[str]]:
    """All find values in one format, numbers as they are written; and what that loses."""
    records: list[Record] = []
    dropped = more = 0
    for at, record in enumerate(database.records):
        found = [_fields(item, database, at) for item in record.items]
        if all(each.legacy == (values == "legacy") for each in found):
            records.append(record)
            continue
        kept = _fastest(found, values)
        dropped += len(found) - len(kept)
        if values == "current":
            more += sum(each.says_more for each in kept)
        write = legacy_of if values == "legacy" else current_of
        records.append(Record(record.key, [write(each) for each in kept]))
    one = "algorithm" if values == "legacy" else "solver"
    losses = [f"{dropped} slower results of the same {one} in a record"] if dropped else []
    if more:
        losses.append(f"the library or the key of the kernels of {more} results")
    return replace(database, records=records), losses


def _fields(item: Item, database: Database, at: int) -> FindText:
    fields = find_text(item)
    if fields is None:
        raise CorruptFileError(f"{database.where(at)}: {shown(item.text)!r} is no find result")
    return fields


def _fastest(found: Sequence[FindText], values: Values) -> list[FindText]:
    """Of each id that the new record will have, the one with the smallest time."""
    best: dict[str, FindText] = {}
    for each in found:
        name = each.algorithm if values == "legacy" else each.solver
        have = best.setdefault(name, each)
        if float(each.time) < float(have.time):
            best[name] = each
    kept = set(map(id, best.values()))
    return [each for each in found if id(each) in kept]


def _with_perf_keys(database: Database) -> tuple[Database, list[str]]:
    """Old perf-dbs have the keys of find-dbs, which say one size more."""
    records = [
        Record.of_texts(sqlite_key(record.key) or record.key, record.contents)
        for record in database.records
    ]
    pairs = zip(records, database.records, strict=True)
    changed = sum(new.key != old.key for new, old in pairs)
    losses = [f"the second image's size of {changed} old keys"] if changed else []
    return replace(database, records=records), losses


def _lost_in_sqlite(records: Sequence[Record]) -> list[str]:
    seen: set[str] = set()
    again = unsorted = twice = 0
    for record in records:
        names = [item.id for item in record.items]
        if record.key in seen:
            again += 1
            continue
        seen.add(record.key)
        twice += len(names) - len(set(names))
        unsorted += names != sorted(names)
    said = (
        (again, "records whose key stands before already"),
        (twice, "items whose solver stands before in the record"),
        (unsorted, "records' order of items (they become sorted by solver)"),
    )
    return [f"{count} {what}" for count, what in said if count]


def _convert_kernels(
    source: Path, target: Path, have: Format, want: Format, options: ConvertOptions
) -> Conversion:
    if options.merge:
        raise UsageError(f"--merge is about find-dbs and perf-dbs; {source} is a {have}")
    if have.storage == "jsonl":
        raise UsageError(
            f"{source} is a listing of kernels without their code, so nothing can be made of it"
        )
    if want.storage == "jsonl":
        lines = list(_listing(source))
        atomic_write(target, "".join(lines).encode())
        lost = (f"the code of {len(lines)} kernels: a listing has names and sizes",)
        return Conversion(have, want, len(lines), lost if lines else ())

    def checked() -> Iterator[PackedKernel]:
        for packed in packed_kernels(source):
            code_of(packed, source)
            yield packed

    return Conversion(have, want, write_packed(target, checked()))


def _listing(source: Path) -> Iterator[str]:
    for packed in packed_kernels(source):
        line = {
            "format": FORMAT,
            "kind": "kernel",
            "name": packed.name,
            "args": packed.args,
            "md5": packed.md5,
            "bytes": len(code_of(packed, source)),
            "packed_bytes": len(packed.blob),
        }
        yield json.dumps(line) + "\n"
