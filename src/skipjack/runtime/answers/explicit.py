"""A config that the program names itself."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from skipjack.core.config import Config, Value
from skipjack.core.trial import Candidate
from skipjack.errors import UsageError
from skipjack.runtime.answers.question import LookupAnswer, Question, answer_of, library_answer
from skipjack.runtime.checks import StillCheckingError, UselessEntryError, candidate_code
from skipjack.runtime.kernel_code import named_again
from skipjack.solvers import BuildingSolver, find_solver, refusal

EXPLICIT = "explicit"


def explicit_answer(
    question: Question,
    solver: str,
    config: Mapping[str, Value] | None,
    source: str = EXPLICIT,
    *,
    is_banked: bool = False,
) -> LookupAnswer:
    """The kernel of a solver's config, or a library; `UsageError` if there is none.

    `source` and `is_banked` are of the answer, where it is one that another process had before.
    """
    problem, device = question.problem, question.device
    again = None
    if source == EXPLICIT:
        where = question.directory, question.protocol
        again = named_again(problem, device.name, *where, solver, config)
    known = find_solver(solver)
    if not isinstance(known, BuildingSolver):
        reason = refusal(known, problem, device)
        if not reason:
            answer = library_answer(question, solver, source, again, is_banked=is_banked)
        else:
            answer = None
        if answer is None:
            reason = reason or "it cannot be called from Python"
            raise UsageError(f"solver {solver} cannot do {problem.key}: {reason}")
        return answer
    if config is None:
        raise UsageError(f"solver {solver} builds kernels of configs: give config= as well")
    candidate = Candidate(problem, solver, Config(dict(config)))
    find = functools.partial(
        candidate_code,
        *(candidate, device, question.settings),
        whose="the",
        patience_s=question.patience_s,
    )
    try:
        try:
            code = find()
        except StillCheckingError as waits:
            # Others are checked first, and no other answer will do meanwhile.
            waits.check.finished.wait(question.patience_s)
            code = find()
    except (UselessEntryError, StillCheckingError) as error:
        raise UsageError(f"{problem.key}: {error}") from error
    return answer_of(question, code, source, solver, config, again, is_banked=is_banked)
