"""Problems of the store: a few lines for each, which fit any width, or one record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from json import dumps
from typing import Any

from rich.text import Text

from skipjack.fleet.store import DeviceResult, ListedProblem
from skipjack.report import screen
from skipjack.report.numbers import time_text

FORMAT = 1


def print_problems(found: Sequence[ListedProblem], json: bool) -> None:
    """Each with its tags, and when it was last measured."""
    if json:
        for one in found:
            print(dumps(problem_json(one)))
        return
    if not found:
        _say("no problem matches")
    for one in found:
        _say(one.problem)
        _say(f"    {_tags(one)}")
        _say(f"    {_measured(one)}")


def print_problem(one: ListedProblem, results: Sequence[DeviceResult], json: bool) -> None:
    """What each tag says, and what came of it on each device."""
    if json:
        newest = [asdict(result) for result in results]
        print(dumps({**problem_json(one), "results": newest}))
        return
    facts = [("problem", one.problem), ("imported", _when(one.created))]
    facts += [("retired", "load leaves it out")] if one.retired else []
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
    for name, value in facts:
        _say(f"{name:>9}  {value}")


def problem_json(one: ListedProblem) -> dict[str, Any]:
    """A problem for machines."""
    return {"format": FORMAT, **asdict(one)}


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


def _say(line: str) -> None:
    # Names may hold anything; nothing in them is markup.
    screen.out().print(Text(line), soft_wrap=True)
