"""What ``skipjack loops search`` ends with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from skipjack.learn.tree import SearchRun
from skipjack.report import screen
from skipjack.report.loops.search_summary import summarize_searches
from skipjack.report.numbers import duration_text, gain_text, rate_text, time_text
from skipjack.report.render import TableColumn, print_rows


def print_searches(runs: Sequence[SearchRun], console: Console | None = None) -> None:
    """A row for every run, the best schedule of each below it, then a row for every search."""
    console = console or screen.out()
    print_rows(
        _columns("problem", "search", "seed", "start", "best", "gain", "rate", "measured", "s"),
        [(run.problem, run.search, str(run.seed), *_cells(run)) for run in runs],
        console=console,
    )
    for run in runs:
        best = run.best
        found = "nothing that runs" if best is None else best.schedule or "no loops"
        console.print(Text(f"{run.problem} {run.search} {run.seed}: {found}"), soft_wrap=True)
        if best is not None and best.actions:
            console.print(Text(f"  by {','.join(best.actions)}"), soft_wrap=True)
    summaries = summarize_searches(runs)
    if len(runs) <= len(summaries):
        return
    console.print()
    rows = [
        (
            each.search,
            str(each.problems),
            str(each.seeds),
            gain_text(each.mean, each.low, each.high),
            *(f"{gain:.2f}" for gain in (each.middle, each.least, each.most)),
            f"{each.measured:.0f}",
            duration_text(each.elapsed_s),
        )
        for each in summaries
    ]
    print_rows(
        _columns("search", "problems", "seeds", "gain", "median", "from", "to", "measured", "s"),
        rows,
        console=console,
    )


def run_line(run: SearchRun) -> str:
    """What came of a run, in one line."""
    how = ", interrupted" if run.interrupted else ""
    gain = gain_text(run.gain, None, None)
    return f"{run.problem} {run.search} seed {run.seed}: x {gain}, {run.measured} measured{how}"


def run_record(run: SearchRun) -> dict[str, Any]:
    """A run for machines; its steps are in the CSV."""
    best = run.best
    return {
        "problem": run.problem,
        "search": run.search,
        "seed": run.seed,
        "start_s": run.start_s,
        "best_s": None if best is None else best.seconds,
        "gain": run.gain,
        "gflops": _gflops(run),
        "schedule": None if best is None else best.schedule,
        "actions": None if best is None else list(best.actions),
        "measured": run.measured,
        "elapsed_s": run.elapsed_s,
        "interrupted": run.interrupted,
    }


def _cells(run: SearchRun) -> list[str]:
    best = run.best
    return [
        _time(run.start_s),
        _time(None if best is None else best.seconds),
        gain_text(run.gain, None, None),
        rate_text(_gflops(run), "GFLOP/s"),
        str(run.measured),
        duration_text(run.elapsed_s),
    ]


def _gflops(run: SearchRun) -> float | None:
    if run.best is None or not run.best.seconds or not run.flops:
        return None
    return run.flops / run.best.seconds / 1e9


def _time(seconds: float | None) -> str:
    return time_text(None if seconds is None else seconds * 1e9)


def _columns(*names: str) -> list[TableColumn]:
    return [TableColumn(name, right=name not in ("problem", "search")) for name in names]
