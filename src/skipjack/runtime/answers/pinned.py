"""A kernel whose config has the settings that the program pins."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from skipjack.bank import BankEntry, BankLayer, pinned_kind
from skipjack.core.config import Value, has_settings
from skipjack.core.space import Promising
from skipjack.errors import StorageError, UsageError
from skipjack.runtime.answers.explicit import explicit_answer
from skipjack.runtime.answers.question import LookupAnswer, Question
from skipjack.runtime.toolchains import fresh_first
from skipjack.runtime.warning_once import warn_once
from skipjack.solvers import (
    find_solver,
    is_known,
    named_pins,
    pinned_solvers,
    pinned_space,
    spelled_pins,
)

_PROPOSAL = "proposal"
log = logging.getLogger("skipjack.runtime.lookup")


def pinned_answer(
    question: Question, pinned: Mapping[str, Value], solver: str | None, *, strict: bool
) -> LookupAnswer | None:
    """Of the banks, else the first config that a solver proposes; `UsageError` if none has it.

    If `strict`, the user's bank alone is asked; None if it does not know one.
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
    """What was tuned with these settings, then the best of all where it has them."""
    for kind in (pinned_kind(pins), pinned_kind({})):
        try:
            entries = layer.ranked(
                question.problem.key, question.device.class_key, kind, question.protocol
            )
        except StorageError:
            return  # told elsewhere
        for entry in fresh_first(entries):
            same = is_known(entry.solver) and find_solver(entry.solver).version
            if same == entry.solver_version and has_settings(entry.config, pins):
                yield entry


def _named(
    question: Question, solver: str, config: Mapping[str, Value], source: str, *, banked: bool
) -> LookupAnswer:
    """A config as an answer; its pickle names it, too."""
    answer = explicit_answer(question, solver, config, is_banked=banked)
    answer.kernel.source = source
    return answer
