"""Find-dbs and perf-dbs as JSON lines of ours (format 1), as ``skipjack export`` writes them.

A line holds a problem with its ranking or its solvers' parameters. The line of the text database
stands beside them, under ``miopen``, where they alone would not give it again: so nothing is lost.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from skipjack.core.problem import shown
from skipjack.errors import CorruptFileError, NewerFormatError, UsageError
from skipjack.interop.miopen.file_bytes import file_bytes
from skipjack.interop.miopen.file_names import parse_db_name
from skipjack.interop.miopen.find_values import FindResultLine, find_item, find_text
from skipjack.interop.miopen.formats import Kind
from skipjack.interop.miopen.keys import parse_find_key
from skipjack.interop.miopen.problem_text import problem_text
from skipjack.interop.miopen.records import Item, Record, complaint_of
from skipjack.interop.miopen.text_db import Form, TextDb

FORMAT = 1
_NS_PER_MS = 1e6


def json_bytes(kind: Kind, records: Iterable[Record], form: Form, source: Path) -> bytes:
    """The content of a file; an unusual form of the text stands in its first line."""
    name = parse_db_name(source.name.removesuffix(".bz2"))
    device = f"{name.arch}/{name.units}" if name and name.units else ""
    line_of = _find_line if kind == "find" else _perf_line
    unusual = {} if form == Form() else {"form": asdict(form)}
    texts: list[str] = []
    for record in records:
        texts.append(json.dumps({**line_of(record, device), **unusual}))
        unusual = {}
    return "".join(f"{text}\n" for text in texts).encode()


def _find_line(record: Record, device: str) -> dict[str, Any]:
    found = [fields.result for item in record.items if (fields := find_text(item))]
    results = sorted(
        (each for each in found if math.isfinite(each.time_ms)),
        key=lambda each: (each.time_ms, each.solver),
    )
    key = parse_find_key(record.key)
    ranking = [_entry(each) for each in results]
    again = ";".join([_item(each).text for each in ranking])
    return {
        "format": FORMAT,
        "kind": "find",
        "problem": (problem_text(key) if key else None) or record.key,
        "find_key": record.key,
        "device": device,
        "ranking": ranking,
        "toolchain": "",
        "updated": "",
        "miopen": [] if again == record.contents else [record.line],
    }


def _entry(result: FindResultLine) -> dict[str, Any]:
    return {
        "solver": result.solver,
        "time_ns": result.time_ms * _NS_PER_MS,
        "workspace_bytes": result.workspace_bytes,
        "algorithm": result.algorithm,
    }


def _item(entry: dict[str, Any]) -> Item:
    return find_item(
        FindResultLine(
            entry["solver"],
            entry["time_ns"] / _NS_PER_MS,
            entry["workspace_bytes"],
            entry["algorithm"],
        )
    )


def _perf_line(record: Record, device: str) -> dict[str, Any]:
    items = record.items
    again = ";".join([item.text for item in items])
    return {
        "format": FORMAT,
        "kind": "perf",
        "problem": record.key,
        "perf_key": record.key,
        "device": device,
        "configs": [{"solver": item.id, "params": item.values} for item in items],
        "toolchain": "",
        "updated": "",
        "miopen": [] if again == record.contents else [record.line],
    }


def read_json_lines(path: Path) -> tuple[TextDb, int]:
    """The records, and how many problems MIOpen has no key for."""
    records: list[Record] = []
    numbers: list[int] = []
    form, foreign = Form(), 0
    for number, line in _objects(path):
        try:
            if "form" in line:
                form = Form(**line["form"])
            found = _records(line)
        except (KeyError, TypeError, ValueError, UsageError) as error:
            raise CorruptFileError(f"{path}:{number}: no record of a database: {error}") from None
        foreign += not found
        records += found
        numbers += [number] * len(found)
    return TextDb(records, numbers, form), foreign


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, text in enumerate(file_bytes(path).split(b"\n"), 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
            version = line["format"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise CorruptFileError(
                f"{path}:{number}: {shown(text.decode(errors='replace'))!r} is no JSON object with "
                "a format; the file may be cut off there"
            ) from None
        if not isinstance(version, int) or version > FORMAT:
            raise NewerFormatError(
                f"{path}:{number} has format {version}, this Skipjack reads up to {FORMAT}; "
                "update Skipjack"
            )
        yield number, line


def _records(line: dict[str, Any]) -> list[Record]:
    """MIOpen's own lines where there are some, else a record of the fields."""
    lines = line["miopen"]
    if lines:
        return [_verbatim(text) for text in lines]
    record = _from_ranking(line) if line["kind"] == "find" else _from_configs(line)
    return [record] if record else []


def _verbatim(text: str) -> Record:
    complaint = complaint_of(text)
    if complaint or "\n" in text:
        raise ValueError(f"{shown(text)!r}: {complaint or 'it is two lines'}")
    key, _, contents = text.partition("=")
    return Record.of_texts(key, contents)


def _from_ranking(line: dict[str, Any]) -> Record | None:
    if line["find_key"] is None or not line["ranking"]:
        return None
    items = [_item(each) for each in line["ranking"]]
    return Record(line["find_key"], items)


def _from_configs(line: dict[str, Any]) -> Record | None:
    if line["perf_key"] is None or not line["configs"]:
        return None
    items = [Item(each["solver"], each["params"]) for each in line["configs"]]
    return Record(line["perf_key"], items)
