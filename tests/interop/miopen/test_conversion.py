"""Any sensible pair of formats; what gets lost is said."""

import bz2
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from skipjack.errors import CorruptFileError, NewerFormatError, SkipjackError, UsageError
from skipjack.fleet.release.results import found_in_file
from skipjack.interop.miopen import (
    ConvertOptions,
    DatabaseRecord,
    KernelRow,
    RecordItem,
    check_paths,
    convert,
    packed_kernels,
    perf_contents,
    read_kernel_db,
    read_perf_sqlite,
    read_text_db,
    write_kernel_db,
    write_perf_sqlite,
    write_text_db,
)
from skipjack.interop.miopen.conversion import Conversion

_BESIDE = Path(__file__).parents[4] / "shared" / "data" / "miopen"
FOLDER = os.environ.get("FIND_DBS", str(_BESIDE) if _BESIDE.is_dir() else "")

KEY = "128-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F"
PERF = "2x128x28x28x1x3x3x1x256x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"
FWD = "miopenConvolutionFwdAlgo"
CURRENT = (
    f"{KEY}=ConvA:0.0500,0,{FWD}Direct;ConvB:0.04,16,{FWD}Direct;Gemm:nan,-1,{FWD}GEMM;"
    f"Wino<3, 6>:1e-05,0,{FWD}Winograd\n"
)
LEGACY = f"{KEY}={FWD}GEMM:Gemm,1.50,16,MIOpenGEMM,0_1_2,3;{FWD}FFT:fft,2,0,{FWD}FFT,not used\n"


def converted(source: Path, name: str, **options: object) -> tuple[Path, Conversion]:
    target = source.with_name(name)
    return target, convert(source, target, ConvertOptions(**options))  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gfx90878.HIP.fdb.txt").write_text(CURRENT)
    (tmp_path / "legacy.fdb.txt").write_text(LEGACY)
    (tmp_path / "gfx1030_36.db.txt").write_text(f"{PERF}=A:1,2;B:x <1, 2>[3]+4\n")
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        CURRENT,
        LEGACY,
        CURRENT.rstrip("\n"),
        CURRENT.replace("\n", "\r\n"),
        f"\ufeff{CURRENT}",
        f"{KEY}=A:1,0,x;;B:2,0,y;\n",
        f"{KEY}=A:what,is this\n",
        f'{KEY}=A:1e305,0,x;B:+1,007,"y"\n',
        f"{KEY}=A:1,{'9' * 5000},x\n",
        f"{KEY}=A:1,0,\udcff\n",
        f"{KEY}=A:1,0,x\nno-key=A:1,0,x\n",
        "",
    ],
)
def test_text_through_json_lines_is_the_same_text(tmp_path: Path, text: str) -> None:
    source = tmp_path / "x.fdb.txt"
    source.write_bytes(text.encode("utf-8", "surrogateescape"))
    lines, _ = converted(source, "x.jsonl")
    if text:
        again, done = converted(lines, "again.fdb.txt")
        assert done.losses == ()
        assert again.read_bytes() == source.read_bytes()


def test_json_lines_are_those_that_exports_write(folder: Path) -> None:
    lines, _ = converted(folder / "gfx90878.HIP.fdb.txt", "x.jsonl")
    (found,) = found_in_file(lines)
    assert found.problem == "conv2d:n64c128h28w28k256y3x3p1q1:f32:NCHW:fwd"
    assert (found.find_key, found.device) == (KEY, "gfx908/120")
    assert [entry.solver for entry in found.ranking] == ["Wino<3, 6>", "ConvB", "ConvA"]


def test_a_ranking_alone_gives_a_record(folder: Path) -> None:
    lines, _ = converted(folder / "gfx90878.HIP.fdb.txt", "x.jsonl")
    record = json.loads(lines.read_text())
    other = {**record, "find_key": None, "miopen": []}
    lines.write_text(f"{json.dumps({**record, 'miopen': []})}\n{json.dumps(other)}\n")
    again, done = converted(lines, "again.fdb.txt")
    assert done.losses == ("1 problem without a key in MIOpen",)
    (item, *_) = read_text_db(again)[0].items
    assert item == RecordItem("Wino<3, 6>", f"1e-05,0,{FWD}Winograd")


