"""The order of points: those that share a build stand together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from skipjack.core.config import Config
from skipjack.search.scripted import CartesianProduct


def build_part(point: Mapping[str, Any], no_rebuild: Collection[str] | None) -> Config:
    """What a build depends on. With None every parameter counts.

    Points with equal parts share a build.
    """
    free = no_rebuild or ()
    return Config.of({name: value for name, value in point.items() if name not in free})


def product_points(
    parameters: Mapping[str, Sequence[Any]], no_rebuild: Collection[str] | None
) -> Iterator[Config]:
    """All combinations: build parameters vary slowest, in the order of their declaration.

    Each point has its names in the order of their declaration, whatever varies first.
    """
    for chosen in CartesianProduct(parameters, no_rebuild).generate():
        yield Config.of({name: chosen[name] for name in parameters})


def fewest_builds(
    points: Iterable[Config], build_key: Callable[[Config], str], standing: str = ""
) -> list[Config]:
    """The same points, those with equal build keys in a row.

    Builds and points keep the order in which they came, so that what a search thinks most
    promising stays in front; only points of the build that is `standing` already come first.
    """
    groups: dict[str, list[Config]] = {standing: []}
    for point in points:
        groups.setdefault(build_key(point), []).append(point)
    return [point for group in groups.values() for point in group]


def count_builds(points: Iterable[Config], no_rebuild: Collection[str] | None) -> int:
    """Builds that are needed if each is kept."""
    return len({build_part(point, no_rebuild).key for point in points})


def count_rebuilds(points: Iterable[Config], no_rebuild: Collection[str] | None) -> int:
    """Builds that are made if only the last one is kept; without `no_rebuild`, one for each run."""
    builds, last = 0, None
    for point in points:
        part = build_part(point, no_rebuild)
        if no_rebuild is None or part != last:
            builds += 1
        last = part
    return builds
