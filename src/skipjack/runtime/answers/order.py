"""The order of the steps of a lookup. Each step has an answer, or a reason why it has none.

`skipjack bank why` prints these records.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from skipjack.bank import has_system
from skipjack.errors import SkipjackError, StorageError
from skipjack.runtime.answers.entries import (
    NEAREST,
    NearestEntry,
    bank_answer,
    nearest_answer,
    nearest_configs,
    nearest_entries,
    other_class_answer,
)
from skipjack.runtime.answers.proposals import (
    HEURISTIC,
    PROPOSAL,
    FastestAnswer,
    behind_library,
    heuristic_answer,
    proposal_answer,
    proposed_configs,
)
from skipjack.runtime.answers.question import LookupAnswer, Question, library_answer
from skipjack.runtime.checks import KernelCheck, StillCheckingError
from skipjack.runtime.local_kernels import UntunedConfig
from skipjack.runtime.process import warn_once
from skipjack.solvers import vendors_for

log = logging.getLogger("skipjack.runtime.lookup")

LIBRARY = "library"
Step = Callable[[Question], LookupAnswer | str]
"""Returns an answer, or a sentence that says why there is none."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The outcome of a step."""

    step: str
    answered: bool
    said: str
    """The answer, or why there is none."""


@dataclass(frozen=True, slots=True)
class LookupDecision:
    """An answer and the steps that led to it."""

    answer: LookupAnswer | None
    steps: tuple[StepRecord, ...]
    lasting: bool = True
    """Whether it may be remembered; False if a search could not start."""
    pending: KernelCheck[Any] | None = None
    """A check in the background: when it finishes, there is a better answer."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `skipjack bank why` prints about a lookup."""

    problem: str
    device: str
    policy: str
    decision: LookupDecision
    then: str = ""
    """What the policy makes a program do in addition; it is not done here."""

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

    If verifying a kernel takes long, a library answers meanwhile; without one, the lookup waits.
    """
    told: list[StepRecord] = []
    for name, step in _steps(question, strict):
        try:
            found = _taken(question, name, step)
        except StillCheckingError as error:
            told.append(StepRecord(name, False, f"{error}, and a library answers meanwhile"))
            found = _taken(question, LIBRARY, first_library)
            if isinstance(found, LookupAnswer):
                # A problem that a bank knows is not a miss, even if its kernel is not ready yet.
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
        yield LIBRARY, first_library
        return
    for layer in question.layers[:1] if strict else question.layers:
        yield layer.name, functools.partial(bank_answer, layer=layer)
    if strict:
        return
    yield "other class", other_class_answer
    if question.banks_only:
        return
    settings = question.settings
    guesses = has_system(settings.user_dir, settings.system_dir)
    yield HEURISTIC, heuristic_answer if guesses else _without_system
    if question.device.kind == "cpu":
        yield from _timed_steps(guesses)
        yield LIBRARY, first_library
        return
    yield NEAREST, nearest_answer if guesses else _without_system
    ratio = behind_library(question.problem, question.device)
    if ratio is not None:
        said = f"in benchmarks it has {ratio} times the speed of the library, which is tried first"
        yield PROPOSAL, lambda _: said
        yield LIBRARY, first_library
    yield PROPOSAL, proposal_answer
    if ratio is None:
        yield LIBRARY, first_library


def _timed_steps(with_near: bool) -> Iterator[tuple[str, Step]]:
    """Entries of similar problems, and proposals: the fastest one is the answer."""
    entries: list[NearestEntry] = []

    def guesses(question: Question) -> Iterator[UntunedConfig]:
        if with_near:
            yield from nearest_configs(question, entries)
        yield from proposed_configs(question)

    fastest = FastestAnswer(guesses)

    def nearest(question: Question) -> LookupAnswer | str:
        entries[:] = nearest_entries(question)
        return fastest.step(question, NEAREST, [one.proposes for one in entries])

    def proposed(question: Question) -> LookupAnswer | str:
        return fastest.step(question, PROPOSAL, [one.proposes for one in entries])

    yield NEAREST, nearest if with_near else _without_system
    yield PROPOSAL, proposed


def _without_system(question: Question) -> str:
    place = question.settings.system_dir
    return f"disabled with the system's bank: {place} is the user's directory or has no bank"


def _taken(question: Question, name: str, step: Step) -> LookupAnswer | str:
    """The result of a step. One that fails only causes a warning."""
    try:
        return step(question)
    except StillCheckingError:
        raise
    except StorageError as error:
        warn_once(log, str(error))  # the same for all problems
        return str(error)
    except SkipjackError as error:
        warn_once(log, f"{question.problem.key}: {error}")
        return str(error)
    except Exception as error:  # entries may be malformed, and plug-ins may raise anything
        said = f"{type(error).__name__}: {error}"
        warn_once(log, f"{question.problem.key}: step {name} of the lookup is skipped: {said}")
        return said


def _described(answer: LookupAnswer) -> str:
    config = ", ".join(f"{name}={value}" for name, value in answer.config.items())
    described = f"{answer.kernel.solver} with {config}" if config else answer.kernel.solver
    return f"{described}; {answer.remark}" if answer.remark else described


def first_library(question: Question) -> LookupAnswer | str:
    """The first installed library that computes the problem: NumPy, if arrays are NumPy's."""
    for solver in vendors_for(question.problem, question.device):
        answer = library_answer(question, solver.name, LIBRARY)
        if answer is not None:
            return answer
    return "no installed library computes it"
