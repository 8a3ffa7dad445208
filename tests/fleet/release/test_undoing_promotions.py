"""Promotions that are killed are finished or rolled back, and those that stand can be undone."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from promoted import FDB, PDB, both, contents, find_record, params, put, tree

from skipjack.errors import CorruptFileError, SkipjackError, StorageError, UsageError
from skipjack.fleet.release.promote import Promotions, promote, undo
from skipjack.fleet.release.promote.history import PromotionPhase


def test_promotions_are_undone_one_by_one_back_to_the_first(into: Path) -> None:
    seen = [tree(into)]
    for number in range(3):
        put(into, contents(FDB, find_record(number, B=0.1)), contents(PDB, params(number)))
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
    with pytest.raises(UsageError, match="no active promotion 3"):
        undo(Promotions(into), to=3)


def test_a_file_that_was_not_there_is_gone_after_undoing(into: Path) -> None:
    put(into, contents(PDB, params(1)))
    assert (into / PDB).exists()
    undo(Promotions(into))
    assert not (into / PDB).exists()


@pytest.mark.parametrize("name", [FDB, PDB])
def test_undoing_refuses_files_that_changed_since(into: Path, name: str) -> None:
    before = tree(into)
    done = put(into, contents(FDB, find_record(2, B=0.5)), contents(PDB, params(1)))
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
    with pytest.raises(StorageError, match="cannot undo promotion"):
        undo(Promotions(into))


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
    promote(both(), into, step=_die_at(count))


def _undo_and_die(into: Path, count: int) -> None:
    undo(Promotions(into), step=_die_at(count))


def _killed(target: Callable[[Path, int], None], into: Path, count: int) -> None:
    child = multiprocessing.get_context("fork").Process(target=target, args=(into, count))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_killed_promotion_is_finished_by_the_next_command(into: Path, count: int) -> None:
    _killed(_promote_and_die, into, count)
    assert [one.phase for one in Promotions(into).all()] == [PromotionPhase.BEGUN]
    done = promote(both(), into)
    assert done.promotion is None  # all of it is there
    assert "was interrupted and has been completed" in done.remarks[0]
    assert (into / PDB).read_text() == params(1).line + "\n"
    assert [one.phase for one in Promotions(into).all()] == [PromotionPhase.DONE]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_killed_promotion_can_be_rolled_back(into: Path, count: int) -> None:
    before = tree(into)
    _killed(_promote_and_die, into, count)
    undo(Promotions(into))
    assert tree(into) == before


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_killed_undo_is_finished_by_the_next_command(into: Path, count: int) -> None:
    before = tree(into)
    promote(both(), into)
    _killed(_undo_and_die, into, count)
    done = put(into, contents(FDB, find_record(1, A=1)))
    assert "undoing promotion 1 of L was interrupted" in done.remarks[0]
    assert tree(into) == before


def test_a_file_that_others_change_in_between_stops_the_promotion(into: Path) -> None:
    _killed(_promote_and_die, into, 1)
    (into / FDB).write_text("mine\n")
    with pytest.raises(SkipjackError, match=r"changed by another program.*--undo --force"):
        promote(both(), into)
    assert (into / FDB).read_text() == "mine\n"
    undo(Promotions(into), force=True)
    assert not (into / PDB).exists()


def test_leftovers_of_a_promotion_that_never_began_are_thrown_away(into: Path) -> None:
    half = Promotions(into).new_folder("killed")
    (half / "new" / FDB).write_text("half")
    put(into, contents(FDB, find_record(2, B=0.5)))
    assert not half.exists() or (half / "manifest.json").exists()
    assert len(Promotions(into).all()) == 1


@pytest.mark.parametrize("name", ["../victim.txt", "/victim.txt", "..", ".", "", "a/b", 3])
def test_a_manifest_that_names_other_places_is_refused(into: Path, name: object) -> None:
    victim = into.parent / "victim.txt"
    victim.write_text("mine")
    done = put(into, contents(PDB, params(1)))
    assert done.promotion
    manifest = done.promotion.folder / "manifest.json"
    record = json.loads(manifest.read_text())
    digest = hashlib.sha256(b"mine").hexdigest()
    record["files"] = [{**record["files"][0], "name": name, "after": digest}]
    manifest.write_text(json.dumps(record))
    with pytest.raises(CorruptFileError, match=r"is not a plain file name|expected a text"):
        undo(Promotions(into))
    assert victim.read_text() == "mine"


def test_a_file_that_changes_while_files_are_moved_is_not_replaced(into: Path) -> None:
    def step(name: str) -> None:
        if name == FDB:
            (into / FDB).write_text("mine\n")

    with pytest.raises(StorageError, match=r"changed by another program.*--undo --force"):
        promote(both(), into, step=step)
    assert (into / FDB).read_text() == "mine\n"
