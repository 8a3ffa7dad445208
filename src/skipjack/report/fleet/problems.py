"""Problems of the store, and what an import added to them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TextColumn

from skipjack.fleet.store import DeviceResult, ListedProblem
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.numbers import time_text
from skipjack.report.screen import print_json, say

if TYPE_CHECKING:
    from skipjack.fleet.problem_import import ImportProgress, ImportReport


# Problems of the store: a few short lines for each, or JSON records.


def print_problems(found: Sequence[ListedProblem], json: bool) -> None:
    """Print each problem with its tags and its last measurement."""
    if json:
        for one in found:
            print_json("problems list", asdict(one))
        return
    if not found:
        say("no problem matches")
    for one in found:
        say(one.problem)
        say(f"    {_tags(one)}")
        say(f"    {_measured(one)}")


def print_problem(one: ListedProblem, results: Sequence[DeviceResult], json: bool) -> None:
    """Print a problem with its tags and its newest result on each device."""
    if json:
        newest = [asdict(result) for result in results]
        print_json("problems list", {**asdict(one), "results": newest})
        return
    facts = [("problem", one.problem), ("imported", _when(one.created))]
    facts += [("retired", "skipjack load leaves it out")] if one.retired else []
    facts += [
        (
            "tag",
            ", ".join(filter(None, (said.tag, *_said(said.source, said.model, said.recurrent)))),
        )
        for said in one.tags
    ]
    for result in results:
        time = time_text(result.time_ns) if result.time_ns is not None else "no time"
        place = f"{result.device} on {result.machine} {result.gpu}".rstrip()
        facts.append(("measured", f"{_when(result.at)}  {time} by {result.solver}, {place}"))
        facts.append(("", f"job {result.job} of {result.label}, {result.toolchain}"))
    if not results:
        facts.append(("measured", "never"))
    screen.print_fields(facts)


def _tags(one: ListedProblem) -> str:
    tags = f"tags {', '.join(said.tag for said in one.tags)}" if one.tags else "no tag"
    sources = ", ".join(dict.fromkeys(said.source for said in one.tags if said.source))
    models = ", ".join(dict.fromkeys(said.model for said in one.tags if said.model))
    parts = [tags, *_said(sources, models, one.recurrent), "retired" if one.retired else ""]
    return "; ".join(filter(None, parts))


def _said(source: str, model: str, recurrent: bool) -> tuple[str, ...]:
    return (
        f"model {model}" if model else "",
        f"source {source}" if source else "",
        "recurrent" if recurrent else "",
    )


def _measured(one: ListedProblem) -> str:
    last = one.measured
    if last is None:
        return "never measured"
    return f"measured {_when(last.at)} on {last.machine}, {last.device}: {last.solver} won"


def _when(moment: str) -> str:
    return moment[:16].replace("T", " ")


# Progress and report of an import.


@contextlib.contextmanager
def import_bar(*, enabled: bool) -> Iterator[Callable[[ImportProgress], None]]:
    """An observer for an import; it draws nothing if standard error is not a terminal."""
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
    """Print counts to standard output and bad lines to standard error; or one JSON record."""
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
            "set it with --direction",
            soft_wrap=True,
        )
    if report.lone_layout:
        from skipjack.fleet.problem_import import lone_layouts

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
        complain.print(
            f"... and {report.rejected - len(report.bad)} more; --report FILE writes all"
        )
