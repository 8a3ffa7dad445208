"""``export --user``: user databases of MIOpen, as MIOpen names, reads and merges them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_up import CONV, CONV_KEY, MATMUL, add_job, row
from typer.testing import CliRunner

from skipjack.cli.main import app
from skipjack.errors import CorruptFileError, UsageError
from skipjack.fleet.model import JobKind, JobPlan
from skipjack.fleet.release.export import build_name
from skipjack.fleet.store import Store
from skipjack.interop.miopen import check_paths, parse_db_name, read_perf_sqlite, read_text_db

GPU = "gfx908/120"
BUILD = "3_3_0_a85ca8a54-dirty"
DIRECT = "miopenConvolutionFwdAlgoDirect"
FIND = f"{CONV_KEY}=ConvAsm1x1U:0.5,0,{DIRECT};GemmFwdRest:0.75,64,miopenConvolutionFwdAlgoGEMM"
PERF_KEY = "2x16x14x14x1x3x3x1x16x4x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"
PERF = f"{PERF_KEY}=ConvAsm1x1U:1,8,2,64"
NAMES = (f"gfx90878.HIP.{BUILD}.ufdb.txt", f"gfx90878.HIP.{BUILD}.udb.txt")

Export = Callable[..., str]


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Export:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, ["export", *words])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def searched(
    store: Store, find: str = FIND, perf: str = PERF, problem: str = CONV, **said: Any
) -> None:
    """A job of MIOpen, as its worker leaves it."""
    rows = [row("ConvAsm1x1U", 5e5, config={"params": "1,8,2,64"}, algorithm=DIRECT)]
    known = {"version": BUILD, "find_db": [find], "perf_db": [perf], "kernels": []}
    add_job(
        store,
        JobPlan(problem, GPU, "miopen", driver="miopen"),
        {"solvers": rows, "miopen": {**known, **said}},
    )


def both(export: Export, *words: str) -> str:
    where = ("-l", "L", "-o", "db", "--user", *words)
    return export("find-db", *where) + export("perf-db", *where)


def test_files_have_the_names_and_the_lines_that_miopen_reads(export: Export, shelf: Store) -> None:
    searched(shelf)
    said = both(export)
    assert f"{NAMES[0]}: 1 problem, 2 entries" in said and "1 record new, 0 changed" in said
    assert sorted(path.name for path in Path("db").iterdir()) == sorted(NAMES)
    assert Path("db", NAMES[0]).read_bytes() == f"{FIND}\n".encode()
    assert Path("db", NAMES[1]).read_bytes() == f"{PERF}\n".encode()
    for name in NAMES:
        found = parse_db_name(name)
        assert found and (found.arch, found.units, found.user_version) == ("gfx908", 120, BUILD)
    assert not sum(report.total("error") for report in check_paths([Path("db")]))


def test_records_that_are_there_stay_and_those_of_the_same_key_are_joined(
    export: Export, shelf: Store
) -> None:
    searched(shelf)
    Path("db").mkdir()
    other = FIND.replace("16-14-14", "32-14-14", 1)
    before = f"{other}\n{CONV_KEY}=ConvDirectNaiveConvFwd:9,0,{DIRECT};ConvAsm1x1U:7,0,{DIRECT}\n"
    Path("db", NAMES[0]).write_text(before)
    Path("db", NAMES[1]).write_text(f"{PERF_KEY}=ConvAsm1x1U:0,0;ConvOclDirectFwd:1,1\n")
    assert "0 records new, 1 changed, 0 unchanged, 1 others kept" in both(export)
    find = {record.key: record for record in read_text_db(Path("db", NAMES[0]))}
    assert len(find) == 2 and any(record.line == other for record in find.values())
    assert find[CONV_KEY].ids == ["ConvAsm1x1U", "GemmFwdRest", "ConvDirectNaiveConvFwd"]
    (perf,) = read_text_db(Path("db", NAMES[1]))
    assert perf.line == f"{PERF};ConvOclDirectFwd:1,1"
    bytes_now = [Path("db", name).read_bytes() for name in NAMES]
    assert "0 records new, 0 changed, 1 unchanged, 1 others kept" in both(export)
    assert [Path("db", name).read_bytes() for name in NAMES] == bytes_now


def test_each_build_has_files_of_its_own_unless_one_is_asked_for(
    export: Export, shelf: Store
) -> None:
    newer = "3_4_0_1234567"
    searched(shelf)
    key = CONV_KEY.replace("16-14-14", "32-14-14", 1)
    problem = CONV.replace("c16", "c32")
    searched(shelf, f"{key}=ConvAsm1x1U:1,0,{DIRECT}", problem=problem, version=newer)
    export("find-db", "-l", "L", "-o", "db", "--user")
    names = {path.name for path in Path("db").iterdir()}
    assert names == {NAMES[0], NAMES[0].replace(BUILD, newer)}
    export("find-db", "-l", "L", "-o", "one", "--user", "--build", "3.4.0.1234567")
    (path,) = Path("one").iterdir()
    assert path.name == NAMES[0].replace(BUILD, newer)
    assert {record.key for record in read_text_db(path)} == {CONV_KEY, key}


def test_features_of_the_device_are_in_the_name(export: Export, shelf: Store) -> None:
    searched(shelf, features="nosramecc")
    export("find-db", "-l", "L", "-o", "db", "--user")
    assert [path.name for path in Path("db").iterdir()] == [
        f"gfx908_nosramecc78.HIP.{BUILD}.ufdb.txt"
    ]


def test_a_perf_db_in_sqlite_is_named_after_its_schema(export: Export, shelf: Store) -> None:
    searched(shelf)
    export("perf-db", "-l", "L", "-o", "db", "--user", "--sqlite")
    (record,) = read_perf_sqlite(Path("db/gfx90878_1.1.0.udb"))
    assert record.line == PERF


def test_solvers_that_miopen_does_not_have_are_not_written(export: Export, shelf: Store) -> None:
    add_job(shelf, JobPlan(CONV, GPU, kind=JobKind.FIND), {"solvers": [row("direct", 2000.0)]})
    add_job(shelf, JobPlan(MATMUL, GPU, kind=JobKind.FIND), {"solvers": [row("nest", 2000.0)]})
    with pytest.raises(UsageError, match=r"no results of MIOpen's own solvers.*--solver miopen"):
        export("find-db", "-l", "L", "-o", "db", "--user")
    searched(shelf)
    export("find-db", "-l", "L", "-o", "db", "--user")
    (record,) = read_text_db(Path("db", NAMES[0]))
    assert record.line == FIND


def test_programs_that_run_learn_of_it_if_miopen_has_told_them_before(
    export: Export, shelf: Store
) -> None:
    searched(shelf)
    export("find-db", "-l", "L", "-o", "db", "--user")
    beside = Path("db", f"{NAMES[0]}.time")
    assert not beside.exists()
    beside.write_text("1")
    export("find-db", "-l", "L", "-o", "db", "--user")
    assert int(beside.read_text()) > 1


def test_a_damaged_file_is_left_as_it_is(export: Export, shelf: Store) -> None:
    searched(shelf)
    Path("db").mkdir()
    Path("db", NAMES[0]).write_text("no record\n")
    with pytest.raises(CorruptFileError, match=r"ufdb\.txt:1"):
        export("find-db", "-l", "L", "-o", "db", "--user")
    assert [path.read_text() for path in Path("db").iterdir()] == ["no record\n"]


def test_what_is_missing_is_said(export: Export, shelf: Store) -> None:
    searched(shelf, version="")
    with pytest.raises(UsageError, match=r"--build, such as 3_3_0_a85ca8a54: .*version\.h"):
        export("find-db", "-l", "L", "-o", "db", "--user")
    with pytest.raises(UsageError, match="--user needs -l LABEL"):
        export("perf-db", "-o", "db", "--user")
    with pytest.raises(UsageError, match="--build is an option of --user"):
        export("perf-db", "-l", "L", "-o", "db", "--build", BUILD)
    with pytest.raises(UsageError, match="leave out --alias"):
        export("perf-db", "-l", "L", "-o", "db", "--user", "--release", "6.2")
    assert not Path("db").exists()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("3.3.0.a85ca8a54-dirty", BUILD),
        (BUILD, BUILD),
        ("2_1_0", "2_1_0"),
        ("2_6_0_8145-rocm-rel-3.7-20-c16087a4", "2_6_0_8145-rocm-rel-3.7-20-c16087a4"),
    ],
)
def test_a_build_is_written_as_in_names_of_files(text: str, name: str) -> None:
    assert build_name(text) == name


@pytest.mark.parametrize("text", ["", "3_3", "../3_3_0_x", "3_3_0_a/b", "newest"])
def test_a_build_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a build of MIOpen"):
        build_name(text)
