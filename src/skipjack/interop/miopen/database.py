"""A find-db or perf-db of any format in memory: opened, merged, with keys in one style."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from pathlib import Path

from skipjack.core import excerpt, is_valid_time
from skipjack.errors import CorruptFileError, UsageError
from skipjack.interop.miopen.file_formats import (
    DatabaseFormat,
    format_of,
    kind_of_name,
    parse_db_name,
)
from skipjack.interop.miopen.find_values import (
    FAMILIES,
    UNUSED,
    FindText,
    algorithm_name,
    fields_of,
)
from skipjack.interop.miopen.json_lines import ENTRIES, PERF, JsonDb, JsonLine, read_json_lines
from skipjack.interop.miopen.keys import is_perf_key, parse_find_key
from skipjack.interop.miopen.perf_sqlite import PerfContents, perf_contents
from skipjack.interop.miopen.text_db import DatabaseRecord, Form, RecordItem, TextDb, read_text
from skipjack.reading import numbered, parse_json

# Problems that share a key of MIOpen: one record for them, as exports write it.
#
# Perf keys of MIOpen omit the size of the result, and transposed convolutions have the keys of
# plain ones.


def with_distinct_keys(found: JsonDb) -> tuple[list[DatabaseRecord], list[int], tuple[str, ...]]:
    """Records with their lines, one for each key; and descriptions of what is left out.

    A problem that occurs twice in the file is kept twice.
    """
    positions: dict[str, list[int]] = {}
    for at, record in enumerate(found.records):
        positions.setdefault(record.key, []).append(at)
    again = [each for each in positions.values() if len(each) > 1]
    if not again:
        return found.records, found.lines, ()
    lines_by_number = {line.number: line for line in found.source_lines}
    records: list[DatabaseRecord | None] = list(found.records)
    keys = problems = 0
    for group in again:
        names = {lines_by_number[found.lines[at]].problem for at in group}
        if len(names) == 1:
            continue
        keys, problems = keys + 1, problems + len(names)
        candidates = [(found.records[at], lines_by_number[found.lines[at]]) for at in group]
        records[group[0]] = (
            _fastest_params(candidates) if found.kind == PERF else _fastest(candidates)
        )
        for at in group[1:]:
            records[at] = None
    kept = [(each, line) for each, line in zip(records, found.lines, strict=True) if each]
    lost = (
        f"the slower results of {problems} problems that share {numbered(keys, 'key')} of MIOpen's"
    )
    return [each for each, _ in kept], [line for _, line in kept], (lost,) if keys else ()


def _fastest_params(candidates: Sequence[tuple[DatabaseRecord, JsonLine]]) -> DatabaseRecord:
    """The fastest item of each solver; items without a time come last."""
    best: dict[str, tuple[float, str, str]] = {}
    for record, line in candidates:
        times = _times_of_entries(line)
        for item in record.items:
            rank = (times.get(item.id, inf), line.problem, item.values)
            best[item.id] = min(best.get(item.id, rank), rank)
    return DatabaseRecord(
        candidates[0][0].key, [RecordItem(solver, best[solver][2]) for solver in sorted(best)]
    )


def _times_of_entries(line: JsonLine) -> dict[str, float]:
    """Valid times by solver."""
    entries = parse_json(line.text, surrogates=True)[ENTRIES[PERF]]
    times = {each["solver"]: each.get("time_ns") for each in entries}
    return {solver: time for solver, time in times.items() if is_valid_time(time)}


def _fastest(candidates: Sequence[tuple[DatabaseRecord, JsonLine]]) -> DatabaseRecord:
    """The fastest record as a whole, as the results of a ranking belong together."""
    return min((record for record, _ in candidates), key=_rank_of)


def _rank_of(record: DatabaseRecord) -> tuple[float, str]:
    return min(_times(record), default=inf), record.contents


def _times(record: DatabaseRecord) -> Iterator[float]:
    for text in record.item_texts:
        fields = fields_of(text)
        if fields and is_valid_time(float(fields.time)):
            yield float(fields.time)


# A find-db or perf-db of any format in memory.

_ALGORITHMS = [algorithm_name(direction, family) for direction in "FBW" for family in FAMILIES]
_ENDINGS = (UNUSED, "<unused>")


@dataclass(frozen=True, slots=True)
class Database:
    """The records of a file, and its properties."""

    path: Path
    format: DatabaseFormat
    records: Sequence[DatabaseRecord]
    lines: Sequence[int]
    """The line number of each record; empty for SQLite."""
    form: Form
    left_out: tuple[str, ...] = ()
    """Descriptions of content that records do not represent."""
    bare: tuple[str, ...] = ()
    """Keys of problems without parameters, which only SQLite can represent."""
    device: str = ""
    """The device according to the file name or the lines."""
    chosen: bool = False
    """Whether the file has devices, so that one can be selected."""

    def where(self, at: int) -> str:
        """The position of a record for messages."""
        return f"{self.path}:{self.lines[at]}" if self.lines else f"{self.path}, record {at + 1}"


def open_database(path: Path, device: str | None = None) -> Database:
    """Read a find-db or a perf-db; `device` selects one if the file has several."""
    form = format_of(path)
    if form.kind == "kernel":
        raise UsageError(f"{path} is a kernel-db, not a find-db or perf-db")
    if form.storage == "sqlite":
        return _of_sqlite(path, form, device)
    if form.storage == "jsonl":
        return _of_json(path, form, device)
    found = read_text(path)
    if form.kind == "find":
        _check_end(found, path)
    left = (numbered(found.blank_lines, "blank line"),) if found.blank_lines else ()
    named = named_device(path)
    return Database(path, form, found.records, found.lines, found.form, left, device=named)


def named_device(path: Path) -> str:
    """The device in a file name, such as ``gfx908/120``; empty if there is none."""
    name = parse_db_name(path.name.removesuffix(".bz2"))
    return f"{name.arch}/{name.units}" if name and name.units else ""


def _of_sqlite(path: Path, form: DatabaseFormat, device: str | None) -> Database:
    contents = perf_contents(path, device)
    return Database(
        path,
        form,
        contents.records,
        (),
        Form(),
        _left_out(contents),
        contents.bare,
        device or next(iter(contents.devices), named_device(path)),
        bool(contents.devices),
    )


def _of_json(path: Path, form: DatabaseFormat, device: str | None) -> Database:
    found = read_json_lines(path, device)
    names = found.devices
    if len(names) > 1:
        raise UsageError(
            f"{path} has {len(names)} devices ({', '.join(name or 'none' for name in names[:6])})"
            f"; choose one with --device {names[-1]}"
        )
    records, lines, shared = with_distinct_keys(found)
    left = (*found.left_out, *shared)
    named = next(iter(names), "")
    return Database(path, form, records, lines, found.form, left, (), named, bool(named))


def _left_out(contents: PerfContents) -> tuple[str, ...]:
    losses = (
        (contents.rows_without_config, "of parameters without a problem"),
        (contents.other_devices, "of other devices"),
    )
    return tuple(f"{numbered(count, 'row')} {what}" for count, what in losses if count)


def _check_end(found: TextDb, path: Path) -> None:
    """`CorruptFileError` if a find-db ends within an item, and so may be incomplete."""
    if is_cut_off(found.records, found.form):
        raise CorruptFileError(
            f"{path}:{found.lines[-1]}: the file is truncated in this line; fetch it again, or "
            "delete the line to use the rest"
        )


def is_cut_off(records: Sequence[DatabaseRecord], form: Form) -> bool:
    """Whether the last line of a find-db has no line end and an incomplete last result."""
    if form.final_newline or not records:
        return False
    last = fields_of(records[-1].item_texts[-1])
    return last is None or _is_part(last, records)


def _is_part(last: FindText, records: Sequence[DatabaseRecord]) -> bool:
    if last.legacy:
        kernels = last.kernels
        return kernels is None or any(
            kernels != each and each.startswith(kernels) for each in _ENDINGS
        )
    texts = chain.from_iterable(record.item_texts for record in records[:-1])
    others = {fields.algorithm for text in texts if (fields := fields_of(text))}
    others.update(_ALGORITHMS)
    return last.algorithm not in others and any(each.startswith(last.algorithm) for each in others)


# Merging of databases of one kind: the first takes precedence, others add what is missing.


def merge_databases(first: Database, others: Sequence[Database]) -> Database:
    """Records and items of `first`, then those of other keys and ids."""
    positions: dict[str, int] = {}
    records = list(first.records)
    for at, record in enumerate(records):
        positions.setdefault(record.key, at)
    for other in others:
        for record in other.records:
            if record.key not in positions:
                positions[record.key] = len(records)
                records.append(record)
            else:
                at = positions[record.key]
                records[at] = merge_records(records[at], record)
    bare = dict.fromkeys(key for each in (first, *others) for key in each.bare)
    still_bare = tuple(key for key in bare if key not in positions)
    return replace(first, records=records, bare=still_bare)


def merge_records(record: DatabaseRecord, other: DatabaseRecord) -> DatabaseRecord:
    """A record with added items of `other` whose ids it lacks."""
    have = record.items
    known = {item.id for item in have}
    new: list[RecordItem] = []
    for item in other.items:
        if item.id not in known:
            known.add(item.id)
            new.append(item)
    return DatabaseRecord(record.key, (*have, *new)) if new else record


# Keys of perf-dbs in the style that belongs to a file name.
#
# Old perf-dbs (``.cd.pdb.txt``) have keys of find-dbs, which have one size more than current keys.
# So old keys can be converted to current ones, but not the reverse.

OLD_KINDS = ("old_perf", "old_user_perf")
NEW_KINDS = ("perf", "perf_sqlite")


def with_keys_for(target: Path, database: Database) -> tuple[Database, list[str]]:
    """Records with the keys that MIOpen expects in a file of this name, and what is lost."""
    kind = kind_of_name(target.name)
    if kind in OLD_KINDS:
        _refuse_new_keys(target, database)
    if kind not in NEW_KINDS:
        return database, []
    texts = [_perf_text(record.key) for record in database.records]
    changed = sum(text is not None for text in texts)
    if not changed:
        return database, []
    renamed = [
        record if text is None else DatabaseRecord.of_texts(text, record.contents)
        for record, text in zip(database.records, texts, strict=True)
    ]
    records, lost = _one_of_each(renamed)
    losses = [f"the size of the second image of {numbered(changed, 'old key')}"]
    if lost:
        losses.append(f"{numbered(lost, 'item')} whose solver occurs before with the same key")
    return replace(database, records=records, lines=()), losses


def _refuse_new_keys(target: Path, database: Database) -> None:
    for at, record in enumerate(database.records):
        if is_perf_key(record.key):
            raise UsageError(
                f"cannot write {target}: its keys need the size of the second image, which "
                f"{excerpt(record.key)!r} ({database.where(at)}) lacks; write .db.txt or .db"
            )


def _perf_text(text: str) -> str | None:
    key = parse_find_key(text)
    return key.perf_text if key else None


def _one_of_each(records: Sequence[DatabaseRecord]) -> tuple[list[DatabaseRecord], int]:
    """Merge records of one key, keeping the first item of a solver; counts lost items."""
    found: dict[str, DatabaseRecord] = {}
    before = after = 0
    for record in records:
        have = found.get(record.key)
        found[record.key] = record if have is None else merge_records(have, record)
        before += len(record.ids)
    after = sum(len(record.ids) for record in found.values())
    return list(found.values()), before - after
