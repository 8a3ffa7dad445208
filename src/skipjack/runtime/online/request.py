"""What a program asks of the process that tunes for it, and what that answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

TUNE, FIND, PROPOSE = "tune", "find", "propose"
"""Race the solvers; rank them all; time the first proposal of each and the libraries."""
LATE, FAILED = "late", "failed"
"""Statuses of answers besides those of the study engine: the time was over, or nothing worked."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search. Times are those of this host's clocks, which its processes share."""

    id: int
    problem: str
    """The whole key."""
    device: str
    user_dir: str
    plugins: tuple[str, ...]
    build_workers: int
    core: int | None
    verb: str
    seconds: float
    """For the search, start-up included where somebody waits."""
    deadline: float | None
    """When nobody waits any more, by the monotonic clock; None if nobody waits at all."""
    asked_at: float
    """By the wall clock. A search that ended later answers this request, too."""
    retune: bool = False
    account: str | None = None
    """The file of the regret account that trials have to keep to."""
    regret: float = 1.0
    protocol: str | None = None
    """The deployment that it is tuned for; None is the device's default."""
    searcher: str = "auto"

    @property
    def key(self) -> tuple[str, ...]:
        """Searches with equal keys are one."""
        return self.problem, self.device, self.user_dir, self.protocol or ""

    def body(self) -> dict[str, Any]:
        """For the pipe."""
        return asdict(self) | {"plugins": list(self.plugins)}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> SearchRequest:
        """Out of the pipe."""
        return cls(**dict(body) | {"plugins": tuple(body["plugins"])})


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """What became of it."""

    status: str
    """An outcome of the study engine, or `LATE` or `FAILED`."""
    reason: str = ""
    searched: bool = False
    """Whether it was searched for this request; not where another process had just done so."""
    searcher: str = ""
    """Who searched, on the space of the solver that won."""
    rounds: tuple[tuple[float, str], ...] = ()
    """The best time after each batch of trials in nanoseconds, and when that ended."""

    def body(self) -> dict[str, Any]:
        """For the pipe."""
        return asdict(self)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> SearchAnswer:
        """Out of the pipe."""
        rounds = tuple((best, ended) for best, ended in body.get("rounds", ()))
        told = body["status"], body["reason"], body["searched"], body.get("searcher", "")
        return cls(*told, rounds)
