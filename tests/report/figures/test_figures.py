"""Figures are valid SVG with the marks that they should have, whatever the data."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from figure_examples import MARKUP, TIME, TRIAL, failed_figures, figures, odd_figures, values

from skipjack.report import figures as figures_module
from skipjack.report.figures import (
    BarFigure,
    Figure,
    FigureAxis,
    FigureBar,
    HeatMapFigure,
    LineFigure,
    LineSeries,
    ParallelAxis,
    ParallelFigure,
    ParallelLine,
    PngMissingError,
    figure_stylesheet,
    png,
    svg,
)

KINDS = tuple(figures(1))
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?|nan|inf", re.IGNORECASE)


def elements(figure: Figure, name: str, **attributes: str) -> list[ET.Element]:
    """The elements of a figure with this name, whose attributes contain these words."""
    root = ET.fromstring(svg(figure))
    return [
        one
        for one in root.iter(f"{{http://www.w3.org/2000/svg}}{name}")
        if all(word in one.get(key.rstrip("_"), "").split() for key, word in attributes.items())
    ]


def texts(figure: Figure) -> list[str]:
    """All texts that are drawn."""
    return [
        (one.text or "") + "".join(inner.tail or "" for inner in one)
        for one in elements(figure, "text")
    ]


def check_coordinates(text: str) -> None:
    """Every coordinate is a number, in or near the picture."""
    root = ET.fromstring(text)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert 100 <= width <= 5_000
    assert 10 <= height <= 10_000
    for one in root.iter():
        for key in ("x", "y", "cx", "cy", "width", "height", "r"):
            if key in one.attrib and "%" not in one.attrib[key]:
                assert -300 <= float(one.attrib[key]) <= max(width, height) + 300, one.attrib
        for found in NUMBER.findall(one.get("d", "")):
            assert -300 <= float(found) <= max(width, height) + 300, one.attrib


ALL = {
    **{f"{kind} of {n}": drawn for n in (0, 1, 2, 30) for kind, drawn in figures(n).items()},
    **{f"odd {kind}": drawn for kind, drawn in odd_figures().items()},
    **{f"failed {kind}": drawn for kind, drawn in failed_figures().items()},
}


@pytest.mark.parametrize("name", ALL)
def test_a_figure_is_xml_with_coordinates_inside_it(name: str) -> None:
    for text in (svg(ALL[name]), svg(ALL[name], "dark", 400.0)):
        check_coordinates(text)
        assert "nan" not in re.sub(r"<(title|desc|text).*?</\1>", "", text).lower()


@pytest.mark.parametrize("name", ALL)
def test_a_figure_has_a_name_and_a_description(name: str) -> None:
    root = ET.fromstring(svg(ALL[name]))
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert root.find("{http://www.w3.org/2000/svg}desc") is not None


@pytest.mark.parametrize("kind", KINDS)
def test_markup_and_control_characters_are_shown_and_not_obeyed(kind: str) -> None:
    text = svg(odd_figures()[kind])
    assert "<script" not in text
    assert "\x1b" not in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize("kind", KINDS)
def test_pages_with_a_strict_policy_can_show_it(kind: str) -> None:
    text = svg(figures(20)[kind])
    assert " style=" not in text
    assert "<style" not in text
    assert " on" not in re.sub(r">[^<]*<", "><", text)


@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_marks_stay_a_small_file(kind: str) -> None:
    drawn = svg(figures(10_000)[kind])
    check_coordinates(drawn)
    assert len(drawn) < 300_000


def test_a_file_has_colors_and_no_variables() -> None:
    for theme in ("light", "dark"):
        text = svg(figures(3)["line"], theme)
        assert "var(" not in text
        assert "<style>" in text
    assert svg(figures(3)["line"], "light") != svg(figures(3)["line"], "dark")


def test_the_stylesheet_has_every_color_for_light_and_dark() -> None:
    style = figure_stylesheet()
    names = set(re.findall(r"var\(--fig-([a-z0-9]+)\)", style))
    for name in names:
        assert style.count(f"--fig-{name}:") == 4, name  # light, dark, dark by choice, print


def test_each_trial_is_a_point_and_each_failure_a_cross() -> None:
    ys = [1.0, None, 3.0, float("nan"), 5.0]
    figure = LineFigure("t", TRIAL, TIME, [LineSeries("t", range(5), ys, "points")])
    assert len(elements(figure, "circle", class_="dot")) == 3 + 1  # and one in the legend
    assert len(elements(figure, "path", class_="cross")) == 2 + 1


def test_a_point_says_what_it_is() -> None:
    series = LineSeries("a trial", [7], [1.5e6], "points", texts=["tile_m=64"])
    figure = LineFigure("t", TRIAL, TIME, [series])
    assert "trial 7: 1.5 ms, tile_m=64" in svg(figure)


def test_thinning_keeps_the_extremes_and_says_so() -> None:
    ys = [5.0 + (number % 100) / 100 for number in range(10_000)]
    ys[3_333], ys[7_777] = 1.0, 9.0
    axis = FigureAxis("y", log=False)
    points = LineFigure("t", TRIAL, axis, [LineSeries("t", range(10_000), ys, "points")])
    line = LineFigure("t", TRIAL, axis, [LineSeries("t", range(10_000), ys)])
    heights = []
    for figure, marks in ((points, "dots"), (line, "line")):
        path = elements(figure, "path", class_=marks)[0].get("d", "")
        heights.append([float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path)])
        assert len(heights[-1]) < 4_000
    assert (min(heights[0]), max(heights[0])) == (min(heights[1]), max(heights[1]))
    assert "of 10000 points of t are drawn" in svg(points)


def test_a_line_has_a_gap_where_there_is_no_value() -> None:
    ys = [1.0, 2.0, None, 3.0, 4.0]
    figure = LineFigure("t", TRIAL, TIME, [LineSeries("t", range(5), ys)])
    assert len(elements(figure, "path", class_="line")) == 2


@pytest.mark.parametrize(
    ("unit", "ys", "name", "some"),
    [
        ("ns", [1e6, 3e6], "y, ms", "2.0"),
        ("ns", [120.0, 180.0], "y, ns", "140"),
        ("ns", [1e3, 1e9], "y", "1 ms"),
        ("s", [3_600.0, 9_000.0], "y, hours", "2.0"),
        ("bytes", [2.0**20, 3 * 2.0**20], "y, MiB", "2.0"),
        ("share", [0.1, 0.3], "y, %", "20"),
        ("count", [0.0, 1_200_000.0], "y", "0.5 M"),
        ("", [0.0, 1e-6], "y", "2e-7"),
        ("", [1e6, 1e6 + 2], "y", "1000001.0"),
    ],
)
def test_ticks_are_in_a_unit_that_reads_well(
    unit: str, ys: list[float], name: str, some: str
) -> None:
    axis = FigureAxis("y", unit)  # type: ignore[arg-type]
    drawn = texts(LineFigure("t", TRIAL, axis, [LineSeries("t", [0, 1], ys)]))
    assert name in drawn
    assert some in drawn


def test_times_of_the_day_say_which_day() -> None:
    axis = FigureAxis("time", "time")
    xs = [1_790_000_000.0 + 3_600 * hour for hour in range(20)]
    drawn = texts(LineFigure("t", axis, TIME, [LineSeries("t", xs, values(20))]))
    assert "time, UTC, from 2026-09-21" in drawn
    assert any(text.startswith("22 Sep ") for text in drawn)


def test_whole_numbers_have_no_ticks_in_between() -> None:
    drawn = texts(LineFigure("t", TRIAL, TIME, [LineSeries("t", [1, 2], [1.0, 2.0])]))
    assert [text for text in drawn if text in ("1", "1.5", "2")][-2:] == ["1", "2"]


def test_long_names_lose_their_middle_and_are_told_in_full() -> None:
    name = "solver-" + "x" * 200 + "-end"
    drawn = svg(BarFigure("t", TIME, [FigureBar(name, 1.0)]))
    assert name in drawn
    shown = next(
        text for text in texts(BarFigure("t", TIME, [FigureBar(name, 1.0)])) if "…" in text
    )
    assert shown.startswith("solver-")
    assert shown.endswith("-end")


def test_bars_carry_their_intervals_and_notes() -> None:
    bars = [FigureBar("a", 1e6, 0.9e6, 1.1e6), FigureBar("b", None, note="crashed", kind="failed")]
    figure = BarFigure("t", TIME, bars)
    assert len(elements(figure, "rect", class_="f-plain")) == 1
    assert len(elements(figure, "path", class_="whisker")) == 3
    assert {"1 ms", "crashed"} <= set(texts(figure))


def test_cells_of_a_heat_map() -> None:
    cells: dict[tuple[int, int], float | None] = {(0, 0): 1.0, (1, 0): None}
    figure = HeatMapFigure("t", "a", "b", ["1", "2", "3"], ["x"], cells, best=(0, 0))
    filled = [one for one in elements(figure, "rect", class_="edge") if one.get("fill")]
    assert len(filled) == 1
    assert len(elements(figure, "path", class_="cross")) == 1 + 1  # and one in the legend
    assert len(elements(figure, "rect", class_="l-best")) == 1 + 1


def test_the_best_of_many_lines_is_drawn() -> None:
    axis = ParallelAxis("a", ["1", "2"])
    lines = [ParallelLine([n % 2], float(n + 1), f"c{n}", n == 4_321) for n in range(10_000)]
    figure = ParallelFigure("t", [axis], lines, TIME)
    assert "c4321" in svg(figure)
    assert len(elements(figure, "path", class_="half")) <= 1_000


def test_equal_values_and_markup_names_have_distinct_ticks() -> None:
    figure = LineFigure(MARKUP, TRIAL, FigureAxis("y"), [LineSeries("t", [1, 2], [5.0, 5.0])])
    drawn = [text for text in texts(figure) if re.fullmatch(r"[\d.]+", text)]
    assert len(drawn) > 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_png_of_each(kind: str) -> None:
    pytest.importorskip("resvg_py")
    try:
        data = png(figures(20)[kind], zoom=1.0)
    except PngMissingError as error:
        pytest.skip(str(error))
    assert data.startswith(b"\x89PNG")
    assert len(data) > 2_000


def test_without_the_library_a_png_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "resvg_py", None)
    with pytest.raises(PngMissingError, match=r"skipjack\[png\]"):
        figures_module.png(figures(3)["line"])