@pytest.mark.parametrize(
    ("verbatim", "expected"),
    [
        (f"{KEY}=B:2,0,{FWD}Direct", f"{KEY}=B:2,0,{FWD}Direct;A:1,0,{FWD}GEMM\n"),
        (f"{KEY}={FWD}GEMM:A,2,0,{FWD}GEMM", f"{KEY}={FWD}GEMM:A,2,0,{FWD}GEMM\n"),
        (f"{KEY}_g2=B:2,0,x", f"{KEY}=A:1,0,{FWD}GEMM\n{KEY}_g2=B:2,0,x\n"),
    ],
)
def test_our_results_stand_beside_those_that_miopen_wrote(
    tmp_path: Path, verbatim: str, expected: str
) -> None:
    ours = {"solver": "A", "time_ns": 1e6, "workspace_bytes": 0, "algorithm": f"{FWD}GEMM"}
    line = {"format": 1, "kind": "find", "problem": "p", "find_key": KEY, "device": "d"}
    more = {"ranking": [ours], "toolchain": "", "updated": "", "miopen": [verbatim]}
    (tmp_path / "x.jsonl").write_text(json.dumps(line | more))
    text, done = converted(tmp_path / "x.jsonl", "x.fdb.txt")
    assert (text.read_text(), done.losses) == (expected, ())


def test_what_only_our_lines_hold_is_said(folder: Path) -> None:
    lines, _ = converted(folder / "gfx1030_36.db.txt", "x.jsonl")
    line = json.loads(lines.read_text())
    line["configs"][0]["config"] = {"tile": 8}
    lines.write_text(json.dumps(line))
    _, done = converted(lines, "again.db.txt")
    assert done.losses == ("the configs, spreads or toolchains of 1 problem",)


def test_a_line_of_json_with_fields_of_other_types_is_named(folder: Path) -> None:
    lines, _ = converted(folder / "gfx1030_36.db.txt", "x.jsonl")
    lines.write_text(json.dumps(json.loads(lines.read_text()) | {"miopen": [5]}))
    with pytest.raises(CorruptFileError, match=r"x.jsonl:1 is not a record of a database"):
        converted(lines, "again.db.txt")


def test_perf_text_through_sqlite_and_json_lines_is_the_same_text(folder: Path) -> None:
    source = folder / "gfx1030_36.db.txt"
    database, done = converted(source, "x.db")
    assert done.losses == ()
    lines, _ = converted(database, "x.jsonl")
    again, _ = converted(lines, "again.db.txt")
    assert again.read_bytes() == source.read_bytes()


def test_keys_of_batch_norm_are_opaque(tmp_path: Path) -> None:
    source = tmp_path / "batchnorm_gfx90a68.db.txt"
    source.write_text("2x64x256x14x14x1x1x0x0xNCHWxTrnxFP32x1=Bn:4\n")
    lines, _ = converted(source, "x.jsonl")
    again, _ = converted(lines, "again.db.txt")
    assert again.read_bytes() == source.read_bytes()
    with pytest.raises(UsageError, match="SQLite has no columns for it"):
        converted(source, "x.db")


@pytest.mark.skipif(not FOLDER, reason="no databases are here; name a folder in FIND_DBS")
def test_a_real_perf_db_gives_its_text_and_says_what_has_no_place_there(tmp_path: Path) -> None:
    done = convert(Path(FOLDER) / "gfx1030_36.db.bz2", tmp_path / "x.db.txt")
    assert done.losses == ("26 problems without parameters",)
    text = (Path(FOLDER) / "gfx1030_36.db.txt").read_bytes()
    assert (tmp_path / "x.db.txt").read_bytes() == text
    convert(tmp_path / "x.db.txt", tmp_path / "x.db")
    convert(tmp_path / "x.db", tmp_path / "again.db.txt")
    assert (tmp_path / "again.db.txt").read_bytes() == text


