"""Promotions replace records by key, keep what was there, survive kills and can be undone."""

from __future__ import annotations

import json
import multiprocessing
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from promoted import (
    ALGORITHM,
    DEVICE,
    FDB,
    OTHER_PERF_KEY,
    PDB,
    PERF_KEY,
    both,
    contents,
    find_record,
    key,
    params,
    put,
    tree,
)

from skipjack.errors import CorruptFileError, StorageError, UsageError
from skipjack.fleet.release.export import FileNote, read_manifest
from skipjack.fleet.release.export.manifest import ExportManifest
from skipjack.fleet.release.export.publication import staged
from skipjack.fleet.release.formats import Contents, MergeCounts, MergeRule, ReleaseFile, merge
from skipjack.fleet.release.promote import Promotions, promote, undo
from skipjack.fleet.release.promote.promotion import Release
from skipjack.interop.miopen import (
    DatabaseRecord,
    KernelRow,
    RecordItem,
    read_kernel_db,
    read_perf_sqlite,
    write_kernel_db,
    write_perf_sqlite,
    write_text_db,
)

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "miopen"


def test_records_of_the_same_key_are_replaced_and_others_stay(into: Path) -> None:
    new = [find_record(2, B=0.5), find_record(3, A=1), find_record(9, C=2)]
    done = put(into, contents(FDB, *new))
    lines = (into / FDB).read_text().splitlines()
    wanted = [find_record(1, A=1), *new]
    assert lines == [record.line for record in wanted]
    (change,) = done.changes
    assert change.counts == MergeCounts(added=1, changed=1, unchanged=1, kept=1)


def test_a_whole_file_is_replaced_on_request(into: Path) -> None:
    done = put(into, contents(FDB, find_record(2, B=0.5)), rule=MergeRule.WHOLE_FILE)
    assert (into / FDB).read_text() == find_record(2, B=0.5).line + "\n"
    assert done.changes[0].counts == MergeCounts(changed=1, dropped=2)


@pytest.mark.parametrize("name", [FDB, "gfx90878.db"])
def test_a_file_that_cannot_be_read_is_replaced_as_a_whole_or_not_at_all(
    into: Path, name: str
) -> None:
    (into / name).write_text("junk")
    new = contents(name.replace(".db", ".db.txt"), params(1))
    if name == FDB:
        new = contents(FDB, find_record(2, B=0.5))
    with pytest.raises(CorruptFileError):
        put(into, new)
    done = put(into, new, rule=MergeRule.WHOLE_FILE)
    assert done.changes[0].counts == MergeCounts(added=1)
    undo(Promotions(into))
    assert (into / name).read_text() == "junk"


@pytest.mark.parametrize("name", [FDB, "gfx90878.db"])
def test_nothing_is_promoted_beside_a_packed_form_of_the_file(into: Path, name: str) -> None:
    (into / FDB).unlink()
    (into / f"{name}.bz2").write_bytes(b"")
    new = contents(FDB, find_record(2, B=0.5)) if name == FDB else contents(PDB, params(1))
    with pytest.raises(UsageError, match=rf"{name}.bz2; unpack it first"):
        put(into, new)
    assert list(tree(into)) == [f"{name}.bz2"]


def test_a_find_db_that_is_new_beside_one_of_another_backend_is_said(into: Path) -> None:
    (into / FDB).rename(into / "gfx90878.OpenCL.fdb.txt")
    done = put(into, contents(FDB, find_record(2, B=0.5)))
    (remark,) = done.remarks
    assert f"{FDB} is new; gfx90878.OpenCL.fdb.txt" in remark and "--backend" in remark


def test_solvers_that_the_new_record_lacks_stay_on_request_and_by_time(into: Path) -> None:
    legacy = f"{ALGORITHM}:Old,0.7,0,{ALGORITHM},<unused>"
    (into / FDB).write_text(f"{key(1)}={legacy};{ALGORITHM}:B,9,0,{ALGORITHM},<unused>\n")
    put(into, contents(FDB, find_record(1, B=0.5, C=1)), rule=MergeRule.KEEP_SOLVERS)
    assert (into / FDB).read_text().strip() == find_record(1, B=0.5, Old=0.7, C=1).line


