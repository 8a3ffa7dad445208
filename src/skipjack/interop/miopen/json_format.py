"""Our own lines of JSON that hold a find-db or a perf-db: the one place that knows what is in one.

Each line is an object about a problem on a device. Exports write them with keys sorted and all that
is known; conversions out of MIOpen's files have what stands there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from skipjack.core.problem import shown
from skipjack.errors import CorruptFileError, MalformedError, NewerFormatError
from skipjack.interop.miopen.file_bytes import file_bytes
from skipjack.reading import Field, read_json

FORMAT = 1
FIND, PERF = "find", "perf"
KEY = {FIND: "find_key", PERF: "perf_key"}
"""The field with MIOpen's key, by the kind of a line; null for what MIOpen has none for."""
ENTRIES = {FIND: "ranking", PERF: "configs"}
"""The field with what is known of each solver."""
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
    """A line's object, `about` a problem, its key of MIOpen's and a device.

    `miopen` are lines that MIOpen itself wrote, as they were.
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
    """A line as exports write it, without its end."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """All lines that are not blank, without their ends."""
    for number, text in enumerate(file_bytes(path).split(b"\n"), 1):
        if text.strip():
            yield number, text.removesuffix(b"\r")


def numbered_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """What all lines hold; `CorruptFileError` names the first that is none."""
    for number, text in numbered_lines(path):
        yield number, object_of(text, f"{path}:{number}")


def object_of(text: bytes | str, where: str) -> dict[str, Any]:
    """What a line holds, of a format that is known here; `where` it stands is for messages.

    Fields that it has are of their kinds: readers need only look whether they are there.
    """
    try:
        line = read_json(text, surrogates=True)
        version = line["format"].integer()
    except MalformedError:
        said = text if isinstance(text, str) else text.decode(errors="replace")
        raise CorruptFileError(
            f"{where}: {shown(said)!r} is no JSON object with a format; the file may be cut off "
            "there"
        ) from None
    if version > FORMAT:
        raise NewerFormatError(
            f"{where} has format {version}, this Skipjack reads up to {FORMAT}; update Skipjack"
        )
    try:
        _check(line)
    except MalformedError as error:
        raise CorruptFileError(f"{where}: no record of a database: {error}") from None
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
