"""Kernel databases: winners in one file, written atomically, checked before they are used."""

import hashlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from skipjack.bank import KernelDb, KernelRecord, gain_of, write_kernel_db
from skipjack.errors import CorruptFileError, NewerFormatError, StorageError

CODE = b"machine code"


def record(problem: str = "matmul:8x8x8:f16", device: str = "sm_90/132") -> KernelRecord:
    digest = hashlib.sha256(CODE).hexdigest()
    compat = "cuda:sm_90:x"
    config = {"block": 64, "tma": True}
    return KernelRecord(
        *(problem, device, compat, "triton_matmul", 1, config, digest, "gpu", "gpu-1"),
        slots=('{"launch":"x"}', 3),
        time_ns=10.0,
        vendor="cublas",
        vendor_ns=12.0,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_kernel_db(tmp_path / "x.skk", [(record(), CODE), (record("gelu:8x8:f16"), CODE)])
    return tmp_path / "x.skk"


def test_what_went_in_comes_out(path: Path) -> None:
    with KernelDb.open(path) as db:
        found = db.find("matmul:8x8x8:f16", "sm_90/132", ["cuda:sm_90:x"])
        assert found == record()
        assert db.code(found) == CODE
        assert [kernel.problem for kernel in db.records()] == ["gelu:8x8:f16", "matmul:8x8x8:f16"]


def test_kernels_that_share_code_keep_it_once(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM artifacts").fetchone() == (1,)


def test_a_kernel_of_a_sister_device_serves_where_there_is_no_own(path: Path) -> None:
    with KernelDb.open(path) as db:
        assert db.find("gelu:8x8:f16", "sm_90/114", ["cuda:sm_90:x"]) == record("gelu:8x8:f16")
        assert db.find("gelu:8x8:f16", "sm_80/108", ["cuda:sm_80:x"]) is None
        assert db.find("gelu:9x9:f16", "sm_90/132", ["cuda:sm_90:x"]) is None


def test_a_cpu_gets_the_highest_level_that_it_runs(tmp_path: Path) -> None:
    key, cpus = "matmul:8x8x8:f16", {"haswell/1": "v3", "nehalem/1": "v2", "znver4/1": "v4"}
    kernels = [
        (replace(record(key), device=name, compat=f"cpu:x86-64-{level}"), CODE)
        for name, level in cpus.items()
    ]
    write_kernel_db(tmp_path / "x.skk", kernels)
    v2, v3, v4 = (f"cpu:x86-64-v{number}" for number in (2, 3, 4))
    with KernelDb.open(tmp_path / "x.skk") as db:
        found = [db.find(key, "other/1", runs) for runs in ([v4, v3, v2], [v3, v2], [v2])]
        assert [one and one.device for one in found] == ["znver4/1", "haswell/1", "nehalem/1"]
        own = db.find(key, "haswell/1", [v4, v3, v2])
        assert own and own.device == "haswell/1"
        assert db.find(key, "other/1", ["cpu:x86-64"]) is None


def test_other_threads_find_kernels_too(path: Path) -> None:
    with KernelDb.open(path) as db, ThreadPoolExecutor(2) as threads:
        asked = [
            threads.submit(db.find, "gelu:8x8:f16", "sm_90/132", ["cuda:sm_90:x"]) for _ in range(8)
        ]
        assert {one.result().artifact for one in asked} == {record().artifact}
        assert threads.submit(db.code, record()).result() == CODE
        assert len(threads.submit(lambda: list(db.records())).result()) == 2


def test_a_slower_kernel_than_the_library_is_not_recommended() -> None:
    assert record().recommended
    assert not replace(record(), vendor_ns=9.0).recommended
    assert replace(record(), vendor_ns=None).recommended


def test_what_a_caller_from_python_gets_decides_where_it_is_known(tmp_path: Path) -> None:
    slow, fast = ({"ratio": r, "low": r - 0.1, "high": None} for r in (0.4, 1.4))
    assert not replace(record(), as_called=slow).recommended
    quick = replace(record(), vendor_ns=9.0, as_called=fast)
    assert quick.recommended
    write_kernel_db(tmp_path / "x.skk", [(quick, CODE)])
    with KernelDb.open(tmp_path / "x.skk") as db:
        assert list(db.records()) == [quick]


def test_the_previous_format_is_read(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
        connection.execute("UPDATE kernels SET record = json_remove(record, '$.as_called')")
    with KernelDb.open(path) as db:
        assert db.find("gelu:8x8:f16", "sm_90/132", ["cuda:sm_90:x"]) == record("gelu:8x8:f16")


@pytest.mark.parametrize("odd", [None, 3, {}, {"ratio": None}, {"ratio": "2", "low": 1.0}])
def test_what_is_no_gain_is_not_kept_as_one(odd: object) -> None:
    assert gain_of(odd) is None
    told = {"ratio": 1.5, "low": None, "high": 2, "pairs": 10}
    assert gain_of(told) == {"ratio": 1.5, "low": None, "high": 2}


@pytest.mark.parametrize("data", [b"other code", "a text", 3])
def test_damaged_code_is_not_given_out(path: Path, data: object) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE artifacts SET data = ?", (data,))
    with KernelDb.open(path) as db, pytest.raises(CorruptFileError, match="damaged"):
        db.code(next(db.records()))


def test_code_that_is_not_what_was_promised_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not match"):
        write_kernel_db(tmp_path / "y.skk", [(record(), b"other")])
    assert not list(tmp_path.iterdir())


def test_a_failing_export_leaves_the_old_file(path: Path) -> None:
    before = path.read_bytes()

    def failing() -> object:
        yield record(), CODE
        raise StorageError("no more")

    with pytest.raises(StorageError):
        write_kernel_db(path, failing())  # type: ignore[arg-type]
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["x.skk"]


@pytest.mark.parametrize("content", [b"", b"text", b"SQLite format 3\0" + b"x" * 100])
def test_other_files_are_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "z.skk").write_bytes(content)
    with pytest.raises(StorageError, match="kernel database"):
        KernelDb.open(tmp_path / "z.skk")
    with pytest.raises(FileNotFoundError, match="there is no kernel database"):
        KernelDb.open(tmp_path / "missing.skk")


def test_a_newer_format_is_refused_by_name(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(NewerFormatError, match="format 9"):
        KernelDb.open(path)
