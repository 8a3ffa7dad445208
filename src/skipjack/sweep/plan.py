"""What a sweep will do: its points in order, and the builds that they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skipjack.core.config import Config


@dataclass(frozen=True, slots=True)
class Plan:
    """The points of a search that does not depend on results."""

    product: int
    """Points before any was refused."""
    points: tuple[Config, ...]
    """Those to run, in this order."""
    refused: tuple[Config, ...]
    """Those that the file's rule forbids."""
    builds: int
    """Builds that it takes if builds are kept."""
    rebuilds: int
    """Builds that it takes if only the last build is kept: how grid.py counts."""

    @property
    def runs(self) -> int:
        """Points to run."""
        return len(self.points)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        points: list[Mapping[str, Any]] = [dict(point) for point in self.points]
        return {
            "format": 1,
            "product": self.product,
            "runs": self.runs,
            "refused": len(self.refused),
            "builds": self.builds,
            "first": points[0] if points else None,
            "last": points[-1] if points else None,
            "points": points,
        }
