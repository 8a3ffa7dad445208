"""Plots of all kinds of sweeps, and a self-contained page."""

import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sweeps import LATENCY, RATE, grid, sweep, trial

from skipjack.core import Config, Objective, Status
from skipjack.errors import UsageError
from skipjack.report.figures import HeatMapFigure
from skipjack.report.sweep import write_html, write_plots
from skipjack.report.sweep.page import plots, view_of
from skipjack.report.views import runs_figure, sweep_figures
from skipjack.sweep.engine import SweepResult
from skipjack.sweep.results import (
    axis_of,
    heat_axes,
    heat_cells,
    parameter_effects,
    search_history,
)
from skipjack.sweep.results.parameters import MOST_PLACES

PLOTS = ("best-so-far", "best-so-far-by-time", "heat-map", "parallel-coordinates")


def many() -> SweepResult:
    points = [{"a": n % 7, "b": n * 1.5, "c": ("x", None, True)[n % 3]} for n in range(500)]
    return sweep([
        trial(n, point, None if n % 11 == 0 else float(n), purpose="screen" if n < 40 else "search")
        for n, point in enumerate(points)
    ])  # fmt: skip


ODD = {
    "a grid": grid(),
    "one point": sweep([trial(1, {"a": 1}, 5.0)]),
    "one parameter": sweep([trial(n, {"qps": n}, float(n)) for n in range(4)]),
    "all failed": sweep([trial(n, {"a": n}, None) for n in range(3)]),
    "equal values": sweep([trial(n, {"a": n}, 0.0) for n in range(3)]),
    "formulas": sweep([trial(n, {"a$b_{c": "$\\frac{"}, 1.0) for n in range(2)]),
    "none and nested": sweep([trial(1, {"a": None}, 1.0), trial(2, {"a": {"b": [1]}}, 2.0)]),
    "missing": sweep([trial(1, {"a": 1}, 1.0), trial(2, {"b": "ü"}, 1e9)]),
    "less is better": sweep([trial(n, {"a": n}, float(n)) for n in (1, 2)], objectives=(LATENCY,)),
    "a best from elsewhere": sweep([trial(1, {"a": 1}, 1.0)], best=Config(a=7)),
}


@pytest.mark.parametrize("name", ODD)
def test_whatever_was_swept_can_be_drawn(name: str) -> None:
    drawn = plots(ODD[name])
    assert tuple(name for name in drawn if name not in ("importance", "load")) == PLOTS
    for data in drawn.values():
        assert ET.fromstring(data).tag.endswith("svg")


def test_a_directory_for_plots_is_made(tmp_path: Path) -> None:
    paths = write_plots(ODD["one point"], tmp_path / "new" / "svg")
    assert [path.name for path in paths] == [f"{name}.svg" for name in PLOTS]
    assert all(path.is_file() for path in paths)


def test_five_hundred_points_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    paths = write_plots(many(), tmp_path, "png")
    assert {path.stem for path in paths} >= set(PLOTS)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_without_runs_there_is_nothing_to_draw() -> None:
    assert plots(sweep([])) == {}


def test_the_same_result_has_the_same_bytes() -> None:
    assert plots(grid()) == plots(grid())


def test_two_objectives_have_a_front() -> None:
    metrics = [{"samples_per_second": float(n), "latency_ms": float(n * n)} for n in (1, 2, 30)]
    trials = [trial(n, {"a": n}, m["samples_per_second"], metrics=m) for n, m in enumerate(metrics)]
    both = sweep(trials, objectives=(RATE, LATENCY))
    assert "front" in plots(both)
    other = sweep(trials, objectives=(RATE, Objective("other", "min")))
    assert "front" not in plots(other)
    assert "front" not in plots(sweep(trials))


def test_the_heat_map_frames_the_best_and_marks_what_failed() -> None:
    figure = sweep_figures(view_of(grid()))["heat-map"]
    assert isinstance(figure, HeatMapFigure)
    assert figure.better == "more"
    assert figure.best is not None and figure.cells[figure.best] is not None
    assert None in figure.cells.values()
    asked = sweep_figures(view_of(grid(), ("layout", "batch")))["heat-map"]
    assert isinstance(asked, HeatMapFigure)
    assert {asked.across, asked.up} == {"layout", "batch"}


def test_short_runs_and_failures_are_told_apart() -> None:
    figure = runs_figure(view_of(many()))
    full, short, best = figure.series
    assert (full.mark, short.mark, best.mark) == ("points", "hollow", "step")
    assert (len(full.xs), len(short.xs)) == (460, 40)
    assert sum(y is None for y in (*full.ys, *short.ys)) == 46


