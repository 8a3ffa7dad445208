"""The order in which a lookup asks. Each step has an answer, or says why it has none.

`skipjack bank why` prints these very records.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from skipjack.bank import has_system
from skipjack.errors import SkipjackError, StorageError
from skipjack.runtime.answers.banked import banked
from skipjack.runtime.answers.known_elsewhere import (
    NEAREST,
    NearEntry,
    near,
    near_entries,
    near_guesses,
    other_class,
)
from skipjack.runtime.answers.proposals import (
    HEURISTIC,
    PROPOSAL,
    behind_library,
    heuristic,
    proposal,
    proposed_guesses,
)
from skipjack.runtime.answers.question import LookupAnswer, Question, library_answer
from skipjack.runtime.answers.timed import FastestAnswer
from skipjack.runtime.checks import Guess, KernelCheck, StillCheckingError
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
    pending: KernelCheck[Any] | None = None
    """What is checked beside the program: when that is finished, there is a better answer."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `skipjack bank why` tells of a lookup."""

    problem: str
    device: str
    policy: str
    decision: LookupDecision
    then: str = ""
    """What the policy has a program do besides, which is not done here."""

    def record(self) -> dict[str, Any]:
        """As plain JSON values."""
        answer = self.decision.answer
        return {
            "problem": self.problem,
            "device": self.device,
            "policy": self.policy,
            "source": answer.source if answer else None,
            "solver": answer.kernel.solver if answer else None,
            "config": dict(answer.config) if answer else None,
            "then": self.then,
            "steps": [asdict(step) for step in self.decision.steps],
        }


def decide(question: Question, *, strict: bool = False) -> LookupDecision:
    """The first answer in the order. If `strict`, only the user's bank is asked.

    Where a kernel takes long to be verified, a library answers meanwhile; where there is none, it
    is waited for.
    """
    told: list[StepRecord] = []
    for name, step in _steps(question, strict):
        try:
            found = _taken(question, name, step)
        except StillCheckingError as error:
            told.append(StepRecord(name, False, f"{error}, and a library answers meanwhile"))
            found = _taken(question, LIBRARY, library)
            if isinstance(found, LookupAnswer):
                # What a bank knows of this problem is no miss, though it is not ready yet.
                known = any(name == layer.name for layer in question.layers)
                told.append(StepRecord(LIBRARY, True, _described(found)))
                answer = replace(found, is_banked=known)
                return LookupDecision(answer, tuple(told), pending=error.check)
            found = _taken(replace(question, patience_s=None), name, step)
            told.pop()
        if isinstance(found, LookupAnswer):
            told.append(StepRecord(name, True, _described(found)))
            return LookupDecision(found, tuple(told))
        told.append(StepRecord(name, False, found))
    return LookupDecision(None, tuple(told))


def _steps(question: Question, strict: bool) -> Iterator[tuple[str, Step]]:
    if question.library_alone:
        yield "banks", lambda _: question.library_alone
        yield LIBRARY, library
        return
    for layer in question.layers[:1] if strict else question.layers:
        yield layer.name, functools.partial(banked, layer=layer)
    if strict:
        return
    yield "other class", other_class
    if question.banks_only:
        return
    settings = question.settings
    guesses = has_system(settings.user_dir, settings.system_dir)
    yield HEURISTIC, heuristic if guesses else _without_system
    if question.device.kind == "cpu":
        yield from _timed_steps(guesses)
        yield LIBRARY, library
        return
    yield NEAREST, near if guesses else _without_system
    ratio = behind_library(question.problem, question.device)
    if ratio is not None:
        said = f"benches show it at {ratio} times the speed of the library, which goes first"
        yield PROPOSAL, lambda _: said
        yield LIBRARY, library
    yield PROPOSAL, proposal
    if ratio is None:
        yield LIBRARY, library


def _timed_steps(with_near: bool) -> Iterator[tuple[str, Step]]:
    """Near entries and proposals, of which the fastest answers."""
    entries: list[NearEntry] = []

    def guesses(question: Question) -> Iterator[Guess]:
        if with_near:
            yield from near_guesses(question, entries)
        yield from proposed_guesses(question)

    fastest = FastestAnswer(guesses)

    def nearest(question: Question) -> LookupAnswer | str:
        entries[:] = near_entries(question)
        return fastest.step(question, NEAREST, [one.proposes for one in entries])

    def proposed(question: Question) -> LookupAnswer | str:
        return fastest.step(question, PROPOSAL, [one.proposes for one in entries])

    yield NEAREST, nearest if with_near else _without_system
    yield PROPOSAL, proposed


def _without_system(question: Question) -> str:
    place = question.settings.system_dir
    return f"it is off with the system's bank: {place} is the user's directory or holds no bank"


def _taken(question: Question, name: str, step: Step) -> LookupAnswer | str:
    """What a step gives. One that fails costs the program nothing but a warning."""
    try:
        return step(question)
    except StillCheckingError:
        raise
    except StorageError as error:
        warn_once(log, str(error))  # which is the same for all problems
        return str(error)
    except SkipjackError as error:
        warn_once(log, f"{question.problem.key}: {error}")
        return str(error)
    except Exception as error:  # what is read may be odd in any way, and a plug-in may raise
        said = f"{type(error).__name__}: {error}"
        warn_once(log, f"{question.problem.key}: step {name} of the lookup is left out: {said}")
        return said


def _described(answer: LookupAnswer) -> str:
    config = ", ".join(f"{name}={value}" for name, value in answer.config.items())
    described = f"{answer.kernel.solver} with {config}" if config else answer.kernel.solver
    return f"{described}; {answer.remark}" if answer.remark else described


def library(question: Question) -> LookupAnswer | str:
    """The first library that is here and computes the problem: NumPy, where arrays are NumPy's."""
    for solver in vendors_for(question.problem, question.device):
        answer = library_answer(question, solver.name, LIBRARY)
        if answer is not None:
            return answer
    return "no library that is here computes it"
