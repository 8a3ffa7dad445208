"""Progress of a training run: a live view on a terminal, otherwise a line now and then."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skipjack.learn.runs import TrainingProgress
from skipjack.report import screen
from skipjack.report.numbers import duration_text, metric_text

_BAR = 24
_POINTS = 48
"""Points of a curve."""
_LEVELS = "▁▂▃▄▅▆▇█"
_LINE_EVERY_S = 10.0
_SHOWN = ("speed_up", "episode_reward", "loss", "entropy", "explore")
"""Curves that are drawn, if present."""


@contextlib.contextmanager
def training_progress(
    enabled: bool, before: Sequence[Mapping[str, str]] = (), console: Console | None = None
) -> Iterator[Callable[[TrainingProgress], None]]:
    """An observer that shows the progress of a run on standard error.

    `before` are the lines of ``curves.csv`` that a resumed run has.
    """
    console = console or screen.err()
    if not enabled:
        yield lambda progress: None
    elif console.is_terminal:
        view = _TrainingView(before)
        with Live(view, console=console, transient=True, refresh_per_second=4) as live:
            yield lambda progress: view.show(progress, live)
    else:
        yield _Lines(console).show


class _Lines:
    """Prints a line for the first iteration, the last one, and now and then in between."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0

    def show(self, progress: TrainingProgress) -> None:
        now = time.monotonic()
        if now >= self._next or progress.steps >= progress.total_steps:
            self._next = now + _LINE_EVERY_S
            self._console.print(Text(training_line(progress)), soft_wrap=True)


class _TrainingView:
    """The live view: a bar and the curves so far."""

    def __init__(self, before: Sequence[Mapping[str, str]]) -> None:
        self._last: TrainingProgress | None = None
        self._history: dict[str, list[float]] = {
            name: [float(line[name]) for line in before if line[name]]
            for name in _SHOWN
            if before and name in before[0]
        }

    def show(self, progress: TrainingProgress, live: Live) -> None:
        self._last = progress
        for name in _SHOWN:
            if name in progress.curves:
                self._history.setdefault(name, []).append(progress.curves[name])
        live.refresh()

    def __rich__(self) -> RenderableType:
        if self._last is None:
            return Text("playing the first episodes")
        progress = self._last
        head = Table.grid(padding=(0, 1))
        bar = ProgressBar(progress.total_steps, min(progress.steps, progress.total_steps), _BAR)
        head.add_row(bar, Text(_pace(progress), no_wrap=True, overflow="ellipsis"))
        curves = Table.grid(padding=(0, 1))
        for name, values in self._history.items():
            curves.add_row(name.replace("_", " "), sparkline(values), metric_text(values[-1], 4))
        return Group(head, curves)


def training_line(progress: TrainingProgress) -> str:
    """``iteration 12, 7680 of 200000 steps, 210 steps/s, ...: speed up 1.83, loss -0.02``."""
    known = (name for name in _SHOWN if name in progress.curves)
    values = (f"{name.replace('_', ' ')} {metric_text(progress.curves[name], 4)}" for name in known)
    return f"iteration {progress.iteration}, {_pace(progress)}: {', '.join(values)}"


def _pace(progress: TrainingProgress) -> str:
    left_s = max(0, progress.total_steps - progress.steps) / max(progress.steps_per_s, 1e-9)
    return (
        f"{progress.steps} of {progress.total_steps} steps, {progress.steps_per_s:.0f} steps/s, "
        f"{duration_text(progress.seconds)} so far, about {duration_text(left_s)} left"
    )


def sparkline(values: Sequence[float], points: int = _POINTS) -> str:
    """A curve in one line; each point is the mean of several values if there are many."""
    count = min(points, len(values))
    bounds = [len(values) * at // count for at in range(count + 1)]
    means = [sum(values[first:last]) / (last - first) for first, last in pairwise(bounds)]
    low, high = min(means), max(means)
    scale = (len(_LEVELS) - 1) / (high - low) if high > low else 0.0
    return "".join(_LEVELS[round((value - low) * scale)] for value in means)
