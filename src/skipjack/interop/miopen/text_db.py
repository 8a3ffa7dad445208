"""Text databases: records ``key=id:values;id:values``, and files of them.

Every byte that is read can be written again.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self

from skipjack.core import excerpt
from skipjack.errors import CorruptFileError, UsageError
from skipjack.interop.miopen.file_access import file_bytes
from skipjack.storage import atomic_write

# Records of MIOpen's text databases: ``key=id:values;id:values``, with unchanged text.
#
# A key ends at the first ``=``, an id at the first ``:``; there is no escaping. The meaning of
# values depends on the database: find results (`find_values`) or parameters of a solver, which are
# opaque.

_set = object.__setattr__


@dataclass(frozen=True, slots=True)
class RecordItem:
    """The part of a record for one solver, or in old find-dbs for one algorithm."""

    id: str
    values: str

    @property
    def text(self) -> str:
        """The item as in the file."""
        return f"{self.id}:{self.values}"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class DatabaseRecord:
    """A line of a text database. Its items are parsed when they are used."""

    key: str
    contents: str
    """The text after the ``=``."""

    def __init__(self, key: str, items: Iterable[RecordItem]) -> None:
        """`UsageError` if a file could not represent the texts."""
        items = tuple(items)
        _check(key, items)
        _set(self, "key", key)
        _set(self, "contents", ";".join([f"{item.id}:{item.values}" for item in items]))

    @classmethod
    def of_texts(cls, key: str, contents: str) -> Self:
        """The record of a well-formed line, without checks."""
        record = cls.__new__(cls)
        _set(record, "key", key)
        _set(record, "contents", contents)
        return record

    @classmethod
    def of_line(cls, line: str) -> Self:
        """The record of a complete, well-formed line, without checks."""
        key, _, contents = line.partition("=")
        return cls.of_texts(key, contents)

    @property
    def items(self) -> tuple[RecordItem, ...]:
        """The items in the order of the file."""
        parts = [part.partition(":") for part in self.contents.split(";") if part]
        return tuple([RecordItem(name, values) for name, _, values in parts])

    @property
    def item_texts(self) -> list[str]:
        """The items as text, which is faster than parsing them."""
        return [part for part in self.contents.split(";") if part]

    @property
    def ids(self) -> list[str]:
        """The ids of items in the order of the file."""
        return [part.partition(":")[0] for part in self.contents.split(";") if part]

    @property
    def line(self) -> str:
        """The complete line, without the line end."""
        return f"{self.key}={self.contents}"

    def __repr__(self) -> str:
        return f"Record({self.key!r}, {self.items!r})"


def complaint_of(line: str) -> str | None:
    """What is wrong with the line of a record; None if it is well-formed."""
    key, equals, contents = line.partition("=")
    if not equals:
        return "it has no '=' between the key and the items"
    if not key:
        return "it has no key before the '='"
    if not contents.strip(";"):
        return "it has no items after the '='"
    for part in contents.split(";"):
        if part and (":" not in part or part[0] == ":"):
            return f"{excerpt(part)!r} is not of the form id:values"
    return None


def _check(key: str, items: tuple[RecordItem, ...]) -> None:
    if not key or "=" in key or "\n" in key:
        raise UsageError(f"{excerpt(key)!r} cannot be the key of a record")
    if not items:
        raise UsageError(f"the record of {excerpt(key)!r} has no items")
    for item in items:
        name, values = item.id, item.values
        if not name or ":" in name or ";" in name or "\n" in name:
            raise UsageError(f"{excerpt(name)!r} cannot be an id in the record of {excerpt(key)!r}")
        if ";" in values or "\n" in values:
            raise UsageError(
                f"{excerpt(values)!r} cannot be a value in the record of {excerpt(key)!r}"
            )


# Files of text databases: every byte that is read can be written again.
#
# The canonical order is by key. An order by complete lines, which differs if one key is a prefix of
# another (``F_g1`` and ``F_g16``), also counts as canonical.

_BOM = codecs.BOM_UTF8.decode()
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class Form:
    """Properties of a file other than its records."""

    newline: str = "\n"
    final_newline: bool = True
    bom: bool = False


@dataclass(frozen=True, slots=True)
class TextDb:
    """The records of a file, each with its line number."""

    records: list[DatabaseRecord]
    lines: list[int]
    form: Form = field(default_factory=Form)
    blank_lines: int = 0


class TextLine(NamedTuple):
    """A line that is not blank: a record, or a description of what is wrong."""

    number: int
    record: DatabaseRecord | None
    complaint: str = ""


@dataclass(frozen=True, slots=True)
class Scan:
    """All lines of a file, valid and invalid."""

    lines: list[TextLine]
    form: Form
    blank_lines: int


def scan(data: bytes, path: Path) -> Scan:
    """Parse every line; `CorruptFileError` only if the file is not text."""
    if b"\0" in data or data.startswith(_WIDE):
        raise CorruptFileError(
            f"{path} is not a text database: it has bytes that text does not contain"
        )
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
    # An empty file has the default form.
    form = Form("\r\n" if crlf else "\n", final or not data, bom)
    lines = list(_lines(texts))
    return Scan(lines, form, len(texts) - len(lines))


def _lines(texts: list[str]) -> Iterator[TextLine]:
    for number, text in enumerate(texts, 1):
        complaint = complaint_of(text)
        if complaint is None:
            key, _, contents = text.partition("=")
            yield TextLine(number, DatabaseRecord.of_texts(key, contents))
        elif text and not text.isspace():
            yield TextLine(number, None, f"{excerpt(text)!r}: {complaint}")


def read_text(path: Path) -> TextDb:
    """The records of a file and its form; `CorruptFileError` names the first invalid line."""
    return text_of(scan(file_bytes(path), path), path)


def text_of(found: Scan, path: Path) -> TextDb:
    """The records; `CorruptFileError` if a line is not a record."""
    records: list[DatabaseRecord] = []
    for line in found.lines:
        if line.record is None:
            cut = line is found.lines[-1] and not found.form.final_newline
            end = "; the file seems to be truncated there" if cut else ""
            raise CorruptFileError(f"{path}:{line.number}: {line.complaint}{end}")
        records.append(line.record)
    numbers = [line.number for line in found.lines]
    return TextDb(records, numbers, found.form, found.blank_lines)


def read_text_db(path: Path) -> list[DatabaseRecord]:
    """The records in the order of the file; `CorruptFileError` names the file and the line."""
    return read_text(path).records


def write_text_db(
    path: Path, records: Sequence[DatabaseRecord], *, sort: bool = True, form: Form | None = None
) -> None:
    """Write all records or nothing; sorted by key unless the order is canonical."""
    atomic_write(path, text_bytes(records, sort=sort, form=form))


def text_bytes(
    records: Sequence[DatabaseRecord], *, sort: bool = True, form: Form | None = None
) -> bytes:
    """The content of a file with these records."""
    form = form or Form()
    ordered = in_canonical_order(records) if sort else records
    end = form.newline if form.final_newline and ordered else ""
    text = form.newline.join([f"{record.key}={record.contents}" for record in ordered])
    head = _BOM if form.bom else ""
    try:
        return f"{head}{text}{end}".encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise UsageError(f"{text[error.start]!r} in a record is not a valid character") from None


def in_canonical_order(records: Sequence[DatabaseRecord]) -> Sequence[DatabaseRecord]:
    """The records unchanged if their order is canonical, else sorted by key (stable)."""
    if is_canonical(records):
        return records
    return sorted(records, key=lambda record: record.key)


def is_canonical(records: Sequence[DatabaseRecord]) -> bool:
    """Whether the order is by key or by complete lines."""
    return _ascending([record.key for record in records]) or _ascending(
        [record.line for record in records]
    )


def _ascending(texts: list[str]) -> bool:
    return all(a <= b for a, b in pairwise(texts))
