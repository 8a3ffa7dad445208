"""Files of tables: written, read, cut short, joined, refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skipjack.core.timing import cpu_protocol
from skipjack.errors import MalformedError, SkipjackError, StorageError
from skipjack.learn.rates import (
    LoopTable,
    TableHeader,
    join_tables,
    problem_line,
    read_table,
    table_files,
    write_table,
)
from skipjack.native import describe
from skipjack.operations import parse

HEADER = TableHeader(describe("skylake-avx512/1"), "llvm 20", cpu_protocol().key, "0.1.0")
PROBLEM = parse("matmul:8x8x8")


def filled(**times_ns: float | None) -> LoopTable:
    table = LoopTable(HEADER)
    table.add(PROBLEM.key, "nest", times_ns)
    return table


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_a_table_comes_back_as_it_was_written(tmp_path: Path, name: str) -> None:
    table = filled(m=1234.5, n=None, k=99.0)
    write_table(tmp_path / name, table)
    assert read_table(tmp_path / name) == table
    assert table.best_ns(PROBLEM) == 99.0
    assert table.entries == 3


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_table(path, filled(m=5.0))
    with path.open("a") as file:
        file.write(problem_line("add:4:f32", "nest", {"i": 1.0})[:-9])
    assert read_table(path) == filled(m=5.0)


def test_a_schedule_keeps_its_first_time_and_tables_of_one_device_are_joined(
    tmp_path: Path,
) -> None:
    write_table(tmp_path / "1.jsonl", filled(m=5.0))
    write_table(tmp_path / "2.jsonl", filled(m=7.0, n=6.0))
    assert join_tables(table_files([tmp_path])) == [filled(m=5.0, n=6.0)]


def test_tables_of_other_devices_stay_apart(tmp_path: Path) -> None:
    write_table(tmp_path / "1.jsonl", filled(m=5.0))
    other = LoopTable(TableHeader(describe("haswell/1"), "llvm 20", cpu_protocol().key))
    write_table(tmp_path / "2.jsonl", other)
    assert len(join_tables(table_files([tmp_path]))) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "not a table of schedules"),
        ({"version": 2}, "version 2"),
        ({"device": {}}, "field kind is missing"),
    ],
)
def test_what_is_no_table_of_this_version_is_refused(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({**json.loads(HEADER.line()), **change}) + "\n")
    with pytest.raises(MalformedError, match=words):
        read_table(path)


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        '{"problem":"a","solver":"b","schedules":["m"],"time_ns":[]}',
        '{"problem":"a","solver":"b","schedules":[5],"time_ns":[1.0]}',
        '{"problem":"a","solver":"b","schedules":["m"],"time_ns":[-1.0]}',
        '{"problem":"a","solver":"b","schedules":["m"],"time_ns":[Infinity]}',
        "[]",
    ],
)
def test_a_line_without_schedules_and_times_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(HEADER.line() + line + "\n")
    with pytest.raises(MalformedError, match=r"t\.jsonl, line 2: ") as caught:
        read_table(path)
    assert str(caught.value).count(" line ") == 1


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere\.jsonl"):
        read_table(tmp_path / "nowhere.jsonl")


def test_a_compressed_file_with_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    write_table(path, filled(m=5.0))
    whole = path.read_bytes()
    for at in range(10, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with pytest.raises(SkipjackError, match=r"t\.jsonl\.gz"):
            read_table(path)
