"""A problem that is understood but cannot be computed here: part of a list, not a mistake in it."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.core.problem import Problem


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """What was asked for, written like a problem's key, and why there is no kernel for it."""

    text: str
    reason: str


def first_reason(*reasons: str | None) -> str | None:
    """The one to give of several, None if there is none."""
    return next((reason for reason in reasons if reason), None)


Entry = Problem | NotApplicable
"""One line of a list of problems may mean several of these."""
