"""What came of an import, and how far it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict

from rich.progress import BarColumn, TextColumn

from skipjack.fleet.importing import ImportProgress, ImportReport, lone_layouts
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.render import print_json


@contextlib.contextmanager
def import_bar(*, enabled: bool) -> Iterator[Callable[[ImportProgress], None]]:
    """An observer for an import; it draws nothing where standard error is no terminal."""
    console = screen.err()
    if not enabled or not console.is_terminal:
        yield lambda _: None
        return
    bar = screen.live_bars(
        console,
        TextColumn("importing"),
        BarColumn(bar_width=40),
        TextColumn("{task.fields[lines]:,} lines"),
    )
    with bar:
        task = bar.add_task("", total=None, lines=0)

        def observe(progress: ImportProgress) -> None:
            bar.update(
                task,
                total=progress.bytes_in_all,
                completed=progress.bytes_read,
                lines=progress.lines,
            )

        yield observe


def render_import(report: ImportReport, json: bool) -> None:
    """The numbers on standard output, bad lines on standard error; for machines all in one."""
    if json:
        print_json("import", {**asdict(report), "bad": [line.fields() for line in report.bad]})
    else:
        _print_import(report)


def _print_import(report: ImportReport) -> None:
    known = f", {numbered(report.tagged, 'known one')} tagged" if report.tagged else ""
    unknown = f", {numbered(report.unknown, 'unknown one')} left out" if report.unknown else ""
    screen.out().print(
        f"{numbered(report.lines, 'line')}: {numbered(report.imported, 'problem')} imported"
        f"{known}{unknown}, {numbered(report.duplicates, 'duplicate')}, "
        f"{numbered(report.rejected, 'line')} rejected, "
        f"{report.not_applicable} not applicable",
        soft_wrap=True,
    )
    if report.without_direction:
        screen.out().print(
            f"{numbered(report.without_direction, 'line')} without a direction; "
            "--direction says what that means",
            soft_wrap=True,
        )
    if report.lone_layout:
        screen.out().print(lone_layouts(report.lone_layout), soft_wrap=True)
    complain = screen.err()
    for reason, count in report.not_applicable_reasons.items():
        complain.print(
            f"not applicable, {numbered(count, 'line')}: {reason}", markup=False, soft_wrap=True
        )
    for line in report.bad:
        complain.print(
            f"line {line.number}: {line.reason}: {line.text}", markup=False, soft_wrap=True
        )
    if report.rejected > len(report.bad):
        complain.print(f"... and {report.rejected - len(report.bad)} more; --report FILE has all")
