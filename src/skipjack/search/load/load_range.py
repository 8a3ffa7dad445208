"""What a joint search goes over, a range of loads and settings, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import exp
from typing import Any

from skipjack.errors import UsageError
from skipjack.reading import numbered
from skipjack.search.load.boundary import Answer, Load
from skipjack.search.points import Point, config_of, listed

_MOST_SETTINGS = 3000
"""How alike each two settings are is kept in memory."""


@dataclass(frozen=True, slots=True)
class LoadRange:
    """Which parameter is the load, and where its limit may lie."""

    param: str
    lower: Load
    upper: Load
    integer: bool = True

    def at(self, log_load: float) -> Load:
        """The load of the range that is nearest."""
        load = min(max(exp(log_load), self.lower), self.upper)
        return round(load) if self.integer else load


def range_of(load: LoadRange | tuple[str, Load, Load]) -> LoadRange:
    """A range from its parts, or as it is."""
    if isinstance(load, LoadRange):
        return load
    if not isinstance(load, tuple | list) or len(load) != 3:
        raise UsageError(
            f"JointLoad's load must be a parameter with a lower and an upper bound, not {load!r}"
        )
    return LoadRange(*load)


def settings_of(
    parameters: Mapping[str, Sequence[Any]] | None, points: Sequence[Point] | None, load: str
) -> list[Point]:
    """All combinations of the parameters, or the points as they are; each once."""
    if parameters is not None and points is not None:
        raise UsageError("JointLoad needs parameters or points, not both")
    if points is None:
        named = parameters or {}
        grid = {name: listed(values, name, "JointLoad") for name, values in named.items()}
        points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    settings: list[Point] = list({config_of(point).key: dict(point) for point in points}.values())
    if not settings:
        raise UsageError("JointLoad has no settings: a parameter has no values")
    if len(settings) > _MOST_SETTINGS:
        raise UsageError(
            f"JointLoad has {len(settings)} settings, more than {_MOST_SETTINGS}; leave out values"
        )
    if any(load in setting for setting in settings):
        raise UsageError(f"{load!r} is JointLoad's load and cannot be one of its parameters, too")
    return settings


@dataclass(frozen=True, slots=True)
class JointAnswer:
    """The best setting and its load."""

    setting: Point
    load: Answer
    """From the confirming runs, and from those of the search where they were of the same kind."""
    runs: int
    settings_run: int
    """How many settings were run at all."""
    settings: int

    def __str__(self) -> str:
        words = ", ".join(f"{name} {value}" for name, value in self.setting.items())
        seen = f"{self.settings_run} of {self.settings} settings in {numbered(self.runs, 'run')}"
        return f"{words}: {self.load} ({seen})"
