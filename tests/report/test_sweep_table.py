"""The report of a sweep: the best point first, its gain, failures, texts to paste."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console
from sweeps import LATENCY, RATE, grid, sweep, trial

from skipjack.core import Status
from skipjack.report.sweep import print_sweep
from skipjack.sweep.engine import SweepResult
from skipjack.sweep.results import setting_text


def printed(result: SweepResult, width: int = 120) -> list[str]:
    stream = io.StringIO()
    print_sweep(result, Console(file=stream, width=width, highlight=False))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_the_best_setting_comes_first_beside_the_baseline() -> None:
    assert printed(grid())[:5] == [
        "resnet: samples_per_second 1205 (± 0.4 %)",
        "  batch  = 8   (was 4)",
        "  layout = NHWC   (was NCHW)",
        "  1.51 [1.49, 1.52] times as good as the baseline (800), from 3 pairs of runs",
        "  3 of 3 confirming runs held",
    ]


def test_points_are_ranked_by_the_mean_of_their_runs() -> None:
    lines = printed(grid())
    start = lines.index("the best 4 of 4 points")
    cells = [line.split() for line in lines[start + 3 : start + 7]]
    assert cells == [
        ["1205", "0.4", "%", "2", "8", "NHWC"],
        ["1000", "-", "1", "8", "NCHW"],
        ["900", "-", "1", "4", "NHWC"],
        ["800", "-", "1", "4", "NCHW"],
    ]


def test_only_the_first_ten_are_shown() -> None:
    lines = printed(sweep([trial(n, {"a": n}, float(n)) for n in range(30)]))
    start = lines.index("the best 10 of 30 points")
    assert [line.split()[0] for line in lines[start + 3 : start + 14] if line] == [
        str(n) for n in range(29, 19, -1)
    ]


def test_what_failed_is_grouped_by_how_with_reason_and_log() -> None:
    lines = printed(grid())
    start = lines.index("out of memory: 1 point")
    assert lines[start + 3].split("  ") == [
        "batch=16 layout=NCHW", "it asked for more memory than there is", "runs/5.txt",
    ]  # fmt: skip
    assert "crash: 1 point" in lines


def test_many_failures_are_cut_and_counted() -> None:
    lines = printed(sweep([trial(n, {"a": n}, None) for n in range(30)]))
    assert "crash: 30 points" in lines
    assert "  and 22 more" in lines


def test_runs_builds_and_time_are_counted() -> None:
    lines = printed(grid())
    assert "7 runs (1 from earlier, 2 failed), 2 builds made, 5 reused, 2 min 5 s" in lines
    assert lines[-1] == "note: no temperature sensor was found"


def test_points_that_were_refused_are_no_runs() -> None:
    refused = trial(2, {"a": 2}, None, status=Status.INFEASIBLE, reason="a rule forbids it")
    lines = printed(sweep([trial(1, {"a": 1}, 1.0), refused], builds=1))
    assert "1 run, 1 point refused, 1 build made, 0 reused, 0.0 s" in lines


def test_a_submitter_can_paste_lines_and_an_overlay() -> None:
    lines = printed(grid(), width=30)
    assert lines[lines.index("for user.conf") + 1] == "*.Offline.target_qps = 1205"
    text = "\n".join(lines[lines.index("to merge into the config") + 1 :])
    overlay, _ = json.JSONDecoder().raw_decode(text)
    assert overlay == {"batch": 8, "layout": "NHWC"}


def test_a_narrow_screen_has_points_as_text() -> None:
    lines = printed(grid(), width=30)
    assert "  samples_per_second 1205, spread 0.4 %, runs 2: batch=8 layout=NHWC" in lines
    assert "  batch=16 layout=NHWC: it ended with exit code 3 (see runs/6.txt)" in lines


def test_several_objectives_have_a_front() -> None:
    trials = [
        trial(n, {"a": n}, rate, metrics={"samples_per_second": rate, "latency_ms": latency})
        for n, (rate, latency) in enumerate([(10.0, 5.0), (20.0, 9.0), (9.0, 6.0)])
    ]
    lines = printed(sweep(trials, objectives=(RATE, LATENCY)))
    start = lines.index("the front: 2 points that no other beats in every objective")
    assert "samples_per_second (max)  latency_ms (min)  a" in lines[start + 1]
    assert [line.split() for line in lines[start + 3 : start + 5]] == [
        ["20", "9", "1"], ["10", "5", "0"],
    ]  # fmt: skip


def test_a_long_front_is_cut_and_counted() -> None:
    trials = [
        trial(n, {"a": n}, float(n), metrics={"samples_per_second": float(n), "latency_ms": n})
        for n in range(30)
    ]
    lines = printed(sweep(trials, objectives=(RATE, LATENCY)))
    assert "the front: 30 points that no other beats in every objective" in lines
    assert "  and 10 more" in lines


def test_short_runs_rank_behind_full_ones_and_say_so() -> None:
    short = trial(1, {"a": 1}, 99.0, purpose="screen")
    lines = printed(sweep([short, trial(2, {"a": 2}, 50.0)]))
    rows = [line.split() for line in lines if line.endswith((" 1", " 2")) and "-" in line]
    assert rows == [["50", "-", "1", "2"], ["99", "-", "1", "short", "1"]]


def test_a_point_that_fails_in_full_is_not_ranked_by_its_short_runs() -> None:
    trials = [trial(1, {"a": 1}, 99.0, purpose="screen"), trial(2, {"a": 1}, None)]
    assert "the best" not in "\n".join(printed(sweep([*trials, trial(3, {"a": 2}, 1.0)])))


def test_a_sweep_without_any_result_says_so() -> None:
    lines = printed(sweep([trial(1, {"a": 1}, None)], interrupted=True))
    assert lines[0] == "resnet: no run has a result, interrupted"
    assert "crash: 1 point" in lines
    assert "to merge into the config" not in lines


def test_an_empty_sweep_is_printed() -> None:
    assert printed(sweep([]))[-1] == "0 runs, 0 builds made, 0 reused, 0.0 s"


def test_the_baseline_may_be_the_best() -> None:
    result = replace(grid(), baseline=grid().best, gain=None, confirmed="")
    assert "  the baseline is the best" in printed(result)
    assert "  not confirmed by further runs" in printed(result)


def test_notes_of_runs_are_counted() -> None:
    trials = [trial(n, {"a": n}, 1.0, notes=("throttled: too hot",)) for n in range(3)]
    assert printed(sweep(trials))[-1] == "note: 3 runs: throttled: too hot"


def test_what_a_benchmark_printed_cannot_draw_on_the_screen() -> None:
    nasty = trial(1, {"a[red]": "x\x1b[2Jy"}, None, reason="[bold]boo\x1b[31m\r\nnext\x07")
    text = "\n".join(printed(sweep([nasty])))
    assert "\x1b" not in text
    assert "[bold]boo" in text
    assert "a[red]=" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(8, "8"), ("8", '"8"'), (True, "true"), ("true", '"true"'), (None, "null"), ("a b", '"a b"'),
     ("fp16", "fp16"), ("", '""'), (1.5, "1.5"), ("x=1", '"x=1"'), ([1], "[1]")],
)  # fmt: skip
def test_values_that_look_alike_are_told_apart(value: object, text: str) -> None:
    assert setting_text(value) == text
