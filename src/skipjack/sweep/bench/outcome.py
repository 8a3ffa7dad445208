"""The outcome of a run, the interface of a benchmark, and a benchmark that is a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from skipjack.core import Config, Metric, Status
from skipjack.sweep.files import SweepFile

# The outcome of a run, and the interface of a benchmark.


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """One run: its status, its metrics, and where its output is."""

    status: Status
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    reason: str = ""
    """One sentence if the run failed."""
    seconds: float = 0.0
    """Time of the run without the build."""
    build_seconds: float = 0.0
    """Time of the build that it needed; 0 if a kept build was used."""
    log: str = ""
    """The file with its output."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader, such as that the run was throttled or repeated."""


class SweepBench(Protocol):
    """A benchmark that can be run at points: commands, a recorded grid, or a function."""

    @property
    def builds(self) -> int:
        """The number of builds so far."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about the whole sweep."""
        ...

    def build_key(self, point: Config) -> str:
        """The key of a point's build; points with equal keys share it."""
        ...

    def prepare(self, points: Sequence[Config]) -> None:
        """Announce points whose builds are needed soon, in this order; may be ignored."""
        ...

    def measure(self, point: Config, settings: Mapping[str, Any]) -> RunOutcome:
        """Build if needed, and run once. `settings` are laid over the config, for short runs."""
        ...

    def close(self) -> None:
        """End what still runs; keep the builds."""
        ...


# A benchmark that is a function: a hook's synthetic results, or recorded ones.

RunFunction = Callable[[Config, Mapping[str, Any]], RunOutcome]


class SimulatedBench:
    """Takes outcomes from a function and counts the builds that commands would make."""

    notes: tuple[str, ...] = ()

    def __init__(self, answer: RunFunction, build_key: Callable[[Config], str]) -> None:
        self._answer, self._key = answer, build_key
        self._built: set[str] = set()

    @property
    def builds(self) -> int:
        """The number of distinct builds so far."""
        return len(self._built)

    def build_key(self, point: Config) -> str:
        return self._key(point)

    def prepare(self, points: Sequence[Config]) -> None:
        """Do nothing: there is nothing to build."""

    def measure(self, point: Config, settings: Mapping[str, Any]) -> RunOutcome:
        self._built.add(self._key(point))
        return self._answer(point, settings)

    def close(self) -> None:
        """Do nothing: there is nothing to end."""


def synthetic_run(file: SweepFile) -> RunFunction:
    """Runs whose metrics come from the file's `META_get_synthetic`."""
    hook = file.synthetic
    assert hook is not None, "the caller checks this"

    def answer(point: Config, settings: Mapping[str, Any]) -> RunOutcome:
        stats = hook(dict(point))
        return RunOutcome(stats.status, stats.data)

    return answer