def test_legacy_records_that_are_not_replaced_stay_as_they_are(into: Path) -> None:
    legacy = f"{key(1)}={ALGORITHM}:Old,0.7,0,{ALGORITHM},<unused>\n"
    (into / FDB).write_text(legacy)
    put(into, contents(FDB, find_record(2, B=0.5)))
    assert (into / FDB).read_text() == legacy + find_record(2, B=0.5).line + "\n"


def test_a_key_that_was_there_twice_is_there_once(into: Path) -> None:
    write_text_db(into / FDB, [find_record(1, A=1), find_record(1, B=1), find_record(2, A=1)])
    done = put(into, contents(FDB, find_record(1, C=1)))
    assert (into / FDB).read_text().count(key(1)) == 1
    assert done.changes[0].counts == MergeCounts(changed=1, kept=1, dropped=1)


def test_line_ends_stay(into: Path) -> None:
    (into / FDB).write_bytes(find_record(1, A=1).line.encode() + b"\r\n")
    put(into, contents(FDB, find_record(2, A=1)))
    assert (into / FDB).read_bytes().count(b"\r\n") == 2


def test_a_perf_db_in_sqlite_stays_one(into: Path) -> None:
    write_perf_sqlite(
        into / "gfx90878.db", [DatabaseRecord(OTHER_PERF_KEY, [RecordItem("Old", "1,2")])]
    )
    put(into, contents(PDB, DatabaseRecord(PERF_KEY, [RecordItem("New", "3,4")])))
    assert not (into / PDB).exists()
    found = {record.key: record.items for record in read_perf_sqlite(into / "gfx90878.db")}
    assert found == {
        PERF_KEY: (RecordItem("New", "3,4"),),
        OTHER_PERF_KEY: (RecordItem("Old", "1,2"),),
    }


def test_kernels_of_the_same_name_and_arguments_are_replaced(into: Path) -> None:
    rows = [KernelRow("a.o", "-mcpu=gfx908", b"old"), KernelRow("b.o", "-mcpu=gfx908", b"kept")]
    write_kernel_db(into / "gfx90878.kdb", rows)
    fresh = KernelRow("a.o", "-mcpu=gfx908", b"new")

    def write(path: Path, device: str) -> None:
        write_kernel_db(path, [fresh])

    file = ReleaseFile(DEVICE, lambda _: "gfx90878.kdb", write, is_code=True)
    put(into, Contents("kernel-db", "miopen", (file,)))
    assert list(read_kernel_db(into / "gfx90878.kdb")) == [fresh, rows[1]]


def test_our_own_lines_are_replaced_by_problem_and_device(into: Path) -> None:
    def line(problem: str, time: float) -> str:
        record = {"format": 1, "problem": problem, "device": DEVICE, "ranking": [], "t": time}
        return json.dumps(record) + "\n"

    name = "gfx90878.find.jsonl"
    (into / name).write_text(line("p", 1) + line("q", 1))

    def write(path: Path, device: str) -> None:
        path.write_text(line("q", 2) + line("a", 2))

    file = ReleaseFile(DEVICE, lambda _: name, write)
    put(into, Contents("find-db", "skipjack", (file,)))
    assert (into / name).read_text() == line("a", 2) + line("p", 1) + line("q", 2)


def test_the_manifest_says_who_when_and_what(into: Path) -> None:
    before = tree(into)
    done = put(into, contents(FDB, find_record(2, B=0.5)), label="a/b c")
    assert done.promotion
    record = json.loads((done.promotion.folder / "manifest.json").read_text())
    assert done.promotion.folder.name == "0001-a_b_c"
    assert record["label"] == "a/b c"
    assert record["phase"] == "done"
    assert record["user"] and record["host"] and record["at"]
    (file,) = record["files"]
    assert file["before"] != file["after"]
    assert (done.promotion.folder / "old" / FDB).read_bytes() == before[FDB]


def test_a_manifest_of_an_export_goes_with_the_files(into: Path) -> None:
    note = FileNote(FDB, "find-db", "miopen", DEVICE, "0" * 64, 1)
    (into / "manifest.json").write_text(ExportManifest({FDB: note}).text())
    before = tree(into)
    done = put(into, contents(FDB, find_record(2, B=0.5)))
    assert read_manifest(into).files[FDB].sha256 == done.changes[0].after
    undo(Promotions(into))
    assert tree(into) == before


