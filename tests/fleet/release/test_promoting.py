"""Promotions replace records by key, keep what was there, survive kills and can be undone."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from skipjack.errors import CorruptFileError, SkipjackError, StorageError, UsageError
from skipjack.fleet.release.export.contents import Contents, ReleaseFile
from skipjack.fleet.release.export.manifest import FileNote, Manifest, read_manifest
from skipjack.fleet.release.promote.merging import Rule
from skipjack.fleet.release.promote.promoting import Promoted, Release, promote
from skipjack.fleet.release.promote.promotions import Counts, Phase, Promotions
from skipjack.fleet.release.promote.undoing import undo
from skipjack.interop.miopen import (
    Item,
    KernelRow,
    Record,
    read_kernel_db,
    read_perf_sqlite,
    write_kernel_db,
    write_perf_sqlite,
    write_text_db,
)

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "miopen"
FDB = "gfx90878.HIP.fdb.txt"
PDB = "gfx90878.db.txt"
DEVICE = "gfx908/120"
PERF_KEY = "2x128x28x28x1x3x3x1x256x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"
OTHER_PERF_KEY = PERF_KEY.replace("2x128x28x28", "2x128x14x14")
ALGORITHM = "miopenConvolutionFwdAlgoDirect"


def key(channels: int) -> str:
    return f"{channels}-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F"


def find_record(channels: int, **times: float) -> Record:
    items = [Item(name, f"{time:g},0,{ALGORITHM}") for name, time in times.items()]
    return Record(key(channels), items)


def contents(name: str, *records: Record) -> Contents:
    kind = "find-db" if "fdb" in name else "perf-db"
    file = ReleaseFile(DEVICE, lambda _: name, lambda path, _: write_text_db(path, records))
    return Contents(kind, "miopen", (file,))


def put(into: Path, *parts: Contents, rule: Rule = Rule.REPLACE_KEYS, label: str = "L") -> Promoted:
    return promote(Release(label, parts, rule), into)


def tree(directory: Path) -> dict[str, bytes]:
    """What others see of the directory."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


@pytest.fixture
def into(tmp_path: Path) -> Path:
    directory = tmp_path / "kernels"
    directory.mkdir()
    write_text_db(directory / FDB, [find_record(1, A=1), find_record(2, A=1), find_record(3, A=1)])
    return directory


def test_records_of_the_same_key_are_replaced_and_others_stay(into: Path) -> None:
    new = [find_record(2, B=0.5), find_record(3, A=1), find_record(9, C=2)]
    done = put(into, contents(FDB, *new))
    lines = (into / FDB).read_text().splitlines()
    wanted = [find_record(1, A=1), *new]
    assert lines == [record.line for record in wanted]
    (change,) = done.changes
    assert change.counts == Counts(added=1, changed=1, unchanged=1, kept=1)


def test_a_whole_file_is_replaced_on_request(into: Path) -> None:
    done = put(into, contents(FDB, find_record(2, B=0.5)), rule=Rule.WHOLE_FILE)
    assert (into / FDB).read_text() == find_record(2, B=0.5).line + "\n"
    assert done.changes[0].counts == Counts(changed=1, dropped=2)


def test_solvers_that_the_new_record_lacks_stay_on_request_and_by_time(into: Path) -> None:
    legacy = f"{ALGORITHM}:Old,0.7,0,{ALGORITHM},<unused>"
    (into / FDB).write_text(f"{key(1)}={legacy};{ALGORITHM}:B,9,0,{ALGORITHM},<unused>\n")
    put(into, contents(FDB, find_record(1, B=0.5, C=1)), rule=Rule.KEEP_SOLVERS)
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
    assert done.changes[0].counts == Counts(changed=1, kept=1)


def test_line_ends_stay(into: Path) -> None:
    (into / FDB).write_bytes(find_record(1, A=1).line.encode() + b"\r\n")
    put(into, contents(FDB, find_record(2, A=1)))
    assert (into / FDB).read_bytes().count(b"\r\n") == 2


def test_a_perf_db_in_sqlite_stays_one(into: Path) -> None:
    write_perf_sqlite(into / "gfx90878.db", [Record(OTHER_PERF_KEY, [Item("Old", "1,2")])])
    put(into, contents(PDB, Record(PERF_KEY, [Item("New", "3,4")])))
    assert not (into / PDB).exists()
    found = {record.key: record.items for record in read_perf_sqlite(into / "gfx90878.db")}
    assert found == {PERF_KEY: (Item("New", "3,4"),), OTHER_PERF_KEY: (Item("Old", "1,2"),)}


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
    (into / "manifest.json").write_text(Manifest({FDB: note}).text())
    before = tree(into)
    done = put(into, contents(FDB, find_record(2, B=0.5)))
    assert read_manifest(into).files[FDB].sha256 == done.changes[0].after
    undo(Promotions(into))
    assert tree(into) == before


def test_promotions_are_undone_one_by_one_back_to_the_first(into: Path) -> None:
    seen = [tree(into)]
    for number in range(3):
        put(into, contents(FDB, find_record(number, B=0.1)), contents(PDB, _params(number)))
        seen.append(tree(into))
    for before in reversed(seen[:-1]):
        undo(Promotions(into))
        assert tree(into) == before
    with pytest.raises(UsageError, match="no promotion to undo"):
        undo(Promotions(into))


