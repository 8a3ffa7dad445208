"""Problems one after the other: each result is told at once, and Ctrl-C ends with the last."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from skipjack.app.events import WorkObserver
from skipjack.core.problem import Problem
from skipjack.interrupt import Interrupted
from skipjack.tuning import BuildResult, TuneResult

P = ParamSpec("P")
R = TypeVar("R")
Result = TypeVar("Result", TuneResult, BuildResult)


def finished(work: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
    """What `work` gives; after Ctrl-C, what it has found out by then."""
    try:
        return work(*arguments, **options)
    except Interrupted as stopped:
        result: R = stopped.result
        return result


def each_of(
    work: Callable[[Problem], Result], problems: Iterable[Problem], observe: WorkObserver
) -> list[Result]:
    """What `work` gives for each problem, up to the one that was interrupted."""
    results: list[Result] = []
    for problem in problems:
        results.append(work(problem))
        observe(results[-1])
        if results[-1].interrupted:
            break
    return results
