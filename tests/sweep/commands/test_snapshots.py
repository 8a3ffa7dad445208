"""Files that builds leave in the working directory, and directories of builds that are kept."""

import os
from pathlib import Path

import pytest

from skipjack.errors import StorageError
from skipjack.sweep.commands import snapshots
from skipjack.sweep.commands.build_store import BuildOutput, BuildStore
from skipjack.sweep.commands.snapshots import changed, files_of, keep, restore, snapshot


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_snapshot_tells_new_and_changed_files_from_others(tmp_path: Path) -> None:
    for name in ("same", "changed", "sub/same"):
        write(tmp_path / name, "x")
    before = snapshot(tmp_path)
    write(tmp_path / "changed", "y")
    write(tmp_path / "sub/new", "z")
    write(tmp_path / ".git/index", "z")
    write(tmp_path / "ours/file", "z")
    after = snapshot(tmp_path, skip=[tmp_path / "ours"])
    assert before and after
    assert set(changed(before, after)) == {"changed", "sub/new"}


def test_a_huge_directory_is_not_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MOST_FILES", 3)
    for number in range(4):
        write(tmp_path / str(number), "")
    assert snapshot(tmp_path) is None


def test_kept_files_come_back_with_their_permissions_and_links(tmp_path: Path) -> None:
    here, place = tmp_path / "here", tmp_path / "kept"
    write(here / "build/engine", "A").chmod(0o755)
    (here / "latest").symlink_to("build/engine")
    names = ("build/engine", "latest")
    keep(names, here, place)
    write(here / "build/engine", "B").chmod(0o600)
    (here / "latest").unlink()
    assert restore(names, place, here) == 2
    assert (here / "latest").readlink() == Path("build/engine")
    assert (here / "latest").read_text() == "A"
    assert os.access(here / "build/engine", os.X_OK)
    assert restore(names, place, here) == 0


def test_output_paths_stand_for_all_below_them(tmp_path: Path) -> None:
    write(tmp_path / "out/a/b", "")
    write(tmp_path / "single", "")
    assert set(files_of(tmp_path, ["out", "single", "missing"])) == {"out/a/b", "single"}


@pytest.fixture
def built(tmp_path: Path) -> BuildStore:
    return BuildStore(tmp_path / "builds", quota_bytes=250)


def add(trees: BuildStore, key: str, size: int = 100, pinned: tuple[str, ...] = ()) -> None:
    write(trees.begin(key) / "object", "x" * size)
    trees.finish(key, 1.5, pinned=pinned)


def test_a_finished_build_is_found_again_in_the_next_sitting(
    built: BuildStore, tmp_path: Path
) -> None:
    add(built, "a")
    built.close()
    again = BuildStore(tmp_path / "builds")
    tree = again.find("a")
    assert tree is not None
    assert (tree.key, tree.seconds, tree.size_bytes) == ("a", 1.5, 100)
    assert (tree.directory / "object").exists()


def test_half_a_build_is_never_reused(built: BuildStore, tmp_path: Path) -> None:
    write(built.begin("a") / "object", "half")
    assert built.find("a") is None
    built.close()
    assert BuildStore(tmp_path / "builds").find("a") is None
    assert not list((tmp_path / "builds").rglob("object"))


def test_the_build_that_was_used_longest_ago_makes_room(built: BuildStore) -> None:
    add(built, "a")
    add(built, "b")
    assert built.find("a")
    add(built, "c")
    assert ("a" in built, "b" in built, "c" in built) == (True, False, True)


def test_a_build_in_use_stays_whatever_the_quota_says(built: BuildStore) -> None:
    add(built, "a")
    add(built, "b")
    add(built, "c", pinned=("a",))
    assert ("a" in built, "b" in built, "c" in built) == (True, False, True)
    add(built, "large", 1000)
    assert "large" in built


def test_age_survives_a_sitting(built: BuildStore, tmp_path: Path) -> None:
    for key in ("a", "b"):
        add(built, key)
        os.utime(built.log_of(key).with_name("build.json"), (1, 1))
    assert built.find("a")
    built.close()
    again = BuildStore(tmp_path / "builds", quota_bytes=250)
    add(again, "c")
    assert ("a" in again, "b" in again) == (True, False)


def test_what_a_build_depends_on_is_part_of_its_name(built: BuildStore) -> None:
    add(built, "a")
    built.depends_on = "another command"
    assert built.find("a") is None


def test_a_second_process_is_refused(built: BuildStore, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"builds.lock was still held by process"):
        BuildStore(tmp_path / "builds")


def test_a_full_disk_leaves_no_half_build(
    built: BuildStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> int:
        raise OSError(28, "No space left on device")

    write(tmp_path / "work/engine", "x")
    built.begin("a")
    monkeypatch.setattr(snapshots, "copy", full)
    with pytest.raises(StorageError, match="disk full"):
        built.finish("a", 1.0, BuildOutput(("engine",)), tmp_path / "work")
    assert built.find("a") is None
