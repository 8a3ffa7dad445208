"""Plots of tunings and finds: their contents, their files, and early checks."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from test_find_tables import RESULT
from test_results_table import GAIN, tuned

from skipjack.core import Config, Status, Trial
from skipjack.errors import StorageError
from skipjack.report.tuning import check_plots
from skipjack.report.tuning.plots import (
    ranking_figure,
    trials_figure,
    write_find_plots,
    write_tune_plots,
)

TRIALS = [
    Trial(Config(n=1), Status.CRASH, reason="SIGILL"),
    Trial(Config(n=2), value=4e3),
    Trial(Config(n=3), value=6e3),
    Trial(Config(n=4), Status.INFEASIBLE, reason="a rule forbids it"),
    Trial(Config(n=5), value=3e3),
]


def test_a_search_is_drawn_with_what_there_was_to_beat() -> None:
    figure = trials_figure(tuned("add:8", {"numpy": GAIN}, trials=TRIALS))
    assert figure is not None
    trials, best = figure.series
    assert list(trials.ys) == [None, 4e3, 6e3, 3e3]
    assert list(best.ys) == [None, 4e3, 4e3, 3e3]
    assert [(one.name, one.value) for one in figure.levels] == [("default", 2e3), ("NumPy", 2e3)]


def test_plots_are_pictures_named_after_the_problem(tmp_path: Path) -> None:
    result = replace(tuned("add:8", {"numpy": GAIN}, trials=TRIALS), deployed="native/hot")
    (path,) = write_tune_plots(result, tmp_path)
    assert path == tmp_path / "add-8-f32.znver4-1.native-hot.best-so-far.svg"
    first = path.read_bytes()
    assert ET.fromstring(first).tag.endswith("svg")
    assert write_tune_plots(result, tmp_path) == [path] and path.read_bytes() == first
    assert write_tune_plots(tuned("add:8", {}), tmp_path) == [], "nothing was tried"


def test_a_find_has_its_ranking_and_its_search(tmp_path: Path) -> None:
    names = [path.name for path in write_find_plots(RESULT, tmp_path)]
    assert names == ["matmul-8x8x8-f32.znver4-1.ranking.svg"]
    found = replace(RESULT, perf=tuned("matmul:8x8x8", {}, trials=TRIALS))
    paths = write_find_plots(found, tmp_path)
    assert [path.suffixes[-2] for path in paths] == [".ranking", ".best-so-far"]
    assert all(ET.parse(path).getroot().tag.endswith("svg") for path in paths)


def test_a_ranking_has_a_bar_for_each_that_ran_and_a_word_for_each_that_failed() -> None:
    figure = ranking_figure(RESULT)
    assert figure is not None
    assert [(bar.name, bar.value, bar.kind) for bar in figure.bars] == [
        ("packed", 1.5e6, "best"),
        ("nest", 1.6e6, "tie"),
        ("numpy", 9e6, "plain"),
        ("rogue", None, "failed"),
    ]
    assert [bar.note for bar in figure.bars] == [
        "1.5 ms",
        "1.6 ms, 1.01 [0.99, 1.03] times the first (tie)",
        "9 ms, 6.00 times the first",
        "crash",
    ]
    assert ranking_figure(replace(RESULT, solvers=RESULT.solvers[-1:])) is None


def test_what_cannot_be_written_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    check_plots(tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot use the directory"):
        check_plots(tmp_path / "file")


def test_the_commands_write_them(
    tmp_path: Path, user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skipjack.cli.main import app

    monkeypatch.setattr(sys, "argv", ["skipjack"])
    words = ["neg:64", "--budget", "1", "--plots", str(tmp_path / "pictures")]
    app(["find", *words], standalone_mode=False)
    kinds = {path.suffixes[-2] for path in (tmp_path / "pictures").glob("neg-64-f32.*.svg")}
    assert kinds == {".best-so-far", ".ranking"}
    app(["tune", *words], standalone_mode=False)
    assert len(list((tmp_path / "pictures").glob("neg-64-f32.*.native-hot.best-so-far.svg"))) == 1
