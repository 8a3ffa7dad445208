"""Kernels come out as they were put in, or not at all."""

import bz2
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.errors import CorruptFileError, UsageError
from skipjack.interop.miopen import KernelRow, packed_kernels, read_kernel_db, write_kernel_db
from skipjack.interop.miopen.kernel_db import code_of, packed_kernel

LONG = KernelRow("conv.cpp.o", "-O3 -mcpu=gfx908", b"\x7fELF" + bytes(5000))
SHORT = KernelRow("tiny.s.o", "-mcpu=gfx908", b"\x90")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "gfx90878.kdb"
    assert write_kernel_db(path, [LONG, SHORT]) == 2
    return path


def execute(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement, values)
        connection.commit()


def test_kernels_come_back(database: Path) -> None:
    assert list(read_kernel_db(database)) == [LONG, SHORT]


def test_rows_are_as_miopen_makes_them(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        (table, index) = [text for (text,) in connection.execute("SELECT sql FROM sqlite_master")]
    assert table == (
        "CREATE TABLE `kern_db` (`id` INTEGER PRIMARY KEY ASC,`kernel_name` TEXT NOT NULL,"
        "`kernel_args` TEXT NOT NULL,`kernel_blob` BLOB NOT NULL,`kernel_hash` TEXT NOT NULL,"
        "`uncompressed_size` INT NOT NULL)"
    )
    assert index == "CREATE UNIQUE INDEX `idx_kern_db` ON kern_db(kernel_name, kernel_args)"
    packed, raw = packed_kernels(database)
    assert bz2.decompress(packed.blob) == LONG.code
    assert packed.uncompressed_bytes == len(LONG.code)
    assert (raw.blob, raw.uncompressed_bytes) == (SHORT.code, 0)


@given(st.binary(max_size=300))
def test_packing_loses_nothing(code: bytes) -> None:
    packed = packed_kernel(KernelRow("k", "", code))
    assert code_of(packed, Path("x")) == code
    assert len(packed.blob) <= len(code)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("kernel_hash = 'd41d8cd98f00b204e9800998ecf8427e'", "does not match its MD5"),
        ("kernel_blob = x'425a68'", "should unpack to 5,004 bytes, but it is truncated"),
        ("kernel_blob = x'00'", "Invalid data stream"),
        ("uncompressed_size = 4000", "should unpack to 4,000 bytes, but it has more than 4,000"),
        ("uncompressed_size = -1", "its size is -1 bytes"),
        ("kernel_args = x'ff'", "values of wrong types"),
    ],
)
def test_a_damaged_row_is_named(database: Path, change: str, complaint: str) -> None:
    execute(database, f"UPDATE kern_db SET {change} WHERE id = 1")
    with pytest.raises(CorruptFileError, match=f"gfx90878.kdb: row 1 of kern_db.*{complaint}"):
        list(read_kernel_db(database))


def test_the_same_kernel_twice_is_one_and_another_of_its_name_is_refused(database: Path) -> None:
    assert write_kernel_db(database, [SHORT, SHORT]) == 1
    before = database.read_bytes()
    with pytest.raises(UsageError, match=r"two kernels 'tiny.s.o'"):
        write_kernel_db(database, [SHORT, KernelRow(SHORT.name, SHORT.args, b"other")])
    assert database.read_bytes() == before


def test_a_file_of_before_there_were_hashes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.kdb"
    execute(path, "CREATE TABLE kern_db (id INT, kernel_name, kernel_args, kernel_blob)")
    with pytest.raises(CorruptFileError, match="has no column kernel_hash, uncompressed_size"):
        list(read_kernel_db(path))
