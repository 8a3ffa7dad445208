"""Entries of banks as answers."""

from __future__ import annotations

import logging

from skipjack.bank import USER, BankLayer
from skipjack.runtime.answers.question import LookupAnswer, Question, answer_of, library_answer
from skipjack.runtime.entry_code import Usable, UselessEntryError, usable
from skipjack.runtime.kernel_code import banked_again
from skipjack.runtime.warning_once import warn_once

log = logging.getLogger("skipjack.runtime.lookup")


def banked(question: Question, layer: BankLayer) -> LookupAnswer | str:
    """The best entry of one bank for the very problem and class of device that works here."""
    problem, device = question.problem, question.device
    if layer.name.startswith("bank ") and not layer.path.is_file():
        sentence = f"there is no bank at {layer.path}, which SKIPJACK_BANKS names"
        warn_once(log, sentence)
        return sentence
    entries = layer.ranked(problem.key, device.class_key)
    if not entries:
        return f"it has no entry of {problem.key} for {device.class_key}"
    own = layer.name == USER
    try:
        chosen = usable(entries, problem, device, question.settings, ledger=own)
    except UselessEntryError as error:
        warn_once(log, f"{problem.key}: {error}")
        return str(error)
    if chosen.passed_over:
        warn_once(log, f"{problem.key}: {chosen.passed_over}")
    return _answer(question, chosen, layer.name) or (
        f"{chosen.entry.solver} cannot be called from Python"
    )


def _answer(question: Question, chosen: Usable, source: str) -> LookupAnswer | None:
    entry, again = chosen.entry, question.again
    if source == USER:
        again = banked_again(question.problem, question.device.name, question.directory)
    if chosen.code is None:
        return library_answer(question, entry.solver, source, again, is_banked=True)
    code, config = chosen.code, entry.config
    return answer_of(question, code, source, entry.solver, config, again, is_banked=True)
