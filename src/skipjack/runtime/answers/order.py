"""The order in which a lookup asks. Each step has an answer, or says why it has none.

`skipjack bank why` prints these very records.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from skipjack.bank import BankLayer
from skipjack.errors import SkipjackError
from skipjack.runtime.answers.banked import banked
from skipjack.runtime.answers.question import LookupAnswer, Question, library_answer
from skipjack.runtime.warning_once import warn_once
from skipjack.solvers import vendors_for

log = logging.getLogger("skipjack.runtime.lookup")

LIBRARY = "library"
Step = Callable[[Question], LookupAnswer | str]
"""Gives an answer, or a sentence that says why it has none."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What became of a step."""

    step: str
    answered: bool
    said: str
    """What the answer is, or why there is none."""


@dataclass(frozen=True, slots=True)
class LookupDecision:
    """An answer and the way to it."""

    answer: LookupAnswer | None
    steps: tuple[StepRecord, ...]
    lasting: bool = True
    """Whether it may be remembered; not where there is a search that could not begin."""


def decide(question: Question, *, strict: bool = False) -> LookupDecision:
    """The first answer in the order. If `strict`, only the user's bank is asked."""
    told: list[StepRecord] = []
    for name, step in _steps(question, strict):
        found = _taken(question, name, step)
        if isinstance(found, LookupAnswer):
            told.append(StepRecord(name, True, _described(found)))
            return LookupDecision(found, tuple(told))
        told.append(StepRecord(name, False, found))
    return LookupDecision(None, tuple(told))


def _steps(question: Question, strict: bool) -> Iterator[tuple[str, Step]]:
    if question.library_alone:
        yield LIBRARY, library
        return
    for layer in question.layers[:1] if strict else question.layers:
        yield layer.name, functools.partial(_banked, layer)
    if not strict:
        yield LIBRARY, library


def _taken(question: Question, name: str, step: Step) -> LookupAnswer | str:
    """What a step gives. One that fails costs the program nothing but a warning."""
    try:
        return step(question)
    except SkipjackError as error:
        warn_once(log, f"{question.problem.key}: {error}")
        return str(error)
    except Exception as error:  # what is read may be odd in any way, and a plug-in may raise
        said = f"{type(error).__name__}: {error}"
        warn_once(log, f"{question.problem.key}: step {name} of the lookup is left out: {said}")
        return said


def _described(answer: LookupAnswer) -> str:
    config = ", ".join(f"{name}={value}" for name, value in answer.config.items())
    return f"{answer.kernel.solver} with {config}" if config else answer.kernel.solver


def _banked(layer: BankLayer, question: Question) -> LookupAnswer | str:
    return banked(question, layer)


def library(question: Question) -> LookupAnswer | str:
    """The first library that is here and computes the problem: NumPy, where arrays are NumPy's."""
    for solver in vendors_for(question.problem, question.device):
        answer = library_answer(question, solver.name, LIBRARY)
        if answer is not None:
            return answer
    return "no library that is here computes it"
