"""Which files make a benchmark what it is."""

from pathlib import Path

import pytest

from skipjack.sweep.commands import code_digest, remember_code
from skipjack.sweep.commands.sources import SourceTracker


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "kernel.c").write_text("int x = 1;")
    (tmp_path / "work" / "sweep.py").write_text("a = [1]")
    return tmp_path


def digest(place: Path) -> str:
    work = place / "work"
    return code_digest(work, place / "state", (work / "sweep.py",))


def test_edited_and_removed_code_is_other_code(place: Path) -> None:
    before = digest(place)
    (place / "work" / "kernel.c").write_text("int x = 2;")
    assert digest(place) != before
    (place / "work" / "kernel.c").write_text("int x = 1;")
    assert digest(place) == before
    (place / "work" / "kernel.c").unlink()
    assert digest(place) != before


def test_the_sweep_file_and_data_do_not_count(place: Path) -> None:
    before = digest(place)
    (place / "work" / "sweep.py").write_text("a = [1, 2]")
    (place / "work" / "result.json").write_text("{}")
    assert digest(place) == before


def test_code_that_is_added_later_does_not_count(place: Path) -> None:
    remember_code(place / "work", place / "state", (place / "work" / "sweep.py",))
    before = digest(place)
    (place / "work" / "another.py").write_text("b = [2]")
    assert digest(place) == before


def test_a_network_that_builds_read_counts(place: Path) -> None:
    network = place / "work" / "model.onnx"
    network.write_bytes(b"one")
    before = digest(place)
    network.write_bytes(b"two")
    assert digest(place) != before


def test_what_builds_write_does_not(place: Path) -> None:
    (place / "work" / "engine.onnx").write_bytes(b"one")
    watch = SourceTracker(place / "work", place / "state")
    watch.begin()
    watch.wrote(["engine.onnx"])
    watch.close()
    before = digest(place)
    (place / "work" / "engine.onnx").write_bytes(b"two")
    assert digest(place) == before
