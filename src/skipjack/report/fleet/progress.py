"""Live bars, one for each state that jobs of a run are in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from skipjack.fleet.runs import RunProgress
from skipjack.fleet.states import State
from skipjack.report import screen


@contextlib.contextmanager
def run_bars(*, enabled: bool) -> Iterator[Callable[[RunProgress], None]]:
    """An observer for a coordinator; where standard error is no terminal it says notes alone."""
    console = screen.err()
    said: set[str] = set()

    def say(note: str) -> None:
        if note and note not in said:
            said.add(note)
            console.print(screen.harmless(f"skipjack: {note}"), markup=False, soft_wrap=True)

    if not enabled or not console.is_terminal:
        yield lambda standing: say(standing.note)
        return
    bars = Progress(
        TextColumn("{task.description:>15}"),
        BarColumn(bar_width=40),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    tasks: dict[State, TaskID] = {}

    def observe(standing: RunProgress) -> None:
        say(standing.note)
        total = max(1, sum(standing.counts.values()))
        for state in State:
            count = standing.counts.get(state, 0)
            if count and state not in tasks:
                tasks[state] = bars.add_task(str(state), total=total, count="")
            if state in tasks:
                bars.update(tasks[state], total=total, completed=count, count=f"{count}")

    with bars:
        yield observe
