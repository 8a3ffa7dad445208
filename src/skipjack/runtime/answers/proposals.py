"""What is proposed where no bank knows the problem: by a heuristic, or by a solver itself.

A heuristic is a small object that proposes a config where it is confident. Skipjack has none of
its own yet; `register_heuristic` takes others'.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.membership import check_members
from skipjack.core.naming import check_new_name
from skipjack.core.problem import Problem
from skipjack.core.space import Promising
from skipjack.errors import UsageError
from skipjack.reading import parse_json
from skipjack.runtime.answers.question import LookupAnswer, Question
from skipjack.runtime.answers.timed import guess_answer
from skipjack.runtime.checks import Guess, UselessEntryError
from skipjack.solvers import find_solver, solvers_for

HEURISTIC, PROPOSAL = "heuristic", "proposal"
_MOST_SOLVERS, _MOST_PROPOSALS = 3, 5
"""That are guessed from, and in all."""
_BEHIND = Path(__file__).with_name("library_first.json")
"""Made by ``python bench/library_first.py`` from the committed results of benches."""


@dataclass(frozen=True, slots=True)
class ProposedConfig:
    """What to run."""

    solver: str
    config: Config


class Heuristic(Protocol):
    """Knows what is fast without measuring. It is asked in the program's own thread: be quick."""

    name: str

    def propose(self, problem: Problem, device: Device) -> ProposedConfig | None:
        """The config to use; None where it is not confident."""
        ...


_heuristics: dict[str, Heuristic] = {}


def register_heuristic(heuristic: Heuristic) -> None:
    """Ask it in lookups from now on, after those that were registered before."""
    check_members("heuristic", heuristic, Heuristic)
    check_new_name("heuristic", heuristic.name, _heuristics)
    _heuristics[heuristic.name] = heuristic


def heuristic(question: Question) -> LookupAnswer | str:
    """The proposal of the first heuristic that is confident."""
    said = "none is registered"
    for name, one in _heuristics.items():
        proposed = one.propose(question.problem, question.device)
        if proposed is None:
            said = f"{name} is not confident"
            continue
        answer = _built(question, proposed, HEURISTIC)
        if isinstance(answer, LookupAnswer):
            return answer
        said = f"{name}: {answer}"
    return said


def proposal(question: Question) -> LookupAnswer | str:
    """The first config that the most promising solver would try."""
    first = next(iter(proposed_guesses(question)))
    if first.fault:
        return first.fault
    return _built(question, ProposedConfig(first.solver, Config(first.config)), PROPOSAL)


def proposed_guesses(question: Question) -> Iterator[Guess]:
    """What the most promising solvers would try first, the first of each before all others.

    The most promising solver, or why it has nothing to try, is first.
    """
    problem, device = question.problem, question.device
    try:
        solvers = solvers_for(problem, device)[:_MOST_SOLVERS]
    except UsageError as error:
        yield Guess(PROPOSAL, fault=str(error))
        return
    ranked: list[tuple[int, Guess]] = []
    for solver in solvers:
        space = solver.space(problem, device)
        configs = space.promising(_MOST_PROPOSALS) if isinstance(space, Promising) else ()
        guesses = [Guess(PROPOSAL, solver.name, dict(config)) for config in configs]
        if not guesses:
            said = f"solver {solver.name} proposes nothing before something was measured"
            guesses = [Guess(PROPOSAL, fault=said)]
        yield guesses[0]
        ranked += enumerate(guesses[1:])
    ranked.sort(key=lambda pair: pair[0])
    yield from (guess for _, guess in ranked[: _MOST_PROPOSALS - len(solvers)])


def _built(question: Question, proposed: ProposedConfig, source: str) -> LookupAnswer | str:
    try:
        guess = Guess(source, find_solver(proposed.solver).name, dict(proposed.config))
        return guess_answer(question, guess)
    except UselessEntryError as error:
        return str(error)


def behind_library(problem: Problem, device: Device) -> float | None:
    """How fast first proposals are beside libraries where benches show them behind; else None."""
    return _behind().get(_family(problem, device.kind))


def _family(problem: Problem, kind: str) -> tuple[str, ...]:
    return kind, problem.operation, problem.dtype, problem.layout, problem.direction


@functools.cache
def _behind() -> dict[tuple[str, ...], float]:
    rows = parse_json(_BEHIND.read_bytes())["behind"]
    names = ("kind", "operation", "dtype", "layout", "direction")
    return {tuple(row[name] for name in names): row["ratio"] for row in rows}
