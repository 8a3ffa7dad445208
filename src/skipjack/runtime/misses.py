"""Problems that a program asked for and no bank knew."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skipjack.runtime.answers import LookupAnswer, Question


def note(question: Question, answer: LookupAnswer | None) -> None:
    """Called once for an answer that came from no bank; `answer` is None if there was none."""
