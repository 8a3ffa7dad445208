"""A sweep while it runs: a live view on a terminal, a line for each run elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skipjack.core.trial import Status
from skipjack.report import screen
from skipjack.report.numbers import duration_text, metric_text
from skipjack.report.sweep_points import one_line, point_text
from skipjack.sweep.progress import SweepObserver, SweepProgress
from skipjack.sweep.result import SweepTrial

_BAR = 24


@contextlib.contextmanager
def sweep_progress(enabled: bool, console: Console | None = None) -> Iterator[SweepObserver]:
    """An observer that shows where a sweep stands, on standard error."""
    console = console or screen.err()
    if not enabled:
        yield lambda standing: None
    elif console.is_terminal:
        view = _View()
        # Lines that others print while it is shown go above it.
        with Live(view, console=console, transient=True, refresh_per_second=4) as live:
            yield lambda standing: view.show(standing, live)
    else:
        yield lambda standing: _print_run(standing, console)


def _print_run(standing: SweepProgress, console: Console) -> None:
    if standing.trial is not None:
        console.print(Text(run_line(standing, standing.trial)), soft_wrap=True)


def run_line(standing: SweepProgress, trial: SweepTrial) -> str:
    """``run 3/12 batch=8 threads=2: 1203.4 samples_per_second (best)``."""
    return f"run {done_text(standing)} {point_text(trial.point)}: {_outcome(standing, trial)}"


def _outcome(standing: SweepProgress, trial: SweepTrial) -> str:
    if trial.status.failed or trial.value is None:
        reason = one_line(trial.reason)
        return f"{_words(trial.status)}{f': {reason}' if reason else ''}"
    best = standing.best is not None and standing.best.number == trial.number
    remarks = [trial.purpose] if trial.purpose != "search" else []
    remarks += ["known"] if trial.cached else []
    remarks += ["best"] if best else []
    end = f" ({', '.join(remarks)})" if remarks else ""
    return f"{metric_text(trial.value)} {one_line(standing.metric)}".rstrip() + end


def done_text(standing: SweepProgress) -> str:
    """``3/12``, ``3 of up to 12``, or ``3`` where nobody knows."""
    if standing.planned is None:
        return str(standing.done)
    if standing.at_most:
        return f"{standing.done} of up to {standing.planned}"
    return f"{standing.done}/{standing.planned}"


def time_line(standing: SweepProgress) -> str:
    """``search: 3/12 runs, 4 min 2 s so far, about 12 min left``."""
    left = standing.eta_s
    word = "at most " if standing.at_most else "about "
    end = "" if left is None else f", {word}{duration_text(left)} left"
    spent = duration_text(standing.elapsed_s)
    return f"{one_line(standing.phase)}: {done_text(standing)} runs, {spent} so far{end}"


def failures_line(standing: SweepProgress) -> str:
    """``failed: 2 crash, 1 out of memory``; empty where nothing failed."""
    failed = [(number, status) for status, number in standing.counts.items() if status.failed]
    parts = [f"{number} {_words(status)}" for number, status in sorted(failed, reverse=True)]
    return f"failed: {', '.join(parts)}" if parts else ""


def best_line(standing: SweepProgress) -> str:
    """``best: 1203.4 samples_per_second at batch=8 threads=2``."""
    best = standing.best
    if best is None:
        return "best: none yet"
    value = f"{metric_text(best.value)} {one_line(standing.metric)}".rstrip()
    return f"best: {value} at {point_text(best.point)}"


def _words(status: Status) -> str:
    return status.value.replace("_", " ")


class _View:
    """What `Live` draws: the last standing, with the time that went on since."""

    def __init__(self) -> None:
        self._standing: SweepProgress | None = None
        self._since = 0.0

    def show(self, standing: SweepProgress, live: Live) -> None:
        self._standing, self._since = standing, time.monotonic()
        live.refresh()

    def __rich__(self) -> RenderableType:
        if self._standing is None:
            return Text("the sweep begins")
        return live_view(aged(self._standing, time.monotonic() - self._since))


def aged(standing: SweepProgress, seconds: float) -> SweepProgress:
    """The same so many seconds later, while a run goes on."""
    left = None if standing.eta_s is None else max(0.0, standing.eta_s - seconds)
    return replace(standing, elapsed_s=standing.elapsed_s + seconds, eta_s=left)


def live_view(standing: SweepProgress) -> RenderableType:
    """A bar where the number of runs is known, and at most four short lines."""
    head = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=standing.planned, completed=standing.done, width=_BAR)
    if standing.planned:
        head.add_row(bar, _short(time_line(standing)))
    else:
        head.add_row(_short(time_line(standing)))
    lines: list[RenderableType] = [head]
    if standing.running is not None:
        lines.append(_short(f"now: {point_text(standing.running)}"))
    lines.append(_short(best_line(standing), "green" if standing.best else ""))
    if failed := failures_line(standing):
        lines.append(_short(failed, "red"))
    return Group(*lines)


def _short(text: str, style: str = "") -> Text:
    """A line that is cut rather than folded, so that the view keeps its height."""
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")
