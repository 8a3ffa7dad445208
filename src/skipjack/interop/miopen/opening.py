"""A find-db or perf-db of any format in memory, with what could not be taken along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from skipjack.errors import CorruptFileError, UsageError
from skipjack.interop.miopen.find_values import (
    FAMILIES,
    UNUSED,
    FindText,
    algorithm_name,
    find_text,
)
from skipjack.interop.miopen.formats import Format, format_of
from skipjack.interop.miopen.json_lines import read_json_lines
from skipjack.interop.miopen.perf_sqlite import PerfContents, perf_contents
from skipjack.interop.miopen.records import Record
from skipjack.interop.miopen.text_db import Form, TextDb, read_text

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

    def where(self, at: int) -> str:
        """The place of a record, for messages."""
        return f"{self.path}:{self.lines[at]}" if self.lines else f"{self.path}, record {at + 1}"


def open_database(path: Path, device: str | None = None) -> Database:
    """Read a find-db or a perf-db; `device` chooses where an old file holds several."""
    form = format_of(path)
    if form.kind == "kernel":
        raise UsageError(f"{path} is a kernel-db, which has no records")
    if form.storage == "sqlite":
        contents = perf_contents(path, device)
        return Database(path, form, contents.records, (), Form(), _left_out(contents))
    if form.storage == "jsonl":
        found, foreign = read_json_lines(path)
        left = (f"{foreign} problems that MIOpen has no key for",) if foreign else ()
        return Database(path, form, found.records, found.lines, found.form, left)
    found = read_text(path)
    if form.kind == "find":
        _check_end(found, path)
    left = (f"{found.blank_lines} blank lines",) if found.blank_lines else ()
    return Database(path, form, found.records, found.lines, found.form, left)


def _left_out(contents: PerfContents) -> tuple[str, ...]:
    said = (
        (contents.configs_without_rows, "problems without parameters"),
        (contents.rows_without_config, "rows of parameters without a problem"),
        (contents.other_devices, "rows of other devices"),
    )
    return tuple(f"{count} {what}" for count, what in said if count)


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
    last = find_text(records[-1].items[-1])
    return last is None or _is_part(last, records)


def _is_part(last: FindText, records: Sequence[Record]) -> bool:
    if last.legacy:
        said = last.kernels
        return said is None or any(said != each and each.startswith(said) for each in _ENDINGS)
    items = chain.from_iterable(record.items for record in records[:-1])
    others = {fields.algorithm for item in items if (fields := find_text(item))}
    others.update(_ALGORITHMS)
    return last.algorithm not in others and any(each.startswith(last.algorithm) for each in others)
