"""Reports on searches: CSV, tables, plots and graphs."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from skipjack.learn.loops import LoopGame, Preset
from skipjack.learn.tree import SearchBudget, SearchRun, method_of, run_search
from skipjack.operations import parse
from skipjack.report.loops import (
    COLUMNS,
    PlotsMissingError,
    graph_text,
    print_searches,
    run_record,
    search_graphs,
    search_plots,
    steps_text,
    summarize_searches,
    write_graphs,
    write_search_plots,
)
from skipjack.report.loops.graph import BEST, GraphNode, SearchGraph, picture_of
from skipjack.report.loops.plots import best_gain_curve, draw_problems
from skipjack.solvers.cpu.nest import Schedule, ScheduleLimits
from skipjack.testing.samples import matmul_nest

PROBLEM = parse("matmul:32x32x32")
GAME = LoopGame(matmul_nest(32, 32, 32), ScheduleLimits(8, 16, 512), preset=Preset.LOOPTUNE)


class ByLength:
    """The more loops, the faster; with five loops it cannot be built."""

    measured = 0

    def seconds(self, problem: object, schedules: list[Schedule]) -> list[float | None]:
        lengths = [len(schedule.loops) for schedule in schedules]
        return [None if length == 5 else 1e-3 / length for length in lengths]


def run_of(kind: str, seed: int = 0, **parameters: int) -> SearchRun:
    method = method_of(kind, **parameters)
    return run_search(
        PROBLEM, GAME, ByLength(), method, SearchBudget(40, 6), seed=seed, flops=65536.0
    )


RUNS = [run_of("beam", width=2), run_of("random"), run_of("random", seed=1), run_of("genetic")]


def test_every_step_is_a_row_of_the_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(steps_text(RUNS))))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == sum(len(run.steps) for run in RUNS)
    first, second = rows[:2]
    assert (first["action"], first["actions"], first["cached"], first["step"]) == ("", "", "0", "0")
    assert second["action"] == second["actions"] != ""
    assert {row["seconds"] for row in rows} >= {"", "0.000333333333"}
    step = RUNS[0].steps[-1]
    last = rows[len(RUNS[0].steps) - 1]
    assert last["actions"].split(",") == list(step.actions)
    assert (last["schedule"], int(last["measured"])) == (step.schedule, step.measured)


def test_searches_are_summed_up_by_geometric_means() -> None:
    beam, random, _ = summarize_searches(RUNS)
    assert (beam.search, beam.problems, beam.seeds) == ("beam-2", 1, 1)
    assert random.seeds == 2
    gains = [run.gain for run in RUNS if run.search == "random"]
    assert random.mean == pytest.approx((gains[0] * gains[1]) ** 0.5)
    assert random.low is None, "one problem has no interval"
    many = [run_with(problem=str(number)) for number in range(5)]
    (summed,) = summarize_searches(many)
    assert summed.low == pytest.approx(summed.mean) == pytest.approx(summed.high)


def run_with(problem: str) -> SearchRun:
    first = RUNS[0]
    return SearchRun(problem, first.search, first.seed, first.steps, first.flops)


def test_the_table_names_what_was_found() -> None:
    stream = io.StringIO()
    print_searches(RUNS, Console(file=stream, width=200))
    text = stream.getvalue()
    best = RUNS[0].best
    assert f"{PROBLEM.key} beam-2 0: {best.schedule}" in text
    assert f"by {','.join(best.actions)}" in text
    assert "median" in text, "several runs of one search are summed up"


def test_the_record_of_a_run_says_what_the_table_says() -> None:
    record = run_record(RUNS[0])
    assert record["gain"] == RUNS[0].gain
    assert record["gflops"] == pytest.approx(65536.0 / RUNS[0].best.seconds / 1e9)
    assert record["schedule"] == RUNS[0].best.schedule


def test_the_best_so_far_never_falls_and_ends_with_the_mean_gain() -> None:
    some = [run for run in RUNS if run.search == "random"]
    for by_time in (False, True):
        xs, ys = best_gain_curve(some, by_time=by_time)
        assert xs == sorted(xs)
        assert ys == sorted(ys)
        assert ys[-1] == pytest.approx(summarize_searches(some)[0].mean)


def test_plots_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = {path.name for path in write_search_plots(RUNS, tmp_path)}
    assert names == {"gains.svg", "problems.svg", "gain-per-action.svg", "best-so-far.svg"}
    assert all((tmp_path / name).read_bytes().startswith(b"<?xml") for name in names)
    assert search_plots([]) == {}


def test_bars_of_problems_have_rates_and_seconds_as_means_over_seeds() -> None:
    pytest.importorskip("matplotlib")
    drawn = draw_problems(RUNS)
    assert drawn is not None
    rates, seconds = ([bar.get_height() for bar in axes.patches] for axes in drawn.axes)
    assert len(rates) == len(seconds) == 4, "untuned, and each search"
    some = [run for run in RUNS if run.search == "random"]
    assert seconds[2] == pytest.approx(sum(run.elapsed_s for run in some) / 2)
    assert seconds[0] == 0
    assert rates[1] == pytest.approx(65536.0 / RUNS[0].best.seconds / 1e9)


def test_without_matplotlib_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PlotsMissingError, match=r"install skipjack\[plots\]"):
        write_search_plots(RUNS, tmp_path)


def test_the_graph_has_every_state_once_and_the_best_path_in_red() -> None:
    text = graph_text(search_graphs(RUNS[:2], {PROBLEM.key: GAME}))
    assert text.count("subgraph cluster_") == 2
    first = text.split("subgraph cluster_1")[0]
    nodes = [line for line in first.splitlines() if "fillcolor" in line]
    assert len(set(nodes)) == len(nodes)
    red_nodes = [line for line in nodes if "penwidth=3" in line]
    red_edges = [line for line in first.splitlines() if "->" in line and "penwidth=3" in line]
    length = len(RUNS[0].best.actions)
    assert (len(red_nodes), len(red_edges)) == (length + 1, length)
    assert [line.split('label="')[1].split('"')[0] for line in red_edges] == sorted(
        RUNS[0].best.actions, key=RUNS[0].best.actions.index
    )
    assert '"m k n' in first.replace("\\n", '"'), "nodes name the schedule"


def test_the_picture_has_every_state_and_action_and_is_well_formed(tmp_path: Path) -> None:
    graphs = search_graphs(RUNS[:2], {PROBLEM.key: GAME})
    written = write_graphs(tmp_path / "graph.svg", graphs)
    assert [path.name for path in written] == ["graph.dot", "graph.svg"]
    picture = ElementTree.parse(written[1]).getroot()
    space = "{http://www.w3.org/2000/svg}"
    boxes = picture.findall(f"{space}rect")[1:]
    assert len(boxes) == sum(len(graph.nodes) for graph in graphs)
    edges = picture.findall(f"{space}path")
    assert len(edges) == sum(len(graph.edges) for graph in graphs)
    red = [edge for edge in edges if edge.get("stroke") == BEST]
    assert len(red) == sum(len(run.best.actions) for run in RUNS[:2])
    texts = [text.text for text in picture.findall(f"{space}text")]
    assert {graph.title for graph in graphs} <= set(texts)


def test_boxes_of_the_picture_do_not_overlap_and_lie_in_it() -> None:
    (graph,) = search_graphs(RUNS[:1], {PROBLEM.key: GAME})
    picture = ElementTree.fromstring(picture_of([graph]))
    frame, *boxes = picture.findall("{http://www.w3.org/2000/svg}rect")
    assert frame.get("fill") == "white"
    places = [tuple(float(box.get(n) or 0) for n in ("x", "y", "width", "height")) for box in boxes]
    for at, (x, y, width, height) in enumerate(places):
        assert x >= 0
        assert x + width <= float(picture.get("width") or 0)
        assert y + height <= float(picture.get("height") or 0)
        for left, top, *_ in places[at + 1 :]:
            assert top != y or abs(left - x) >= min(width, 10)


def test_texts_of_a_picture_are_escaped_and_a_text_alone_can_be_had(tmp_path: Path) -> None:
    node = GraphNode(("<a & b>",), "#ffffff", 0, False)
    graph = SearchGraph("x < y", (node,), ())
    assert "&lt;a &amp; b&gt;" in picture_of([graph])
    assert [path.name for path in write_graphs(tmp_path / "other.dot", [graph])] == ["other.dot"]
    ElementTree.fromstring(picture_of([]))
