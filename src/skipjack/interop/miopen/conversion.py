"""Conversion of databases and of find values between formats; what is lost is reported."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Literal

from skipjack.core import excerpt, is_valid_time
from skipjack.errors import CorruptFileError, UsageError
from skipjack.interop.miopen.database import Database, merge_databases, open_database, with_keys_for
from skipjack.interop.miopen.file_formats import DatabaseFormat, format_of, wanted_format
from skipjack.interop.miopen.find_values import (
    SHORTEST_CALL_MS,
    FindText,
    TimeBounds,
    algorithm_parts,
    current_of,
    fields_of,
    is_algorithm,
    legacy_of,
)
from skipjack.interop.miopen.json_lines import FORMAT, JsonLine, json_bytes, read_json_lines
from skipjack.interop.miopen.kernel_db import PackedKernel, code_bytes, packed_kernels, write_packed
from skipjack.interop.miopen.keys import parse_find_key
from skipjack.interop.miopen.perf_sqlite import write_perf_sqlite
from skipjack.interop.miopen.text_db import DatabaseRecord, in_canonical_order, write_text_db
from skipjack.reading import numbered
from skipjack.storage import atomic_write

# Conversion of kernel-dbs to kernel-dbs, without repacking, or to a listing.


def copy_kernels(source: Path, target: Path) -> tuple[int, tuple[str, ...]]:
    """Copy and check all kernels; returns their number and descriptions of what is lost."""
    seen: list[int] = []

    def checked() -> Iterator[PackedKernel]:
        for packed in packed_kernels(source):
            code_bytes(packed, source)
            seen.append(packed.row)
            yield packed

    written = write_packed(target, checked())
    again = len(seen) - written
    lost = f"{numbered(again, 'kernel')} whose name and arguments occur before"
    return written, (lost,) if again else ()


def list_kernels(source: Path, target: Path) -> tuple[int, tuple[str, ...]]:
    """Write JSON lines without code; returns their number and descriptions of what is lost."""
    lines = list(_listing(source))
    atomic_write(target, "".join(lines).encode())
    lost = f"the code of {numbered(len(lines), 'kernel')}: a listing has only names and sizes"
    return len(lines), (lost,) if lines else ()


def _listing(source: Path) -> Iterator[str]:
    for packed in packed_kernels(source):
        line = {
            "format": FORMAT,
            "kind": "kernel",
            "name": packed.name,
            "args": packed.args,
            "md5": packed.md5,
            "bytes": code_bytes(packed, source),
            "packed_bytes": len(packed.blob),
        }
        yield json.dumps(line) + "\n"


# Conversion of find values between formats; the text of numbers is kept.

ValueFormat = Literal["current", "legacy"]
VALUE_FORMATS: dict[str, ValueFormat] = {"current": "current", "legacy": "legacy"}


def refuse_mixture(databases: Sequence[Database]) -> None:
    """`UsageError` for two formats, as a merged record would contain results twice."""
    records = chain.from_iterable(each.records for each in databases)
    if len({is_algorithm(name) for record in records for name in record.ids}) > 1:
        raise UsageError(
            "these find-dbs have values in two formats; choose one with "
            "--values current or --values legacy"
        )


def with_values(database: Database, values: ValueFormat) -> tuple[Database, list[str]]:
    """All find values in one format, and descriptions of what is lost."""
    records: list[DatabaseRecord] = []
    dropped = more = 0
    legacy = values == "legacy"
    write = legacy_of if legacy else current_of
    for at, record in enumerate(database.records):
        found = [_fields(text, database, at) for text in record.item_texts]
        if {each.legacy for each in found} == {legacy}:
            records.append(record)
            continue
        kept = _fastest_results(found, record.key, legacy)
        dropped += len(found) - len(kept)
        if not legacy:
            more += sum([each.says_more for each in kept])
        records.append(DatabaseRecord(record.key, map(write, kept)))
    one = "algorithm" if legacy else "solver"
    lost = f"{numbered(dropped, 'slower or impossible result')} of the same {one} in a record"
    losses = [lost] if dropped else []
    if more:
        losses.append(f"the library or the key of the kernels of {numbered(more, 'result')}")
    return replace(database, records=records), losses


def _fields(text: str, database: Database, at: int) -> FindText:
    fields = fields_of(text)
    if fields is None:
        raise CorruptFileError(f"{database.where(at)}: {excerpt(text)!r} is not a find result")
    return fields


def _fastest_results(found: list[FindText], key: str, legacy: bool) -> list[FindText]:
    """The result with the shortest possible time for each id of the new record."""
    names = [each.algorithm if legacy else each.solver for each in found]
    if len(set(names)) == len(names):
        return found
    bounds = _bounds(key)
    best: dict[str, tuple[bool, float, int]] = {}
    for at, (name, each) in enumerate(zip(names, found, strict=True)):
        time = float(each.time)
        rank = (not _can_be(time, each.algorithm, bounds), time, at)
        best[name] = min(best.get(name, rank), rank)
    return [found[at] for at in sorted(at for _, _, at in best.values())]


def _bounds(text: str) -> TimeBounds | None:
    """The bounds for any device, including CPUs."""
    key = parse_find_key(text)
    usable = key and min(*key.stride, *key.dilation, key.groups) > 0
    return TimeBounds(key, SHORTEST_CALL_MS) if key and usable else None


def _can_be(time_ms: float, algorithm: str, bounds: TimeBounds | None) -> bool:
    if not is_valid_time(time_ms):
        return False
    parts = algorithm_parts(algorithm)
    least_ms = bounds.least_ms(parts[1] if parts else "") if bounds else SHORTEST_CALL_MS
    return time_ms >= least_ms


# Conversion of databases between formats; what is lost is reported.


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """Options of a conversion."""

    values: ValueFormat | None = None
    """The format of find values; None keeps each as it is."""
    keep_order: bool = False
    """Keep the order of records even if it is not canonical."""
    device: str | None = None
    """The device, if a file contains several."""
    merge: tuple[Path, ...] = ()
    """Further databases of the same kind, which add missing records."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion."""

    source: DatabaseFormat
    target: DatabaseFormat
    records: int
    losses: tuple[str, ...] = ()
    """Descriptions of what the new file lacks."""


