"""Files that claim too much or go too deep end in a sentence, and soon."""

import bz2
import json
import sqlite3
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from skipjack.errors import CorruptFileError, SkipjackError
from skipjack.interop.miopen import (
    FileReport,
    KernelRow,
    check_paths,
    convert,
    read_text_db,
    record_of,
    write_kernel_db,
)
from skipjack.interop.miopen import file_access as reading
from skipjack.interop.miopen.file_access import unpacked
from skipjack.interop.miopen.find_values import algorithm_parts, fields_of

FWD = "miopenConvolutionFwdAlgoDirect"


def test_a_filter_of_any_size_is_checked_soon(tmp_path: Path) -> None:
    path = tmp_path / "gfx90878.HIP.fdb.txt"
    key = "128-28-28-999999999999x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F"
    path.write_text(f"{key}=A:0.001,0,{FWD}\n")
    (report,) = check_paths([path])
    assert {"bad_sizes", "impossible_time"} == set(report.counts)


def test_what_unpacks_to_more_than_there_is_room_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.fdb.txt.bz2"
    path.write_bytes(bz2.compress(bytes(1 << 20)))
    monkeypatch.setattr(reading, "LARGEST", 1 << 19)
    with pytest.raises(CorruptFileError, match="more than 524,288 bytes when unpacked"):
        read_text_db(path)


def test_a_bound_holds_for_all_streams_together() -> None:
    packed = bz2.compress(bytes(60)) * 2
    assert unpacked(packed, 120) == bytes(120)
    with pytest.raises(ValueError, match="more than 119 bytes"):
        unpacked(packed, 119)


@pytest.mark.parametrize("kept", [1, 0.5, 0.9])
def test_a_packed_file_that_is_cut_off_is_refused(tmp_path: Path, kept: float) -> None:
    data = bz2.compress(b"".join(b"%d=A:1,0,x\n" % number for number in range(999)))
    path = tmp_path / "x.fdb.txt.bz2"
    path.write_bytes(data[: int(len(data) * kept) - 1])
    with pytest.raises(CorruptFileError, match="cannot be unpacked: it is truncated"):
        read_text_db(path)


def test_several_streams_in_one_file_are_one_database(tmp_path: Path) -> None:
    path = tmp_path / "x.fdb.txt.bz2"
    path.write_bytes(bz2.compress(b"a=A:1,0,x\n") + bz2.compress(b"b=A:1,0,x\n") + bytes(9))
    assert [record.key for record in read_text_db(path)] == ["a", "b"]


def test_a_first_line_of_json_may_be_long(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    ranking = [
        {"solver": f"{at:05}", "time_ns": 1e6, "workspace_bytes": 0, "algorithm": "x"}
        for at in range(3000)
    ]
    line = json.dumps(record_of("find", ("p", "key", ""), ranking))
    assert len(line) > 200_000
    path.write_text(line)
    convert(path, tmp_path / "x.fdb.txt")
    assert len(read_text_db(tmp_path / "x.fdb.txt")[0].items) == 3000


@pytest.mark.parametrize("before", [b"", b'{"format": 1, "kind": "find"}\n'])
def test_json_that_goes_too_deep_is_refused(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(before + b'{"format": 1, "kind": ' + b"[" * 200_000)
    with pytest.raises(SkipjackError, match=r"x.jsonl:1(: not a line of JSON| is not a record)"):
        convert(path, tmp_path / "x.fdb.txt")


LONG = 200_000
"""Characters. What looks at each of them from each of them does not come back."""


@pytest.mark.parametrize(
    "item",
    [
        "miopen" + "Algo" * (LONG // 8) + ":a," + "1" * (LONG // 2),
        "miopenAlgo:a" + ",1" * (LONG // 2),
        "miopenAlgo:a," + "1" * LONG + "x,1,b,c",
        "miopenAlgo:" + ":" * LONG,
        "miopenAlgo:" + "1,1," * (LONG // 4) + "\n",
        "A:" + "1" * LONG,
        "A:" + "1" * (LONG // 2) + "." + "1" * (LONG // 2) + "x",
        "A:1," + "1" * LONG + ",x",
        ":" * LONG,
    ],
    ids=range(9),
)
def test_a_long_line_takes_no_longer_than_its_length(item: str, tmp_path: Path) -> None:
    assert fields_of(item) is None or item.startswith("miopenAlgo:a,1,1")
    path = tmp_path / "gfx90878.HIP.fdb.txt"
    path.write_text(f"128-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F={item}\n")
    assert check_paths([path])


@pytest.mark.parametrize(
    "name", ["miopen" + "FwdAlgo" * (LONG // 7) + "!", "miopen" + "Fwd" * (LONG // 3), "a" * LONG]
)
def test_a_long_name_of_an_algorithm_is_read_soon(name: str) -> None:
    assert algorithm_parts(name) is None


def test_a_name_of_an_algorithm_is_taken_apart_at_the_first_place() -> None:
    assert algorithm_parts("miopenConvolutionFwdAlgoFwdAlgoDirect") == ("fwd", "FwdAlgoDirect")
    assert algorithm_parts("miopenConvolutionFwdAlgo") is None


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory that was in use at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_small_packed_text_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "gfx90878.HIP.fdb.txt.bz2"
    path.write_bytes(bz2.compress(b"\n" * (1 << 20)) * 512)  # 512 MiB of lines
    assert path.stat().st_size < 40_000
    report: list[FileReport] = []
    assert peak_bytes(lambda: report.extend(check_paths([path]))) < 200 << 20
    assert "more than 100 times its" in str(report)


@pytest.mark.parametrize("claimed", [1 << 28, 1 << 30, 1 << 40])
def test_a_small_kernel_db_takes_little_memory(tmp_path: Path, claimed: int) -> None:
    path = tmp_path / "gfx908.kdb"
    write_kernel_db(path, [KernelRow("a.o", "-mcpu=gfx908", bytes(1 << 20))])
    blob = bz2.compress(bytes(1 << 20)) * (1 << 8)
    with closing(sqlite3.connect(path)) as connection, connection:
        change = "UPDATE kern_db SET kernel_blob = ?, uncompressed_size = ?"
        connection.execute(change, (blob, claimed))
    report: list[FileReport] = []
    assert peak_bytes(lambda: report.extend(check_paths([path]))) < 100 << 20
    assert "damaged_kernel" in report[0].counts
    with pytest.raises(CorruptFileError, match="is damaged"):
        convert(path, tmp_path / "out.kdb")


def test_very_many_empty_streams_are_read_soon(tmp_path: Path) -> None:
    path = tmp_path / "x.fdb.txt.bz2"
    path.write_bytes(bz2.compress(b"") * 100_000 + bz2.compress(b"a=A:1,0,x\n"))
    assert [record.key for record in read_text_db(path)] == ["a"]
