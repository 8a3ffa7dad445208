"""A benchmark that is a function: what a hook makes up, or what was recorded before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skipjack.core.config import Config
from skipjack.sweep.files.sweep_file import SweepFile
from skipjack.sweep.outcome import Outcome

Answer = Callable[[Config, Mapping[str, Any]], Outcome]


class SimulatedBench:
    """Answers from a function and counts the builds that commands would have made."""

    notes: tuple[str, ...] = ()

    def __init__(self, answer: Answer, build_key: Callable[[Config], str]) -> None:
        self._answer, self._key = answer, build_key
        self._built: set[str] = set()

    @property
    def builds(self) -> int:
        """Distinct builds so far."""
        return len(self._built)

    def build_key(self, point: Config) -> str:
        return self._key(point)

    def prepare(self, points: Sequence[Config]) -> None:
        """Nothing is built."""

    def measure(self, point: Config, settings: Mapping[str, Any]) -> Outcome:
        self._built.add(self._key(point))
        return self._answer(point, settings)

    def close(self) -> None:
        """Nothing runs."""


def synthetic_answer(file: SweepFile) -> Answer:
    """What the file's `META_get_synthetic` says of a point, as a run."""
    hook = file.synthetic
    assert hook is not None, "the caller looked"

    def answer(point: Config, settings: Mapping[str, Any]) -> Outcome:
        stats = hook(dict(point))
        return Outcome(stats.status, stats.data)

    return answer
