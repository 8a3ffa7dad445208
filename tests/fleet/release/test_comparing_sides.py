"""What may stand on a side of a comparison, and what the command says about it."""

from __future__ import annotations

import bz2
import csv
import json
from pathlib import Path
from typing import Any

import pytest
from made_up import CONV, CONV_KEY, CPU, MATMUL, add_job, row

from skipjack.bank import Bank, BankEntry
from skipjack.cli.main import app
from skipjack.errors import CorruptFileError, SkipjackError, UsageError
from skipjack.fleet.model import JobKind, JobPlan, JobState
from skipjack.fleet.release.compare import Side, SideReader, side_of_path
from skipjack.fleet.release.compare.sides import side_of_label
from skipjack.fleet.store import Store
from skipjack.interop.miopen import line_of, record_of
from skipjack.settings import load_settings

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "miopen"
FILE = "znver4_1.HIP.fdb.txt"
ALGORITHM = "miopenConvolutionFwdAlgoDirect"
OTHER_KEY = CONV_KEY.replace("-4-1x1", "-8-1x1")


def add_find(store: Store, problem: str = CONV, label: str = "L", **times: float) -> None:
    ranking = [row(solver, ns) for solver, ns in times.items()]
    add_job(store, JobPlan(problem, CPU, kind=JobKind.FIND), {"solvers": ranking}, label=label)


def write_db(path: Path, *records: tuple[str, str, float]) -> Path:
    lines = [f"{key}={solver}:{ms:g},0,{ALGORITHM}\n" for key, solver, ms in records]
    path.write_text("".join(lines))
    return path


def compare(*arguments: str) -> None:
    app(["compare", *arguments], standalone_mode=False)


