"""A study: one search, with everything that makes it repeatable given the same results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from skipjack.core.annotations import fits
from skipjack.core.digest import digest_of
from skipjack.core.objective import Objective
from skipjack.core.protocol import TimingProtocol
from skipjack.errors import ArgumentTypeError, UsageError


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a study may spend in one sitting; whichever runs out first ends it."""

    trials: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not fits(self.trials, int | None):
            raise ArgumentTypeError(f"a budget is a whole number of trials, not {self.trials!r}")
        if not fits(self.seconds, float | None):
            raise ArgumentTypeError(f"a budget of seconds is a number, not {self.seconds!r}")
        if self.trials is not None and self.trials <= 0:
            raise UsageError(f"a budget of {self.trials} trials tunes nothing; give at least 1")
        if self.seconds is not None and not 0 < self.seconds < float("inf"):
            raise UsageError(
                f"a budget of {self.seconds:g} seconds is none; give a finite number above 0"
            )


class Subject(Protocol):
    """What a study is about: a problem, or a benchmark with its commands."""

    @property
    def key(self) -> str:
        """Canonical text that tells it from all others."""
        ...


@dataclass(frozen=True, slots=True)
class Study:
    """Who searches what, where, and how it is judged."""

    problem: Subject
    solver: str
    device: str
    """The device's class key."""
    searcher: str
    seed: int
    space: str = ""
    """Digests of the space and of what its configs are built from: a change starts a new study."""
    objective: Objective = field(default_factory=Objective)
    protocol: TimingProtocol = field(default_factory=TimingProtocol)

    @property
    def id(self) -> str:
        """Digest of everything above: running the same study again continues it."""
        parts = [
            self.problem.key,
            self.solver,
            self.device,
            self.searcher,
            self.seed,
            self.space,
            self.objective.text,
            self.protocol.key,
        ]
        return digest_of(parts)[:16]
