"""Find-dbs and perf-dbs as Skipjack's own JSON lines (format 1), written and read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from json.encoder import encode_basestring_ascii as quoted
from math import isfinite
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from skipjack.core import excerpt
from skipjack.errors import CorruptFileError, MalformedError, NewerFormatError, UsageError
from skipjack.interop.miopen.file_access import file_bytes
from skipjack.interop.miopen.file_formats import DatabaseKind
from skipjack.interop.miopen.find_values import FindResultLine, fields_of, find_item, is_algorithm
from skipjack.interop.miopen.keys import parse_find_key, problem_text
from skipjack.interop.miopen.text_db import DatabaseRecord, Form, RecordItem, complaint_of
from skipjack.reading import Field, numbered, read_json

# The format of Skipjack's JSON lines for find-dbs and perf-dbs, defined only here.
#
# Each line is an object for a problem on a device. Exports write it with sorted keys and all known
# fields; conversions of MIOpen's files have only the fields of these files.

FORMAT = 1
FIND, PERF = "find", "perf"
KEY = {FIND: "find_key", PERF: "perf_key"}
"""The field with MIOpen's key, by the kind of a line; null if MIOpen has no key."""
ENTRIES = {FIND: "ranking", PERF: "configs"}
"""The field with the entries of solvers, by the kind of a line."""
_TEXTS = {"kind", "problem", "device", "toolchain", "updated"}
_ENTRY_TEXTS = {"params", "algorithm"}


def record_of(
    kind: str,
    about: tuple[str, str | None, str],
    entries: Iterable[Mapping[str, Any]],
    *,
    toolchain: str = "",
    updated: str = "",
    miopen: Sequence[str] = (),
) -> dict[str, Any]:
    """The object of a line; `about` is a problem, its key in MIOpen and a device.

    `miopen` contains verbatim lines that MIOpen wrote.
    """
    problem, key, device = about
    return {
        "format": FORMAT,
        "kind": kind,
        "problem": problem,
        KEY[kind]: key,
        "device": device,
        ENTRIES[kind]: list(entries),
        "toolchain": toolchain,
        "updated": updated,
        "miopen": list(miopen),
    }


def line_of(record: Mapping[str, Any]) -> str:
    """A line in the form of exports, without the line end."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """All lines that are not blank, with their numbers and without line ends."""
    for number, text in enumerate(file_bytes(path).split(b"\n"), 1):
        if text.strip():
            yield number, text.removesuffix(b"\r")


def numbered_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of all lines; `CorruptFileError` names the first invalid line."""
    for number, text in numbered_lines(path):
        yield number, object_of(text, f"{path}:{number}")


def object_of(text: bytes | str, where: str) -> dict[str, Any]:
    """The object of a line; errors mention `where`.

    Its fields have the right types, so that readers need to check only whether they exist.
    """
    try:
        line = read_json(text, surrogates=True)
        version = line["format"].integer()
    except MalformedError:
        shown_text = text if isinstance(text, str) else text.decode(errors="replace")
        raise CorruptFileError(
            f"{where}: {excerpt(shown_text)!r} is not a JSON object with a format; "
            "the file may be truncated there"
        ) from None
    if version > FORMAT:
        raise NewerFormatError(
            f"{where} has format {version}; this version of Skipjack reads formats up to {FORMAT}: "
            "update Skipjack"
        )
    try:
        _check(line)
    except MalformedError as error:
        raise CorruptFileError(f"{where} is not a record of a database: {error}") from None
    return line.mapping()


def _check(line: Field) -> None:
    fields = line.fields()
    for name in _TEXTS & fields.keys():
        fields[name].text()
    for kind in (FIND, PERF):
        if KEY[kind] in fields and not fields[KEY[kind]].null:
            fields[KEY[kind]].text()
        for entry in fields[ENTRIES[kind]].elements() if ENTRIES[kind] in fields else ():
            _check_entry(entry, kind)
    for text in fields["miopen"].elements() if "miopen" in fields else ():
        text.text()


def _check_entry(entry: Field, kind: str) -> None:
    entry["solver"].text()
    fields = entry.fields()
    for name in _ENTRY_TEXTS & fields.keys():
        fields[name].text()
    if "workspace_bytes" in fields:
        fields["workspace_bytes"].integer()
    time = fields.get("time_ns")
    if time and (kind == FIND or not time.null):
        time.number()


