"""What is wanted: one metric to minimise or maximise, and bounds on others."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from skipjack.core.expressions import Expression

Direction = Literal["min", "max"]

Metric = float | str
"""What a measurement says under one name: a number, or a word such as ``VALID``."""


def spelled(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Metrics under names that an expression can use: what is no letter or digit becomes ``_``."""
    return {re.sub(r"\W", "_", name): value for name, value in metrics.items()}


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric by name, a direction, and constraints such as ``workspace_bytes <= 2**30``."""

    metric: str = "time_ns"
    direction: Direction = "min"
    constraints: tuple[str, ...] = ()

    def value(self, metrics: Mapping[str, Metric]) -> float | None:
        """What a searcher minimises; None where the metric is missing or a constraint is broken."""
        raw = metrics.get(self.metric)
        if raw is None or isinstance(raw, str) or not math.isfinite(raw):
            return None
        if self.constraints:
            named = spelled(metrics)
            if any(not Expression(text).holds(named) for text in self.constraints):
                return None
        return raw if self.direction == "min" else -raw

    @property
    def text(self) -> str:
        """``time_ns:min`` and the constraints after semicolons."""
        return ";".join((f"{self.metric}:{self.direction}", *self.constraints))
