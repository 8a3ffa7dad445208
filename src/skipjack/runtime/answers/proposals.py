"""Untuned configs as answers: proposed by a heuristic or a solver, timed against the library."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from skipjack.core import (
    Candidate,
    Config,
    Device,
    Problem,
    Promising,
    check_members,
    check_new_name,
)
from skipjack.errors import UsageError
from skipjack.reading import parse_json
from skipjack.runtime.answers.question import LookupAnswer, Question, answer_of, library_answer
from skipjack.runtime.answers.trained import TrainedProposal, trained_proposal
from skipjack.runtime.checks import (
    FastestConfig,
    UnusableEntryError,
    candidate_code,
    fastest_config,
)
from skipjack.runtime.local_kernels import UntunedConfig
from skipjack.solvers import BuildingSolver, find_solver, solvers_for

# Guesses as answers: on a CPU they are timed against the library and each other.


def untuned_answer(question: Question, guess: UntunedConfig) -> LookupAnswer:
    """The kernel of a guess; `UnusableEntryError` if it fails or is slower than the library."""
    if question.device.kind != "cpu":
        candidate = Candidate(question.problem, guess.solver, Config(guess.config))
        code = candidate_code(
            *(candidate, question.device, question.settings),
            whose=f"the {guess.source}'s",
            patience_s=question.patience_s,
        )
        return answer_of(question, code, guess.source, guess.solver, guess.config)
    found = fastest_of(question, ["one", guess.solver, dict(guess.config)], lambda: [guess])
    # The same config may have been timed in another step.
    judged = replace(found.timed.guesses[0], source=guess.source)
    found = replace(found, timed=replace(found.timed, guesses=(judged,)))
    answer = answer_of_fastest(question, found)
    if answer is None:
        raise UnusableEntryError(
            judged.fault or f"not clearly faster than the library: {found.timed}"
        )
    return answer


def fastest_of(
    question: Question, depends: Sequence[object], guesses: Callable[[], Iterable[UntunedConfig]]
) -> FastestConfig:
    """`fastest_config` for a question."""
    return fastest_config(
        *(question.problem, question.device, question.settings),
        *(depends, guesses, question.patience_s),
    )


def answer_of_fastest(question: Question, found: FastestConfig) -> LookupAnswer | None:
    """The kernel of the fastest guess; None if the library is faster than all of them."""
    best, code = found.timed.fastest, found.code
    if best is None:
        return None
    answer: LookupAnswer | None
    if code is None:
        answer = library_answer(question, best.solver, best.source)
    else:
        answer = answer_of(question, code, best.source, best.solver, best.config)
    return answer and replace(answer, remark=str(found.timed))


class FastestAnswer:
    """Steps of a lookup that are timed together: one answers, the others report the times."""

    def __init__(self, guesses: Callable[[Question], Iterable[UntunedConfig]]) -> None:
        self._guesses = guesses
        self._found: FastestConfig | None = None

    def step(
        self, question: Question, source: str, depends: Sequence[object]
    ) -> LookupAnswer | str:
        """The answer if the fastest guess is from this source; else why it is not.

        `depends` is passed to `fastest_config`.
        """
        if self._found is None:
            guesses = self._guesses
            self._found = fastest_of(question, ["all", *depends], lambda: guesses(question))
        timed = self._found.timed
        best = timed.fastest
        if best is not None and best.source == source:
            answer = answer_of_fastest(question, self._found)
            return answer or f"{best.solver} cannot be called from Python"
        mine = [guess for guess in timed.guesses if guess.source == source]
        told = [str(guess) for guess in mine if guess.ratio is None]
        if any(guess.ratio is not None for guess in mine):
            told.append(str(timed) if best is None else f"another guess is faster: {best}")
        return "; ".join(told) or "the time for guesses had run out"


# Proposals for problems that no bank knows: by a heuristic, or by a solver itself.
#
# A heuristic is a small object that proposes a config if it is confident: `register_heuristic` adds
# one. The trained ones, which lie in files, are asked after them.

HEURISTIC, PROPOSAL = "heuristic", "proposal"
_MOST_SOLVERS, _MOST_PROPOSALS = 3, 5
"""The most solvers that propose configs, and the most proposals in total."""
_BEHIND = Path(__file__).with_name("library_first.json")
"""Made by ``python bench/library_first.py`` from the committed benchmark results."""


@dataclass(frozen=True, slots=True)
class ProposedConfig:
    """A solver and the config that it should build."""

    solver: str
    config: Config


class Heuristic(Protocol):
    """Predicts a fast config without measuring. It runs in the program's own thread: be quick."""

    name: str

    def propose(self, problem: Problem, device: Device) -> ProposedConfig | None:
        """The config to use; None if it is not confident."""
        ...


