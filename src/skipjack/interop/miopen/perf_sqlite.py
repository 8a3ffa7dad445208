"""Perf-dbs as SQLite files: a table of problems, and a table of parameters of solvers for them.

They are read as records of the text format, sorted by key, with items sorted by solver. Old files
contain several devices, in the columns ``arch`` and ``num_cu``, of which one is selected.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from skipjack.core import excerpt, parse_device_name
from skipjack.errors import CorruptFileError, UsageError
from skipjack.interop.miopen.file_access import columns, open_for_reading, open_for_writing
from skipjack.interop.miopen.keys import perf_fields
from skipjack.interop.miopen.text_db import DatabaseRecord, RecordItem

PERF_DB = "perf-db in SQLite"
_WORDS = ("layout", "data_type", "direction")
_NUMBERS = (
    *("spatial_dim", "in_channels", "in_h", "in_w", "in_d", "fil_h", "fil_w", "fil_d"),
    *("out_channels", "batchsize", "pad_h", "pad_w", "pad_d"),
    *("conv_stride_h", "conv_stride_w", "conv_stride_d"),
    *("dilation_h", "dilation_w", "dilation_d", "bias", "group_count"),
)
_CONFIG_TABLE = (
    "CREATE TABLE `config` (`id` INTEGER PRIMARY KEY ASC,"
    + ",".join(f"`{name}` TEXT NOT NULL" for name in _WORDS)
    + ","
    # The space before batchsize is in the files that MIOpen ships.
    + ",".join(f"{' ' if name == 'batchsize' else ''}`{name}` INT NOT NULL" for name in _NUMBERS)
    + ")"
)
_PERF_TABLE = (
    "CREATE TABLE `perf_db` (`id` INTEGER PRIMARY KEY ASC,`solver` TEXT NOT NULL,"
    "`config` INTEGER NOT NULL, `params` TEXT NOT NULL)"
)
_SHARED_TABLE = (
    "CREATE TABLE `perf_db` (`id` INTEGER PRIMARY KEY ASC,`solver` TEXT NOT NULL,"
    "`config` INTEGER NOT NULL,`arch` TEXT NOT NULL,`num_cu` INTEGER NOT NULL,"
    "`params` TEXT NOT NULL)"
)
"""The table of a file with several devices."""
_CONFIG_INDEX = f"CREATE UNIQUE INDEX `idx_config` ON config( {','.join((*_WORDS, *_NUMBERS))} )"
_PERF_INDEX = "CREATE UNIQUE INDEX `idx_perf_db` ON perf_db(solver, config)"
_SHARED_INDEX = "CREATE UNIQUE INDEX `idx_perf_db` ON perf_db(solver, config, arch, num_cu)"
_DEVICE = ("arch", "num_cu")
_CONVOLUTION = (*_NUMBERS, *_WORDS)
_BATCHNORM = (
    *("spatial_dim", "batchsize", "in_channels", "in_h", "in_w", "in_d"),
    *("resultsave", "resultrunning", "useSaved", "layout", "direction", "data_type", "mode"),
)
"""Columns in the order of a text key."""


@dataclass(frozen=True, slots=True)
class PerfContents:
    """The content of a file."""

    records: list[DatabaseRecord]
    bare: tuple[str, ...] = ()
    """Keys of problems without rows of parameters."""
    rows_without_config: int = 0
    other_devices: int = 0
    """Number of rows of other devices than the requested one."""
    devices: tuple[str, ...] = ()
    """The devices of the rows; only in old files."""


def read_perf_sqlite(path: Path, device: str | None = None) -> list[DatabaseRecord]:
    """The records; `device`, such as ``gfx900/56``, selects one if the file has several."""
    return perf_contents(path, device).records


def perf_contents(path: Path, device: str | None = None) -> PerfContents:
    """The records, and counts of content that records do not represent."""
    with open_for_reading(path, PERF_DB) as connection:
        names = _key_columns(connection, path)
        devices = _devices(connection)
        where, values = _chosen(devices, path, device)
        keys = _keys(connection, path, names)
        records = _records(connection, path, keys, (where, values))
        total, selected = (
            int(connection.execute(f"SELECT count(*) FROM perf_db p {each}", at).fetchone()[0])
            for each, at in (("", ()), (where, values))
        )
        used = {config for (config,) in connection.execute("SELECT config FROM perf_db")}
        lost = "SELECT count(*) FROM perf_db WHERE config NOT IN (SELECT id FROM config)"
        orphans = int(connection.execute(lost).fetchone()[0])
    bare = sorted(text for config, text in keys.items() if config not in used)
    return PerfContents(records, tuple(bare), orphans, total - selected, tuple(devices))


def _key_columns(connection: sqlite3.Connection, path: Path) -> tuple[str, ...]:
    """Columns of config in the order of a text key; `CorruptFileError` for other tables."""
    have = set(columns(connection, "perf_db"))
    if missing := [name for name in ("solver", "config", "params") if name not in have]:
        raise CorruptFileError(
            f"{path} is not a perf-db: it has no table perf_db with {', '.join(missing)}"
        )
    have = set(columns(connection, "config"))
    expected = _BATCHNORM if "resultsave" in have else _CONVOLUTION
    if missing := [name for name in expected if name not in have]:
        raise CorruptFileError(
            f"{path} is not a perf-db: its table config has no column {', '.join(missing[:4])}"
        )
    if more := sorted(have - {"id", *expected}):
        raise CorruptFileError(
            f"{path} has a column {', '.join(more[:4])} in its table config, which is unknown; "
            "nothing was read, so that no data is lost"
        )
    return expected


def _devices(connection: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    """The columns of each device by its name; empty in files with a single device."""
    if not set(_DEVICE) <= set(columns(connection, "perf_db")):
        return {}
    found = connection.execute("SELECT DISTINCT arch, num_cu FROM perf_db ORDER BY 1, 2").fetchall()
    return {f"{arch}/{units}": (str(arch), str(units)) for arch, units in found}


def _chosen(
    names: dict[str, tuple[str, str]], path: Path, device: str | None
) -> tuple[str, tuple[str, ...]]:
    """A condition for rows ``p`` of perf_db, and its values."""
    if device is None and len(names) > 1:
        raise UsageError(
            f"{path} has {len(names)} devices ({', '.join(list(names)[:6])}); choose one with "
            f"--device {next(iter(names))}"
        )
    chosen = device or next(iter(names), "")
    if names and chosen not in names:
        raise UsageError(f"{path} has nothing for {chosen}; it has {', '.join(list(names)[:6])}")
    return ("WHERE p.arch = ? AND p.num_cu = ?", names[chosen]) if names else ("", ())


def _keys(connection: sqlite3.Connection, path: Path, names: tuple[str, ...]) -> dict[int, str]:
    """The text key of each problem."""
    key = " || 'x' || ".join(names)
    keys = dict(connection.execute(f"SELECT id, {key} FROM config").fetchall())
    for config, text in keys.items():
        if not isinstance(text, str):
            raise CorruptFileError(f"{path}: row {config} of config has values of wrong types")
    return keys


def _records(
    connection: sqlite3.Connection,
    path: Path,
    keys: dict[int, str],
    condition: tuple[str, tuple[str, ...]],
) -> list[DatabaseRecord]:
    where, values = condition
    query = f"SELECT p.config, p.solver, p.params, p.id FROM perf_db p {where} ORDER BY p.id"
    found: dict[str, list[RecordItem]] = {}
    for config, solver, params, row in connection.execute(query, values):
        if config not in keys:
            continue  # counted by the caller
        if not (isinstance(solver, str) and isinstance(params, str)):
            raise CorruptFileError(f"{path}: row {row} of perf_db has values of wrong types")
        found.setdefault(keys[config], []).append(RecordItem(solver, params))
    try:
        return [
            DatabaseRecord(text, sorted(found[text], key=lambda item: item.id))
            for text in sorted(found)
        ]
    except UsageError as error:
        raise CorruptFileError(f"{path}: {error}") from None


def perf_devices(path: Path) -> tuple[str, ...]:
    """The devices of the rows; empty in files with a single device."""
    with open_for_reading(path, PERF_DB) as connection:
        return tuple(_devices(connection))


def write_perf_sqlite(
    path: Path, records: Iterable[DatabaseRecord], bare: Iterable[str] = ()
) -> None:
    """Write a file with the tables of MIOpen, completely or not at all.

    Of records with one key, and of items with one solver, the first takes precedence, as in MIOpen.
    `bare` are keys of problems without parameters, which come last.
    """
    configs = _Configs()
    rows = configs.rows(records)
    for key in bare:
        configs.number(key)
    _write(path, configs, rows)


def write_perf_sqlite_of(path: Path, devices: Mapping[str, Iterable[DatabaseRecord]]) -> None:
    """Write one file for several devices, such as ``gfx900/56``, with the device in each row.

    This is the ``miopen.db`` of old versions of MIOpen.
    """
    configs = _Configs()
    rows = [
        (*row, *parse_device_name(device))
        for device, records in devices.items()
        for row in configs.rows(records)
    ]
    _write(path, configs, rows, _DEVICE)


class _Configs:
    """The rows of problems, numbered in order of their first use."""

    def __init__(self) -> None:
        self.by_key: dict[str, tuple[int | str, ...]] = {}

    def number(self, key: str) -> int:
        """The id of a problem; equal keys have equal ids."""
        if key not in self.by_key:
            self.by_key[key] = (len(self.by_key) + 1, *_config(key))
        return int(self.by_key[key][0])

    def rows(self, records: Iterable[DatabaseRecord]) -> list[tuple[str, int, str]]:
        """Rows of solver, problem and parameters."""
        found: dict[tuple[int, str], str] = {}
        seen: set[str] = set()
        for record in records:
            if record.key in seen:
                continue
            seen.add(record.key)
            number = self.number(record.key)
            for item in record.items:
                found.setdefault((number, item.id), item.values)
        return [(solver, number, params) for (number, solver), params in found.items()]


def _write(
    path: Path,
    configs: _Configs,
    rows: Iterable[tuple[str | int, ...]],
    more: tuple[str, ...] = (),
) -> None:
    """Write `rows` of perf_db, which have the additional columns `more`."""
    table, index = (_SHARED_TABLE, _SHARED_INDEX) if more else (_PERF_TABLE, _PERF_INDEX)
    with open_for_writing(path, (_CONFIG_TABLE, table), PERF_DB) as connection:
        into_config = _insertion("config", ("id", *_NUMBERS, *_WORDS))
        connection.executemany(into_config, configs.by_key.values())
        into_perf_db = _insertion("perf_db", ("solver", "config", "params", *more))
        connection.executemany(into_perf_db, rows)
        for statement in (_CONFIG_INDEX, index):  # faster than updating indexes row by row
            connection.execute(statement)


def _insertion(table: str, names: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


def _config(key: str) -> tuple[int | str, ...]:
    fields = perf_fields(key)
    if fields is None:
        raise UsageError(
            f"{excerpt(key)!r} is not the key of a convolution in a perf-db, so SQLite has no "
            "columns for it; write a text database (.db.txt) or JSON lines (.jsonl)"
        )
    return fields
