"""A problem that is understood but cannot be computed here: part of a list, not a mistake in it."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.core.problem import Problem


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """What was asked for, written like a problem's key, and why there is no kernel for it."""

    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.text}: {self.reason}"


Entry = Problem | NotApplicable
"""One line of a list of problems may mean several of these."""
