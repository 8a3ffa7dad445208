"""``skipjack promote``: what of a label goes into a directory, on which conditions."""

from __future__ import annotations

import bz2
import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from made_up import CONV, CONV_KEY, CPU, add_job, row

from skipjack.cli.main import app
from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.model import JobKind, JobPlan
from skipjack.fleet.release.formats import Contents, ReleaseFile
from skipjack.fleet.release.promote import Promotions
from skipjack.fleet.release.promote import promote as promote_files
from skipjack.fleet.release.promote.promotion import Release
from skipjack.fleet.store import Store
from skipjack.interop.miopen import DatabaseRecord, RecordItem, read_text_db, write_text_db

FDB, PDB = "znver4_1.HIP.fdb.txt", "znver4_1.db.txt"
ALGORITHM = "miopenConvolutionFwdAlgoDirect"


def promote(into: Path, *arguments: str) -> None:
    app(["promote", *arguments, "--into", str(into)], standalone_mode=False)


@pytest.fixture
def into(tmp_path: Path) -> Path:
    directory = tmp_path / "kernels"
    directory.mkdir()
    shipped = [DatabaseRecord(CONV_KEY, [RecordItem("ConvAsm", f"0.1,0,{ALGORITHM}")])]
    shipped.append(DatabaseRecord("kept", [RecordItem("ConvAsm", f"0.1,0,{ALGORITHM}")]))
    write_text_db(directory / FDB, shipped)
    return directory


@pytest.fixture
def label(shelf: Store) -> Store:
    """Label L: a find of a convolution, in which a solver with a config won."""
    ranking = [row("direct", 50e3, config={"tile": 4}), row("im2col", 70e3)]
    add_job(shelf, JobPlan(CONV, CPU, kind=JobKind.FIND), {"solvers": ranking})
    return shelf


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert record["format"] == 1
    return record


