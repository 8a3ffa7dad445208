"""What `tune`, `find`, `build` and `verify` tell while they work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.interop import NotApplicable
from skipjack.tuning import BuildResult, FindResult, Progress, TuneResult


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence about what is waited for, left out or understood in an unusual way."""

    sentence: str


@dataclass(frozen=True, slots=True)
class BatchBegun:
    """The problems of one device are next."""

    device: Device
    problems: int


@dataclass(frozen=True, slots=True)
class ProblemBegun:
    """The solvers of a problem are ranked next."""

    problem: Problem
    number: int
    """Of the entries of its list, from 1."""
    of: int


WorkEvent = (
    Notice
    | NotApplicable
    | BatchBegun
    | ProblemBegun
    | Progress
    | TuneResult
    | FindResult
    | BuildResult
)
WorkObserver = Callable[[WorkEvent], None]


def ignore(_: WorkEvent) -> None:
    """An observer for calls that ask for no events."""


def notices(observe: WorkObserver) -> Callable[[str], None]:
    """Tells an observer sentences."""
    return lambda sentence: observe(Notice(sentence))


def applicable(
    entries: list[Problem | NotApplicable], observe: WorkObserver
) -> tuple[list[Problem], list[NotApplicable]]:
    """The problems among the entries, and the others, which are told."""
    problems = [entry for entry in entries if isinstance(entry, Problem)]
    others = [entry for entry in entries if isinstance(entry, NotApplicable)]
    for other in others:
        observe(other)
    return problems, others
