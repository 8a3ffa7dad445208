"""What is wrong in databases is found, with its line; what is right is left alone."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from skipjack.errors import StorageError, UsageError
from skipjack.interop.miopen import (
    FINDING_KINDS,
    DatabaseRecord,
    FileReport,
    FindResultLine,
    KernelRow,
    RecordItem,
    algorithm_name,
    check_paths,
    convert,
    find_item,
    parse_find_key,
    record_of,
    write_kernel_db,
    write_perf_sqlite,
)
from skipjack.interop.miopen.find_values import TimeBounds

_BESIDE = Path(__file__).parents[4] / "shared" / "data" / "miopen"
FOLDER = os.environ.get("FIND_DBS", str(_BESIDE) if _BESIDE.is_dir() else "")

KEY = "128-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F"
PERF = "2x128x28x28x1x3x3x1x256x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"
DEEP = "3x128x28x28x8x3x3x1x256x64x1x1x0x1x1x1x1x1x1x0x1xNCHWxFP32xF"
DIRECT = algorithm_name("fwd", "Direct")
GOOD = f"{KEY}=ConvA:0.5,0,{DIRECT}"


def checked(path: Path, *lines: str) -> FileReport:
    path.write_text("".join(f"{line}\n" for line in lines))
    (report,) = check_paths([path])
    return report


@pytest.fixture
def find_db(tmp_path: Path) -> Path:
    return tmp_path / "gfx90878.HIP.fdb.txt"


@pytest.mark.parametrize(
    "lines",
    [
        (GOOD,),
        (f"{KEY}=Odd:0.5,0,{algorithm_name('fwd', 'FFT')};B:0.1,0,miopenConvolutionFwdAlgoNew",),
        (f"{KEY}={DIRECT}:ConvA,0.5,0,MIOpenGEMM,0_1,2",),
        ("64-10-10-2x2-64-12-12-1-1x1-1x1-1x1-0-NCHW-FP32-F=A:1,0," + DIRECT,),
        (f"{KEY}=A:1,0,{DIRECT}", f"{KEY}_g16=A:1,0,{DIRECT}", f"{KEY}_g2=A:1,0,{DIRECT}"),
        (f"{KEY}_g16=A:1,0,{DIRECT}", f"{KEY}_g1=A:1,0,{DIRECT}"),
    ],
)
def test_a_clean_file_has_no_findings(find_db: Path, lines: tuple[str, ...]) -> None:
    report = checked(find_db, *lines)
    assert (dict(report.counts), report.records) == ({}, len(lines))


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (f"{KEY}=A:0,0,{DIRECT}", "bad_time"),
        (f"{KEY}=A:-0.5,0,{DIRECT}", "bad_time"),
        (f"{KEY}=A:nan,0,{DIRECT}", "bad_time"),
        (f"{KEY}={DIRECT}:A,inf,0,{DIRECT},not used", "bad_time"),
        (f"{KEY}=A:0.00005,0,what", "impossible_time"),
        (f"{KEY}=A:0.002,0,{DIRECT}", "impossible_time"),
        (f"{KEY}=A:1,-1,{DIRECT}", "bad_workspace"),
        (f"{KEY}=A:1,{2**64 - 1},{DIRECT}", "bad_workspace"),
        (f"{KEY}=A:1,0", "bad_values"),
        (f"{KEY}=A:1,0,{algorithm_name('bwd', 'Direct')}", "wrong_direction"),
        (f"{KEY}=A:1,0,what", "unknown_algorithm"),
        (f"{KEY}=A:1,0,{DIRECT};A:2,0,{DIRECT}", "duplicate_id"),
        (f"{KEY}_g3=A:1,0,{DIRECT}", "bad_sizes"),
        (f"{KEY.replace('256-28-28', '256-31-28')}=A:1,0,{DIRECT}", "bad_sizes"),
        (f"{KEY.replace('-64-', '-0-')}=A:1,0,{DIRECT}", "bad_sizes"),
        (f"{KEY.replace('NCHW', 'NCDHW')}=A:1,0,{DIRECT}", "bad_layout"),
        (f"what=A:1,0,{DIRECT}", "bad_key"),
        ("what", "bad_line"),
    ],
)
def test_each_kind_is_found_at_its_line(find_db: Path, line: str, kind: str) -> None:
    first = GOOD.replace("128-28", "100-28", 1)
    report = checked(find_db, first, line)
    assert kind in report.counts
    (finding,) = [each for each in report.findings if each.kind == kind]
    assert (finding.line, finding.severity) == (2, FINDING_KINDS[kind])


def test_a_key_that_stands_twice_and_unsorted_keys(find_db: Path) -> None:
    report = checked(find_db, GOOD, f"{KEY[1:]}=A:1,0,{DIRECT}", f"1{GOOD}", GOOD)
    assert dict(report.counts) == {"unsorted": 1, "duplicate_key": 1}
    assert {each.kind: each.line for each in report.findings} == {
        "unsorted": 3,
        "duplicate_key": 4,
    }


def test_a_problem_that_stands_twice_in_our_lines(find_db: Path) -> None:
    # Two problems may share a key of MIOpen's, so keys do not tell.
    find_db.write_text(f"{GOOD}\n")
    lines = find_db.with_name("x.jsonl")
    convert(find_db, lines)
    line = json.loads(lines.read_text())
    texts = [json.dumps(line | {"problem": problem}) for problem in "aba"]
    lines.write_text("\n".join(texts))
    (report,) = check_paths([lines])
    assert dict(report.counts) == {"duplicate_key": 1}
    assert report.findings[0].message.startswith("a on gfx908/120 is in line 1 already")
    assert report.findings[0].line == 3


@pytest.mark.parametrize("letter", "FBW")
def test_groups_and_strides_of_zero_are_told_and_nothing_is_divided(
    find_db: Path, letter: str
) -> None:
    item = f"A:1e-05,0,{algorithm_name(letter, 'Direct')}"
    key = KEY[:-1] + letter
    report = checked(find_db, f"{key.replace('1x1-1x1', '1x1-0x1', 1)}={item}", f"{key}_g0={item}")
    assert dict(report.counts) == {"bad_sizes": 2, "impossible_time": 2}


def test_lines_that_end_oddly_are_a_warning(find_db: Path) -> None:
    find_db.write_bytes(f"\ufeff{GOOD}\r\n\r\n{KEY}_g2=A:1,0,{DIRECT}".encode())
    (report,) = check_paths([find_db])
    assert dict(report.counts) == {"odd_lines": 4}
    assert (report.total("error"), report.total("warning")) == (0, 4)


def test_a_file_that_ends_within_a_result_is_found(find_db: Path) -> None:
    find_db.write_text(f"{GOOD}\n{KEY}_g2=ConvA:0.5,0,{DIRECT[:-3]}")
    (report,) = check_paths([find_db])
    (finding,) = [each for each in report.findings if each.kind == "bad_line"]
    assert (finding.line, finding.message) == (2, "the file is truncated in this line")


def test_many_of_a_kind_are_counted_and_the_first_told(find_db: Path) -> None:
    report = checked(find_db, *(f"{KEY}_g{2**n}=A:0,0,{DIRECT}" for n in range(7)))
    assert report.counts["bad_time"] == 7
    assert len([each for each in report.findings if each.kind == "bad_time"]) == 5


@pytest.mark.parametrize("family", ["Winograd", "FFT", "SomethingNew"])
def test_algorithms_that_save_arithmetic_may_be_faster(find_db: Path, family: str) -> None:
    name = DIRECT.replace("Direct", family)
    assert not checked(find_db, f"{KEY}=A:0.005,0,{name}").counts
    assert checked(find_db, f"{KEY}=A:0.0005,0,{name}").counts["impossible_time"]


def test_taps_on_padding_are_no_work() -> None:
    point = parse_find_key("64-1-1-3x3-64-1-1-64-1x1-1x1-1x1-0-NCHW-FP32-F")
    plain = parse_find_key("64-1-1-1x1-64-1-1-64-0x0-1x1-1x1-0-NCHW-FP32-F")
    assert point and plain
    assert TimeBounds(point).least_ms("Direct") == TimeBounds(plain).least_ms("Direct")


def test_what_is_harmless_is_never_less_than_the_least() -> None:
    for direction in "FBW":
        key = parse_find_key(f"{KEY[:-1]}{direction}")
        assert key
        bounds = TimeBounds(key)
        assert all(bounds.harmless_ms >= bounds.least_ms(each) for each in ("GEMM", "Winograd"))


def test_rows_and_problems_without_each_other(tmp_path: Path) -> None:
    path = tmp_path / "gfx906_60.db"
    write_perf_sqlite(path, [DatabaseRecord(PERF, [RecordItem("A", "1")])])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE perf_db SET config = 5")
        connection.commit()
    (report,) = check_paths([path])
    assert dict(report.counts) == {"orphan_row": 1, "orphan_config": 1}


def test_three_axes_that_say_nchw_are_a_warning(tmp_path: Path) -> None:
    report = checked(tmp_path / "x.db.txt", f"{DEEP}=A:1", "what=A:1")
    assert dict(report.counts) == {"old_layout": 1, "bad_key": 1}


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("x28x28x", "x0x28x", "dead_key"),
        ("x28x28x", "x-5x28x", "dead_key"),
        ("x28x28x", "x99999999999x28x", "dead_key"),
        ("x256x64x", "x256x0x", "dead_key"),
        ("x64x1x1x0x", "x64x-1x1x0x", "dead_key"),
        ("x0x1xNCHW", "x0x3xNCHW", "bad_key"),
        ("x0x1xNCHW", "x0x0xNCHW", "dead_key"),
        ("FP32", "FP99", "bad_key"),
        ("xF", "xQ", "bad_key"),
        ("NCHW", "NCDHW", "bad_layout"),
        ("NCHW", "ABCD", "bad_layout"),
        ("NCHW", "NHWC", None),
        ("NCHW", "NCHWc4", None),
        ("FP32", "INT8INT8INT32", None),
    ],
)
def test_perf_keys_are_looked_at(tmp_path: Path, old: str, new: str, kind: str | None) -> None:
    assert old in PERF
    report = checked(tmp_path / "x.db.txt", f"{PERF.replace(old, new, 1)}=A:1")
    assert dict(report.counts) == ({kind: 1} if kind else {})


def test_three_axes_have_a_stride_in_each(tmp_path: Path) -> None:
    deep = DEEP.replace("NCHW", "NCDHW")
    assert not checked(tmp_path / "x.db.txt", f"{deep}=A:1").counts
    flat = deep.replace("x1x1x1x1x1x1x", "x1x1x0x1x1x1x")
    (found,) = checked(tmp_path / "x.db.txt", f"{flat}=A:1").findings
    assert ": stride_d is 0" in found.message


@pytest.mark.parametrize("layout", ["NHWC", "NCHWc"])
def test_only_nchw_was_written_for_three_axes(tmp_path: Path, layout: str) -> None:
    report = checked(tmp_path / "x.db.txt", f"{DEEP.replace('NCHW', layout)}=A:1")
    assert dict(report.counts) == {"bad_layout": 1}


@pytest.mark.parametrize(
    ("name", "shortest_ms"),
    [
        ("znver4_1.HIP.fdb.txt", 1e-7),
        ("sm_90_132.HIP.fdb.txt", 1e-4),
        ("gfx90878.HIP.fdb.txt", 1e-4),
        ("anything.fdb.txt", 1e-4),
    ],
)
def test_a_call_on_a_cpu_may_take_nanoseconds(
    tmp_path: Path, name: str, shortest_ms: float
) -> None:
    key = "1-1-1-1x1-1-1-1-1-0x0-1x1-1x1-0-NCHW-FP32-F"
    item = f"A:{{}},0,{DIRECT}"
    good = checked(tmp_path / name, f"{key}={item.format(2 * shortest_ms)}")
    assert not good.counts
    bad = checked(tmp_path / name, f"{key}={item.format(shortest_ms / 2)}")
    assert dict(bad.counts) == {"impossible_time": 1}


@pytest.mark.parametrize(("device", "errors"), [("znver4/1", 0), ("gfx908/120", 1), ("", 1)])
def test_json_lines_say_their_device(tmp_path: Path, device: str, errors: int) -> None:
    key = "1-1-1-1x1-1-1-1-1-0x0-1x1-1x1-0-NCHW-FP32-F"
    entry = {"solver": "A", "time_ns": 6.0, "workspace_bytes": 0, "algorithm": DIRECT}
    record = record_of("find", ("p", key, device), [entry])
    report = checked(tmp_path / "x.find.jsonl", json.dumps(record))
    assert report.counts["impossible_time"] == errors


def test_empty_files_are_a_warning(tmp_path: Path, find_db: Path) -> None:
    assert dict(checked(find_db).counts) == {"empty": 1}
    assert dict(checked(tmp_path / "x.db.txt", "").counts) == {"empty": 1, "odd_lines": 1}
    write_perf_sqlite(tmp_path / "x.db", [])
    write_kernel_db(tmp_path / "x.kdb", [])
    for name in ("x.db", "x.kdb"):
        (report,) = check_paths([tmp_path / name])
        assert (dict(report.counts), report.total("warning")) == ({"empty": 1}, 1)


def test_lines_about_problems_without_a_key_are_not_nothing(tmp_path: Path) -> None:
    record = record_of("find", ("gemm:p", None, "znver4/1"), [])
    assert not checked(tmp_path / "znver4_1.find.jsonl", json.dumps(record)).counts


def test_another_kind_than_the_name_says_is_an_error(tmp_path: Path, find_db: Path) -> None:
    write_perf_sqlite(find_db, [DatabaseRecord(PERF, [RecordItem("A", "1")])])
    convert(find_db, tmp_path / "x.find.jsonl")
    for path in (find_db, tmp_path / "x.find.jsonl"):
        (report,) = check_paths([path])
        assert dict(report.counts) == {"wrong_name": 1}
    for name, line in (
        ("w.HIP.fdb.txt", f"{PERF}=A:1"),
        ("w.db.txt", GOOD),
        ("w.db.txt", f"{KEY}=A:1,2"),
        ("w.cd.pdb.txt", f"{PERF}=A:1"),
    ):
        assert dict(checked(tmp_path / name, line).counts) == {"wrong_name": 1}


def test_a_device_that_nothing_is_chosen_by_is_refused_here_too(find_db: Path) -> None:
    find_db.write_text(f"{GOOD}\n")
    with pytest.raises(UsageError, match="--device selects a device of an old perf-db"):
        check_paths([find_db], device="gfx900/56")


def test_files_of_one_device_are_compared(tmp_path: Path) -> None:
    find, perf = tmp_path / "gfx90878.HIP.fdb.txt", tmp_path / "gfx90878.db.txt"
    other = PERF.replace("x64x", "x32x")
    find.write_text(f"{KEY}=A:1,0,{DIRECT};B:1,0,{DIRECT};C:1,0,{DIRECT}\n")
    perf.write_text(f"{other}=B:1\n{PERF}=A:1\n")
    (tmp_path / "gfx906_60.db.txt").write_text(f"{PERF}=C:1\n")
    (tmp_path / "notes.txt").write_text("nothing of ours")
    reports = {Path(report.file).name: report for report in check_paths([tmp_path])}
    assert sorted(reports) == ["gfx906_60.db.txt", "gfx90878.HIP.fdb.txt", "gfx90878.db.txt"]
    assert dict(reports["gfx90878.HIP.fdb.txt"].counts) == {"no_params": 1}
    assert "no parameters of B" in reports["gfx90878.HIP.fdb.txt"].findings[0].message
    assert dict(reports["gfx90878.db.txt"].counts) == {"no_find_record": 1}
    assert not reports["gfx906_60.db.txt"].counts


def test_damaged_kernels_are_told_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "gfx908.kdb"
    write_kernel_db(path, [KernelRow(name, "", name.encode()) for name in "abc"])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE kern_db SET kernel_hash = 'x' WHERE id > 1")
        connection.commit()
    (report,) = check_paths([path])
    assert (report.records, dict(report.counts)) == (3, {"damaged_kernel": 2})


def test_a_file_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "gfx908.kdb").write_text("version https://git-lfs.github.com/spec/v1\n")
    (tmp_path / "gfx90878.db").touch()
    (tmp_path / "gfx90878.HIP.fdb.txt").write_text(f"{GOOD}\n")
    reports = check_paths([tmp_path])
    assert [report.counts["unreadable"] for report in reports] == [1, 0, 1]


def test_nothing_to_check_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contains no file with the name of a database"):
        check_paths([tmp_path])
    with pytest.raises(StorageError, match="does not exist"):
        check_paths([tmp_path / "x.db"])


def test_what_we_write_is_clean(find_db: Path) -> None:
    item = find_item(FindResultLine("A", 0.0371, 0, DIRECT))
    assert not checked(find_db, DatabaseRecord(KEY, [item]).line).counts


@pytest.mark.skipif(not FOLDER, reason="no databases are here; name a folder in FIND_DBS")
def test_real_files_have_no_impossible_times() -> None:
    for report in check_paths([Path(FOLDER)]):
        assert "impossible_time" not in report.counts, report.findings


def test_folders_in_a_directory_are_looked_at(tmp_path: Path) -> None:
    release = tmp_path / "rel-6.2"
    hidden = tmp_path / ".skipjack"
    for folder in (release, hidden):
        folder.mkdir()
        (folder / "gfx90878.HIP.fdb.txt").write_text(f"{GOOD}\n")
    (tmp_path / "znver4_1.find.jsonl").write_text("{\n")
    reports = check_paths([tmp_path])
    assert [Path(report.file).parent.name for report in reports] == [tmp_path.name, "rel-6.2"]
    assert [report.total("error") for report in reports] == [1, 0]
