"""What ``skipjack sweep`` ends with: the best setting first, then how it was found."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.numbers import duration_text, metric_text
from skipjack.report.render import TableColumn, table
from skipjack.report.sweep_pareto import pareto_front
from skipjack.report.sweep_points import (
    PointSummary,
    one_line,
    parameter_names,
    point_text,
    setting_text,
    summarize,
)
from skipjack.report.sweep_summary import (
    LoserGroup,
    best_settings,
    facts,
    headline,
    losers,
    metric_name,
    overlay_text,
    point_cells,
    remarks,
    verdicts,
)
from skipjack.sweep.foreseeing import Foreseen
from skipjack.sweep.result import SweepResult

TOP = 10
_FRONT = 20
_LOSERS = 8
"""Of each kind; the files have all of them."""


def print_sweep(result: SweepResult, console: Console | None = None, *, top: int = TOP) -> None:
    """The best, what it gains, the next best, what failed and why, and what to paste."""
    console = console or screen.out()
    _line(console, headline(result), "bold" if result.best else "red")
    _print_best(result, console)
    for sentence in verdicts(result):
        _line(console, f"  {sentence}")
    _print_front(result, console)
    _print_top(result, console, top)
    for group in losers(result):
        _print_losers(group, console)
    _print_paste(result, console)
    console.print()
    _line(console, facts(result))
    for note in remarks(result):
        _line(console, f"note: {note}", "yellow")


def _line(console: Console, text: str, style: str = "") -> None:
    """Text is never folded where it would be copied from."""
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
    title = f"the front: {numbered(len(front), 'point')} that no other beats in everything"
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
    """A column for each parameter where the screen is wide enough; else points as text."""
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


def _print_losers(group: LoserGroup, console: Console) -> None:
    console.print()
    _line(console, group.title, "bold red")
    shown = group.losers[:_LOSERS]
    made = table(
        ["point", "reason", "log"], [(loser.point, loser.reason, loser.log) for loser in shown]
    )
    if screen.fits(made, console):
        console.print(made)
    else:
        for loser in shown:
            where = f" (see {loser.log})" if loser.log else ""
            _line(console, f"  {loser.point}: {loser.reason}{where}")
    if len(group.losers) > len(shown):
        _line(console, f"  and {len(group.losers) - len(shown)} more")


def _print_paste(result: SweepResult, console: Console) -> None:
    if result.best is None:
        return
    if result.user_conf:
        console.print()
        _line(console, "for user.conf", "bold")
        for line in result.user_conf:
            _line(console, line)
    console.print()
    _line(console, "to lay over the config", "bold")
    _line(console, overlay_text(result))


_SHOWN = 12
"""Points of a long plan: so many from its beginning, and the last one."""


def print_plan(seen: Foreseen) -> None:
    """Points in order, builds, and what it may cost."""
    out = screen.out()
    plan = seen.plan
    refused = f", {len(plan.refused)} forbidden by the file" if plan.refused else ""
    what = "points so far" if seen.open_end else "points"
    out.print(f"{seen.name}: {plan.product} {what}{refused}; {plan.runs} to run", markup=False)
    for number, point in enumerate(plan.points, start=1):
        if _SHOWN < number < plan.runs:
            if number == _SHOWN + 1:
                out.print(f"  ... {plan.runs - _SHOWN - 1} more")
            continue
        out.print(f"  {number}. {point or 'the base config itself'}", markup=False)
    kept = f" ({plan.rebuilds} if only the last were kept)" if plan.rebuilds > plan.builds else ""
    out.print(f"builds: {plan.builds}{kept}")
    each = f" of {seen.repeats} runs each" if seen.repeats > 1 else ""
    out.print(f"points to run: {plan.runs - seen.known}{each}, {seen.known} are known")
    out.print(f"confirming: up to {numbered(seen.extra, 'more run')}")
    if seen.at_most is not None:
        out.print(f"The search makes at most {numbered(seen.at_most, 'run')}.")
    out.print(f"cost: {_cost(seen)}")
    if seen.simulated:
        out.print("These points are from the file's synthetic results.")
    elif seen.open_end:
        out.print("What follows depends on results.")


def _cost(seen: Foreseen) -> str:
    if seen.seconds is None:
        return "not known before the first run"
    if not seen.seconds:
        return "nothing, all of it is known"
    return f"about {duration_text(seen.seconds)}"
