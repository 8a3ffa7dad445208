"""An answer that the ranks of a program have in common."""

from __future__ import annotations

import logging
from collections.abc import Callable

from skipjack.core.config import Config
from skipjack.errors import SkipjackError
from skipjack.runtime.answers.agreement import AgreedAnswer, Agreement
from skipjack.runtime.answers.explicit import explicit_answer
from skipjack.runtime.answers.question import LookupAnswer, Question
from skipjack.runtime.warning_once import warn_once

log = logging.getLogger("skipjack.runtime.lookup")


def agreed_answer(
    shared: Agreement,
    question: Question,
    way: str,
    decide: Callable[[], LookupAnswer | None],
) -> LookupAnswer | None:
    """What another rank has decided, or what `decide` gives, which the others take then.

    `way` says how the question is asked. A rank that cannot do what was decided says so once, and
    decides for itself.
    """
    mine: list[LookupAnswer | None] = []

    def decided() -> AgreedAnswer:
        mine.append(decide())
        answer = mine[0]
        if answer is None:
            return AgreedAnswer("", "{}", "", False)
        config = Config(answer.config).key
        return AgreedAnswer(answer.kernel.solver, config, answer.source, answer.is_banked)

    try:
        agreed = shared.settle(_text(question, way), decided)
        return mine[0] if mine else _adopted(question, agreed)
    except SkipjackError as error:
        warn_once(log, f"{question.problem.key}: this rank decides for itself: {error}")
        return mine[0] if mine else decide()


def _text(question: Question, way: str) -> str:
    """All that an answer depends on besides what is known."""
    paths = [str(layer.path) for layer in question.layers]
    asked = question.problem.key, question.device.class_key, question.protocol or "", way
    return "\n".join([*asked, question.library_alone, *paths])


def _adopted(question: Question, agreed: AgreedAnswer) -> LookupAnswer | None:
    if not agreed.solver:
        return None
    config = Config.from_key(agreed.config)
    return explicit_answer(
        question, agreed.solver, config, agreed.source, is_banked=agreed.is_banked
    )
