"""Databases that are links: what they lead to is changed, and they stay links."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from promoted import FDB, contents, find_record, put, tree

from skipjack.errors import UsageError
from skipjack.fleet.release.database_directory import put_in_place
from skipjack.fleet.release.export import ExportOrigin
from skipjack.fleet.release.export.publication import publish
from skipjack.fleet.release.promote import Promotions, undo


@pytest.fixture
def real(into: Path, tmp_path: Path) -> Path:
    """Where the find-db of the directory really lies."""
    place = tmp_path / "elsewhere" / "real.txt"
    place.parent.mkdir()
    (into / FDB).rename(place)
    (into / FDB).symlink_to(place)
    return place


def test_promoting_and_undoing_follow_a_link(into: Path, real: Path) -> None:
    before = real.read_text()
    put(into, contents(FDB, find_record(2, B=0.5)))
    assert (into / FDB).is_symlink() and find_record(2, B=0.5).line in real.read_text()
    undo(Promotions(into))
    assert (into / FDB).is_symlink() and real.read_text() == before


def test_an_export_follows_a_link(into: Path, real: Path) -> None:
    publish(contents(FDB, find_record(2, B=0.5)), into, ExportOrigin("L"), replacing=True)
    assert (into / FDB).is_symlink() and real.read_text() == find_record(2, B=0.5).line + "\n"


def test_a_link_may_lead_to_another_disk(
    into: Path, real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, source = Path.replace, tmp_path / "new"
    source.write_text("new")

    def on_one_disk(path: Path, target: Path) -> Path:
        if path.parent != target.parent:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return moved(path, target)

    monkeypatch.setattr(Path, "replace", on_one_disk)
    put_in_place(source, into / FDB)
    assert real.read_text() == "new" and not source.exists()
    assert (into / FDB).is_symlink() and [path.name for path in real.parent.iterdir()] == [
        "real.txt"
    ]


def test_links_that_cannot_be_followed_are_refused_before_anything_changes(
    into: Path, real: Path
) -> None:
    other = "gfx900_64.HIP.fdb.txt"
    (into / other).symlink_to(real)
    before = tree(into)
    two = [contents(name, find_record(2, B=0.5)) for name in (FDB, other)]
    with pytest.raises(UsageError, match="are the same file"):
        put(into, *two)
    assert tree(into) == before and not Promotions(into).all()
    real.unlink()
    with pytest.raises(UsageError, match="is a link to a missing file"):
        put(into, two[0])
