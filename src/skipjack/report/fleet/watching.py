"""``status --watch``: a live view on a terminal, otherwise a line for each change."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skipjack.app import FleetProgress
from skipjack.report import screen
from skipjack.report.numbers import duration_text, percent_text
from skipjack.report.screen import print_json

_BAR = 32
_STYLES = {
    "evaluated": "green",
    "error": "red",
    "evaluating": "blue",
    "building": "cyan",
    "aborted": "yellow",
}


def watch_progress(
    changes: Iterable[FleetProgress], json: bool, console: Console | None = None
) -> None:
    """Show the progress until there are no more changes, or until Ctrl-C."""
    console = console or screen.out()
    try:
        if json or not console.is_terminal:
            _print_changes(changes, json, console)
        else:
            _show_live(changes, console)
    except KeyboardInterrupt:
        return


def _print_changes(changes: Iterable[FleetProgress], json: bool, console: Console) -> None:
    before: object = None
    for progress in changes:
        now = (progress.by_state, progress.aborted)
        if now == before:
            continue
        before = now
        if json:
            print_json("status --watch", progress_json(progress))
        else:
            console.print(Text(progress_line(progress)), soft_wrap=True)
            console.file.flush()


def _show_live(changes: Iterable[FleetProgress], console: Console) -> None:
    last: FleetProgress | None = None
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        try:
            for last in changes:
                live.update(progress_view(last))
        except KeyboardInterrupt:
            pass
    if last is not None:
        console.print(progress_view(last))


def progress_json(progress: FleetProgress) -> dict[str, object]:
    """The JSON record of a change."""
    pace = progress.throughput
    return {
        "at": _clock(pace.at, date=True),
        "label": progress.label,
        "aborted": progress.aborted,
        "states": dict(progress.by_state),
        "total": progress.total,
        "open": progress.open,
        "done": round(progress.done, 6),
        "jobs_per_hour": round(pace.jobs_per_hour, 3),
        "trials_per_hour": round(pace.trials_per_hour, 3),
        "seconds_left": None if pace.seconds_left is None else round(pace.seconds_left, 1),
        "errors": [
            {"stage": one.stage, "reason": one.reason, "jobs": one.jobs} for one in progress.errors
        ],
    }


def progress_line(progress: FleetProgress) -> str:
    """``22:10:05  new 3, evaluating 1, evaluated 5: 56 % done, 120 jobs/h, 2 min 3 s left``."""
    states = ", ".join(f"{name} {count}" for name, count in progress.by_state.items())
    parts = [f"{percent_text(progress.done)} done" if progress.total else "", *_pace(progress)]
    return f"{_clock(progress.throughput.at)}  {states or 'no jobs'}: " + ", ".join(
        part for part in parts if part
    )


def _clock(at: float, date: bool = False) -> str:
    when = datetime.fromtimestamp(at, UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ") if date else when.astimezone().strftime("%H:%M:%S")


def _pace(progress: FleetProgress) -> list[str]:
    pace = progress.throughput
    if progress.aborted:
        return [f"aborted; skipjack resume -l {progress.label} resumes it"]
    if not progress.open:
        return []
    if pace.seconds_left is None:
        return ["no job ended recently"]
    return [f"{pace.jobs_per_hour:.3g} jobs/h", f"{duration_text(pace.seconds_left)} left"]


def progress_view(progress: FleetProgress) -> RenderableType:
    """The states with bars, the pace, and the most frequent errors."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column()
    rows.add_column(justify="right")
    rows.add_column()
    for name, count in progress.by_state.items():
        style = _STYLES.get(name, "default")
        bar = ProgressBar(
            total=progress.total, completed=count, width=_BAR, complete_style=style,
            finished_style=style,
        )  # fmt: skip
        rows.add_row(Text(name, style), Text(str(count)), bar)
    head = progress.label or "all labels"
    whole = f"{head}: {progress.total} jobs, {percent_text(progress.done)} done"
    lines: list[RenderableType] = [Text(whole, "bold"), rows]
    if said := _pace(progress):
        lines.append(Text(", ".join(said)))
    lines += [
        Text(f"{one.jobs} failed in {one.stage}: {one.reason}", "red", overflow="ellipsis")
        for one in progress.errors
    ]
    lines.append(Text(f"at {_clock(progress.throughput.at)}; Ctrl-C ends this view", "dim"))
    return Group(*lines)
