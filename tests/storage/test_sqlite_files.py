"""Untrusted SQLite files: their companions are not obeyed, and damage is one sentence."""

import hashlib
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from skipjack.bank import KernelDb, KernelRecord
from skipjack.bank import write_kernel_db as write_our_kernels
from skipjack.core import Device
from skipjack.errors import SkipjackError, StorageError
from skipjack.fleet.bundle.format import Bundle, BundleKind, BundleManifest, EntryKind
from skipjack.fleet.bundle.format.container import BundleEntry
from skipjack.fleet.signature import fingerprint
from skipjack.fleet.store import open_store
from skipjack.interop.miopen import (
    DatabaseRecord,
    KernelRow,
    RecordItem,
    check_paths,
    convert,
    read_kernel_db,
    read_perf_sqlite,
    write_kernel_db,
    write_perf_sqlite,
)
from skipjack.ledger import Ledger
from skipjack.storage import connect_immutable

KEY = bytes(range(32))
PERF_KEY = "2x128x28x28x1x3x3x1x256x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"
CODE = b"machine code" * 9


def make_perf(path: Path) -> None:
    write_perf_sqlite(path, [DatabaseRecord(PERF_KEY, [RecordItem("ConvA", "8,8")])])


def make_kernels(path: Path) -> None:
    write_kernel_db(path, [KernelRow("a.o", "-mcpu=gfx908", CODE)])


def make_ledger(path: Path) -> None:
    with Ledger.open(path.parent / "made") as ledger:
        ledger.add_device(Device("cpu", "znver4", 1))
    with closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    path.write_bytes(ledger.path.read_bytes())


def make_bundle(path: Path) -> None:
    manifest = BundleManifest(BundleKind.JOBS, "nightly", "a store", fingerprint(KEY))
    with Bundle.create(path, manifest, KEY) as bundle:
        bundle.append([BundleEntry(EntryKind.TASK, "1", b"{}")])


def make_our_kernels(path: Path) -> None:
    digest = hashlib.sha256(CODE).hexdigest()
    record = KernelRecord(
        *("add:8", "cpu/1", "c", "nest", 1, {"tile": 8}, digest, "kernel", "abi"), slots=(1,)
    )
    write_our_kernels(path, [(record, CODE)])


def make_store(path: Path) -> None:
    with open_store(f"sqlite:///{path}"):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


def read_bundle(path: Path) -> None:
    with Bundle.open(path, KEY) as bundle:
        bundle.body(EntryKind.TASK, "1")


def write_bundle(path: Path) -> None:
    with Bundle.open(path, KEY, writable=True) as bundle:
        bundle.append([BundleEntry(EntryKind.OUTCOME, "1", b"{}")])


def read_our_kernels(path: Path) -> None:
    with KernelDb.open(path) as database:
        for record in database.records():
            database.code(record)


def merge_ledger(path: Path) -> None:
    with Ledger.open(path.parent / "mine") as ledger:
        ledger.merge(path)


def open_own_store(path: Path) -> None:
    with open_store(f"sqlite:///{path}") as store:
        store.labels.all()


def open_own_ledger(path: Path) -> None:
    folder = path.parent / "own"
    folder.mkdir()
    for each in path.parent.glob(f"{path.name}*"):
        each.rename(folder / each.name.replace(path.name, "ledger.sqlite"))
    Ledger.open(folder).close()


@dataclass(frozen=True)
class Door:
    """How a SQLite file gets in."""

    name: str
    make: Callable[[Path], None]
    use: Callable[[Path], object]
    word: bytes
    """Stands in the schema."""


DOORS = (
    Door("check a perf-db", make_perf, lambda path: check_paths([path]), b"tableperf_db"),
    Door("read a perf-db", make_perf, read_perf_sqlite, b"tableperf_db"),
    Door(
        "convert a perf-db",
        make_perf,
        lambda path: convert(path, path.with_name("out.db.txt")),
        b"tableperf_db",
    ),
    Door("check a kernel-db", make_kernels, lambda path: check_paths([path]), b"tablekern_db"),
    Door("read a kernel-db", make_kernels, lambda path: list(read_kernel_db(path)), b"tablekern"),
    Door(
        "convert a kernel-db",
        make_kernels,
        lambda path: convert(path, path.with_name("out.kdb")),
        b"tablekern_db",
    ),
    Door("merge a ledger", make_ledger, merge_ledger, b"tablebuilds"),
    Door("open a ledger", make_ledger, open_own_ledger, b"tablebuilds"),
    Door("read a bundle", make_bundle, read_bundle, b"indexentries"),
    Door("write a bundle", make_bundle, write_bundle, b"indexentries"),
    Door("read kernels", make_our_kernels, read_our_kernels, b"tablekernels"),
    Door("open a store", make_store, open_own_store, b"tablejobs"),
)
NAMES = {"perf-db": "gfx90878.db", "kernel-db": "gfx908.kdb"}


@pytest.fixture(params=DOORS, ids=lambda door: door.name)
def door(request: pytest.FixtureRequest) -> Door:
    chosen: Door = request.param
    return chosen