def test_a_labels_databases_go_into_a_directory_and_out_again(
    label: Store, into: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (into / FDB).read_bytes()
    promote(into, "L", "--json")
    done = said(capsys)
    counts = {
        file["name"]: (file["counts"]["changed"], file["counts"]["kept"]) for file in done["files"]
    }
    assert counts == {FDB: (1, 1), PDB: (0, 0)}
    new, kept = read_text_db(into / FDB)
    assert (kept.key, [item.id for item in new.items]) == ("kept", ["direct", "im2col"])
    (record,) = read_text_db(into / PDB)
    assert record.items == (RecordItem("direct", "tile~4"),)
    promote(into, "--list")
    assert "done" in capsys.readouterr().out
    promote(into, "--undo", "--json")
    assert said(capsys)["phase"] == "undone"
    assert (into / FDB).read_bytes() == before
    assert not (into / PDB).exists()


def test_kinds_and_format_are_chosen(label: Store, into: Path) -> None:
    promote(into, "L", "--kinds", "find", "--format", "skipjack")
    assert (into / "znver4_1.find.jsonl").exists()
    assert not (into / PDB).exists()


def test_a_dry_run_says_what_would_change(
    label: Store, into: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promote(into, "L", "--dry-run")
    assert "nothing was changed" in capsys.readouterr().out
    assert [path.name for path in into.iterdir()] == [FDB]


def test_what_is_slower_is_not_promoted(
    label: Store, into: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = DatabaseRecord(CONV_KEY, [RecordItem("ConvAsm", f"0.04,0,{ALGORITHM}")])
    write_text_db(into / FDB, [record])
    with pytest.raises(SkipjackError, match=r"nothing was promoted: 1 of 1 problem is slower"):
        promote(into, "L", "--fail-if-slower", "2%")
    assert read_text_db(into / FDB) == [record]
    with pytest.raises(SkipjackError, match="nothing was promoted"):
        promote(into, "L", "--fail-if-slower", "2%", "--json")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["kind"] for line in lines] == ["problem", "summary"]
    assert "1 of 1 problem is slower" in lines[-1]["failure"]
    promote(into, "L", "--fail-if-slower", "30%")
    assert len(Promotions(into).all()) == 1


def test_the_find_db_of_a_backend_is_compared_with_and_changed(label: Store, into: Path) -> None:
    opencl = into / "znver4_1.OpenCL.fdb.txt"
    write_text_db(
        opencl, [DatabaseRecord(CONV_KEY, [RecordItem("ConvAsm", f"0.04,0,{ALGORITHM}")])]
    )
    words = ("L", "--backend", "opencl", "--kinds", "find", "--fail-if-slower")
    with pytest.raises(SkipjackError, match="is slower"):
        promote(into, *words, "2%")
    before = (into / FDB).read_bytes()
    promote(into, *words, "30%")
    assert (into / FDB).read_bytes() == before
    assert [item.id for item in read_text_db(opencl)[0].items] == ["direct", "im2col"]


def test_a_packed_find_db_is_compared_with_but_not_merged_into(label: Store, into: Path) -> None:
    record = DatabaseRecord(CONV_KEY, [RecordItem("ConvAsm", f"0.04,0,{ALGORITHM}")])
    (into / f"{FDB}.bz2").write_bytes(bz2.compress(f"{record.line}\n".encode()))
    (into / FDB).unlink()
    with pytest.raises(SkipjackError, match="is slower"):
        promote(into, "L", "--fail-if-slower", "2%")
    with pytest.raises(UsageError, match="unpack it first"):
        promote(into, "L", "--fail-if-slower", "30%")


def test_the_files_that_would_be_replaced_are_what_is_compared_with(
    label: Store, into: Path
) -> None:
    promote(into, "L", "--kinds", "find", "--format", "skipjack")
    write_text_db(
        into / FDB, [DatabaseRecord(CONV_KEY, [RecordItem("ConvAsm", f"0.04,0,{ALGORITHM}")])]
    )
    with pytest.raises(SkipjackError, match="is slower"):
        promote(into, "L", "--fail-if-slower", "2%")
    promote(into, "L", "--fail-if-slower", "2%", "--format", "skipjack")


def test_nothing_can_be_slower_than_an_empty_directory(label: Store, tmp_path: Path) -> None:
    promote(tmp_path, "L", "--fail-if-slower", "0%")
    assert (tmp_path / FDB).exists()


def test_unfinished_jobs_need_to_be_allowed(label: Store, into: Path) -> None:
    add_job(label, JobPlan(CONV.replace("n4", "n8"), CPU, kind=JobKind.FIND))
    with pytest.raises(UsageError, match=r"1 of 2 find jobs .* not finished .*--partial"):
        promote(into, "L")
    promote(into, "L", "--partial")
    assert len(Promotions(into).all()) == 1


MISTAKES: dict[tuple[str, ...], str] = {
    (): "name a label",
    ("L", "--undo"): "leave the label out",
    ("L", "--force"): "add --undo",
    ("L", "--whole-file", "--replace-keys"): "exclude each other",
    ("L", "--kinds", "find,odd"): "unknown kind of database 'odd'",
    ("L", "--format", "odd"): "unknown format 'odd'",
    ("L", "--against", "bank"): "needs --fail-if-slower",
    ("L", "--kinds", "kernel"): "no tuning jobs",
    ("L", "--alias", "gfx803/56=gfx900/64"): "gfx900/64 is not exported",
    ("odd",): "unknown label 'odd'",
    ("--undo",): "no promotion to undo",
}


def test_mistakes_are_said_in_one_sentence(label: Store, into: Path) -> None:
    before = {path.name for path in into.iterdir()}
    for arguments, wrong in MISTAKES.items():
        with pytest.raises(UsageError, match=wrong) as error:
            promote(into, *arguments)
        assert "\n" not in str(error.value)
        assert {path.name for path in into.iterdir()} - {".skipjack"} == before


def test_other_devices_get_the_files_of_a_device(label: Store, into: Path) -> None:
    promote(into, "L", "--alias", "skylake/4=znver4/1", "--kinds", "find")
    (record,) = read_text_db(into / "skylake_4.HIP.fdb.txt")
    assert record.key == CONV_KEY


def test_a_directory_that_is_not_there_is_said(label: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        promote(tmp_path / "nowhere", "L")
    with pytest.raises(UsageError, match="give --into DIR"):
        app(["promote", "L"], standalone_mode=False)


def _promote_one(into: Path, number: int) -> None:
    record = DatabaseRecord(f"key{number}", [RecordItem("A", f"1,0,{ALGORITHM}")])
    file = ReleaseFile(CPU, lambda _: FDB, lambda path, _: write_text_db(path, [record]))
    promote_files(Release(f"L{number}", [Contents("find-db", "miopen", (file,))]), into)


def test_promotions_at_once_lose_nothing(into: Path) -> None:
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=_promote_one, args=(into, number)) for number in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4
    keys = {record.key for record in read_text_db(into / FDB)}
    assert keys == {CONV_KEY, "kept", "key0", "key1", "key2", "key3"}
    assert [one.number for one in Promotions(into).all()] == [1, 2, 3, 4]
