"""Guesses as answers: on a CPU they are timed beside the library, and beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from skipjack.core.config import Config
from skipjack.core.trial import Candidate
from skipjack.runtime.answers.question import LookupAnswer, Question, answer_of, library_answer
from skipjack.runtime.checks import (
    FastestGuess,
    Guess,
    UselessEntryError,
    candidate_code,
    fastest_guess,
)


def guess_answer(question: Question, guess: Guess) -> LookupAnswer:
    """The kernel of a guess; `UselessEntryError` if it fails, or the library is faster on a CPU."""
    if question.device.kind != "cpu":
        candidate = Candidate(question.problem, guess.solver, Config(guess.config))
        code = candidate_code(
            *(candidate, question.device, question.settings),
            whose=f"the {guess.source}'s",
            patience_s=question.patience_s,
        )
        return answer_of(question, code, guess.source, guess.solver, guess.config)
    found = fastest_of(question, ["one", guess.solver, dict(guess.config)], lambda: [guess])
    # The same config may have been timed for another step.
    judged = replace(found.timed.guesses[0], source=guess.source)
    found = replace(found, timed=replace(found.timed, guesses=(judged,)))
    answer = answer_of_fastest(question, found)
    if answer is None:
        raise UselessEntryError(
            judged.fault or f"it is not clearly faster than the library: {found.timed}"
        )
    return answer


def fastest_of(
    question: Question, depends: Sequence[object], guesses: Callable[[], Iterable[Guess]]
) -> FastestGuess:
    """See `fastest_guess`."""
    return fastest_guess(
        *(question.problem, question.device, question.settings),
        *(depends, guesses, question.patience_s),
    )


def answer_of_fastest(question: Question, found: FastestGuess) -> LookupAnswer | None:
    """The kernel of the fastest guess; None if the library is faster than all."""
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
    """The steps of a lookup that are timed together: one answers, the others say what was timed."""

    def __init__(self, guesses: Callable[[Question], Iterable[Guess]]) -> None:
        self._guesses = guesses
        self._found: FastestGuess | None = None

    def step(
        self, question: Question, source: str, depends: Sequence[object]
    ) -> LookupAnswer | str:
        """The answer if the fastest guess is of this source; else why it is not.

        `depends` is that of `fastest_guess`.
        """
        if self._found is None:
            guesses = self._guesses
            self._found = fastest_of(question, ["all", *depends], lambda: guesses(question))
        timed = self._found.timed
        best = timed.fastest
        if best is not None and best.source == source:
            answer = answer_of_fastest(question, self._found)
            return answer or f"{best.solver} is not called from Python"
        mine = [guess for guess in timed.guesses if guess.source == source]
        told = [str(guess) for guess in mine if guess.ratio is None]
        if any(guess.ratio is not None for guess in mine):
            told.append(str(timed) if best is None else f"another guess is faster: {best}")
        return "; ".join(told) or "the time for guesses was up before"
