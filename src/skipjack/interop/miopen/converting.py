"""One format of a database into another; what gets lost on the way is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.interop.miopen.formats import Format, format_of, wanted_format
from skipjack.interop.miopen.json_lines import json_bytes
from skipjack.interop.miopen.json_reading import JsonLine, read_json_lines
from skipjack.interop.miopen.kernel_converting import copy_kernels, list_kernels
from skipjack.interop.miopen.key_styles import with_keys_for
from skipjack.interop.miopen.merging import merged
from skipjack.interop.miopen.opening import Database, open_database
from skipjack.interop.miopen.perf_sqlite import write_perf_sqlite
from skipjack.interop.miopen.records import Record
from skipjack.interop.miopen.text_db import in_canonical_order, write_text_db
from skipjack.interop.miopen.value_formats import Values, refuse_mixture, with_values
from skipjack.reading import numbered
from skipjack.storage.atomic import atomic_write


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """How a database is written."""

    values: Values | None = None
    """The format of find values; None leaves each as it is."""
    keep_order: bool = False
    """Of records that are not in canonical order."""
    device: str | None = None
    """Which one, where a file holds several."""
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
    _refuse_options(source, have, options)
    if have.kind == "kernel":
        count, losses = (list_kernels if want.storage == "jsonl" else copy_kernels)(source, target)
        return Conversion(have, want, count, losses)
    if have == want and have.storage == "jsonl" and not (options.values or options.merge):
        count, losses = _copy_lines(source, target, options)
        return Conversion(have, want, count, losses)
    first, *others = (open_database(each, options.device) for each in (source, *options.merge))
    if options.device and not any(each.chosen for each in (first, *others)):
        raise UsageError(f"--device chooses where a file holds several devices; {source} does not")
    database, lost = _brought_together(first, others, options.values)
    if want.kind == "perf":
        database, of_keys = with_keys_for(target, database)
        lost += of_keys
    if want.storage == "sqlite":
        lost += _lost_in_sqlite(database.records)
    elif database.bare:
        lost.append(f"{numbered(len(database.bare), 'problem')} without parameters")
    _write(target, want, database, options)
    return Conversion(have, want, len(database.records), tuple(lost))


def _refuse_options(source: Path, have: Format, options: ConvertOptions) -> None:
    """Those that are about other kinds of databases."""
    if options.values and have.kind != "find":
        raise UsageError(f"--values is about find-dbs; {source} is a {have}")
    if have.kind == "kernel" and options.merge:
        raise UsageError(f"--merge is about find-dbs and perf-dbs; {source} is a {have}")
    if have.kind == "kernel" and options.device:
        raise UsageError(f"--device is about perf-dbs and JSON lines; {source} is a {have}")
    if have.kind == "kernel" and have.storage == "jsonl":
        raise UsageError(
            f"{source} is a listing of kernels without their code, so nothing can be made of it"
        )
    for other in options.merge:
        if (form := format_of(other)).kind != have.kind:
            raise UsageError(f"cannot merge {other}, a {form}, into {source}, a {have}")


def _brought_together(
    first: Database, others: Sequence[Database], values: Values | None
) -> tuple[Database, list[str]]:
    """All of them as one, and what that loses."""
    lost = [*first.left_out]
    lost += [f"{loss} (of {other.path})" for other in others for loss in other.left_out]
    databases = [first, *others]
    if values:
        changed = [with_values(each, values) for each in databases]
        databases = [each for each, _ in changed]
        lost += [loss for _, losses in changed for loss in losses]
    if others and first.format.kind == "find":
        refuse_mixture(databases)
    return merged(databases[0], databases[1:]), lost


def _write(target: Path, want: Format, database: Database, options: ConvertOptions) -> None:
    sort = not options.keep_order
    if want.storage == "sqlite":
        write_perf_sqlite(target, database.records, database.bare)
    elif want.storage == "jsonl":
        records = in_canonical_order(database.records) if sort else database.records
        atomic_write(target, json_bytes(want.kind, records, database.form, database.device))
    else:
        write_text_db(target, database.records, sort=sort, form=database.form)


def _copy_lines(source: Path, target: Path, options: ConvertOptions) -> tuple[int, tuple[str, ...]]:
    """JSON lines as they are: how many, and what was left out."""
    found = read_json_lines(source, options.device)
    lines = found.said
    if not options.keep_order and not _is_sorted(lines):
        lines = sorted(lines, key=lambda line: (line.problem, line.device))
    atomic_write(target, b"".join([line.text + b"\n" for line in lines]))
    return len(lines), found.left_out_of_lines


def _is_sorted(lines: Sequence[JsonLine]) -> bool:
    """By problem, as exports are, or by key, as conversions of MIOpen's files are."""
    if all(a.problem <= b.problem for a, b in pairwise(lines)):
        return True
    keys = [line.key for line in lines if line.key is not None]
    return len(keys) == len(lines) and all(a <= b for a, b in pairwise(keys))


def _lost_in_sqlite(records: Sequence[Record]) -> list[str]:
    seen: set[str] = set()
    again = unsorted = twice = 0
    for record in records:
        if record.key in seen:
            again += 1
            continue
        seen.add(record.key)
        names = record.ids
        twice += len(names) - len(set(names))
        unsorted += names != sorted(names)
    said = (
        (again, "record", "{} whose key stands before already"),
        (twice, "item", "{} whose solver stands before in the record"),
        (unsorted, "record", "the order of items in {} (they become sorted by solver)"),
    )
    return [text.format(numbered(count, noun)) for count, noun, text in said if count]