@pytest.mark.parametrize("name", ["gfx803_36.cd.pdb.txt", "old.txt"])
def test_old_perf_dbs_have_keys_of_find_dbs(tmp_path: Path, name: str) -> None:
    source = tmp_path / name
    source.write_text(f"{KEY}=ConvAsm1x1U:3,16,3,64,4,1;ConvB<4>:1\n")
    same, done = converted(source, "same.cd.pdb.txt")
    assert (done.source.kind, same.read_bytes()) == ("perf", source.read_bytes())
    (report,) = check_paths([source])
    assert not report.counts
    for target in ("x.db", "x.udb.txt", "gfx803_36.db.txt"):
        database, done = converted(source, target)
        assert done.losses == ("the size of the second image of 1 old key",)
        read = read_perf_sqlite if target == "x.db" else read_text_db
        assert read(database)[0].key == PERF


def test_old_keys_that_become_one_are_one_record(tmp_path: Path) -> None:
    source = tmp_path / "x.cd.pdb.txt"
    other = KEY.replace("256-28-28", "256-27-28")
    source.write_text(f"{other}=A:1;B:1\n{KEY}=A:2;C:2\n")
    text, done = converted(source, "x.db.txt")
    assert text.read_text() == f"{PERF}=A:1;B:1;C:2\n"
    assert done.losses == (
        "the size of the second image of 2 old keys",
        "1 item whose solver occurs before with the same key",
    )
    database, _ = converted(source, "x.db")
    assert read_perf_sqlite(database) == read_text_db(text)


def test_keys_of_today_say_too_little_for_old_perf_dbs(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"size of the second image, which '2x128.*txt:1\) lacks"):
        converted(folder / "gfx1030_36.db.txt", "x.cd.pdb.txt")


def test_sqlite_keeps_no_order_of_items_and_no_second_record(tmp_path: Path) -> None:
    source = tmp_path / "x.db.txt"
    source.write_text(f"{PERF}=B:1;A:2;A:3\n{PERF}=C:1\n")
    database, done = converted(source, "x.db")
    assert done.losses == (
        "1 record whose key occurs before",
        "1 item whose solver occurs before in the record",
        "the order of items in 1 record (they are sorted by solver)",
    )
    text, _ = converted(database, "again.db.txt")
    assert text.read_text() == f"{PERF}=A:2;B:1\n"


def test_files_in_another_order_are_sorted_unless_they_are_to_stay(tmp_path: Path) -> None:
    source = tmp_path / "x.db.txt"
    source.write_text("\nb=A:1\na=A:1\n")
    sorted_, done = converted(source, "sorted.db.txt")
    assert done.losses == ("1 blank line",)
    assert sorted_.read_text() == "a=A:1\nb=A:1\n"
    kept, _ = converted(source, "kept.db.txt", keep_order=True)
    assert kept.read_text() == "b=A:1\na=A:1\n"


def test_legacy_values_become_current_ones_and_say_what_they_lose(folder: Path) -> None:
    new, done = converted(folder / "legacy.fdb.txt", "new.fdb.txt", values="current")
    assert new.read_text() == f"{KEY}=Gemm:1.50,16,{FWD}GEMM;fft:2,0,{FWD}FFT\n"
    assert done.losses == ("the library or the key of the kernels of 1 result",)


def test_legacy_values_hold_one_result_of_an_algorithm(folder: Path) -> None:
    old, done = converted(folder / "gfx90878.HIP.fdb.txt", "old.fdb.txt", values="legacy")
    assert done.losses == ("1 slower or impossible result of the same algorithm in a record",)
    items = read_text_db(old)[0].items
    assert items[0] == RecordItem(f"{FWD}Direct", f"ConvB,0.04,16,{FWD}Direct,not used")
    assert items[1] == RecordItem(f"{FWD}GEMM", f"Gemm,nan,-1,{FWD}GEMM,not used")


@pytest.mark.parametrize("wrong", ["0", "-1", "nan", "inf", "1e-06"])
def test_times_that_cannot_be_lose(tmp_path: Path, wrong: str) -> None:
    source = tmp_path / "x.fdb.txt"
    for items in ("A:{0},0,{1}Direct;B:1,0,{1}Direct", "B:1,0,{1}Direct;A:{0},0,{1}Direct"):
        source.write_text(f"{KEY}={items.format(wrong, FWD)}\n")
        old, _ = converted(source, "old.fdb.txt", values="legacy")
        assert old.read_text() == f"{KEY}={FWD}Direct:B,1,0,{FWD}Direct,not used\n"


