"""Events that `tune`, `find`, `build` and `verify` report, and the loop over their problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from skipjack.core import Device, Problem
from skipjack.interop import NotApplicable
from skipjack.interrupt import Interrupted
from skipjack.tuning import BuildResult, FindResult
from skipjack.tuning.study import TuneProgress, TuneResult

# Events that `tune`, `find`, `build` and `verify` report while they work.


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence for the user: what is waited for, left out, or read in an unusual way."""

    sentence: str


@dataclass(frozen=True, slots=True)
class BatchBegun:
    """The problems of one device follow."""

    device: Device
    problems: int


@dataclass(frozen=True, slots=True)
class ProblemBegun:
    """The ranking of a problem's solvers follows."""

    problem: Problem
    number: int
    """Position in the list, from 1."""
    of: int


WorkEvent = (
    Notice
    | NotApplicable
    | BatchBegun
    | ProblemBegun
    | TuneProgress
    | TuneResult
    | FindResult
    | BuildResult
)
WorkObserver = Callable[[WorkEvent], None]


def ignore(_: WorkEvent) -> None:
    """The observer of calls that need no events."""


def notices(observe: WorkObserver) -> Callable[[str], None]:
    """A function that passes sentences to an observer, as notices."""
    return lambda sentence: observe(Notice(sentence))


def applicable(
    entries: list[Problem | NotApplicable], observe: WorkObserver
) -> tuple[list[Problem], list[NotApplicable]]:
    """The problems among the entries; the other entries, which are reported, as well."""
    problems = [entry for entry in entries if isinstance(entry, Problem)]
    others = [entry for entry in entries if isinstance(entry, NotApplicable)]
    for other in others:
        observe(other)
    return problems, others


# Problems one after the other: results are reported at once, and Ctrl-C ends the loop.

P = ParamSpec("P")
R = TypeVar("R")
Result = TypeVar("Result", TuneResult, BuildResult)


def finished(work: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
    """The result of `work`; after Ctrl-C, its result so far."""
    try:
        return work(*arguments, **options)
    except Interrupted as stopped:
        result: R = stopped.result
        return result


def each_of(
    work: Callable[[Problem], Result], problems: Iterable[Problem], observe: WorkObserver
) -> list[Result]:
    """The results of `work` for each problem, up to the one that was interrupted."""
    results: list[Result] = []
    for problem in problems:
        results.append(work(problem))
        observe(results[-1])
        if results[-1].interrupted:
            break
    return results
