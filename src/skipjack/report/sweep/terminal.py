"""A sweep on the terminal: progress while it runs, tables at the end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skipjack.core import Status
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.numbers import duration_text, metric_text
from skipjack.report.screen import TableColumn, table
from skipjack.report.sweep.summary import (
    FailureGroup,
    best_settings,
    facts,
    failures,
    gain_sentences,
    headline,
    metric_name,
    overlay_text,
    point_cells,
    remarks,
)
from skipjack.sweep.engine import SweepObserver, SweepProgress, SweepResult, SweepTrial
from skipjack.sweep.results import (
    PointSummary,
    one_line,
    parameter_names,
    pareto_front,
    point_text,
    setting_text,
    summarize,
)
from skipjack.sweep.session import SweepForecast

# Progress of a sweep: a live view on a terminal, otherwise a line for each run.

_BAR = 24


@contextlib.contextmanager
def sweep_progress(enabled: bool, console: Console | None = None) -> Iterator[SweepObserver]:
    """An observer that shows the progress of a sweep on standard error."""
    console = console or screen.err()
    if not enabled:
        yield lambda progress: None
    elif console.is_terminal:
        view = _View()
        # Lines that are printed meanwhile appear above it.
        with Live(view, console=console, transient=True, refresh_per_second=4) as live:
            yield lambda progress: view.show(progress, live)
    else:
        yield lambda progress: _print_run(progress, console)


def _print_run(progress: SweepProgress, console: Console) -> None:
    if progress.trial is not None:
        console.print(Text(run_line(progress, progress.trial)), soft_wrap=True)


def run_line(progress: SweepProgress, trial: SweepTrial) -> str:
    """``run 3/12 batch=8 threads=2: 1203.4 samples_per_second (best)``."""
    return f"run {done_text(progress)} {point_text(trial.point)}: {_outcome(progress, trial)}"


def _outcome(progress: SweepProgress, trial: SweepTrial) -> str:
    if trial.status.failed or trial.value is None:
        reason = one_line(trial.reason)
        return f"{_words(trial.status)}{f': {reason}' if reason else ''}"
    best = progress.best is not None and progress.best.number == trial.number
    remarks = [trial.purpose] if trial.purpose != "search" else []
    remarks += ["known"] if trial.cached else []
    remarks += ["best"] if best else []
    end = f" ({', '.join(remarks)})" if remarks else ""
    return f"{metric_text(trial.value)} {one_line(progress.metric)}".rstrip() + end


def done_text(progress: SweepProgress) -> str:
    """``3/12``, ``3 of up to 12``, or ``3`` if the number of runs is unknown."""
    if progress.planned is None:
        return str(progress.done)
    if progress.at_most:
        return f"{progress.done} of up to {progress.planned}"
    return f"{progress.done}/{progress.planned}"


def time_line(progress: SweepProgress) -> str:
    """``search: 3/12 runs, 4 min 2 s so far, about 12 min left``."""
    left = progress.eta_s
    word = "at most " if progress.at_most else "about "
    end = "" if left is None else f", {word}{duration_text(left)} left"
    spent = duration_text(progress.elapsed_s)
    runs = "run" if (progress.planned or progress.done) == 1 else "runs"
    return f"{one_line(progress.phase)}: {done_text(progress)} {runs}, {spent} so far{end}"


def failures_line(progress: SweepProgress) -> str:
    """``failed: 2 crash, 1 out of memory``; empty if nothing failed."""
    failed = [(number, status) for status, number in progress.counts.items() if status.failed]
    parts = [f"{number} {_words(status)}" for number, status in sorted(failed, reverse=True)]
    return f"failed: {', '.join(parts)}" if parts else ""


def best_line(progress: SweepProgress) -> str:
    """``best: 1203.4 samples_per_second at batch=8 threads=2``."""
    best = progress.best
    if best is None:
        return "best: none yet"
    value = f"{metric_text(best.value)} {one_line(progress.metric)}".rstrip()
    return f"best: {value} at {point_text(best.point)}"


def _words(status: Status) -> str:
    return status.value.replace("_", " ")


class _View:
    """What `Live` draws: the last progress, with the time that has passed since."""

    def __init__(self) -> None:
        self._progress: SweepProgress | None = None
        self._since = 0.0

    def show(self, progress: SweepProgress, live: Live) -> None:
        self._progress, self._since = progress, time.monotonic()
        live.refresh()

    def __rich__(self) -> RenderableType:
        if self._progress is None:
            return Text("starting the sweep")
        return live_view(aged(self._progress, time.monotonic() - self._since))


def aged(progress: SweepProgress, seconds: float) -> SweepProgress:
    """The same progress some seconds later, while a run continues."""
    left = None if progress.eta_s is None else max(0.0, progress.eta_s - seconds)
    return replace(progress, elapsed_s=progress.elapsed_s + seconds, eta_s=left)


def live_view(progress: SweepProgress) -> RenderableType:
    """A bar, if the number of runs is known, and at most four short lines."""
    head = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=progress.planned, completed=progress.done, width=_BAR)
    if progress.planned:
        head.add_row(bar, _short(time_line(progress)))
    else:
        head.add_row(_short(time_line(progress)))
    lines: list[RenderableType] = [head]
    if progress.running is not None:
        lines.append(_short(f"now: {point_text(progress.running)}"))
    lines.append(_short(best_line(progress), "green" if progress.best else ""))
    if failed := failures_line(progress):
        lines.append(_short(failed, "red"))
    return Group(*lines)


def _short(text: str, style: str = "") -> Text:
    """A line that is cut rather than wrapped, so that the view keeps its height."""
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


# The report at the end of ``skipjack sweep``: the best point first, then how it was found.

TOP = 10
_FRONT = 20
_MOST_FAILED = 8
"""How many failed points of each kind are printed; the files have all."""


def print_sweep(result: SweepResult, console: Console | None = None, *, top: int = TOP) -> None:
    """Print the best point, its gain, the next best, failures, and texts to paste."""
    console = console or screen.out()
    _line(console, headline(result), "bold" if result.best else "red")
    _print_best(result, console)
    for sentence in gain_sentences(result):
        _line(console, f"  {sentence}")
    _print_front(result, console)
    _print_top(result, console, top)
    for group in failures(result):
        _print_failures(group, console)
    _print_paste(result, console)
    console.print()
    _line(console, facts(result))
    for note in remarks(result):
        _line(console, f"note: {note}", "yellow")


def _line(console: Console, text: str, style: str = "") -> None:
    """Print a line without wrapping, so that it can be copied."""
    console.print(Text(text, style=style), soft_wrap=True)


def _print_best(result: SweepResult, console: Console) -> None:
    settings = best_settings(result)
    wide = max((len(setting.name) for setting in settings), default=0)
    for setting in settings:
        was = f"   (was {setting.before})" if setting.changed else ""
        text = f"  {setting.name:<{wide}} = {setting.value}{was}"
        _line(console, text, "green" if setting.changed else "")


def _print_top(result: SweepResult, console: Console, top: int) -> None:
    summaries = summarize(result)
    if len(summaries) < 2:
        return
    console.print()
    shown = summaries[:top]
    title = f"the best {len(shown)} of {len(summaries)} points"
    columns = (metric_name(result), "spread", "runs")
    rows = [point_cells(summary) for summary in shown]
    _print_points(title, columns, rows, shown, result, console)


def _print_front(result: SweepResult, console: Console) -> None:
    front = pareto_front(result)
    if not front:
        return
    console.print()
    title = f"the front: {numbered(len(front), 'point')} that no other beats in every objective"
    columns = tuple(f"{one_line(o.metric)} ({o.direction})" for o in result.objectives)
    shown = front[:_FRONT]
    rows = [[metric_text(value) for value in summary.values] for summary in shown]
    _print_points(title, columns, rows, shown, result, console)
    if len(front) > len(shown):
        _line(console, f"  and {len(front) - len(shown)} more")


def _print_points(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    points: Sequence[PointSummary],
    result: SweepResult,
    console: Console,
) -> None:
    """Print a column for each parameter if the screen is wide enough, else points as text."""
    _line(console, title, "bold")
    names = parameter_names(result)
    made = table(
        [
            *(TableColumn(name, right=True) for name in columns),
            *map(one_line, names),
        ],
        [
            (*cells, *(_setting(summary, name) for name in names))
            for cells, summary in zip(rows, points, strict=True)
        ],
        styles=["green" if summary.point == result.best else "" for summary in points],
    )
    if screen.fits(made, console):
        console.print(made)
        return
    for cells, summary in zip(rows, points, strict=True):
        values = ", ".join(f"{n} {c}" for n, c in zip(columns, cells, strict=True) if c != "-")
        _line(console, f"  {values}: {point_text(summary.point)}")


def _setting(summary: PointSummary, name: str) -> str:
    return one_line(setting_text(summary.point[name])) if name in summary.point else ""


def _print_failures(group: FailureGroup, console: Console) -> None:
    console.print()
    _line(console, group.title, "bold red")
    shown = group.failures[:_MOST_FAILED]
    made = table(
        ["point", "reason", "log"], [(loser.point, loser.reason, loser.log) for loser in shown]
    )
    if screen.fits(made, console):
        console.print(made)
    else:
        for loser in shown:
            where = f" (see {loser.log})" if loser.log else ""
            _line(console, f"  {loser.point}: {loser.reason}{where}")
    if len(group.failures) > len(shown):
        _line(console, f"  and {len(group.failures) - len(shown)} more")


def _print_paste(result: SweepResult, console: Console) -> None:
    if result.best is None:
        return
    if result.user_conf:
        console.print()
        _line(console, "for user.conf", "bold")
        for line in result.user_conf:
            _line(console, line)
    console.print()
    _line(console, "to merge into the config", "bold")
    _line(console, overlay_text(result))


_SHOWN = 12
"""How many points of a long plan are printed, besides the last one."""


def print_plan(seen: SweepForecast) -> None:
    """Print the points in order, the builds, and the expected cost."""
    out = screen.out()
    plan = seen.plan
    refused = f", {len(plan.refused)} excluded by the file" if plan.refused else ""
    points = numbered(plan.product, "point") + (" so far" if seen.open_end else "")
    out.print(f"{seen.name}: {points}{refused}; {plan.runs} to run", markup=False)
    for number, point in enumerate(plan.points, start=1):
        if _SHOWN < number < plan.runs:
            if number == _SHOWN + 1:
                out.print(f"  ... {plan.runs - _SHOWN - 1} more")
            continue
        out.print(f"  {number}. {point or 'the base config itself'}", markup=False)
    kept = (
        f" ({plan.rebuilds} if only the last one were kept)" if plan.rebuilds > plan.builds else ""
    )
    out.print(f"builds: {plan.builds}{kept}")
    each = f" with {seen.repeats} runs each" if seen.repeats > 1 else ""
    out.print(f"points to run: {plan.runs - seen.known}{each}; {seen.known} known from earlier")
    out.print(f"confirmation: up to {numbered(seen.extra, 'more run')}")
    if seen.at_most is not None:
        out.print(f"The search makes at most {numbered(seen.at_most, 'run')}.")
    out.print(f"cost: {_cost(seen)}")
    if seen.simulated:
        out.print("These points are from the file's synthetic results.")
    elif seen.open_end:
        out.print("Further points depend on the results.")


def _cost(seen: SweepForecast) -> str:
    if seen.seconds is None:
        return "not known before the first run"
    if not seen.seconds:
        return "none, as all results are known"
    return f"about {duration_text(seen.seconds)}"