def test_promoting_what_is_there_changes_nothing(into: Path) -> None:
    done = put(into, contents(FDB, find_record(2, A=1)))
    assert done.promotion is None
    assert done.unchanged == (FDB,)
    assert Promotions(into).all() == []


def test_a_dry_run_touches_nothing(into: Path) -> None:
    done = promote(Release("L", [contents(FDB, find_record(2, B=0.5))]), into, dry_run=True)
    assert done.changes[0].counts.changed == 1
    assert [path.name for path in into.iterdir()] == [FDB]


def test_half_a_database_stops_a_promotion_and_names_the_line(into: Path) -> None:
    whole = (into / FDB).read_text()
    (into / FDB).write_text(whole[: len(whole) - 80])
    before = tree(into)
    with pytest.raises(CorruptFileError, match=rf"{FDB}:3: "):
        put(into, contents(PDB, params(1)), contents(FDB, find_record(2, B=0.5)))
    assert tree(into) == before
    assert Promotions(into).all() == []


def test_a_database_that_is_being_written_is_left_alone(into: Path) -> None:
    write_perf_sqlite(into / "gfx90878.db", [params(1)])
    (into / "gfx90878.db-wal").write_bytes(b"x")
    with pytest.raises(StorageError, match="another program is writing"):
        put(into, contents(PDB, params(2)))


@pytest.mark.skipif(not REAL.is_dir(), reason="the shipped databases are not here")
def test_a_shipped_database_loses_nothing_and_comes_back(tmp_path: Path) -> None:
    name = "gfx900_56.HIP.fdb.txt"
    shipped = (REAL / "gfx900_56.OpenCL.fdb.txt").read_bytes()
    (tmp_path / name).write_bytes(shipped)
    put(tmp_path, contents(name, find_record(1, A=1)))
    lines = (tmp_path / name).read_bytes().splitlines()
    assert sorted(lines) == sorted([*shipped.splitlines(), find_record(1, A=1).line.encode()])
    undo(Promotions(tmp_path))
    assert (tmp_path / name).read_bytes() == shipped


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.write_text(""), "is not a directory"),
    ],
)
def test_a_directory_must_be_one(tmp_path: Path, make: Callable[[Path], object], said: str) -> None:
    make(tmp_path / "x")
    with pytest.raises(UsageError, match=said):
        put(tmp_path / "x", contents(PDB, params(1)))


def test_nothing_to_promote_is_said(into: Path) -> None:
    with pytest.raises(UsageError, match="L has nothing to promote: 3 problems"):
        put(into, Contents("find-db", "miopen", (), remarks=("3 problems left out",)))


def _promote_with_little_room(into: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
    with pytest.raises(StorageError, match="cannot write"):
        promote(both(), into)


def test_where_there_is_no_room_nothing_changes(into: Path) -> None:
    before = tree(into)
    child = multiprocessing.get_context("fork").Process(
        target=_promote_with_little_room, args=(into,)
    )
    child.start()
    child.join()
    assert child.exitcode == 0
    assert tree(into) == before
    assert not list((into / ".skipjack" / "promotions").iterdir())


def test_a_file_that_changes_while_it_is_merged_stops_the_promotion(
    into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = find_record(7, A=1).line + "\n"

    def merged(old: Path | None, new: Path, target: Path, rule: MergeRule) -> MergeCounts:
        counts = merge(old, new, target, rule)
        (into / FDB).write_text(theirs)
        return counts

    monkeypatch.setattr(f"{promote.__module__}.merge", merged)
    with pytest.raises(StorageError, match="was changed while it was read"):
        put(into, contents(FDB, find_record(2, B=0.5)))
    assert (into / FDB).read_text() == theirs
    assert Promotions(into).all() == []


def test_an_export_and_a_promotion_wait_for_each_other(
    into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skipjack.fleet.release.database_directory._PATIENCE_S", 0.0)
    with staged(into), pytest.raises(StorageError, match="was still held"):
        promote(both(), into)
    with (
        Promotions(into).lock(),
        pytest.raises(StorageError, match="was still held"),
        staged(into),
    ):
        pass


def test_where_directories_cannot_be_locked_a_file_in_them_is(
    into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "skipjack.fleet.release.database_directory"
    monkeypatch.setattr(f"{module}.is_network_file_system", lambda path: "nfs")
    test_an_export_and_a_promotion_wait_for_each_other(into, monkeypatch)
    assert (into / ".skipjack" / "lock").is_file()