def gift(door: Door, directory: Path) -> Path:
    directory.mkdir()
    path = directory / NAMES.get(door.name.split()[-1], "gift.db")
    door.make(path)
    return path


def journal_that_names(path: Path, victim: Path) -> None:
    """A journal without pages whose rollback ends with the deletion of `victim`."""
    data = path.read_bytes()
    page: int = struct.unpack(">H", data[16:18])[0]
    magic = bytes.fromhex("d9d505f920a163d7")
    head = magic + struct.pack(">IIIII", 0, 0, len(data) // page, 512, page)
    name = str(victim).encode()
    tail = struct.pack(">I", 0x40000000 // page + 1) + name
    tail += struct.pack(">II", len(name), sum(name)) + magic
    path.with_name(path.name + "-journal").write_bytes(head.ljust(512, b"\0") + tail)


@pytest.mark.parametrize("linked", [False, True], ids=["plain", "linked"])
def test_a_journal_deletes_nothing(door: Door, linked: bool, tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    path = gift(door, tmp_path / "gift")
    journal_that_names(path, precious)
    if linked:
        (tmp_path / "links").mkdir()
        link = tmp_path / "links" / path.name
        link.symlink_to(path)
        path = link
    try:
        door.use(path)
    except SkipjackError as error:
        assert "\n" not in str(error)
    assert precious.read_text() == "mine"


def test_the_journal_of_the_tests_does_delete(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    make_perf(tmp_path / "x.db")
    journal_that_names(tmp_path / "x.db", precious)
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute("SELECT * FROM perf_db").fetchall()
    assert not precious.exists()


def test_a_name_that_is_no_text_is_damage(door: Door, tmp_path: Path) -> None:
    path = gift(door, tmp_path / "gift")
    data = bytearray(path.read_bytes())
    data[data.index(door.word) + 5] = 0xFF
    path.write_bytes(data)
    try:
        reports = door.use(path)
    except StorageError as error:
        assert "\n" not in str(error)
    else:
        assert door.name.startswith("check")
        assert reports[0].counts  # type: ignore[index]


def test_a_ledger_with_such_a_name_is_set_aside(tmp_path: Path) -> None:
    make_ledger(tmp_path / "ledger.sqlite")
    data = bytearray((tmp_path / "ledger.sqlite").read_bytes())
    data[data.index(b"tablebuilds") + 5] = 0xFF
    (tmp_path / "ledger.sqlite").write_bytes(data)
    with pytest.raises(StorageError, match=r"is damaged \(.*\); it was renamed to"):
        Ledger.open(tmp_path)
    with Ledger.open(tmp_path) as ledger:
        assert ledger.devices() == []


@pytest.mark.parametrize("version", [-1, -(2**31)])
def test_a_format_below_zero_is_damage(tmp_path: Path, version: int) -> None:
    make_ledger(tmp_path / "other.sqlite")
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with (
        Ledger.open(tmp_path / "mine") as ledger,
        pytest.raises(StorageError, match="its format number is -"),
    ):
        ledger.merge(tmp_path / "other.sqlite")


def test_a_ledger_without_one_of_its_tables_is_set_aside(tmp_path: Path) -> None:
    make_ledger(tmp_path / "ledger.sqlite")
    data = (
        (tmp_path / "ledger.sqlite").read_bytes().replace(b"candidate_builds", b"candidate_bxilds")
    )
    (tmp_path / "ledger.sqlite").write_bytes(data)
    with pytest.raises(StorageError, match="it was renamed to"):
        Ledger.open(tmp_path)
    Ledger.open(tmp_path).close()


def test_a_file_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        connect_immutable(tmp_path / "gone.db")
    assert list(tmp_path.iterdir()) == []


def test_a_view_that_never_ends_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "gfx908.kdb"
    make_kernels(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "DROP TABLE kern_db; CREATE VIEW kern_db AS WITH RECURSIVE n(i) AS "
            "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, 'a' AS kernel_name, "
            "'' AS kernel_args, x'00' AS kernel_blob, '' AS kernel_hash, 0 AS uncompressed_size "
            "FROM n"
        )
    with pytest.raises(StorageError, match="is not a supported kernel-db"):
        next(read_kernel_db(path))


def test_an_interrupted_ledger_is_merged_without_what_was_not_finished(tmp_path: Path) -> None:
    make_ledger(tmp_path / "other.sqlite")
    writing = (
        "import os, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA cache_size = 1')\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "for number in range(300):\n"
        "    connection.execute(\"INSERT INTO devices VALUES (?, 'c', 'n', '{}', \"\n"
        "        \"'2025-01-01T00:00:00.000000Z')\", (f'id{number}' * 50,))\n"
        "os._exit(1)\n"
    )

    subprocess.run([sys.executable, "-c", writing, tmp_path / "other.sqlite"], check=False)
    assert (tmp_path / "other.sqlite-journal").stat().st_size
    before = (tmp_path / "other.sqlite").read_bytes()
    with Ledger.open(tmp_path / "mine") as ledger:
        assert ledger.merge(tmp_path / "other.sqlite").rows == 1
    assert (tmp_path / "other.sqlite").read_bytes() == before
