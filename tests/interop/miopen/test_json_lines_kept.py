"""JSON lines of ours: copied they lose nothing; as text or SQLite they say what they lose."""

import json
from pathlib import Path
from typing import Any

import pytest

from skipjack.errors import CorruptFileError, UsageError
from skipjack.fleet.release.results import FoundProblem, RankedEntry
from skipjack.interop.miopen import (
    ConvertOptions,
    convert,
    line_of,
    read_perf_sqlite,
    read_text_db,
    record_of,
)
from skipjack.interop.miopen.conversion import Conversion

KEY = "128-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F"
PERF = "2x128x28x28x1x3x3x1x256x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"
FWD = "miopenConvolutionFwdAlgo"
ENTRY = RankedEntry("A", 1234567.89, 0, f"{FWD}GEMM", {"tile": 8}, 0.02, 5)
DEVICE = "znver4/1"


def found(problem: str, key: str | None, device: str = DEVICE) -> str:
    return line_of(FoundProblem(problem, key, device, (ENTRY,), "llvm-22").record())


def tuned(problem: str, configs: list[dict[str, Any]], device: str = DEVICE) -> str:
    return line_of(record_of("perf", (problem, PERF, device), configs))


def config(solver: str, params: str, time_ns: float | None = None) -> dict[str, Any]:
    return {"solver": solver, "params": params, "time_ns": time_ns, "config": {"tile": 8}}


def converted(source: Path, name: str, **options: Any) -> tuple[Path, Conversion]:
    target = source.with_name(name)
    return target, convert(source, target, ConvertOptions(**options))


@pytest.fixture
def find_lines(tmp_path: Path) -> Path:
    path = tmp_path / "znver4_1.find.jsonl"
    lines = [found("conv2d:a", KEY), found("conv2d:b", None), found("gemm:c", None)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_an_export_is_copied_byte_for_byte(find_lines: Path) -> None:
    copy, done = converted(find_lines, "other.find.jsonl")
    assert copy.read_bytes() == find_lines.read_bytes()
    assert (done.records, done.losses) == (3, ())


def test_parameters_are_copied_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "znver4_1.perf.jsonl"
    path.write_text(tuned("a", [config("S", "1", 1.5)]) + "\n")
    copy, done = converted(path, "other.perf.jsonl")
    assert (copy.read_bytes(), done.losses) == (path.read_bytes(), ())


def test_lines_in_another_order_are_sorted_unless_they_are_to_stay(find_lines: Path) -> None:
    lines = find_lines.read_text().splitlines(keepends=True)
    find_lines.write_text("".join(reversed(lines)) + "\n")
    copy, _ = converted(find_lines, "sorted.jsonl")
    assert copy.read_text() == "".join(lines)
    kept, _ = converted(find_lines, "kept.jsonl", keep_order=True)
    assert kept.read_text() == "".join(reversed(lines))


def test_what_text_has_no_place_for_is_said(find_lines: Path) -> None:
    text, done = converted(find_lines, "x.fdb.txt")
    assert [record.key for record in read_text_db(text)] == [KEY]
    assert done.losses == (
        "2 problems without a key in MIOpen",
        "the configs, spreads or toolchains of 1 problem",
        "the digits after the sixth of 1 time",
    )


def test_a_device_stays_where_values_change_their_format(find_lines: Path) -> None:
    lines, _ = converted(find_lines, "legacy.jsonl", values="legacy")
    assert json.loads(lines.read_text())["device"] == DEVICE


def test_one_of_several_devices_is_chosen(find_lines: Path) -> None:
    other = found("conv2d:a", KEY, "gfx90a/104")
    find_lines.write_text(f"{other}\n{find_lines.read_text()}")
    with pytest.raises(UsageError, match=r"2 devices \(gfx90a/104, znver4/1\); choose one with"):
        converted(find_lines, "x.fdb.txt")
    lines, done = converted(find_lines, "one.jsonl", device="gfx90a/104")
    assert lines.read_text() == f"{other}\n"
    assert done.losses == ("3 lines of other devices",)
    with pytest.raises(UsageError, match="has no lines for gfx900/56"):
        converted(find_lines, "one.jsonl", device="gfx900/56")


def test_the_fastest_parameters_count_where_problems_share_a_key(tmp_path: Path) -> None:
    path = tmp_path / "x.perf.jsonl"
    first = tuned("a", [config("S", "slow", 2.0), config("T", "untimed"), config("Z", "0", 0.0)])
    second = tuned("b", [config("R", "r", 1.0), config("S", "fast", 1.0), config("T", "t", 9.0)])
    for lines in ((first, second), (second, first)):
        path.write_text("\n".join(lines))
        text, done = converted(path, "x.db.txt")
        assert text.read_text() == f"{PERF}=R:r;S:fast;T:t;Z:0\n"
        assert "the slower results of 2 problems that share 1 key of MIOpen's" in done.losses
        database, _ = converted(path, "x.db")
        assert read_perf_sqlite(database) == read_text_db(text)


def test_the_fastest_ranking_counts_where_problems_share_a_key(tmp_path: Path) -> None:
    path = tmp_path / "x.find.jsonl"
    entries = [{"solver": "A", "time_ns": ms * 1e6, "workspace_bytes": 0} for ms in (0, 3, 2)]
    path.write_text(
        "\n".join(
            line_of(record_of("find", (name, KEY, ""), [entry | {"algorithm": "x"}]))
            for name, entry in zip("abc", entries, strict=True)
        )
    )
    text, done = converted(path, "x.fdb.txt")
    assert text.read_text() == f"{KEY}=A:2,0,x\n"
    assert done.losses == ("the slower results of 3 problems that share 1 key of MIOpen's",)


def test_a_key_that_stands_twice_in_text_does_so_after_json_lines(tmp_path: Path) -> None:
    source = tmp_path / "x.fdb.txt"
    source.write_text(f"{KEY}=A:1,0,x\n{KEY}=B:2,0,x\n")
    lines, _ = converted(source, "x.jsonl")
    again, done = converted(lines, "again.fdb.txt")
    assert (again.read_bytes(), done.losses) == (source.read_bytes(), ())


def test_lines_of_two_kinds_are_refused(find_lines: Path) -> None:
    with find_lines.open("a") as file:
        file.write(tuned("a", []))
    with pytest.raises(CorruptFileError, match=r":4 .* it belongs to a perf-db, earlier lines to"):
        converted(find_lines, "x.jsonl")
