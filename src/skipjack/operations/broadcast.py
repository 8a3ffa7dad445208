"""Arrays of different shapes combined element by element, by NumPy's rules.

Shapes are aligned at their last axes; where one has a size of 1, or no axis at all, its elements
are used again along that axis. Leading axes of size 1 therefore mean nothing and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from string import ascii_lowercase

from skipjack.core.nest import Access, Affine, Nest, Scalar, Tensor, index
from skipjack.core.problem import format_shape, parse_shape, shown
from skipjack.errors import ProblemError

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of the result, or several neighbours in one: its size, and which operands have it.

    An operand that does not have it uses the same element all along it.
    """

    size: int
    had_by: tuple[bool, ...]


def second_shape(attributes: Mapping[str, str], first: Shape, where: str) -> str:
    """The canonical text of the attribute ``y``; empty where it says no more than the main shape.

    Raises `ProblemError` that names `where` if it is no shape or does not agree with the first.
    """
    if "y" not in attributes:
        return ""
    second = without_leading_ones(parse_shape(attributes["y"], where))
    broadcast_shape(first, second, where)
    return "" if second == without_leading_ones(first) else format_shape(second)


def without_leading_ones(shape: Shape) -> Shape:
    """The shape from its first axis that is not of size 1; always at least one axis."""
    first = next((at for at, size in enumerate(shape) if size != 1), len(shape))
    return shape[first:] or (1,)


def is_padded(given: Shape, wanted: Shape, rank: int) -> bool:
    """Whether an array is the wanted one but for leading axes of size 1, up to the result's rank.

    They mean nothing to NumPy. A scalar may also have no axis at all.
    """
    lead = len(given) - len(wanted)
    if lead < 0:
        return (1,) * -lead + given == wanted
    return len(given) <= rank and given == (1,) * lead + wanted


def broadcast_shape(first: Shape, second: Shape, where: str = "") -> Shape:
    """The shape of the result; `ProblemError` that names both shapes if they do not agree."""
    rank = max(len(first), len(second))
    sizes = []
    for at, (one, other) in enumerate(zip(*_padded((first, second), rank), strict=True)):
        if one != other and 1 not in (one, other):
            shapes = f"{shown(format_shape(first))} and {shown(format_shape(second))}"
            raise ProblemError(
                f"problem {where!r}: shapes {shapes} do not agree on axis {at - rank}, where they "
                f"have {one} and {other}; sizes must be equal or 1"
            )
        sizes.append(max(one, other))
    return tuple(sizes)


def elementwise_nest(inputs: Sequence[Tensor], output: Tensor, body: Scalar) -> Nest:
    """The nest with as few loops as possible.

    Neighbouring axes that behave alike for all operands become one, so that arrays of one shape
    are a single flat loop and a bias for each channel of an NCHW array takes three.
    """
    axes = _merged(_axes([tensor.shape for tensor in inputs], output.shape))
    loops = [(_loop_name(at), axis.size) for at, axis in enumerate(axes)]
    own = [
        [loop for loop, axis in zip(loops, axes, strict=True) if axis.had_by[at]]
        for at in range(len(inputs))
    ]
    return Nest(
        loops=tuple(loops),
        inputs=tuple(_access(t.name, having) for t, having in zip(inputs, own, strict=True)),
        output=_access(output.name, loops),
        body=body,
    )


def _padded(shapes: Sequence[Shape], rank: int) -> list[Shape]:
    return [(1,) * (rank - len(shape)) + shape for shape in shapes]


def _axes(shapes: Sequence[Shape], output: Shape) -> list[_Axis]:
    """Axes of more than one element; a single one of size 1 where there are no others."""
    sizes = zip(output, zip(*_padded(shapes, len(output)), strict=True), strict=True)
    found = [_Axis(size, tuple(own == size for own in owns)) for size, owns in sizes if size > 1]
    return found or [_Axis(1, (True,) * len(shapes))]


def _merged(axes: Sequence[_Axis]) -> list[_Axis]:
    alike = groupby(axes, key=lambda axis: axis.had_by)
    return [_Axis(prod(axis.size for axis in group), had_by) for had_by, group in alike]


def _loop_name(at: int) -> str:
    """i, j, k and so on."""
    letters = ascii_lowercase[ascii_lowercase.index("i") :]
    return letters[at] if at < len(letters) else f"i{at}"


def _access(name: str, loops: Sequence[tuple[str, int]]) -> Access:
    """An array with one axis for each of these loops; one element if there are none."""
    shape = tuple(size for _, size in loops) or (1,)
    return Access(Tensor(name, shape), tuple(index(loop) for loop, _ in loops) or (Affine(),))