def test_values_that_are_no_result_are_named_by_their_line(folder: Path) -> None:
    source = folder / "odd.fdb.txt"
    source.write_text(f"{CURRENT}{KEY}_g2=A:1\n")
    with pytest.raises(CorruptFileError, match=r"odd.fdb.txt:2: 'A:1' is not a find result"):
        converted(source, "new.fdb.txt", values="legacy")
    with pytest.raises(UsageError, match="--values applies to find-dbs"):
        converted(folder / "gfx1030_36.db.txt", "new.db.txt", values="legacy")


def test_other_databases_add_what_is_missing(folder: Path) -> None:
    other = folder / "other.fdb.txt"
    other.write_text(f"{KEY}=ConvA:9,9,{FWD}Direct;New:1,0,{FWD}Direct\n{KEY}_g2=A:1,0,x\n")
    both, _ = converted(folder / "gfx90878.HIP.fdb.txt", "both.fdb.txt", merge=(other,))
    old, new = read_text_db(both)
    assert old.contents == f"{CURRENT.strip().partition('=')[2]};New:1,0,{FWD}Direct"
    assert new.key == f"{KEY}_g2"
    with pytest.raises(UsageError, match="values in two formats"):
        converted(folder / "legacy.fdb.txt", "x.fdb.txt", merge=(other,))
    converted(folder / "legacy.fdb.txt", "x.fdb.txt", merge=(other,), values="current")


def test_a_database_of_another_kind_is_not_merged(folder: Path) -> None:
    write_kernel_db(folder / "x.kdb", [KernelRow("a.o", "", b"x")])
    for name, kind in (("gfx1030_36.db.txt", "perf-db in text"), ("x.kdb", "kernel-db in SQLite")):
        with pytest.raises(UsageError, match=f"cannot merge .*, a {kind}, into .*, a find-db"):
            converted(folder / "legacy.fdb.txt", "x.fdb.txt", merge=(folder / name,))


def test_a_device_that_nothing_is_chosen_by_is_refused(folder: Path) -> None:
    database, _ = converted(folder / "gfx1030_36.db.txt", "x.db")
    write_kernel_db(folder / "x.kdb", [KernelRow("a.o", "", b"x")])
    for source, name in (
        (folder / "gfx90878.HIP.fdb.txt", "y.fdb.txt"),
        (database, "y.db"),
        (folder / "x.kdb", "y.kdb"),
    ):
        with pytest.raises(UsageError, match="--device"):
            converted(source, name, device="gfx900/56")


def test_problems_without_parameters_stay_in_sqlite(tmp_path: Path) -> None:
    source = tmp_path / "x.db"
    bare = PERF.replace("x64x", "x32x")
    write_perf_sqlite(source, [DatabaseRecord(PERF, [RecordItem("A", "1")])], [bare])
    copy, done = converted(source, "copy.db")
    assert (perf_contents(copy).bare, done.losses) == ((bare,), ())
    _, done = converted(source, "x.db.txt")
    assert done.losses == ("1 problem without parameters",)
    other = tmp_path / "other.db.txt"
    other.write_text(f"{bare}=B:2\n")
    both, _ = converted(source, "both.db", merge=(other,))
    assert (perf_contents(both).bare, len(read_perf_sqlite(both))) == ((), 2)


@pytest.mark.parametrize("missing", range(1, 60, 7))
def test_half_a_find_db_is_refused(tmp_path: Path, missing: int) -> None:
    for text in (CURRENT, LEGACY):
        source = tmp_path / "half.fdb.txt"
        source.write_text(f"{text}{text.rstrip()[:-missing]}")
        with pytest.raises(CorruptFileError, match=r"half.fdb.txt:2: .*truncated"):
            converted(source, "x.fdb.txt")
        assert not (tmp_path / "x.fdb.txt").exists()


