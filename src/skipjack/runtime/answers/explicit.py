"""A config that the program names itself, or some of whose settings it pins."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Mapping

from skipjack.bank import BankEntry, BankLayer, pinned_kind
from skipjack.core import Candidate, Config, Promising, Value, has_settings
from skipjack.errors import StorageError, UsageError
from skipjack.runtime.answers.question import LookupAnswer, Question, answer_of, library_answer
from skipjack.runtime.checks import StillCheckingError, UnusableEntryError, candidate_code
from skipjack.runtime.local_kernels import fresh_first, named_again
from skipjack.runtime.process import warn_once
from skipjack.solvers import (
    BuildingSolver,
    find_solver,
    is_known,
    named_pins,
    pinned_solvers,
    pinned_space,
    refusal,
    spelled_pins,
)

# Answers for a solver and config that the program names itself.

EXPLICIT = "explicit"


def explicit_answer(
    question: Question,
    solver: str,
    config: Mapping[str, Value] | None,
    source: str = EXPLICIT,
    *,
    is_banked: bool = False,
) -> LookupAnswer:
    """The kernel of a solver's config, or a library; `UsageError` if it cannot be used.

    `source` and `is_banked` are given for an answer that another process has found.
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
        raise UsageError(f"solver {solver} builds kernels from configs: give config= as well")
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
            # Other kernels are checked first; nothing else can answer meanwhile.
            waits.check.finished.wait(question.patience_s)
            code = find()
    except (UnusableEntryError, StillCheckingError) as error:
        raise UsageError(f"{problem.key}: {error}") from error
    return answer_of(question, code, source, solver, config, again, is_banked=is_banked)


# Answers whose config has the settings that the program pins.

_PROPOSAL = "proposal"
log = logging.getLogger("skipjack.runtime.lookup")


def pinned_answer(
    question: Question, pinned: Mapping[str, Value], solver: str | None, *, strict: bool
) -> LookupAnswer | None:
    """An entry of a bank, else the first config that a solver proposes; `UsageError` if none fits.

    If `strict`, only the user's bank is asked; None if it has no such entry.
    """
    pins = named_pins(question.problem, question.device, spelled_pins(pinned), solver)
    able = pinned_solvers(question.problem, question.device, pins, solver)
    for layer in question.layers[: 1 if strict else None]:
        for entry in _known(question, layer, pins):
            if solver not in (None, entry.solver):
                continue
            try:
                return _named(question, entry.solver, entry.config, layer.name, banked=True)
            except UsageError as error:
                warn_once(log, str(error))
    if strict or question.banks_only:
        return None
    first = able[0]
    space = pinned_space(first.space(question.problem, question.device), pins)
    promising = space.promising(1) if isinstance(space, Promising) else ()
    config = promising[0] if promising else space.default()
    return _named(question, first.name, config, _PROPOSAL, banked=False)


def _known(question: Question, layer: BankLayer, pins: Mapping[str, str]) -> Iterator[BankEntry]:
    """Entries that were tuned with these settings, then others that happen to have them."""
    for kind in (pinned_kind(pins), pinned_kind({})):
        try:
            entries = layer.ranked(
                question.problem.key, question.device.class_key, kind, question.protocol
            )
        except StorageError:
            return  # reported by the bank's own step
        for entry in fresh_first(entries):
            same = is_known(entry.solver) and find_solver(entry.solver).version
            if same == entry.solver_version and has_settings(entry.config, pins):
                yield entry


def _named(
    question: Question, solver: str, config: Mapping[str, Value], source: str, *, banked: bool
) -> LookupAnswer:
    """A config as an answer; its pickle names the config, too."""
    answer = explicit_answer(question, solver, config, is_banked=banked)
    answer.kernel.source = source
    return answer