# Find-dbs and perf-dbs written as JSON lines (format 1), as ``skipjack export`` does.
#
# A line has a problem with its ranking or the parameters of its solvers. If these do not reproduce
# the line of the text database, this line is included in the field ``miopen``, so nothing is lost.

NS_PER_MS = 1e6
# Templates of JSON text: half the time of building objects for a million results.
_FIND, _PERF = (
    f'{{"format": {FORMAT}, "kind": "{kind}", "problem": %s, "{KEY[kind]}": %s, "device": %s, '
    f'"{ENTRIES[kind]}": [%s], "toolchain": "", "updated": "", "miopen": [%s]'
    for kind in (FIND, PERF)
)
_PARAMS = '{"solver": %s, "params": %s}'
_rank = itemgetter(0, 1)


def json_bytes(
    kind: DatabaseKind, records: Iterable[DatabaseRecord], form: Form, device: str
) -> bytes:
    """The content of a file; the first line has the form of the text if it is not the default."""
    line_of, name = (_find_line if kind == FIND else _perf_line), quoted(device)
    lines = [line_of(record, name) for record in records]
    if lines and form != Form():
        lines[0] += f', "form": {json.dumps(asdict(form))}'
    return "".join([f"{line}}}\n" for line in lines]).encode()


def _find_line(record: DatabaseRecord, device: str) -> str:
    """The line without its closing brace."""
    results: list[tuple[float, str, str, str]] = []
    for text in record.item_texts:
        fields = fields_of(text)
        if fields is None:
            continue
        solver, algorithm = fields.solver, fields.algorithm
        time_ms, size = float(fields.time), int(fields.workspace)
        time_ns = time_ms * NS_PER_MS
        if isfinite(time_ns):
            entry = (
                f'{{"solver": {quoted(solver)}, "time_ns": {time_ns!r}, '
                f'"workspace_bytes": {size}, "algorithm": {quoted(algorithm)}}}'
            )
            # A legacy item never reproduces its text in the current format.
            time = "" if fields.legacy else f"{time_ns / NS_PER_MS:.6g}"
            item = f"{solver}:{time},{size},{algorithm}"
            results.append((time_ms, solver, entry, item))
    results.sort(key=_rank)
    ranking = ", ".join([entry for _, _, entry, _ in results])
    again = ";".join([item for _, _, _, item in results])
    key = parse_find_key(record.key)
    problem = (problem_text(key) if key else None) or record.key
    verbatim = "" if again == record.contents else quoted(record.line)
    return _FIND % (quoted(problem), quoted(record.key), device, ranking, verbatim)


def _perf_line(record: DatabaseRecord, device: str) -> str:
    """The line without its closing brace."""
    configs = [_PARAMS % (quoted(item.id), quoted(item.values)) for item in record.items]
    verbatim = "" if ";".join(record.item_texts) == record.contents else quoted(record.line)
    key = quoted(record.key)
    return _PERF % (key, key, device, ", ".join(configs), verbatim)


# Find-dbs and perf-dbs read from JSON lines, exported or converted.

_ENTRY_FIELDS = {
    FIND: {"solver", "time_ns", "workspace_bytes", "algorithm"},
    PERF: {"solver", "params"},
}
"""The fields of an entry that a record can represent."""
_FIELDS = {"format", "kind", "problem", "device", "toolchain", "updated", "miopen", "form"}
_EXACT = 1e-12
"""Relative difference up to which a time counts as not rounded."""


class JsonLine(NamedTuple):
    """A line of a file, with its problem, device and key."""

    number: int
    problem: str
    device: str
    key: str | None
    text: bytes

    @property
    def name(self) -> str:
        """The problem and device for messages."""
        return f"{self.problem} on {self.device}" if self.device else self.problem