def test_kernels_are_copied_as_they_are_packed(tmp_path: Path) -> None:
    source = tmp_path / "x.kdb"
    write_kernel_db(source, [KernelRow("a.o", "-O3", bytes(999)), KernelRow("b.o", "", b"x")])
    packed = source.with_name("x.kdb.bz2")
    packed.write_bytes(bz2.compress(source.read_bytes()))
    copy, done = converted(packed, "copy.ukdb")
    assert list(packed_kernels(copy)) == list(packed_kernels(source))
    assert (done.records, done.losses) == (2, ())
    listing, done = converted(copy, "x.jsonl")
    assert done.losses == ("the code of 2 kernels: a listing has only names and sizes",)
    first = json.loads(listing.read_text().splitlines()[0])
    assert (first["name"], first["args"], first["bytes"]) == ("a.o", "-O3", 999)
    with pytest.raises(UsageError, match="listing of kernels without their code"):
        converted(listing, "again.kdb")
    assert [row.name for row in read_kernel_db(copy)] == ["a.o", "b.o"]


def test_a_kernel_that_stands_twice_is_written_once(tmp_path: Path) -> None:
    source = tmp_path / "x.kdb"
    write_kernel_db(source, [KernelRow("a.o", "", b"x")])
    with closing(sqlite3.connect(source)) as connection:
        connection.execute("DROP INDEX idx_kern_db")
        connection.execute(
            "INSERT INTO kern_db SELECT 9, kernel_name, kernel_args, kernel_blob, "
            "upper(kernel_hash), uncompressed_size FROM kern_db"
        )
        connection.commit()
    copy, done = converted(source, "copy.kdb")
    assert len(list(packed_kernels(copy))) == done.records == 1
    assert done.losses == ("1 kernel whose name and arguments occur before",)
    (report,) = check_paths([source])
    assert dict(report.counts) == {"duplicate_kernel": 1, "odd_md5": 1}


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("x.db.txt", "a find-db cannot be converted to a perf-db"),
        ("x.db", "a find-db cannot be converted to a perf-db"),
        ("x.kdb", "a find-db cannot be converted to a kernel-db"),
        ("x.skk", "skipjack export kernel-db writes them"),
        ("x.fdb.txt.bz2", "packed files can be read but not written"),
        ("x.csv", "cannot tell the format of .*x.csv"),
    ],
)
def test_other_pairs_are_refused_in_a_sentence(folder: Path, target: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        converted(folder / "gfx90878.HIP.fdb.txt", target)


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("x.db", b"", "is empty, so it is not a perf-db"),
        ("x.kdb", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        ("x.txt", b"hello\n", "cannot detect the format of"),
        ("x.db.bz2", b"BZh9 broken", "cannot be unpacked"),
        ("x.jsonl", b'{"format": 1, "kind": "tune"}\n', "the kind of its first line is 'tune'"),
        ("x.jsonl", b'{"format": 1, "kind": "find"', "not a line of JSON"),
        ("x.jsonl", b'{"format": 1, "kind": "find"}\n', ":1 is not a record of a database"),
    ],
)
def test_files_that_are_no_database_are_refused_in_a_sentence(
    tmp_path: Path, name: str, data: bytes, complaint: str
) -> None:
    source = tmp_path / name
    source.write_bytes(data)
    with pytest.raises(SkipjackError, match=complaint):
        converted(source, "out.jsonl" if name != "x.jsonl" else "out.fdb.txt")
    assert list(tmp_path.iterdir()) == [source]


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    source = tmp_path / "x.jsonl"
    source.write_text('{"format": 2, "kind": "find"}\n')
    with pytest.raises(NewerFormatError, match=r"format 2; .* reads formats up to 1"):
        converted(source, "out.fdb.txt")


def test_a_file_may_be_written_in_its_own_place(tmp_path: Path) -> None:
    path = tmp_path / "x.db.txt"
    write_text_db(
        path,
        [DatabaseRecord("b", [RecordItem("A", "1")]), DatabaseRecord("a", [RecordItem("A", "1")])],
        sort=False,
    )
    convert(path, path)
    assert path.read_text() == "a=A:1\nb=A:1\n"
