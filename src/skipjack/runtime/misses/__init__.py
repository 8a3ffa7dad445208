"""Problems that a program asked for and no bank knew; ``SKIPJACK_ON_MISS`` says what to do then.

`note` is all that a lookup calls; files and meters are loaded when there is something to note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy
from skipjack.runtime.policy import FLEET, RECORD, on_miss

if TYPE_CHECKING:
    from skipjack.runtime.answers import LookupAnswer, Question
    from skipjack.runtime.misses.file import MissedProblem, MissFile
    from skipjack.runtime.misses.recording import flush

__all__ = ["MissFile", "MissedProblem", "flush", "note"]


def note(question: Question, answer: LookupAnswer | None) -> None:
    """Called once for an answer that came from no bank; `answer` is None if there was none.

    Nothing here fails a program: what cannot be recorded is told once.
    """
    wish = on_miss()
    if wish not in (RECORD, FLEET):
        return
    from skipjack.runtime.misses.recording import record

    record(question, answer, to_fleet=wish == FLEET)


__getattr__, __dir__ = lazy(
    __name__,
    {
        "file": ("MissFile", "MissedProblem"),
        "recording": ("flush",),
    },
)
