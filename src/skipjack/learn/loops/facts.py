"""What a nest is, as numbers that do not change while its schedule does."""

from __future__ import annotations

from skipjack.core.nest import Access, Nest
from skipjack.solvers.cpu.nest import can_vectorize


class NestFacts:
    """What observations ask of a nest, looked up once."""

    __slots__ = ("extents", "reduced", "strides", "terms", "vectorizable")

    def __init__(self, nest: Nest) -> None:
        accesses = (nest.output, *nest.inputs)
        self.extents = dict(nest.loops)
        self.reduced = frozenset(nest.reduction_loops)
        self.vectorizable = frozenset(name for name in self.extents if can_vectorize(name, nest))
        """Names of variables."""
        self.strides = {
            name: tuple(access.stride(name) for access in accesses) for name in self.extents
        }
        """By variable: of the output, then of the inputs, in elements."""
        self.terms = tuple(map(_terms, accesses))

    def elements(self, sizes: dict[str, int]) -> int:
        """Elements of all arrays that are touched while variables run over so many values."""
        total = 0
        for dimensions in self.terms:
            elements = 1
            for dimension in dimensions:
                length = 1
                for name, factor in dimension:
                    length += factor * (sizes[name] - 1)
                elements *= length
            total += elements
        return total


def _terms(access: Access) -> tuple[tuple[tuple[str, int], ...], ...]:
    return tuple(
        tuple((name, abs(factor)) for name, factor in at.terms if factor) for at in access.indices
    )
