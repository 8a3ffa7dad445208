"""What a sweep will do, as far as it does not depend on results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from skipjack.sweep.plan import Plan

Order = Literal["fewest-builds", "listed"]

MOST_POINTS = 1_000_000
"""More cannot be run in a lifetime; a search without end is noticed here."""


def make_plan(
    file: SweepFile,
    base: BaseConfig,
    *,
    searcher: SearcherInterface | None = None,
    order: Order = "fewest-builds",
) -> Plan:
    """The points of a file of lists, or of a search that promises to ignore results.

    ``listed`` keeps the order of declaration, or of the searcher. With ``fewest-builds`` a file
    of lists comes in grid.py's order, and the points of a searcher by their builds.
    """
    if searcher is None and file.search is not None:
        searcher = file.search()
    listed = tuple(listed_points(file, searcher, order))
    verdicts = [is_allowed(file, base, point) for point in listed]
    points = [point for point, allowed in zip(listed, verdicts, strict=True) if allowed]
    if searcher is not None and order == "fewest-builds":
        points = fewest_builds(points, lambda point: build_part(point, file.no_rebuild).key)
    return Plan(
        product=len(listed),
        points=tuple(points),
        refused=tuple(p for p, allowed in zip(listed, verdicts, strict=True) if not allowed),
        builds=count_builds(points, file.no_rebuild),
        rebuilds=count_rebuilds(points, file.no_rebuild),
    )


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
    count = 1
    for values in file.parameters.values():
        count *= len(values)
    if count > MOST_POINTS:
        raise UsageError(
            f"{file.path}: {count} combinations are more than {MOST_POINTS}; use fewer values, or "
            "a search"
        )
