"""A copy in the form that code is written from: few long walks, and how the innermost are copied.

Walks of one step go; neighbours that are one run of memory on both sides become one walk, also
under a bound that asks for whole rows of them. The others are ordered so that the target is written
front to back, and the innermost one or two decide the way of copying (`Way`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from math import prod

from skipjack.errors import SkipjackError
from skipjack.solvers.loops.copying_interleaved import MOST_ROWS
from skipjack.solvers.loops.copying_loads import loads
from skipjack.solvers.loops.copying_walks import Bound, Copy, Walk

_SHORT = 4
"""A walk of fewer steps is not worth squares where small steps do, nor a way of its own."""

_LONGEST = 1 << 28
"""Steps of a walk with a bound: lanes are compared in 32 bits, also after a step of 4."""


class CopyError(SkipjackError):
    """A copy that says two things of one element, or names a walk that it does not have."""


class Way(Enum):
    """How what the last walks reach is copied."""

    ELEMENT = "one by one"
    ROW = "one walk writes side by side, and reads so or in small steps"
    SQUARE = "one walk writes side by side, another reads so: squares are turned in registers"
    INTERLEAVED = "a few rows are read side by side, whose elements take turns in the target"


@dataclass(frozen=True, slots=True)
class Plan:
    """Walks from the outside in, the last of them for a way of copying."""

    outer: tuple[Walk, ...]
    way: Way
    leaf: tuple[Walk, ...]
    """Of squares and rows that take turns: the walk that writes side by side, and the reading one;
    without the former if the target is not to be written between."""
    bounds: tuple[Bound, ...]
    out_offset: int
    source_offset: int
    nothing: bool = False
    """Whether there is nothing to copy, and zeros are all."""

    @property
    def walks(self) -> tuple[Walk, ...]:
        """All of them."""
        return self.outer + self.leaf


def plan_of(copy: Copy) -> Plan:
    """The plan of a copy that is not empty."""
    _check(copy)
    simple = _forward(_without_single_steps(copy))
    nothing = any(not bound.terms for bound in simple.bounds)
    if nothing:
        simple = _zeros(simple)
    simple = _merged(simple)
    _check_lengths(simple)
    walks = tuple(sorted(simple.walks, key=lambda walk: -walk.out))
    way, leaf = _way(walks, simple.bounds)
    outer = tuple(walk for walk in walks if walk not in leaf)
    offsets = simple.out_offset, simple.source_offset
    return Plan(outer, way, leaf, simple.bounds, *offsets, nothing)


def _zeros(copy: Copy) -> Copy:
    """Without bounds, and without a source that could be in the way of long rows."""
    walks = tuple(replace(walk, source=walk.out) for walk in copy.walks)
    return Copy(walks, (), copy.out_offset)


def is_empty(copy: Copy) -> bool:
    """Whether no element is written."""
    return prod(walk.extent for walk in copy.walks) == 0


def _check(copy: Copy) -> None:
    names = [walk.name for walk in copy.walks]
    if len(set(names)) < len(names):
        raise CopyError(f"the walks {', '.join(names)} of a copy have a name twice: rename one")
    for walk in copy.walks:
        if walk.extent > 1 and walk.out == 0:
            raise CopyError(
                f"walk {walk.name} of a copy writes one element {walk.extent} times: "
                "give it a stride in the target"
            )
    for bound in copy.bounds:
        for name, _ in bound.terms:
            if name not in names:
                raise CopyError(f"a bound of a copy names {name}, which is none of its walks")


def _check_lengths(copy: Copy) -> None:
    for walk in copy.walks:
        bounded = any(bound.coefficient(walk.name) for bound in copy.bounds)
        if bounded and walk.extent > _LONGEST:
            raise CopyError(
                f"walk {walk.name} of a copy has a bound and {walk.extent} steps, "
                f"which is more than {_LONGEST}: split it in two"
            )


def _without_single_steps(copy: Copy) -> Copy:
    walks = tuple(walk for walk in copy.walks if walk.extent > 1)
    return replace(copy, walks=walks, bounds=_needed(walks, copy.bounds))


def _needed(walks: tuple[Walk, ...], bounds: tuple[Bound, ...]) -> tuple[Bound, ...]:
    """Bounds that do not always hold, with one term for each walk that matters."""
    kept: dict[Bound, None] = {}
    for bound in bounds:
        terms = tuple(
            (walk.name, bound.coefficient(walk.name))
            for walk in walks
            if bound.coefficient(walk.name)
        )
        extents = {walk.name: walk.extent for walk in walks}
        spans = [coefficient * (extents[name] - 1) for name, coefficient in terms]
        least = bound.constant + sum(min(span, 0) for span in spans)
        most = bound.constant + sum(max(span, 0) for span in spans)
        if least < 0 or most >= bound.size:
            kept[Bound(terms, bound.constant, bound.size)] = None
    return tuple(kept)


def _forward(copy: Copy) -> Copy:
    """Every walk turned so that it goes forward in the target."""
    for walk in copy.walks:
        if walk.out < 0:
            copy = _turned(copy, walk)
    return copy


def _turned(copy: Copy, walk: Walk) -> Copy:
    last = walk.extent - 1
    walks = tuple(
        replace(walk, out=-walk.out, source=-walk.source) if each is walk else each
        for each in copy.walks
    )
    bounds = tuple(
        Bound(
            tuple((name, -c if name == walk.name else c) for name, c in bound.terms),
            bound.constant + last * bound.coefficient(walk.name),
            bound.size,
        )
        for bound in copy.bounds
    )
    return Copy(
        walks, bounds, copy.out_offset + last * walk.out, copy.source_offset + last * walk.source
    )


def _merged(copy: Copy) -> Copy:
    """As few walks as possible."""
    for outer in copy.walks:
        for inner in copy.walks:
            if outer is not inner and _are_one(copy, outer, inner):
                return _merged(_joined(copy, outer, inner))
    return copy


def _are_one(copy: Copy, outer: Walk, inner: Walk) -> bool:
    steps = inner.extent
    if outer.out != steps * inner.out or outer.source != steps * inner.source:
        return False
    return all(_keeps(bound, outer, inner) for bound in copy.bounds)


def _keeps(bound: Bound, outer: Walk, inner: Walk) -> bool:
    """Whether a bound can be said of the joined walk."""
    far, near = bound.coefficient(outer.name), bound.coefficient(inner.name)
    return far == near * inner.extent or (far == 1 and near == 0)


def _joined(copy: Copy, outer: Walk, inner: Walk) -> Copy:
    joined = replace(inner, extent=outer.extent * inner.extent)
    walks = tuple(joined if walk is inner else walk for walk in copy.walks if walk is not outer)
    bounds = tuple(_of_joined(bound, outer, inner) for bound in copy.bounds)
    return replace(copy, walks=walks, bounds=bounds)


def _of_joined(bound: Bound, outer: Walk, inner: Walk) -> Bound:
    others = tuple(term for term in bound.terms if term[0] != outer.name)
    if bound.coefficient(outer.name) == bound.coefficient(inner.name) * inner.extent:
        return replace(bound, terms=others)
    # ``0 <= far + rest < size`` is the same as ``0 <= steps * (far + rest) + near < steps * size``.
    steps = inner.extent
    terms = tuple((name, steps * coefficient) for name, coefficient in others)
    return Bound((*terms, (inner.name, 1)), steps * bound.constant, steps * bound.size)


def _way(walks: tuple[Walk, ...], bounds: tuple[Bound, ...]) -> tuple[Way, tuple[Walk, ...]]:
    writer = next((walk for walk in walks if walk.out == 1), None)
    if writer is None:
        return _spread(walks)
    reader = _reader(walks, writer)
    small = loads(writer.source)
    row = (Way.ROW, (writer,)) if small else (Way.ELEMENT, ())
    if writer.source == 1 or reader is None:
        return row
    about = [bound for bound in bounds if bound.coefficient(writer.name)]
    # Which rows there are must be known now.
    known = all(len(bound.terms) == 1 for bound in about)
    if writer.extent <= MOST_ROWS and reader.out == writer.extent and known:
        return Way.INTERLEAVED, (writer, reader)
    if (small and reader.extent < _SHORT) or any(bound.coefficient(reader.name) for bound in about):
        return row
    return Way.SQUARE, (writer, reader)


def _reader(walks: tuple[Walk, ...], writer: Walk) -> Walk | None:
    """The walk that steps least in the source."""
    others = [walk for walk in walks if walk is not writer and walk.source and loads(walk.source)]
    return min(others, key=lambda walk: abs(walk.source), default=None)


def _spread(walks: tuple[Walk, ...]) -> tuple[Way, tuple[Walk, ...]]:
    """Where nothing lies side by side in the target, small steps there are the next best."""
    for walk in walks:
        if walk.out <= MOST_ROWS and walk.source == 1 and walk.extent >= _SHORT:
            return Way.INTERLEAVED, (walk,)
    return Way.ELEMENT, ()
