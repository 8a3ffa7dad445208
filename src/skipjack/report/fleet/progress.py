"""Live bars, one for each state that jobs of a run are in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, TaskID, TextColumn

from skipjack.app import RunEvent, RunObserver, RunPhase, RunWarning
from skipjack.fleet.runs import RunProgress
from skipjack.fleet.states import State
from skipjack.report import screen
from skipjack.report.fleet.summary import render_phase

_TELL_EVERY_S = 30.0
"""In files, where bars cannot be drawn."""


@contextlib.contextmanager
def run_screen(*, json: bool) -> Iterator[RunObserver]:
    """An observer that draws bars while a phase lasts, and says what came of it when it is over."""
    with contextlib.ExitStack() as drawn:
        draw: Callable[[RunProgress], None] | None = None

        def observe(event: RunEvent) -> None:
            nonlocal draw
            if isinstance(event, RunProgress):
                draw = draw or drawn.enter_context(run_bars(enabled=not json))
                draw(event)
            elif isinstance(event, RunPhase):
                drawn.pop_all().close()
                draw = None
                render_phase(event, json)
            elif isinstance(event, RunWarning):
                screen.err().print(f"skipjack: {event.sentence}", markup=False, soft_wrap=True)

        yield observe


@contextlib.contextmanager
def run_bars(*, enabled: bool) -> Iterator[Callable[[RunProgress], None]]:
    """An observer for a coordinator; where standard error is no terminal, a line now and then."""
    console = screen.err()
    said: set[str] = set()

    def say(note: str) -> None:
        if note and note not in said:
            said.add(note)
            console.print(f"skipjack: {note}", markup=False, soft_wrap=True)

    if not enabled or not console.is_terminal:
        told = 0.0

        def tell(progress: RunProgress) -> None:
            nonlocal told
            say(progress.note)
            if enabled and progress.elapsed_s - told >= _TELL_EVERY_S:
                told = progress.elapsed_s
                states = [f"{progress.counts[s]} {s}" for s in State if progress.counts.get(s)]
                console.print(f"skipjack: {told:.0f} s: {', '.join(states)}", soft_wrap=True)

        yield tell
        return
    bars = screen.live_bars(
        console,
        TextColumn("{task.description:>15}"),
        BarColumn(bar_width=40),
        TextColumn("{task.fields[count]}"),
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