def reports(capsys: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What --json says of each problem, and in all."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(line["format"] == 1 for line in lines)
    return lines[:-1], lines[-1]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files are named as a user would who stands beside them."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def read(text: str) -> Side:
    with SideReader(load_settings()) as reader:
        return reader.side(text)


def test_a_label_is_compared_with_a_find_db_by_its_keys(
    shelf: Store, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_find(shelf, nest=100e3, im2col=300e3)
    add_find(shelf, MATMUL, cblas=5.0)
    write_db(here / FILE, (CONV_KEY, "ConvAsm", 0.2), (OTHER_KEY, "ConvAsm", 0.2))
    compare("L", "--against", FILE, "--json")
    problems, summary = reports(capsys)
    said = {(one["problem"], one["verdict"], one["gain"]) for one in problems}
    assert said == {(CONV, "faster", 2.0), (MATMUL, "added", None), (OTHER_KEY, "missing", None)}
    assert summary["means"]["winner_changed"] == {"gain": 2.0, "problems": 1}
    assert summary["changes"] == [{"from": "ConvAsm", "to": "nest", "problems": 1}]
    assert summary["new"]["what"] == "finds"


def test_a_label_without_finds_is_compared_by_its_tunings(shelf: Store) -> None:
    result = {"solver": "nest", "time_ns": 90.0, "spread": 0.01, "vendors_ns": {"mkl": 80.0}}
    add_job(shelf, JobPlan(MATMUL, CPU), result)
    add_job(shelf, JobPlan(MATMUL, CPU, "rows"), {"solver": "rows", "time_ns": 70.0})
    side = side_of_label(shelf, "L")
    assert side.what == "tunings"
    (found,) = side.found.values()
    assert [entry.solver for entry in found.ranking] == ["rows"]


def test_problems_without_a_result_say_why(shelf: Store) -> None:
    add_find(shelf, nest=1.0)
    conv = CONV.replace("n4", "n8")
    add_job(shelf, JobPlan(conv, CPU, kind=JobKind.FIND), state=JobState.ERROR)
    add_job(shelf, JobPlan(MATMUL, CPU, kind=JobKind.FIND))
    add_job(shelf, JobPlan("sum:8x8:f32", CPU, kind=JobKind.FIND), {"solvers": []})
    absent = side_of_label(shelf, "L").absent
    assert absent == {
        (OTHER_KEY, CPU): "failed: it broke",
        (MATMUL, CPU): "unfinished: new",
        ("sum:8x8:f32", CPU): "failed: no solver has a time",
    }


def test_a_problem_that_was_tuned_but_not_found_says_so(shelf: Store) -> None:
    add_find(shelf, nest=1.0)
    add_job(shelf, JobPlan(MATMUL, CPU), {"solver": "nest", "time_ns": 1.0, "config": {}})
    add_job(shelf, JobPlan(CONV, CPU), {"solver": "nest", "time_ns": 1.0, "config": {}})
    side = side_of_label(shelf, "L")
    assert side.absent == {(MATMUL, CPU): "tuned, but not found: skipjack run -l L --find"}
    assert side.what == "finds"


def test_two_labels_and_the_bank_are_sides(
    shelf: Store, user_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_find(shelf, nest=100.0)
    add_find(shelf, label="old", nest=150.0)
    compare("L", "--against", "old", "--json")
    assert reports(capsys)[1]["counts"]["faster"] == 1
    evidence = {"ranking": [row("nest", 50.0)]}
    entry = BankEntry(
        *(CONV, "class", CPU, "nest", 1, {}, 50.0, 50.0, None, "", {}),
        evidence=evidence,
        created="2026",
        kind="find",
    )
    Bank.open(user_dir).put(entry)
    compare("L", "--against", "bank", "--json")
    assert reports(capsys)[1]["counts"]["slower"] == 1


def test_the_gate_ends_with_one_sentence(shelf: Store, here: Path) -> None:
    add_find(shelf, nest=100e3)
    write_db(here / FILE, (CONV_KEY, "ConvAsm", 0.08))
    compare("L", "--against", FILE)
    compare("L", "--against", FILE, "--fail-if-slower", "25%", "--fail-if-missing")
    with pytest.raises(SkipjackError, match="1 of 1 problem is slower by more than 2 %") as error:
        compare("L", "--against", FILE, "--fail-if-slower", "2%")
    assert error.value.exit_code == 1
    with pytest.raises(SkipjackError, match="geometric mean is 25 % slower"):
        compare("L", "--against", FILE, "--fail-if-mean-slower", "1%")
    with pytest.raises(UsageError, match="write a percentage"):
        compare("L", "--against", FILE, "--fail-if-slower", "2")


def test_all_problems_go_into_a_table_for_spreadsheets(shelf: Store, here: Path) -> None:
    add_find(shelf, nest=100e3)
    write_db(here / FILE, (CONV_KEY, "ConvAsm", 0.2))
    compare("L", "--against", FILE, "--csv", "all.csv")
    (only,) = csv.DictReader((here / "all.csv").open())
    assert (only["problem"], only["verdict"], only["old_solver"]) == (CONV, "faster", "ConvAsm")
    with pytest.raises(UsageError, match="no directory"):
        compare("L", "--against", FILE, "--csv", "nowhere/all.csv")


def test_legacy_values_are_read_and_odd_lines_are_counted(here: Path) -> None:
    legacy = f"{CONV_KEY}={ALGORITHM}:ConvAsm,0.5,0,{ALGORITHM},<unused>\n"
    current = f"{OTHER_KEY}=A:1,0,{ALGORITHM}\n"
    (here / FILE).write_text(legacy + "half\n" + current + f"k=A:what,0,{ALGORITHM}\n")
    side = side_of_path(here / FILE)
    assert [found.ranking[0].solver for found in side.found.values()] == ["ConvAsm", "A"]
    assert [line.line for line in side.skipped] == [2, 4]


def test_our_own_lines_may_be_packed(here: Path) -> None:
    ranking = ({"solver": "nest", "time_ns": 5.0, "workspace_bytes": 0, "algorithm": ""},)
    line = line_of(record_of("find", (MATMUL, None, CPU), ranking))
    (here / "x.find.jsonl.bz2").write_bytes(bz2.compress(f"{line}\n".encode()))
    (found,) = side_of_path(here / "x.find.jsonl.bz2").found.values()
    assert [entry.solver for entry in found.ranking] == ["nest"]


def test_of_a_key_that_is_there_twice_the_first_counts(here: Path) -> None:
    side = side_of_path(write_db(here / FILE, (CONV_KEY, "A", 2.0), (CONV_KEY, "B", 1.0)))
    assert [found.ranking[0].solver for found in side.found.values()] == ["A"]
    assert side.repeated == 1


def test_what_is_no_find_db_is_refused(here: Path) -> None:
    (here / FILE).write_text("a=b:c\nd=e:f\n")
    with pytest.raises(CorruptFileError, match="is not a find-db: 2 of its 2 lines"):
        side_of_path(here / FILE)
    (here / "gfx908_60.db.txt").write_text("a=b:c\n")
    with pytest.raises(UsageError, match="not a find-db, so it has no times"):
        side_of_path(here / "gfx908_60.db.txt")


def test_a_directory_gives_one_file_for_each_device(here: Path) -> None:
    write_db(here / "gfx90878.HIP.fdb.txt", (CONV_KEY, "A", 1.0))
    write_db(here / "gfx90878.OpenCL.fdb.txt", (CONV_KEY, "B", 1.0))
    write_db(here / "gfx90a68.HIP.fdb.txt", (CONV_KEY, "C", 1.0))
    side = side_of_path(here)
    assert side.devices == ("gfx908/120", "gfx90a/104")
    assert {found.ranking[0].solver for found in side.found.values()} == {"A", "C"}
    with pytest.raises(UsageError, match="has no results for gfx942/304"):
        side_of_path(here, "gfx942/304")
    other = side_of_path(here, "gfx908/120", form="miopen", backend="OpenCL")
    assert [found.ranking[0].solver for found in other.found.values()] == ["B"]


def test_packed_files_of_a_directory_count_where_there_is_no_other(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write_db(here / FILE, (CONV_KEY, "A", 1.0)).read_bytes()
    for name in (FILE, "gfx90878.HIP.fdb.txt"):
        (here / f"{name}.bz2").write_bytes(bz2.compress(text.replace(b"A:1", b"P:1")))
    (here / "znver4_1.OpenCL.fdb.txt").write_bytes(text)
    side = side_of_path(here)
    solvers = {key[1]: found.ranking[0].solver for key, found in side.found.items()}
    assert solvers == {CPU: "A", "gfx908/120": "P"}
    compare("./", "--against", "./")
    names = f"{FILE}.bz2, znver4_1.OpenCL.fdb.txt"
    assert f"as it has another file for the device: {names}" in capsys.readouterr().out


def test_a_file_whose_name_says_no_device_needs_one(here: Path) -> None:
    write_db(here / "mine.txt", (CONV_KEY, "A", 1.0))
    with pytest.raises(UsageError, match="does not contain its device"):
        side_of_path(here / "mine.txt")
    assert side_of_path(here / "mine.txt", CPU).devices == (CPU,)


def test_a_word_that_is_a_label_and_a_file_must_be_said(shelf: Store, here: Path) -> None:
    add_find(shelf, nest=1.0)
    assert read("L").what == "finds"
    (here / "L").mkdir()
    write_db(here / "L" / FILE, (CONV_KEY, "A", 1.0))
    with pytest.raises(UsageError, match="both a label and a file; write label:L or file:L"):
        read("L")
    assert read("label:L").what == "finds"
    assert read("file:L").what == read("L/").what == "file"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("LL", "no label and no file is named 'LL'; of the labels, did you mean L"),
        ("x.fdb.txt", "the file or directory x.fdb.txt does not exist"),
        ("bank", "the bank has no ranking"),
        ("empty", "label empty has no finished job with a result"),
    ],
)
def test_what_is_not_there_is_said_in_one_sentence(shelf: Store, text: str, said: str) -> None:
    add_find(shelf, nest=1.0)
    add_job(shelf, JobPlan(CONV, CPU, kind=JobKind.FIND), label="empty")
    with pytest.raises(UsageError, match=said):
        read(text)


@pytest.mark.skipif(not REAL.is_dir(), reason="the shipped databases are not here")
def test_a_shipped_database_equals_itself(capsys: pytest.CaptureFixture[str]) -> None:
    shipped = str(REAL / "gfx900_56.OpenCL.fdb.txt")
    compare(shipped, "--against", shipped, "--json", "--fail-if-slower", "0%")
    counts = reports(capsys)[1]["counts"]
    assert counts.pop("equal") == 1711
    assert not any(counts.values())
