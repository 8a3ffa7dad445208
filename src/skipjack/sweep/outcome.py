"""What came of one run of a benchmark, and what can be run at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from skipjack.core.config import Config
from skipjack.core.objective import Metric
from skipjack.core.trial import Status


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: how it ended, what it said, where its output is."""

    status: Status
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    reason: str = ""
    """One sentence, where it failed."""
    seconds: float = 0.0
    """Of the run alone."""
    build_seconds: float = 0.0
    """Of the build that it needed, 0 if there was one."""
    log: str = ""
    """The file with what it printed."""
    notes: tuple[str, ...] = ()
    """What a reader should know: throttled, repaired, repeated."""


class Bench(Protocol):
    """Something that can be measured at points: commands, a recorded grid, a function."""

    @property
    def builds(self) -> int:
        """How many builds were made so far."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the whole sweep should know."""
        ...

    def build_key(self, point: Config) -> str:
        """Points with equal keys share a build."""
        ...

    def prepare(self, points: Sequence[Config]) -> None:
        """Builds for these are wanted soon, in this order; may be built ahead, or ignored."""
        ...

    def measure(self, point: Config, settings: Mapping[str, Any]) -> Outcome:
        """Build if need be, and run once. `settings` go over the config: shorter runs, say."""
        ...

    def close(self) -> None:
        """End what still runs; keep what is built."""
        ...