_heuristics: dict[str, Heuristic] = {}


def register_heuristic(heuristic: Heuristic) -> None:
    """Use a heuristic in lookups from now on, after those registered earlier."""
    check_members("heuristic", heuristic, Heuristic)
    check_new_name("heuristic", heuristic.name, _heuristics)
    _heuristics[heuristic.name] = heuristic


def heuristic_answer(question: Question) -> LookupAnswer | str:
    """The proposal of the first heuristic that is confident; the trained one is the last."""
    told = []
    for name, one in _heuristics.items():
        proposed = one.propose(question.problem, question.device)
        if proposed is None:
            told.append(f"{name} is not confident")
            continue
        answer = _built(question, proposed, HEURISTIC)
        if isinstance(answer, LookupAnswer):
            return answer
        told.append(f"{name}: {answer}")
    trained = trained_proposal(question.problem, question.device, question.settings)
    if isinstance(trained, str):
        return "; ".join([*told, trained])
    answer = _trained_answer(question, trained)
    if isinstance(answer, LookupAnswer):
        return replace(answer, remark=_confident(answer.remark, trained.confidence))
    return "; ".join([*told, answer])


def _trained_answer(question: Question, trained: TrainedProposal) -> LookupAnswer | str:
    if not isinstance(find_solver(trained.solver), BuildingSolver):
        answer = library_answer(question, trained.solver, HEURISTIC)
        return answer or f"{trained.solver} cannot be called from Python"
    if question.device.kind != "cpu":
        return _built(question, ProposedConfig(trained.solver, trained.config), HEURISTIC)
    configs = [(trained.solver, trained.config), *trained.others]
    guesses = [UntunedConfig(HEURISTIC, solver, dict(config)) for solver, config in configs]
    named = [[guess.solver, dict(guess.config)] for guess in guesses]
    found = fastest_of(question, ["trained", *named], lambda: guesses)
    answer = answer_of_fastest(question, found)
    return answer or f"not clearly faster than the library: {found.timed}"


def _confident(remark: str, confidence: float) -> str:
    said = f"confidence {confidence:.2f}"
    return f"{remark}; {said}" if remark else said


def proposal_answer(question: Question) -> LookupAnswer | str:
    """The first config that the most promising solver would try."""
    first = next(iter(proposed_configs(question)))
    if first.fault:
        return first.fault
    return _built(question, ProposedConfig(first.solver, Config(first.config)), PROPOSAL)


def proposed_configs(question: Question) -> Iterator[UntunedConfig]:
    """The first configs of the most promising solvers: the first of each, then the others.

    The proposal of the most promising solver comes first, or why it has none.
    """
    problem, device = question.problem, question.device
    try:
        solvers = solvers_for(problem, device)[:_MOST_SOLVERS]
    except UsageError as error:
        yield UntunedConfig(PROPOSAL, fault=str(error))
        return
    ranked: list[tuple[int, UntunedConfig]] = []
    for solver in solvers:
        space = solver.space(problem, device)
        configs = space.promising(_MOST_PROPOSALS) if isinstance(space, Promising) else ()
        guesses = [UntunedConfig(PROPOSAL, solver.name, dict(config)) for config in configs]
        if not guesses:
            said = f"solver {solver.name} proposes no config without measurements"
            guesses = [UntunedConfig(PROPOSAL, fault=said)]
        yield guesses[0]
        ranked += enumerate(guesses[1:])
    ranked.sort(key=lambda pair: pair[0])
    yield from (guess for _, guess in ranked[: _MOST_PROPOSALS - len(solvers)])


def _built(question: Question, proposed: ProposedConfig, source: str) -> LookupAnswer | str:
    try:
        guess = UntunedConfig(source, find_solver(proposed.solver).name, dict(proposed.config))
        return untuned_answer(question, guess)
    except UnusableEntryError as error:
        return str(error)


def behind_library(problem: Problem, device: Device) -> float | None:
    """The speed of first proposals over libraries', if benchmarks show them slower; else None."""
    return _behind().get(_family(problem, device.kind))


def _family(problem: Problem, kind: str) -> tuple[str, ...]:
    return kind, problem.operation, problem.dtype, problem.layout, problem.direction


@functools.cache
def _behind() -> dict[tuple[str, ...], float]:
    rows = parse_json(_BEHIND.read_bytes())["behind"]
    names = ("kind", "operation", "dtype", "layout", "direction")
    return {tuple(row[name] for name in names): row["ratio"] for row in rows}
