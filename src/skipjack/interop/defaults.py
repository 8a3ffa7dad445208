"""What is assumed of problems whose text leaves it open."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.errors import ProblemError

ALL = "all"
"""As a direction: every direction that a problem has."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """Fill in what a text does not say; a text that says something else is refused.

    A direction of ``all`` contradicts nobody: it is for texts that name no direction.
    """

    dtype: str | None = None
    layout: str | None = None
    direction: str | None = None

    @property
    def one_direction(self) -> str | None:
        """The direction, unless it is all of them or none was asked for."""
        return None if self.direction == ALL else self.direction


NOTHING_ASKED = Defaults()


def refuse_other(kind: str, said: str, asked: str | None, where: str) -> None:
    """Raise `ProblemError` if a text says something else than what was asked for."""
    if asked is not None and asked != said:
        raise ProblemError(f"command {where!r} says {said} but the {kind} asked for is {asked}")