def test_promotions_are_undone_back_to_a_number(into: Path) -> None:
    put(into, contents(FDB, find_record(1, B=0.1)))
    before = tree(into)
    for number in (2, 3):
        put(into, contents(FDB, find_record(number, B=0.1)))
    assert [one.number for one in undo(Promotions(into), to=2)] == [3, 2]
    assert tree(into) == before
    with pytest.raises(UsageError, match="promotion 3 does not stand"):
        undo(Promotions(into), to=3)


def test_a_file_that_was_not_there_is_gone_after_undoing(into: Path) -> None:
    put(into, contents(PDB, _params(1)))
    assert (into / PDB).exists()
    undo(Promotions(into))
    assert not (into / PDB).exists()


@pytest.mark.parametrize("name", [FDB, PDB])
def test_undoing_refuses_files_that_changed_since(into: Path, name: str) -> None:
    before = tree(into)
    done = put(into, contents(FDB, find_record(2, B=0.5)), contents(PDB, _params(1)))
    (into / name).write_text("mine\n")
    now = tree(into)
    with pytest.raises(StorageError, match=f"{name} changed since promotion 1 .*--force"):
        undo(Promotions(into))
    assert tree(into) == now
    undo(Promotions(into), force=True)
    assert tree(into) == before
    assert done.promotion
    assert (done.promotion.folder / "removed" / name).read_text() == "mine\n"


def test_undoing_says_when_the_old_file_is_lost(into: Path) -> None:
    done = put(into, contents(FDB, find_record(2, B=0.5)))
    assert done.promotion
    (done.promotion.folder / "old" / FDB).unlink()
    with pytest.raises(StorageError, match="cannot be undone"):
        undo(Promotions(into))


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
        put(into, contents(PDB, _params(1)), contents(FDB, find_record(2, B=0.5)))
    assert tree(into) == before
    assert Promotions(into).all() == []


def test_a_database_that_is_being_written_is_left_alone(into: Path) -> None:
    write_perf_sqlite(into / "gfx90878.db", [_params(1)])
    (into / "gfx90878.db-wal").write_bytes(b"x")
    with pytest.raises(StorageError, match="being written by another program"):
        put(into, contents(PDB, _params(2)))


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
        put(tmp_path / "x", contents(PDB, _params(1)))


def test_nothing_to_promote_is_said(into: Path) -> None:
    with pytest.raises(UsageError, match="L has nothing to promote: 3 problems"):
        put(into, Contents("find-db", "miopen", (), remarks=("3 problems left out",)))


def _promote_with_little_room(into: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
    with pytest.raises(StorageError, match="cannot write"):
        promote(_both(), into)


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


def _params(number: int) -> Record:
    return Record(PERF_KEY, [Item("New", str(number))])


def _die_at(count: int) -> Callable[[str], None]:
    """A step that kills its process before the file of this number is touched."""
    calls = 0

    def step(name: str) -> None:
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def _promote_and_die(into: Path, count: int) -> None:
    promote(_both(), into, step=_die_at(count))


def _undo_and_die(into: Path, count: int) -> None:
    undo(Promotions(into), step=_die_at(count))


def _both() -> Release:
    return Release("L", [contents(FDB, find_record(2, B=0.5)), contents(PDB, _params(1))])


def _killed(target: Callable[[Path, int], None], into: Path, count: int) -> None:
    child = multiprocessing.get_context("fork").Process(target=target, args=(into, count))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_killed_promotion_is_finished_by_the_next_command(into: Path, count: int) -> None:
    _killed(_promote_and_die, into, count)
    assert [one.phase for one in Promotions(into).all()] == [Phase.BEGUN]
    done = promote(_both(), into)
    assert done.promotion is None  # all of it is there
    assert "had been interrupted; it was finished" in done.remarks[0]
    assert (into / PDB).read_text() == _params(1).line + "\n"
    assert [one.phase for one in Promotions(into).all()] == [Phase.DONE]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_killed_promotion_can_be_rolled_back(into: Path, count: int) -> None:
    before = tree(into)
    _killed(_promote_and_die, into, count)
    undo(Promotions(into))
    assert tree(into) == before


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_killed_undo_is_finished_by_the_next_command(into: Path, count: int) -> None:
    before = tree(into)
    promote(_both(), into)
    _killed(_undo_and_die, into, count)
    done = put(into, contents(FDB, find_record(1, A=1)))
    assert "undoing promotion 1 of L had been interrupted" in done.remarks[0]
    assert tree(into) == before


def test_a_file_that_others_change_in_between_stops_the_promotion(into: Path) -> None:
    _killed(_promote_and_die, into, 1)
    (into / FDB).write_text("mine\n")
    with pytest.raises(SkipjackError, match=r"changed by somebody else.*--undo --force"):
        promote(_both(), into)
    assert (into / FDB).read_text() == "mine\n"
    undo(Promotions(into), force=True)
    assert not (into / PDB).exists()


def test_leftovers_of_a_promotion_that_never_began_are_thrown_away(into: Path) -> None:
    half = Promotions(into).new_folder("killed")
    (half / "new" / FDB).write_text("half")
    put(into, contents(FDB, find_record(2, B=0.5)))
    assert not half.exists() or (half / "manifest.json").exists()
    assert len(Promotions(into).all()) == 1