def convert(source: Path, target: Path, options: ConvertOptions | None = None) -> Conversion:
    """Convert `source` to `target`, whose name determines the format; all or nothing."""
    options = options or ConvertOptions()
    source_format = format_of(source)
    target_format = wanted_format(target, source_format)
    _refuse_options(source, source_format, options)
    if source_format.kind == "kernel":
        count, losses = (list_kernels if target_format.storage == "jsonl" else copy_kernels)(
            source, target
        )
        return Conversion(source_format, target_format, count, losses)
    if (
        source_format == target_format
        and source_format.storage == "jsonl"
        and not (options.values or options.merge)
    ):
        count, losses = _copy_lines(source, target, options)
        return Conversion(source_format, target_format, count, losses)
    first, *others = (open_database(each, options.device) for each in (source, *options.merge))
    if options.device and not any(each.chosen for each in (first, *others)):
        raise UsageError(f"--device selects one of several devices; {source} is for one")
    database, lost = _brought_together(first, others, options.values)
    if target_format.kind == "perf":
        database, of_keys = with_keys_for(target, database)
        lost += of_keys
    if target_format.storage == "sqlite":
        lost += _lost_in_sqlite(database.records)
    elif database.bare:
        lost.append(f"{numbered(len(database.bare), 'problem')} without parameters")
    _write(target, target_format, database, options)
    return Conversion(source_format, target_format, len(database.records), tuple(lost))


def _refuse_options(source: Path, source_format: DatabaseFormat, options: ConvertOptions) -> None:
    """`UsageError` for options that do not apply to this kind of database."""
    if options.values and source_format.kind != "find":
        raise UsageError(f"--values applies to find-dbs; {source} is a {source_format}")
    if source_format.kind == "kernel" and options.merge:
        raise UsageError(f"--merge applies to find-dbs and perf-dbs; {source} is a {source_format}")
    if source_format.kind == "kernel" and options.device:
        raise UsageError(
            f"--device applies to perf-dbs and JSON lines; {source} is a {source_format}"
        )
    if source_format.kind == "kernel" and source_format.storage == "jsonl":
        raise UsageError(
            f"{source} is a listing of kernels without their code, so it cannot be converted"
        )
    for other in options.merge:
        if (form := format_of(other)).kind != source_format.kind:
            raise UsageError(f"cannot merge {other}, a {form}, into {source}, a {source_format}")


def _brought_together(
    first: Database, others: Sequence[Database], values: ValueFormat | None
) -> tuple[Database, list[str]]:
    """All databases merged, and descriptions of what is lost."""
    lost = [*first.left_out]
    lost += [f"{loss} (of {other.path})" for other in others for loss in other.left_out]
    databases = [first, *others]
    if values:
        changed = [with_values(each, values) for each in databases]
        databases = [each for each, _ in changed]
        lost += [loss for _, losses in changed for loss in losses]
    if others and first.format.kind == "find":
        refuse_mixture(databases)
    return merge_databases(databases[0], databases[1:]), lost


def _write(
    target: Path, target_format: DatabaseFormat, database: Database, options: ConvertOptions
) -> None:
    sort = not options.keep_order
    if target_format.storage == "sqlite":
        write_perf_sqlite(target, database.records, database.bare)
    elif target_format.storage == "jsonl":
        records = in_canonical_order(database.records) if sort else database.records
        atomic_write(
            target, json_bytes(target_format.kind, records, database.form, database.device)
        )
    else:
        write_text_db(target, database.records, sort=sort, form=database.form)


def _copy_lines(source: Path, target: Path, options: ConvertOptions) -> tuple[int, tuple[str, ...]]:
    """Copy JSON lines; returns their number and descriptions of what is lost."""
    found = read_json_lines(source, options.device)
    lines = found.source_lines
    if not options.keep_order and not _is_sorted(lines):
        lines = sorted(lines, key=lambda line: (line.problem, line.device))
    atomic_write(target, b"".join([line.text + b"\n" for line in lines]))
    return len(lines), found.left_out_of_lines


def _is_sorted(lines: Sequence[JsonLine]) -> bool:
    """Whether lines are sorted by problem, as in exports, or by key, as after conversions."""
    if all(a.problem <= b.problem for a, b in pairwise(lines)):
        return True
    keys = [line.key for line in lines if line.key is not None]
    return len(keys) == len(lines) and all(a <= b for a, b in pairwise(keys))


def _lost_in_sqlite(records: Sequence[DatabaseRecord]) -> list[str]:
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
    losses = (
        (again, "record", "{} whose key occurs before"),
        (twice, "item", "{} whose solver occurs before in the record"),
        (unsorted, "record", "the order of items in {} (they are sorted by solver)"),
    )
    return [text.format(numbered(count, noun)) for count, noun, text in losses if count]