def test_numbers_stand_in_order_and_words_as_they_came() -> None:
    points = [Config.of({"n": n, "w": w}) for n, w in ((8, "z"), (2, None), (16, "a"))]
    assert axis_of("n", points).labels == ("2", "8", "16")
    assert axis_of("w", points).labels == ("z", "null", "a")
    mixed = [Config(n=1), Config(m=5), Config(n=True)]
    assert axis_of("n", mixed).labels == ("1", "true", "(none)")


def test_many_numbers_are_put_together_in_ranges() -> None:
    one = axis_of("n", [Config(n=n) for n in range(64)])
    assert len(one.labels) == MOST_PLACES
    assert (one.labels[0], one.labels[-1]) == ("0 to 3", "60 to 63")
    assert [one.place(Config(n=n)) for n in (0, 3, 4, 63)] == [0, 0, 1, 15]


def test_the_parameters_with_most_effect_are_chosen() -> None:
    trials = [
        trial(1, {"little": x, "much": y, "some": z, "none": 1}, 100.0 * y + 10.0 * z + x)
        for x in (1, 2) for y in (1, 2) for z in (1, 2)
    ]  # fmt: skip
    result = sweep(trials)
    assert [one.name for one in parameter_effects(result)] == ["much", "some", "little", "none"]
    pair = heat_axes(result, None)
    assert pair is not None and {one.name for one in pair} == {"much", "some"}
    asked = heat_axes(result, ("none", "little"))
    assert asked is not None and [one.name for one in asked] == ["none", "little"]


def test_a_parameter_that_there_is_not_cannot_be_chosen() -> None:
    with pytest.raises(UsageError, match="'x' is not a parameter; choose from batch, layout"):
        heat_axes(grid(), ("batch", "x"))


def test_cells_hold_medians_of_points_and_failures() -> None:
    trials = [
        *(trial(n, {"a": 1, "b": n}, float(n)) for n in (1, 2, 9)),
        trial(4, {"a": 2, "b": 1}, None), trial(5, {"a": 2, "b": 2}, 4.0),
        trial(6, {"a": 3, "b": 1}, None),
    ]  # fmt: skip
    result = sweep(trials)
    across, flat = axis_of("a", [t.point for t in trials]), axis_of("x", [t.point for t in trials])
    assert heat_cells(result, across, flat) == {(0, 0): 2.0, (1, 0): 4.0, (2, 0): None}


def test_the_best_so_far_is_of_full_runs_and_time_is_of_this_sitting() -> None:
    refused = trial(0, {"a": 0}, None, status=Status.INFEASIBLE)
    past = search_history(sweep([
        refused,
        trial(1, {"a": 1}, 5.0, cached=True),
        trial(2, {"a": 2}, 99.0, purpose="screen"),
        trial(3, {"a": 3}, None, build_seconds=3.0),
        trial(4, {"a": 4}, 7.0),
        trial(5, {"a": 5}, 6.0),
    ]))  # fmt: skip
    assert past.best == (5.0, 5.0, 5.0, 7.0, 7.0)
    assert past.ends_s == (0.0, 2.0, 7.0, 9.0, 11.0)


class Page(HTMLParser):
    """What elements a page has, which of them are open, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [v or "" for n, v in attrs if n.split(":")[-1] in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.words += data


def test_a_page_has_everything_and_loads_nothing(tmp_path: Path) -> None:
    write_html(grid(), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    page = Page(text)
    assert page.tags.count("svg") == 5
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert "url(" not in text
    for words in ("resnet: samples_per_second 1205", "was 4", "it ended with exit code 3",
                  "*.Offline.target_qps = 1205", "3 of 3 confirming runs held"):  # fmt: skip
        assert words in page.words


def test_text_in_a_page_is_text(tmp_path: Path) -> None:
    nasty = "<script>alert(1)</script>"
    result = sweep(
        [trial(1, {nasty: nasty}, 1.0, metrics={nasty: 1.0}), trial(2, {"a": 1}, None, reason=nasty,
         log=nasty, notes=(nasty,))],
        name=nasty, objectives=(Objective(nasty, "max"), LATENCY), user_conf=(nasty,),
        notes=(nasty,), confirmed=nasty,
    )  # fmt: skip
    write_html(result, tmp_path / "page.html")
    page = Page((tmp_path / "page.html").read_text())
    assert "script" not in page.tags
    assert page.words.count(nasty) > 8
