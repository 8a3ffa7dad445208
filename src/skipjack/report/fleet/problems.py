"""Problems of the store: a few lines for each, which fit any width, or one record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from skipjack.fleet.store import DeviceResult, ListedProblem
from skipjack.report import screen
from skipjack.report.numbers import time_text
from skipjack.report.render import print_json, say


def print_problems(found: Sequence[ListedProblem], json: bool) -> None:
    """Each with its tags, and when it was last measured."""
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
    """What each tag says, and what came of it on each device."""
    if json:
        newest = [asdict(result) for result in results]
        print_json("problems list", {**asdict(one), "results": newest})
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
