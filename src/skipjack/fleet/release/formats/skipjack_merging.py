"""Skipjack's own databases as keyed records: lines of JSON, and kernels (``.skk``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skipjack.bank.kernel_db import KernelDb, KernelRecord, write_kernel_db
from skipjack.errors import CorruptFileError
from skipjack.interop.miopen.json_format import (
    ENTRIES,
    FIND,
    PERF,
    line_of,
    numbered_lines,
    object_of,
)
from skipjack.reading import parse_json
from skipjack.storage import atomic_write


def read_lines(path: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """Lines by problem and device."""
    for number, text in numbered_lines(path):
        where = f"{path}:{number}"
        key = _key(text, where)
        yield key, text.decode()


def _key(line: bytes | str, where: str) -> tuple[str, ...]:
    record = object_of(line, where)
    try:
        return str(record["problem"]), str(record["device"])
    except KeyError as error:
        raise CorruptFileError(
            f"{where} is no line of a database: it has no {error}; repair or remove it"
        ) from None


def write_lines(path: Path, lines: Iterable[str], like: Path | None) -> None:
    """By problem, as they are exported."""
    ordered = sorted(lines, key=lambda line: _key(line, "a line"))
    atomic_write(path, "".join(f"{line}\n" for line in ordered).encode())


def same_line(old: str, new: str) -> bool:
    """Whether it was there to the letter."""
    return old == new


def joined_line(old: str, new: str) -> str:
    """A ranking, or a list of configs, in which solvers that the new one does not have stay."""
    before, after = _parsed(old), _parsed(new)
    for field, rank in ((ENTRIES[FIND], _by_time), (ENTRIES[PERF], _by_name)):
        named = {entry["solver"] for entry in after.get(field, ())}
        kept = [entry for entry in before.get(field, ()) if entry["solver"] not in named]
        if kept:
            after[field] = sorted([*after.get(field, ()), *kept], key=rank)
    return new if after == _parsed(new) else line_of(after)


def _parsed(line: str) -> Any:
    return parse_json(line, surrogates=True)


def _by_time(entry: dict[str, Any]) -> tuple[float, str]:
    return entry["time_ns"], entry["solver"]


def _by_name(entry: dict[str, Any]) -> str:
    return str(entry["solver"])


@dataclass(frozen=True, slots=True)
class Packed:
    """A kernel, and the file that its code is in."""

    record: KernelRecord
    file: Path


def read_packed(path: Path) -> Iterator[tuple[tuple[str, str], Packed]]:
    """Kernels by problem and device; their code is read when it is written."""
    with KernelDb.open(path) as database:
        for record in database.records():
            yield (record.problem, record.device), Packed(record, path)


def write_packed(path: Path, kernels: Iterable[Packed], like: Path | None) -> None:
    """All of them with their code."""
    open_files: dict[Path, KernelDb] = {}

    def coded() -> Iterator[tuple[KernelRecord, bytes]]:
        for kernel in kernels:
            if kernel.file not in open_files:
                open_files[kernel.file] = KernelDb.open(kernel.file)
            yield kernel.record, open_files[kernel.file].code(kernel.record)

    try:
        write_kernel_db(path, coded())
    finally:
        for database in open_files.values():
            database.close()


def same_packed(old: Packed, new: Packed) -> bool:
    """Whether it is the same kernel with the same evidence."""
    return old.record == new.record
