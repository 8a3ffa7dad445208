"""``convert-db`` and ``check-db`` as commands."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from skipjack.cli import databases
from skipjack.errors import UsageError

KEY = "128-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F"
FWD = "miopenConvolutionFwdAlgo"

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
app.command("convert-db", epilog=databases.CONVERT_EXAMPLES)(databases.convert_db)
app.command("check-db", epilog=databases.CHECK_EXAMPLES)(databases.check_db)


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


@pytest.fixture
def find_db(tmp_path: Path) -> Path:
    path = tmp_path / "gfx90878.HIP.fdb.txt"
    path.write_text(f"{KEY}={FWD}GEMM:Gemm,1.5,0,MIOpenGEMM,0_1\n")
    return path


def test_a_conversion_says_what_it_did_and_what_it_lost(find_db: Path, tmp_path: Path) -> None:
    target = tmp_path / "new.fdb.txt"
    code, output = run("convert-db", find_db, "-o", target, "--values", "current")
    assert code == 0
    assert f"not in {target}: the library or the key of the kernels of 1 result" in output
    assert f"1 record from {find_db} (find-db in text) in {target} (find-db in text)" in output
    code, output = run("convert-db", target, "-o", tmp_path / "x.jsonl", "--json")
    assert json.loads(output) == {
        "format": 1,
        "file": str(tmp_path / "x.jsonl"),
        "read": "find-db in text",
        "written": "find-db in JSON lines",
        "records": 1,
        "lost": [],
    }


def test_wrong_requests_are_refused(find_db: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--values is 'new'; write current or legacy"):
        run("convert-db", find_db, "-o", tmp_path / "x.fdb.txt", "--values", "new")
    with pytest.raises(UsageError, match="there is no directory"):
        run("convert-db", find_db, "-o", tmp_path / "none" / "x.fdb.txt")


def test_a_check_fails_for_errors_only(find_db: Path, tmp_path: Path) -> None:
    assert run("check-db", find_db) == (0, f"{find_db} (find-db in text, 1 record): clean\n")
    find_db.write_text(find_db.read_text().rstrip())
    code, output = run("check-db", find_db)
    assert (code, "0 errors, 1 warning\n" in output) == (0, True)
    find_db.write_text(f"{KEY}=A:0,0,{FWD}GEMM;B:0,0,{FWD}GEMM\n")
    code, output = run("check-db", tmp_path, "--limit", "1")
    assert code == 1
    assert f"{find_db}:1: error: bad_time: A took 0 ms" in output
    assert "... and 1 more of bad_time" in output
    code, output = run("check-db", find_db, "--json")
    report = json.loads(output)
    assert (code, report["format"], report["errors"]) == (1, 1, 2)
    assert report["counts"] == {"bad_time": 2}


def test_a_check_says_which_files_it_did_not_look_at(find_db: Path, tmp_path: Path) -> None:
    (tmp_path / "kernels.skk").touch()
    (tmp_path / "notes.txt").touch()
    code, output = run("check-db", tmp_path)
    names = f"{tmp_path / 'kernels.skk'}, {tmp_path / 'notes.txt'}"
    assert (code, f"skipped, as their names are not those of databases: {names}" in output) == (
        0,
        True,
    )
    assert "skipped" not in run("check-db", find_db)[1]