@dataclass(slots=True)
class JsonDb:
    """The content of a file."""

    records: list[DatabaseRecord] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    """The line number of each record."""
    form: Form = field(default_factory=Form)
    source_lines: list[JsonLine] = field(default_factory=list)
    """All lines that are not blank."""
    kind: str = ""
    blank_lines: int = 0
    foreign: int = 0
    """Number of problems without a key in MIOpen."""
    empty: int = 0
    """Number of problems with a key but without results."""
    detailed: int = 0
    """Number of problems with more fields than a record can represent."""
    rounded: int = 0
    """Number of times with more digits than MIOpen writes."""
    other_devices: int = 0
    """Number of lines of other devices than the requested one."""

    @property
    def devices(self) -> list[str]:
        """The devices of the lines; may include the empty name."""
        return sorted({line.device for line in self.source_lines})

    @property
    def left_out(self) -> tuple[str, ...]:
        """Descriptions of what the records do not represent."""
        losses = (
            (self.foreign, "problem", "{} without a key in MIOpen"),
            (self.empty, "problem", "{} without results"),
            (self.detailed, "problem", "the configs, spreads or toolchains of {}"),
            (self.rounded, "time", "the digits after the sixth of {}"),
        )
        found = (text.format(numbered(count, noun)) for count, noun, text in losses if count)
        return (*found, *self.left_out_of_lines)

    @property
    def left_out_of_lines(self) -> tuple[str, ...]:
        """Descriptions of what is lost if lines are copied."""
        losses = (
            (self.blank_lines, "blank line", ""),
            (self.other_devices, "line", " of other devices"),
        )
        return tuple(f"{numbered(count, noun)}{more}" for count, noun, more in losses if count)


def read_json_lines(path: Path, device: str | None = None) -> JsonDb:
    """All lines, or those of a device; `CorruptFileError` names the first invalid line."""
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
            raise CorruptFileError(
                f"{path}:{number} is not a record of a database: {error}"
            ) from None
    found.blank_lines = number - len(found.source_lines) - found.other_devices
    if device and not found.source_lines:
        raise UsageError(f"{path} has no lines for {device}")
    return found


def _take(line: dict[str, Any], number: int, text: bytes, found: JsonDb) -> None:
    """Add MIOpen's verbatim lines, and entries of solvers that they do not contain."""
    find = line["kind"] == FIND
    kind = FIND if find else PERF
    if found.kind not in ("", kind):
        raise ValueError(f"it belongs to a {kind}-db, earlier lines to a {found.kind}-db")
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
    found.source_lines.append(JsonLine(number, line["problem"], line["device"], key, text))
    found.foreign += key is None and (not records or bool(entries))
    found.empty += key is not None and not records
    found.detailed += bool(records) and _says_more(line, kind, entries)


def _verbatim(text: str) -> DatabaseRecord:
    complaint = complaint_of(text)
    if complaint or "\n" in text:
        raise ValueError(f"{excerpt(text)!r}: {complaint or 'it contains a line break'}")
    return DatabaseRecord.of_line(text)


def _solvers(record: DatabaseRecord, find: bool) -> Iterator[str]:
    for name, text in zip(record.ids, record.item_texts, strict=True):
        legacy = fields_of(text) if find and is_algorithm(name) else None
        yield legacy.solver if legacy else name


def _add(records: list[DatabaseRecord], key: str, items: Sequence[RecordItem]) -> None:
    """Append items to the record that MIOpen wrote for the key, or add a record."""
    for at, record in enumerate(records):
        if record.key == key:
            records[at] = DatabaseRecord.of_texts(
                key, f"{record.contents};{DatabaseRecord(key, items).contents}"
            )
            return
    records.append(DatabaseRecord(key, items))


def _result(entry: dict[str, Any], found: JsonDb) -> RecordItem:
    time_ms = entry["time_ns"] / NS_PER_MS
    found.rounded += abs(float(f"{time_ms:.6g}") - time_ms) > _EXACT * abs(time_ms)
    line = FindResultLine(entry["solver"], time_ms, entry["workspace_bytes"], entry["algorithm"])
    return find_item(line)


def _params(entry: dict[str, Any]) -> RecordItem:
    return RecordItem(entry["solver"], entry["params"])


def _says_more(line: dict[str, Any], kind: str, entries: Sequence[dict[str, Any]]) -> bool:
    if line["toolchain"] or line["updated"] or line.keys() - _FIELDS - {KEY[kind], ENTRIES[kind]}:
        return True
    known_fields = _ENTRY_FIELDS[kind]
    more = (entry for entry in entries if len(entry) > len(known_fields))
    return any(value for entry in more for name, value in entry.items() if name not in known_fields)
