"""The progress of a sweep on a terminal and in a log file."""

import io
from dataclasses import replace

import pytest
from rich.console import Console
from sweeps import trial

from skipjack.core import Config, Status
from skipjack.report.sweep import sweep_progress
from skipjack.report.sweep.terminal import aged, done_text, live_view, time_line
from skipjack.sweep.engine import SweepProgress

RUN = trial(3, {"batch": 8, "threads": 2}, 1203.4)
STANDING = SweepProgress(
    "search", 3, 12, RUN, best=RUN, elapsed_s=242.0, eta_s=720.0, metric="samples_per_second",
    counts={Status.OK: 1, Status.CRASH: 2, Status.OUT_OF_MEMORY: 1},
)  # fmt: skip


def lines_of(*standings: SweepProgress, terminal: bool = False, enabled: bool = True) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100, highlight=False)
    with sweep_progress(enabled, console) as observe:
        for standing in standings:
            observe(standing)
    return stream.getvalue()


def drawn(standing: SweepProgress, width: int = 100) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width, highlight=False).print(live_view(standing))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_a_log_file_gets_one_line_for_each_run_that_ended() -> None:
    begins = replace(STANDING, trial=None, running=Config(batch=16))
    crash = trial(4, {"batch": 16}, None, reason="exit code 3\n\x1b[31mred")
    failed = replace(STANDING, done=4, trial=crash)
    assert lines_of(STANDING, begins, failed).splitlines() == [
        "run 3/12 batch=8 threads=2: 1203.4 samples_per_second (best)",
        "run 4/12 batch=16: crash: exit code 3 red",
    ]


def test_a_line_says_what_a_run_was_for_and_whether_it_was_known() -> None:
    known = trial(5, {"batch": 8}, 1100.0, purpose="confirm", cached=True)
    line = lines_of(replace(STANDING, done=5, trial=known))
    assert line == "run 5/12 batch=8: 1100 samples_per_second (confirm, known)\n"


def test_a_long_point_is_not_folded_in_a_log_file() -> None:
    point = {f"parameter_{number}": number for number in range(20)}
    assert len(lines_of(replace(STANDING, trial=trial(1, point, 1.0))).splitlines()) == 1


def test_square_brackets_are_no_markup() -> None:
    odd = trial(6, {"shape": "[red]x[/red]"}, None, reason="bad [bold]")
    assert 'shape="[red]x[/red]": crash: bad [bold]' in lines_of(replace(STANDING, trial=odd))
    assert "[red]x[/red]" in "\n".join(drawn(replace(STANDING, running=odd.point)))


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_is_shown_where_nobody_wants_it(terminal: bool) -> None:
    assert lines_of(STANDING, terminal=terminal, enabled=False) == ""


def test_a_terminal_shows_the_best_the_point_and_the_failures() -> None:
    lines = drawn(replace(STANDING, running=Config(batch=16)))
    assert "search: 3/12 runs, 4 min 2 s so far, about 12 min 0 s left" in lines[0]
    assert lines[1:] == [
        "now: batch=16",
        "best: 1203.4 samples_per_second at batch=8 threads=2",
        "failed: 2 crash, 1 out of memory",
    ]


def test_a_terminal_is_drawn_on() -> None:
    assert "best: 1203.4" in lines_of(STANDING, terminal=True)


def test_a_narrow_terminal_keeps_the_height() -> None:
    running = Config(**{f"parameter_{number}": number for number in range(20)})
    assert len(drawn(replace(STANDING, running=running), width=40)) == 4


def test_nothing_measured_yet_is_shown_as_such() -> None:
    lines = drawn(SweepProgress("baseline", 0, None, running=Config(batch=4)))
    assert lines == ["baseline: 0 runs, 0.0 s so far", "now: batch=4", "best: none yet"]


def test_time_goes_on_while_a_run_does() -> None:
    later = aged(STANDING, 100.0)
    assert (later.elapsed_s, later.eta_s) == (342.0, 620.0)
    assert aged(STANDING, 1000.0).eta_s == 0.0
    assert aged(replace(STANDING, eta_s=None), 5.0).eta_s is None


def test_a_search_that_decides_as_it_goes_has_a_bound_or_no_end() -> None:
    bounded = replace(STANDING, at_most=True)
    assert done_text(bounded) == "3 of up to 12"
    assert time_line(bounded).endswith("at most 12 min 0 s left")
    assert done_text(replace(STANDING, planned=None)) == "3"
    assert "left" not in time_line(replace(STANDING, eta_s=None))
