"""MIOpen's databases, read and written without losing a byte: find-db, perf-db and kernel-db."""

from skipjack.interop.find_db_key import parse_find_db
from skipjack.interop.miopen.file_names import DbName, db_name, parse_db_name
from skipjack.interop.miopen.find_values import (
    FAMILIES,
    Family,
    FindResultLine,
    algorithm_name,
    find_item,
    find_results,
    legacy_item,
)
from skipjack.interop.miopen.kernel_db import KernelRow, read_kernel_db, write_kernel_db
from skipjack.interop.miopen.keys import FindKey, find_key, parse_find_key, perf_key
from skipjack.interop.miopen.perf_sqlite import (
    read_perf_sqlite,
    write_perf_sqlite,
    write_perf_sqlite_of,
)
from skipjack.interop.miopen.records import Item, Record
from skipjack.interop.miopen.text_db import read_text_db, write_text_db

__all__ = [
    "FAMILIES",
    "DbName",
    "Family",
    "FindKey",
    "FindResultLine",
    "Item",
    "KernelRow",
    "Record",
    "algorithm_name",
    "db_name",
    "find_item",
    "find_key",
    "find_results",
    "legacy_item",
    "parse_db_name",
    "parse_find_db",
    "parse_find_key",
    "perf_key",
    "read_kernel_db",
    "read_perf_sqlite",
    "read_text_db",
    "write_kernel_db",
    "write_perf_sqlite",
    "write_perf_sqlite_of",
    "write_text_db",
]
