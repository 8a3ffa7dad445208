"""A find-db or perf-db of any format in memory, with what could not be taken along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from skipjack.errors import CorruptFileError, UsageError
from skipjack.interop.miopen.file_names import parse_db_name
from skipjack.interop.miopen.find_values import (
    FAMILIES,
    UNUSED,
    FindText,
    algorithm_name,
    fields_of,
)
from skipjack.interop.miopen.formats import Format, format_of
from skipjack.interop.miopen.json_reading import read_json_lines
from skipjack.interop.miopen.perf_sqlite import PerfContents, perf_contents
from skipjack.interop.miopen.records import Record
from skipjack.interop.miopen.shared_keys import unshared
from skipjack.interop.miopen.text_db import Form, TextDb, read_text
from skipjack.reading import numbered

_ALGORITHMS = [algorithm_name(direction, family) for direction in "FBW" for family in FAMILIES]
_ENDINGS = (UNUSED, "<unused>")


@dataclass(frozen=True, slots=True)
class Database:
    """Records as they stand in a file."""

    path: Path
    format: Format
    records: Sequence[Record]
    lines: Sequence[int]
    """Of each record; empty where there are none, in SQLite."""
    form: Form
    left_out: tuple[str, ...] = ()
    """What is in the file but no record."""
    bare: tuple[str, ...] = ()
    """Keys of problems without parameters, for which SQLite alone has room."""
    device: str = ""
    """That the file's name or its lines say."""
    chosen: bool = False
    """Whether the file says devices, of which one was asked for."""

    def where(self, at: int) -> str:
        """The place of a record, for messages."""
        return f"{self.path}:{self.lines[at]}" if self.lines else f"{self.path}, record {at + 1}"


def open_database(path: Path, device: str | None = None) -> Database:
    """Read a find-db or a perf-db; `device` chooses where an old file holds several."""
    form = format_of(path)
    if form.kind == "kernel":
        raise UsageError(f"{path} is a kernel-db, which has no records")
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
    """What a file's name says, as ``gfx908/120``; empty if that is nothing."""
    name = parse_db_name(path.name.removesuffix(".bz2"))
    return f"{name.arch}/{name.units}" if name and name.units else ""


def _of_sqlite(path: Path, form: Format, device: str | None) -> Database:
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


def _of_json(path: Path, form: Format, device: str | None) -> Database:
    found = read_json_lines(path, device)
    names = found.devices
    if len(names) > 1:
        raise UsageError(
            f"{path} holds {len(names)} devices ({', '.join(name or 'none' for name in names[:6])})"
            f"; choose one with --device {names[-1]}"
        )
    records, lines, shared = unshared(found)
    left = (*found.left_out, *shared)
    named = next(iter(names), "")
    return Database(path, form, records, lines, found.form, left, (), named, bool(named))


def _left_out(contents: PerfContents) -> tuple[str, ...]:
    said = (
        (contents.rows_without_config, "of parameters without a problem"),
        (contents.other_devices, "of other devices"),
    )
    return tuple(f"{numbered(count, 'row')} {what}" for count, what in said if count)


def _check_end(found: TextDb, path: Path) -> None:
    """Refuse a find-db that ends within an item: half a database passes for a whole one."""
    if ends_within(found.records, found.form):
        raise CorruptFileError(
            f"{path}:{found.lines[-1]}: the file is cut off in this line; fetch it again, or "
            "delete the line to go on without it"
        )


def ends_within(records: Sequence[Record], form: Form) -> bool:
    """Whether the last line of a find-db has no end and its last result is not a whole one."""
    if form.final_newline or not records:
        return False
    last = fields_of(records[-1].item_texts[-1])
    return last is None or _is_part(last, records)


def _is_part(last: FindText, records: Sequence[Record]) -> bool:
    if last.legacy:
        said = last.kernels
        return said is None or any(said != each and each.startswith(said) for each in _ENDINGS)
    texts = chain.from_iterable(record.item_texts for record in records[:-1])
    others = {fields.algorithm for text in texts if (fields := fields_of(text))}
    others.update(_ALGORITHMS)
    return last.algorithm not in others and any(each.startswith(last.algorithm) for each in others)
