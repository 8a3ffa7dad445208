"""A live bar that shows the best so far."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, TaskID, TextColumn

from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.numbers import time_text
from skipjack.tuning.options import Progress as Standing


@contextlib.contextmanager
def progress_bars(problems: int, *, enabled: bool) -> Iterator[Callable[[Standing], None]]:
    """An observer for `TuneOptions`; it draws nothing where standard error is no terminal."""
    console = screen.err()
    if not enabled or not console.is_terminal:
        yield lambda standing: None
        return
    bars = screen.live_bars(
        console,
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[best]}"),
    )
    tasks: dict[str, TaskID] = {}

    def observe(standing: Standing) -> None:
        if standing.problem not in tasks:
            for task in tasks.values():
                bars.stop_task(task)
            number = f"[{len(tasks) + 1}/{problems}] " if problems > 1 else ""
            # Square brackets would be read as markup.
            label = f"{number}{standing.problem}".replace("[", r"\[")
            tasks[standing.problem] = bars.add_task(label, total=1.0, best="")
        bars.update(
            tasks[standing.problem], completed=share_done(standing), best=best_text(standing)
        )

    with bars:
        yield observe


def share_done(standing: Standing) -> float:
    """How much of the budget is spent, by whichever limit is nearer."""
    budget = standing.budget
    shares = [standing.trials / budget.trials if budget.trials else 0.0]
    shares.append(standing.elapsed_s / budget.seconds if budget.seconds else 0.0)
    return min(1.0, max(shares))


def best_text(standing: Standing) -> str:
    """``best 120 µs, 3.2x the default, 47 trials (2 failed)``."""
    if standing.phase == "build":
        failed = f" ({standing.failed} failed)" if standing.failed else ""
        return f"{standing.trials} of {standing.budget.trials} built{failed}"
    if standing.best_ns is None:
        return numbered(standing.trials, "trial")
    gain = (
        f", {standing.default_ns / standing.best_ns:.2f}x the default"
        if standing.default_ns
        else ""
    )
    failed = f" ({standing.failed} failed)" if standing.failed else ""
    return f"best {time_text(standing.best_ns)}{gain}, {numbered(standing.trials, 'trial')}{failed}"
