"""Kernel-dbs (``.kdb``): SQLite files with compiled kernels, packed by bzip2 and checked by MD5."""

from __future__ import annotations

import bz2
import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from skipjack.core import excerpt
from skipjack.errors import CorruptFileError, StorageError, UsageError
from skipjack.interop.miopen.file_access import (
    columns,
    open_for_reading,
    open_for_writing,
    unpacked_parts,
)

KERNEL_DB = "kernel-db"
_SCHEMA = (
    "CREATE TABLE `kern_db` (`id` INTEGER PRIMARY KEY ASC,`kernel_name` TEXT NOT NULL,"
    "`kernel_args` TEXT NOT NULL,`kernel_blob` BLOB NOT NULL,`kernel_hash` TEXT NOT NULL,"
    "`uncompressed_size` INT NOT NULL)",
    "CREATE UNIQUE INDEX `idx_kern_db` ON kern_db(kernel_name, kernel_args)",
)
_COLUMNS = ("kernel_name", "kernel_args", "kernel_blob", "kernel_hash", "uncompressed_size")
_SELECT = f"SELECT id, {', '.join(_COLUMNS)} FROM kern_db ORDER BY id"
_INSERT = f"INSERT INTO kern_db ({', '.join(_COLUMNS)}) VALUES (?, ?, ?, ?, ?)"
_LARGEST = 1 << 28
"""Maximum size of a kernel; a larger size means a damaged row. Shipped kernels have up to 10 MB."""


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A compiled kernel."""

    name: str
    """The file name of its source, with ``.o``."""
    args: str
    """Its compiler options, including ``-mcpu``."""
    code: bytes


@dataclass(frozen=True, slots=True)
class PackedKernel:
    """A row in its stored form."""

    row: int
    name: str
    args: str
    blob: bytes
    md5: str
    uncompressed_bytes: int
    """0 if the blob is not compressed."""


def read_kernel_db(path: Path) -> Iterator[KernelRow]:
    """The kernels in order; `CorruptFileError` names a row with damaged code."""
    for packed in packed_kernels(path):
        yield KernelRow(packed.name, packed.args, code_of(packed, path))


def packed_kernels(path: Path) -> Iterator[PackedKernel]:
    """The rows in order, without unpacking or checking them."""
    with open_for_reading(path, KERNEL_DB) as connection:
        missing = set(_COLUMNS) - set(columns(connection, "kern_db"))
        if missing:
            raise CorruptFileError(
                f"{path} is not a supported kernel-db: its table kern_db has no column "
                f"{', '.join(sorted(missing))}"
            )
        for row in connection.execute(_SELECT):
            yield _packed(row, path)


def _packed(row: tuple[object, ...], path: Path) -> PackedKernel:
    number, name, args, blob, md5, size = row
    match number, name, args, blob, md5, size:
        case int(), str(), str(), bytes(), str(), int():
            return PackedKernel(number, name, args, blob, md5, size)
    raise CorruptFileError(f"{path}: row {number} of kern_db has values of wrong types")


def code_of(packed: PackedKernel, path: Path) -> bytes:
    """The code of a row, after a check of its size and MD5."""
    return b"".join(_checked_parts(packed, path))


def code_bytes(packed: PackedKernel, path: Path) -> int:
    """The size of the code of a row; checks it as `code_of` does, with less memory."""
    return sum(map(len, _checked_parts(packed, path)))


def _checked_parts(packed: PackedKernel, path: Path) -> Iterator[bytes]:
    where = f"{path}: row {packed.row} of kern_db ({excerpt(packed.name)})"
    size = packed.uncompressed_bytes
    if not 0 <= size <= _LARGEST:
        raise CorruptFileError(
            f"{where} is damaged: its size is {size:,} bytes; kernels have up to {_LARGEST:,} bytes"
        )
    md5, so_far = hashlib.md5(usedforsecurity=False), 0
    try:
        for part in unpacked_parts(packed.blob, size) if size else (packed.blob,):
            md5.update(part)
            so_far += len(part)
            yield part
    except (OSError, EOFError, ValueError) as error:
        raise CorruptFileError(
            f"{where} is damaged: it should unpack to {size:,} bytes, but {error}"
        ) from None
    if size and so_far != size:
        raise CorruptFileError(
            f"{where} is damaged: it should unpack to {size:,} bytes, not {so_far:,}"
        )
    if md5.hexdigest() != packed.md5.lower():
        raise CorruptFileError(f"{where} is damaged: its code does not match its MD5")


def packed_kernel(row: KernelRow) -> PackedKernel:
    """Pack as MIOpen does: with bzip2 at level 9, or uncompressed if that is not smaller."""
    blob = bz2.compress(row.code, 9)
    md5 = _md5(row.code)
    if len(blob) < len(row.code):
        return PackedKernel(0, row.name, row.args, blob, md5, len(row.code))
    return PackedKernel(0, row.name, row.args, row.code, md5, 0)


def write_kernel_db(path: Path, rows: Iterable[KernelRow]) -> int:
    """Write these kernels or nothing; returns the number of distinct kernels."""
    return write_packed(path, (packed_kernel(row) for row in rows))


def write_packed(path: Path, rows: Iterable[PackedKernel]) -> int:
    """Write rows without repacking; returns the number of distinct kernels."""
    known: dict[tuple[str, str], str] = {}
    with open_for_writing(path, _SCHEMA, KERNEL_DB) as connection:
        for row in rows:
            before = known.setdefault((row.name, row.args), row.md5.lower())
            if before != row.md5.lower():
                raise UsageError(
                    f"there are two kernels {excerpt(row.name)!r} with the arguments "
                    f"{excerpt(row.args)!r} and different code; a kernel-db can contain only one"
                )
            _insert(connection, row, path)
    return len(known)


def _insert(connection: sqlite3.Connection, row: PackedKernel, path: Path) -> None:
    values = (row.name, row.args, row.blob, row.md5, row.uncompressed_bytes)
    try:
        connection.execute(_INSERT.replace("INSERT", "INSERT OR IGNORE", 1), values)
    except (sqlite3.DataError, OverflowError) as error:
        raise StorageError(
            f"{path} cannot hold the kernel {excerpt(row.name)!r}: {error}"
        ) from None


def _md5(code: bytes) -> str:
    return hashlib.md5(code, usedforsecurity=False).hexdigest()
