"""CartesianProduct: every combination, those of one build next to each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import product
from typing import Any

from skipjack.search.points import Points, SearcherInterface, listed


class CartesianProduct(SearcherInterface):
    """All combinations of the values of `grid`; the last name varies fastest.

    Names in `no_rebuild_params` are moved behind all others, so that what needs a new build
    changes as rarely as can be; within both groups the order of `grid` is kept.
    """

    is_dynamic = False

    def __init__(
        self, grid: Mapping[str, Iterable[Any]], no_rebuild_params: Collection[str] | None = None
    ) -> None:
        self.grid = {
            name: listed(values, name, "CartesianProduct") for name, values in grid.items()
        }
        self.no_rebuild_params = None if no_rebuild_params is None else tuple(no_rebuild_params)

    @property
    def names(self) -> tuple[str, ...]:
        """From the slowest to the fastest."""
        late = self.no_rebuild_params or ()
        return tuple(sorted(self.grid, key=lambda name: name in late))

    def generate(self) -> Points:
        """One point for each combination; a single empty one where there are no parameters."""
        names = self.names
        for values in product(*(self.grid[name] for name in names)):
            yield dict(zip(names, values, strict=True))
