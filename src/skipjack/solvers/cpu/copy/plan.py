"""A copy in the form that code is generated from: few long loops, and how to copy the innermost
ones.

Loops of one step are dropped. Neighbouring loops that are one run of memory on both sides are
joined, also under a bound that selects whole rows of them. The others are ordered so that the
target is written from front to back, and the innermost one or two loops decide how they are copied
(`InnerCopyKind`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from math import prod

from skipjack.errors import SkipjackError
from skipjack.solvers.cpu.copy.description import Bound, Copy, CopyLoop
from skipjack.solvers.cpu.copy.inner import MOST_ROWS
from skipjack.solvers.cpu.copy.loads import is_vector_step

_SHORT = 4
"""A loop of fewer steps is not worth transposing or interleaving."""

_LONGEST = 1 << 28
"""Most steps of a loop with a bound: lanes are compared in 32 bits, also after a step of 4."""


class CopyError(SkipjackError):
    """A copy that writes an element twice, or names a loop that it does not have."""


class InnerCopyKind(Enum):
    """How the innermost loops are copied."""

    ELEMENT = "one by one"
    ROW = "one loop writes side by side, and reads side by side or in small steps"
    TRANSPOSED = "one loop writes side by side, another reads side by side: tiles are transposed"
    INTERLEAVED = "a few rows are read side by side, whose elements alternate in the target"


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """Loops from the outside in, the last ones copied as `inner_kind` says."""

    outer: tuple[CopyLoop, ...]
    inner_kind: InnerCopyKind
    inner: tuple[CopyLoop, ...]
    """For transposed tiles and interleaved rows: the loop that writes side by side and the one that
    reads side by side; only the latter if the elements between stay as they are."""
    bounds: tuple[Bound, ...]
    out_offset: int
    source_offset: int
    only_zeros: bool = False
    """Whether only zeros are written."""

    @property
    def loops(self) -> tuple[CopyLoop, ...]:
        return self.outer + self.inner


def plan_of(copy: Copy) -> CopyPlan:
    _check(copy)
    simple = _forward(_without_single_steps(copy))
    only_zeros = any(not bound.terms for bound in simple.bounds)
    if only_zeros:
        simple = _zeros(simple)
    simple = _merged(simple)
    _check_lengths(simple)
    loops = tuple(sorted(simple.loops, key=lambda loop: -loop.out))
    inner_kind, inner = _inner_kind(loops, simple.bounds)
    outer = tuple(loop for loop in loops if loop not in inner)
    offsets = simple.out_offset, simple.source_offset
    return CopyPlan(outer, inner_kind, inner, simple.bounds, *offsets, only_zeros)


def _zeros(copy: Copy) -> Copy:
    """The same loops without bounds, whose source does not prevent long rows."""
    loops = tuple(replace(loop, source=loop.out) for loop in copy.loops)
    return Copy(loops, (), copy.out_offset)


def is_empty(copy: Copy) -> bool:
    """Whether no element is written."""
    return prod(loop.extent for loop in copy.loops) == 0


def _check(copy: Copy) -> None:
    names = [loop.name for loop in copy.loops]
    if len(set(names)) < len(names):
        raise CopyError(f"two loops of a copy have the same name ({', '.join(names)}): rename one")
    for loop in copy.loops:
        if loop.extent > 1 and loop.out == 0:
            raise CopyError(
                f"loop {loop.name} of a copy writes the same element {loop.extent} times: "
                "give it a stride in the target"
            )
    for bound in copy.bounds:
        for name, _ in bound.terms:
            if name not in names:
                raise CopyError(f"a bound of a copy names {name}, which is not one of its loops")


def _check_lengths(copy: Copy) -> None:
    for loop in copy.loops:
        bounded = any(bound.coefficient(loop.name) for bound in copy.bounds)
        if bounded and loop.extent > _LONGEST:
            raise CopyError(
                f"loop {loop.name} of a copy has a bound and {loop.extent} steps, "
                f"more than {_LONGEST}: split it into two loops"
            )


def _without_single_steps(copy: Copy) -> Copy:
    loops = tuple(loop for loop in copy.loops if loop.extent > 1)
    return replace(copy, loops=loops, bounds=_needed(loops, copy.bounds))


def _needed(loops: tuple[CopyLoop, ...], bounds: tuple[Bound, ...]) -> tuple[Bound, ...]:
    """Bounds that do not always hold, with one term for each loop with a coefficient."""
    kept: dict[Bound, None] = {}
    for bound in bounds:
        terms = tuple(
            (loop.name, bound.coefficient(loop.name))
            for loop in loops
            if bound.coefficient(loop.name)
        )
        extents = {loop.name: loop.extent for loop in loops}
        spans = [coefficient * (extents[name] - 1) for name, coefficient in terms]
        least = bound.constant + sum(min(span, 0) for span in spans)
        most = bound.constant + sum(max(span, 0) for span in spans)
        if least < 0 or most >= bound.size:
            kept[Bound(terms, bound.constant, bound.size)] = None
    return tuple(kept)


def _forward(copy: Copy) -> Copy:
    """Reverse loops that go backward in the target."""
    for loop in copy.loops:
        if loop.out < 0:
            copy = _reversed(copy, loop)
    return copy


def _reversed(copy: Copy, loop: CopyLoop) -> Copy:
    last = loop.extent - 1
    loops = tuple(
        replace(loop, out=-loop.out, source=-loop.source) if each is loop else each
        for each in copy.loops
    )
    bounds = tuple(
        Bound(
            tuple((name, -c if name == loop.name else c) for name, c in bound.terms),
            bound.constant + last * bound.coefficient(loop.name),
            bound.size,
        )
        for bound in copy.bounds
    )
    return Copy(
        loops, bounds, copy.out_offset + last * loop.out, copy.source_offset + last * loop.source
    )


def _merged(copy: Copy) -> Copy:
    """Join loops until there are as few as possible."""
    for outer in copy.loops:
        for inner in copy.loops:
            if outer is not inner and _are_one(copy, outer, inner):
                return _merged(_joined(copy, outer, inner))
    return copy


def _are_one(copy: Copy, outer: CopyLoop, inner: CopyLoop) -> bool:
    steps = inner.extent
    if outer.out != steps * inner.out or outer.source != steps * inner.source:
        return False
    return all(_keeps(bound, outer, inner) for bound in copy.bounds)


def _keeps(bound: Bound, outer: CopyLoop, inner: CopyLoop) -> bool:
    """Whether a bound can be expressed with the joined loop."""
    far, near = bound.coefficient(outer.name), bound.coefficient(inner.name)
    return far == near * inner.extent or (far == 1 and near == 0)


def _joined(copy: Copy, outer: CopyLoop, inner: CopyLoop) -> Copy:
    joined = replace(inner, extent=outer.extent * inner.extent)
    loops = tuple(joined if loop is inner else loop for loop in copy.loops if loop is not outer)
    bounds = tuple(_of_joined(bound, outer, inner) for bound in copy.bounds)
    return replace(copy, loops=loops, bounds=bounds)


def _of_joined(bound: Bound, outer: CopyLoop, inner: CopyLoop) -> Bound:
    others = tuple(term for term in bound.terms if term[0] != outer.name)
    if bound.coefficient(outer.name) == bound.coefficient(inner.name) * inner.extent:
        return replace(bound, terms=others)
    # ``0 <= far + rest < size`` is the same as ``0 <= steps * (far + rest) + near < steps * size``.
    steps = inner.extent
    terms = tuple((name, steps * coefficient) for name, coefficient in others)
    return Bound((*terms, (inner.name, 1)), steps * bound.constant, steps * bound.size)


def _inner_kind(
    loops: tuple[CopyLoop, ...], bounds: tuple[Bound, ...]
) -> tuple[InnerCopyKind, tuple[CopyLoop, ...]]:
    writer = next((loop for loop in loops if loop.out == 1), None)
    if writer is None:
        return _spread(loops)
    reader = _reader(loops, writer)
    small = is_vector_step(writer.source)
    row = (InnerCopyKind.ROW, (writer,)) if small else (InnerCopyKind.ELEMENT, ())
    if writer.source == 1 or reader is None:
        return row
    about = [bound for bound in bounds if bound.coefficient(writer.name)]
    # Which rows exist must be known when the code is generated.
    known = all(len(bound.terms) == 1 for bound in about)
    if writer.extent <= MOST_ROWS and reader.out == writer.extent and known:
        return InnerCopyKind.INTERLEAVED, (writer, reader)
    if (small and reader.extent < _SHORT) or any(bound.coefficient(reader.name) for bound in about):
        return row
    return InnerCopyKind.TRANSPOSED, (writer, reader)


def _reader(loops: tuple[CopyLoop, ...], writer: CopyLoop) -> CopyLoop | None:
    """The loop with the smallest step in the source."""
    others = [
        loop for loop in loops if loop is not writer and loop.source and is_vector_step(loop.source)
    ]
    return min(others, key=lambda loop: abs(loop.source), default=None)


def _spread(loops: tuple[CopyLoop, ...]) -> tuple[InnerCopyKind, tuple[CopyLoop, ...]]:
    """If nothing lies side by side in the target, small steps there are the next best."""
    for loop in loops:
        if loop.out <= MOST_ROWS and loop.source == 1 and loop.extent >= _SHORT:
            return InnerCopyKind.INTERLEAVED, (loop,)
    return InnerCopyKind.ELEMENT, ()
