"""MIOpen's databases as keyed records: text, perf-dbs in SQLite, kernel-dbs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from skipjack.errors import CorruptFileError, UsageError
from skipjack.interop.miopen import Record, write_perf_sqlite, write_text_db
from skipjack.interop.miopen.find_values import FindText, current_of, find_text
from skipjack.interop.miopen.kernel_db import PackedKernel, packed_kernels
from skipjack.interop.miopen.kernel_db import write_packed as write_kernel_rows
from skipjack.interop.miopen.perf_sqlite import perf_contents
from skipjack.interop.miopen.text_db import read_text as read_text_file


def read_text(path: Path) -> Iterator[tuple[str, Record]]:
    """All lines; `CorruptFileError` names one that is none."""
    if path.name.endswith((".fdb.txt", ".ufdb.txt")):
        return _checked(path)
    return ((record.key, record) for record in read_text_file(path).records)


def _checked(path: Path) -> Iterator[tuple[str, Record]]:
    """A find-db whose values are no results would be shipped as it is."""
    found = read_text_file(path)
    for record, line in zip(found.records, found.lines, strict=True):
        for item in record.items:
            if find_text(item) is None:
                raise CorruptFileError(
                    f"{path}:{line}: {item.text[:80]!r} is no find result; "
                    "repair or remove the line"
                )
        yield record.key, record


def write_text(path: Path, records: Iterable[Record], like: Path | None) -> None:
    """In canonical order, with the line ends of the old file."""
    form = read_text_file(like).form if like else None
    write_text_db(path, list(records), form=form)


def read_sqlite(path: Path) -> Iterator[tuple[str, Record]]:
    """The problems of a perf-db."""
    found = perf_contents(path)
    if found.other_devices:
        raise UsageError(
            f"{path} holds several devices; split it before anything is merged into it"
        )
    return ((record.key, record) for record in found.records)


def write_sqlite(path: Path, records: Iterable[Record], like: Path | None) -> None:
    """The tables that MIOpen makes, by key."""
    write_perf_sqlite(path, sorted(records, key=lambda record: record.key))


def same_record(old: Record, new: Record) -> bool:
    """Whether it says the same; the order of items means nothing to MIOpen."""
    return old.contents == new.contents or set(old.items) == set(new.items)


def joined_perf(old: Record, new: Record) -> Record:
    """Parameters of solvers that the new record does not have stay."""
    named = {item.id for item in new.items}
    kept = [item for item in old.items if item.id not in named]
    return Record(new.key, sorted([*new.items, *kept], key=lambda item: item.id))


def joined_find(old: Record, new: Record) -> Record:
    """Results of solvers that the new record does not have stay, in the current format, by time."""
    texts = _texts(new)
    named = {text.solver for text in texts}
    texts += [text for text in _texts(old) if text.solver not in named]
    if len(texts) == len(named):
        return new
    ordered = sorted(texts, key=lambda text: (float(text.time), text.solver))
    return Record(new.key, [current_of(text) for text in ordered])


def _texts(record: Record) -> list[FindText]:
    texts = [find_text(item) for item in record.items]
    return [text for text in texts if text is not None]


def read_kernels(path: Path) -> Iterator[tuple[tuple[str, str], PackedKernel]]:
    """Kernels by name and arguments, packed as they are."""
    return (((row.name, row.args), row) for row in packed_kernels(path))


def write_kernels(path: Path, rows: Iterable[PackedKernel], like: Path | None) -> None:
    """Old ones in their order, then those that are new."""
    write_kernel_rows(path, rows)


def same_kernel(old: PackedKernel, new: PackedKernel) -> bool:
    """Whether it is the same code."""
    return old.md5.lower() == new.md5.lower()
