"""What a training shows while it runs."""

import io

from rich.console import Console

from skipjack.learn.runs import TrainingProgress
from skipjack.report.loops import sparkline, training_line, training_progress

CURVES = {"iteration": 3, "steps": 1920, "seconds": 9.5, "speed_up": 1.834, "loss": -0.02}
PROGRESS = TrainingProgress(3, 1920, 6400, 9.5, 210.0, CURVES)


def shown(terminal: bool, *before: dict[str, str]) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None)
    with training_progress(True, before, console) as show:
        show(PROGRESS)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_line_says_where_the_run_stands_and_what_it_reaches() -> None:
    line = training_line(PROGRESS)
    assert line.startswith("iteration 3, 1920 of 6400 steps, 210 steps/s, 9.5 s so far, about 21 s")
    assert line.endswith("speed up 1.834, loss -0.02")


def test_curves_are_drawn_from_low_to_high_in_a_limited_width() -> None:
    assert sparkline([0.0, 1.0, 2.0, 7.0]) == "▁▂▃█"
    assert sparkline([5.0, 5.0]) == "▁▁"
    assert len(sparkline(list(range(1000)))) == 48
    assert sparkline([1.0, 3.0, 10.0, 12.0], points=2) == "▁█"


def test_elsewhere_than_on_a_terminal_there_are_lines() -> None:
    assert shown(False).strip() == training_line(PROGRESS)


def test_a_resumed_run_goes_on_with_its_curves() -> None:
    assert "speed up ▁ 1.834" in shown(True)
    before = {"iteration": "2", "steps": "1280", "speed_up": "0.9", "loss": ""}
    assert "speed up ▁█ 1.834" in shown(True, before)


def test_nothing_is_shown_to_machines() -> None:
    with training_progress(False) as show:
        show(PROGRESS)
