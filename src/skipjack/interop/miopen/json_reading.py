"""Find-dbs and perf-dbs read from JSON lines of ours, exported ones or converted ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from skipjack.core.problem import shown
from skipjack.errors import CorruptFileError, UsageError
from skipjack.interop.miopen.find_values import (
    FindResultLine,
    fields_of,
    find_item,
    is_algorithm,
)
from skipjack.interop.miopen.json_format import (
    ENTRIES,
    FIND,
    KEY,
    PERF,
    numbered_lines,
    object_of,
)
from skipjack.interop.miopen.json_lines import NS_PER_MS
from skipjack.interop.miopen.records import Item, Record, complaint_of
from skipjack.interop.miopen.text_db import Form
from skipjack.reading import numbered

_SAID = {
    FIND: {"solver", "time_ns", "workspace_bytes", "algorithm"},
    PERF: {"solver", "params"},
}
"""What a record has of an entry."""
_FIELDS = {"format", "kind", "problem", "device", "toolchain", "updated", "miopen", "form"}
_EXACT = 1e-12
"""Of a time, by how much it may differ from how it is written without being rounded."""


class JsonLine(NamedTuple):
    """A line of a file, with what it is about."""

    number: int
    problem: str
    device: str
    key: str | None
    text: bytes

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.problem} on {self.device}" if self.device else self.problem


@dataclass(slots=True)
class JsonDb:
    """What is in a file."""

    records: list[Record] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    """Of each record."""
    form: Form = field(default_factory=Form)
    said: list[JsonLine] = field(default_factory=list)
    """All lines that are not blank."""
    kind: str = ""
    blank_lines: int = 0
    foreign: int = 0
    """Problems that MIOpen has no key for."""
    empty: int = 0
    """Problems that have one, but of which nothing is known."""
    detailed: int = 0
    """Problems of which more is said than a record can hold."""
    rounded: int = 0
    """Times with more digits than MIOpen writes."""
    other_devices: int = 0
    """Lines of devices that were not asked for."""

    @property
    def devices(self) -> list[str]:
        """That lines are about; the empty name of none is one of them."""
        return sorted({line.device for line in self.said})

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the records do not hold."""
        said = (
            (self.foreign, "problem", "{} that MIOpen has no key for"),
            (self.empty, "problem", "{} of which nothing is known"),
            (self.detailed, "problem", "the configs, spreads or toolchains of {}"),
            (self.rounded, "time", "the digits after the sixth of {}"),
        )
        found = (text.format(numbered(count, noun)) for count, noun, text in said if count)
        return (*found, *self.left_out_of_lines)

    @property
    def left_out_of_lines(self) -> tuple[str, ...]:
        """What the lines do not hold."""
        said = (
            (self.blank_lines, "blank line", ""),
            (self.other_devices, "line", " of other devices"),
        )
        return tuple(f"{numbered(count, noun)}{more}" for count, noun, more in said if count)


def read_json_lines(path: Path, device: str | None = None) -> JsonDb:
    """All lines, or a device's; `CorruptFileError` names the first that is none of a database."""
    found = JsonDb()
    number = 0
    for number, text in numbered_lines(path):
        line = object_of(text, f"{path}:{number}")
        try:
            if "form" in line:
                found.form = Form(**line["form"])
            if device is None or line["device"] == device:
                _take(line, number, text, found)
            else:
                found.other_devices += 1
        except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
            raise CorruptFileError(f"{path}:{number}: no record of a database: {error}") from None
    found.blank_lines = number - len(found.said) - found.other_devices
    if device and not found.said:
        raise UsageError(f"{path} has nothing for {device}")
    return found


def _take(line: dict[str, Any], number: int, text: bytes, found: JsonDb) -> None:
    """MIOpen's own lines as they are, and what we know beside them."""
    find = line["kind"] == FIND
    kind = FIND if find else PERF
    if found.kind not in ("", kind):
        raise ValueError(f"it is of a {kind}-db, those before it of a {found.kind}-db")
    found.kind = kind
    key, entries = line[KEY[kind]], line[ENTRIES[kind]]
    records = [_verbatim(text) for text in line["miopen"]]
    if records:
        written = {solver for record in records for solver in _solvers(record, find)}
        entries = [entry for entry in entries if entry["solver"] not in written]
    if key is not None and entries:
        _add(records, key, [_result(each, found) if find else _params(each) for each in entries])
    found.records += records
    found.lines += [number] * len(records)
    found.said.append(JsonLine(number, line["problem"], line["device"], key, text))
    found.foreign += key is None and (not records or bool(entries))
    found.empty += key is not None and not records
    found.detailed += bool(records) and _says_more(line, kind, entries)


def _verbatim(text: str) -> Record:
    complaint = complaint_of(text)
    if complaint or "\n" in text:
        raise ValueError(f"{shown(text)!r}: {complaint or 'it is two lines'}")
    return Record.of_line(text)


def _solvers(record: Record, find: bool) -> Iterator[str]:
    for name, text in zip(record.ids, record.item_texts, strict=True):
        legacy = fields_of(text) if find and is_algorithm(name) else None
        yield legacy.solver if legacy else name


def _add(records: list[Record], key: str, items: Sequence[Item]) -> None:
    """Our own items behind those that MIOpen wrote for the key."""
    for at, record in enumerate(records):
        if record.key == key:
            records[at] = Record.of_texts(key, f"{record.contents};{Record(key, items).contents}")
            return
    records.append(Record(key, items))


def _result(entry: dict[str, Any], found: JsonDb) -> Item:
    time_ms = entry["time_ns"] / NS_PER_MS
    found.rounded += abs(float(f"{time_ms:.6g}") - time_ms) > _EXACT * abs(time_ms)
    line = FindResultLine(entry["solver"], time_ms, entry["workspace_bytes"], entry["algorithm"])
    return find_item(line)


def _params(entry: dict[str, Any]) -> Item:
    return Item(entry["solver"], entry["params"])


def _says_more(line: dict[str, Any], kind: str, entries: Sequence[dict[str, Any]]) -> bool:
    if line["toolchain"] or line["updated"] or line.keys() - _FIELDS - {KEY[kind], ENTRIES[kind]}:
        return True
    said = _SAID[kind]
    more = (entry for entry in entries if len(entry) > len(said))
    return any(value for entry in more for name, value in entry.items() if name not in said)
