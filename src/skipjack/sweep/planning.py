"""What a sweep will do, as far as it does not depend on results: its points in order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal

from skipjack.core.config import Config
from skipjack.errors import UsageError
from skipjack.search.scripted import SearcherInterface
from skipjack.sweep.configs.base_config import BaseConfig, is_allowed
from skipjack.sweep.files.sweep_file import SweepFile
from skipjack.sweep.ordering import (
    build_part,
    count_builds,
    count_rebuilds,
    fewest_builds,
    product_points,
)

Order = Literal["fewest-builds", "listed"]

MOST_POINTS = 1_000_000
"""More cannot be run in a lifetime; a search without end is noticed here."""


@dataclass(frozen=True)
class SweepPlan:
    """The points of a search that does not depend on results."""

    product: int
    """Points before any was refused."""
    points: tuple[Config, ...]
    """Those to run, in this order."""
    refused: tuple[Config, ...]
    """Those that the file's rule forbids."""
    no_rebuild: tuple[str, ...] | None
    """As in the file."""

    @property
    def runs(self) -> int:
        return len(self.points)

    @cached_property
    def builds(self) -> int:
        """Builds that it takes if builds are kept."""
        return count_builds(self.points, self.no_rebuild)

    @cached_property
    def rebuilds(self) -> int:
        """Builds that it takes if only the last build is kept: how grid.py counts."""
        return count_rebuilds(self.points, self.no_rebuild)


def make_plan(file: SweepFile, base: BaseConfig, order: Order = "fewest-builds") -> SweepPlan:
    """The points of a file of lists, or of a search that promises to ignore results.

    ``listed`` keeps the order of declaration, or of the searcher. With ``fewest-builds`` a file
    of lists comes in grid.py's order, and the points of a searcher by their builds.
    """
    searcher = file.search() if file.search else None
    points: list[Config] = []
    refused: list[Config] = []
    for point in listed_points(file, searcher, order):
        (points if is_allowed(file, base, point) else refused).append(point)
    product = len(points) + len(refused)
    if searcher is not None and order == "fewest-builds":
        points = fewest_builds(points, lambda point: build_part(point, file.no_rebuild).key)
    return SweepPlan(product, tuple(points), tuple(refused), file.no_rebuild)


def is_static(file: SweepFile) -> bool:
    """Whether the points are known before anything was run."""
    return file.search is None or not file.search().is_dynamic


def listed_points(
    file: SweepFile, searcher: SearcherInterface | None, order: Order = "fewest-builds"
) -> Iterator[Config]:
    """All combinations, or what a search names; rules are not looked at."""
    if searcher is None:
        _check_size(file)
        free = file.no_rebuild if order == "fewest-builds" else ()
        yield from product_points(file.parameters, free)
        return
    if searcher.is_dynamic:
        raise UsageError(f"{file.path}: the search depends on results, so that there is no plan")
    points: Iterator[Mapping[str, Any]] = searcher.generate()
    yield from map(Config.of, islice(points, MOST_POINTS))
    if next(points, None) is not None:
        raise UsageError(f"{file.path}: the search does not end after {MOST_POINTS} points")


def _check_size(file: SweepFile) -> None:
    count = math.prod(map(len, file.parameters.values()))
    if count > MOST_POINTS:
        raise UsageError(
            f"{file.path}: {count} combinations are more than {MOST_POINTS}; use fewer values, or "
            "a search"
        )
