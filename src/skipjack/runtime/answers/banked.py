"""Entries of banks as answers."""

from __future__ import annotations

import logging

from skipjack.bank import USER, BankEntry, BankLayer
from skipjack.core.config import Value
from skipjack.runtime.answers.question import (
    LookupAnswer,
    Question,
    answer_of,
    library_answer,
)
from skipjack.runtime.answers.timed import guess_answer
from skipjack.runtime.checks import Guess, UselessEntryError, code_of, solver_of, usable
from skipjack.runtime.kernel_code import KernelCode, banked_again
from skipjack.runtime.toolchains import fresh_first
from skipjack.runtime.warning_once import warn_once

log = logging.getLogger("skipjack.runtime.lookup")


def banked(question: Question, layer: BankLayer) -> LookupAnswer | str:
    """The best entry of one bank for the very problem and class of device that works here."""
    problem, device = question.problem, question.device
    if layer.name.startswith("bank ") and not layer.path.exists():
        sentence = f"there is no bank at {layer.path}, which SKIPJACK_BANKS names"
        warn_once(log, sentence)
        return sentence
    entries = fresh_first(layer.ranked(problem.key, device.class_key, protocol=question.protocol))
    if not entries:
        named = f" as {question.deployed}" if question.protocol else ""
        return f"it has no entry of {problem.key} for {device.class_key}{named}"
    own = layer.name == USER
    try:
        chosen = usable(
            *(entries, problem, device, question.settings),
            ledger=own,
            patience_s=question.patience_s,
        )
    except UselessEntryError as error:
        warn_once(log, f"{problem.key}: {error}")
        return str(error)
    if chosen.passed_over:
        warn_once(log, f"{problem.key}: {chosen.passed_over}")
    try:
        return _answer(question, chosen.entry, chosen.code, layer.name, is_banked=True)
    except UselessEntryError as error:
        return str(error)


def entry_answer(question: Question, entry: BankEntry, source: str) -> LookupAnswer:
    """An entry of another class or problem as an answer to this one; `UselessEntryError`.

    On a CPU its kernel is timed beside the library.
    """
    if question.device.kind == "cpu" and solver_of(entry) is not None:
        return guess_answer(question, Guess(source, entry.solver, dict(entry.config)))
    code = code_of(entry, question.problem, question.device, question.settings, question.patience_s)
    return _answer(question, entry, code, source, is_banked=False)


def _answer(
    question: Question, entry: BankEntry, code: KernelCode | None, source: str, *, is_banked: bool
) -> LookupAnswer:
    again = question.again
    if source == USER:
        again = banked_again(
            question.problem, question.device.name, question.directory, question.protocol
        )
    if code is not None:
        config: dict[str, Value] = dict(entry.config)
        return answer_of(question, code, source, entry.solver, config, again, is_banked=is_banked)
    answer = library_answer(question, entry.solver, source, again, is_banked=is_banked)
    if answer is None:
        raise UselessEntryError(f"{entry.solver}, which the bank names, is not called from Python")
    return answer
