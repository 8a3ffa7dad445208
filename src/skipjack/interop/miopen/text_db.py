"""Text databases as files: every byte that is read can be written again.

Canonical order is by key; one by whole lines counts as well, which differs where one key begins
with another (``F_g1`` and ``F_g16``).
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from skipjack.core.problem import shown
from skipjack.errors import CorruptFileError, UsageError
from skipjack.interop.miopen.file_bytes import file_bytes
from skipjack.interop.miopen.records import Record, complaint_of
from skipjack.storage.atomic import atomic_write

_BOM = codecs.BOM_UTF8.decode()
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class Form:
    """What a file is like beside its records."""

    newline: str = "\n"
    final_newline: bool = True
    bom: bool = False


@dataclass(frozen=True, slots=True)
class TextDb:
    """A file's records, each with the number of its line."""

    records: list[Record]
    lines: list[int]
    form: Form = field(default_factory=Form)
    blank_lines: int = 0


class Line(NamedTuple):
    """A line that is not blank: a record, or what is wrong with it."""

    number: int
    record: Record | None
    complaint: str = ""


@dataclass(frozen=True, slots=True)
class Scan:
    """All lines of a file, good and bad."""

    lines: list[Line]
    form: Form
    blank_lines: int


def scan(data: bytes, path: Path) -> Scan:
    """Look at every line; `CorruptFileError` only if the file is no text at all."""
    if b"\0" in data or data.startswith(_WIDE):
        raise CorruptFileError(f"{path} is no text database: it has bytes that no text has")
    text = data.decode("utf-8", "surrogateescape")
    bom = text.startswith(_BOM)
    texts = text[len(_BOM) if bom else 0 :].split("\n")
    final = not texts[-1]
    if final:
        texts.pop()
    complete = texts if final else texts[:-1]
    crlf = bool(complete) and all(line.endswith("\r") for line in complete)
    if crlf:
        texts = [*(line.removesuffix("\r") for line in complete), *texts[len(complete) :]]
    # Of an empty file nothing is known; what is written into it later ends as usual.
    form = Form("\r\n" if crlf else "\n", final or not data, bom)
    lines = list(_lines(texts))
    return Scan(lines, form, len(texts) - len(lines))


def _lines(texts: list[str]) -> Iterator[Line]:
    for number, text in enumerate(texts, 1):
        complaint = complaint_of(text)
        if complaint is None:
            key, _, contents = text.partition("=")
            yield Line(number, Record.of_texts(key, contents))
        elif text and not text.isspace():
            yield Line(number, None, f"{shown(text)!r}: {complaint}")


def read_text(path: Path) -> TextDb:
    """The records of a file and its form; `CorruptFileError` names the first bad line."""
    return text_of(scan(file_bytes(path), path), path)


def text_of(found: Scan, path: Path) -> TextDb:
    """Records alone; `CorruptFileError` where a line is none."""
    records: list[Record] = []
    for line in found.lines:
        if line.record is None:
            cut = line is found.lines[-1] and not found.form.final_newline
            end = "; the file seems to be cut off there" if cut else ""
            raise CorruptFileError(f"{path}:{line.number}: {line.complaint}{end}")
        records.append(line.record)
    numbers = [line.number for line in found.lines]
    return TextDb(records, numbers, found.form, found.blank_lines)


def read_text_db(path: Path) -> list[Record]:
    """The records in the order of the file; `CorruptFileError` names the file and the line."""
    return read_text(path).records


def write_text_db(
    path: Path, records: Sequence[Record], *, sort: bool = True, form: Form | None = None
) -> None:
    """Write all records or nothing; those that are not in canonical order by their keys."""
    atomic_write(path, text_bytes(records, sort=sort, form=form))


def text_bytes(records: Sequence[Record], *, sort: bool = True, form: Form | None = None) -> bytes:
    """The content of the file."""
    form = form or Form()
    ordered = in_canonical_order(records) if sort else records
    end = form.newline if form.final_newline and ordered else ""
    text = form.newline.join([f"{record.key}={record.contents}" for record in ordered])
    head = _BOM if form.bom else ""
    try:
        return f"{head}{text}{end}".encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise UsageError(f"{text[error.start]!r} in a record is no character") from None


def in_canonical_order(records: Sequence[Record]) -> Sequence[Record]:
    """As they are if they are sorted, else by key; records of one key stay in their order."""
    if is_canonical(records):
        return records
    return sorted(records, key=lambda record: record.key)


def is_canonical(records: Sequence[Record]) -> bool:
    """Whether the order is by key or by whole lines."""
    return _ascending([record.key for record in records]) or _ascending(
        [record.line for record in records]
    )


def _ascending(texts: list[str]) -> bool:
    return all(a <= b for a, b in pairwise(texts))
