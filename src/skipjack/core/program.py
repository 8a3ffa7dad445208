"""What an operation computes in several passes over a row: statistics, then every element.

A softmax is the largest element of a row, a sum that needs it, and a map that needs both. Elements
are told apart by group (a row, or a channel), segment and column; the statistics of a group are
over all its segments and columns. Columns are contiguous; segments are for a channel of an NCHW
array, which lies in as many pieces as there are images.

Nothing here says how many rows are computed at once or what is kept between passes: that is for
a solver (`skipjack.solvers.loops.rows_code`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skipjack.core.nest import Accumulator, Call, Load, Scalar, Tensor

REDUCTIONS = frozenset({"sum", "max"})
"""What a statistic may be."""
_REDUCED = Accumulator()


@dataclass(frozen=True, slots=True)
class View:
    """How far a step of group, segment or column moves in an array, in elements.

    A vector along the columns has no step of group; what belongs to a whole group has no other.
    """

    tensor: Tensor
    group: int = 0
    segment: int = 0
    column: int = 0
    offset: int = 0
    """Where the first group begins."""

    def __post_init__(self) -> None:
        if self.column not in (0, 1):
            raise ValueError("columns are contiguous or all the same")

    @property
    def of_group(self) -> bool:
        """One element for a whole group."""
        return not (self.segment or self.column)


@dataclass(frozen=True, slots=True)
class Statistic:
    """``epilogue(reduction of body over the elements of a group)``.

    The body may use statistics before it by name, the epilogue these and its own unnamed
    accumulator. A ``max`` passes over NaN: whatever uses it meets the NaN in the element itself.
    """

    name: str
    reduction: str
    body: Scalar
    epilogue: Scalar = _REDUCED


@dataclass(frozen=True, slots=True)
class GroupResult:
    """A further output with one element for each group: ``value(inputs of it, statistics)``."""

    view: View
    value: Scalar

    def __post_init__(self) -> None:
        if not self.view.of_group:
            raise ValueError("a group's result is one element for the whole group")


@dataclass(frozen=True, slots=True)
class ColumnSum:
    """A further output with one element for each column: the sum of a value over all groups.

    The value may use everything that the body of a program may.
    """

    view: View
    value: Scalar

    def __post_init__(self) -> None:
        if self.view.group or self.view.segment or not self.view.column:
            raise ValueError("a sum over groups is one element for each column")


@dataclass(frozen=True, slots=True)
class RowProgram:
    """``output = body(inputs, statistics)`` for every element of every group."""

    groups: int
    segments: int
    columns: int
    inputs: tuple[View, ...]
    output: View
    statistics: tuple[Statistic, ...]
    body: Scalar
    results: tuple[GroupResult, ...] = ()
    """Further outputs, written once the statistics of a group are known."""
    column_sums: tuple[ColumnSum, ...] = ()
    """Further outputs, whole when the last group is written; for groups of one segment."""

    def __post_init__(self) -> None:
        known: set[str] = set()
        for statistic in self.statistics:
            if statistic.reduction not in REDUCTIONS:
                raise ValueError(f"no reduction {statistic.reduction}")
            self._check(statistic.body, known)
            self._check(statistic.epilogue, known | {""})
            known.add(statistic.name)
        self._check(self.body, known)
        for result in self.results:
            self._check(result.value, known)
            loads = (part for part in parts(result.value) if isinstance(part, Load))
            if not all(self.inputs[load.operand].of_group for load in loads):
                raise ValueError("a group's result cannot be of single elements")
        for column_sum in self.column_sums:
            self._check(column_sum.value, known)
        if self.column_sums and self.segments > 1:
            raise ValueError("sums over groups are for groups of one segment")

    def _check(self, scalar: Scalar, known: set[str]) -> None:
        for part in parts(scalar):
            if isinstance(part, Accumulator) and part.name not in known:
                raise ValueError(f"statistic {part.name!r} is used before it is known")
            if isinstance(part, Load) and not 0 <= part.operand < len(self.inputs):
                raise ValueError(f"there is no input {part.operand}")

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the arrays, each once: inputs in order, then the outputs."""
        return tuple(dict.fromkeys(view.tensor.name for view in self.views))

    @property
    def views(self) -> tuple[View, ...]:
        """Inputs, then the output, then further ones: of groups, then of columns."""
        of_groups = (result.view for result in self.results)
        of_columns = (column_sum.view for column_sum in self.column_sums)
        return (*self.inputs, self.output, *of_groups, *of_columns)

    def passes(self) -> tuple[tuple[Statistic, ...], ...]:
        """Statistics that can be collected together, in order."""
        found: list[list[Statistic]] = []
        number: dict[str, int] = {}
        for statistic in self.statistics:
            inside = [number[name] + 1 for name in uses(statistic.body)]
            after = [number[name] for name in uses(statistic.epilogue)]
            at = max([0, *inside, *after])
            number[statistic.name] = at
            found.extend([] for _ in range(at + 1 - len(found)))
            found[at].append(statistic)
        return tuple(map(tuple, found))


def parts(scalar: Scalar) -> Iterator[Scalar]:
    """A tree and all that is in it, from the outside in."""
    yield scalar
    if isinstance(scalar, Call):
        for argument in scalar.arguments:
            yield from parts(argument)


def uses(scalar: Scalar) -> set[str]:
    """Names of the statistics that a tree needs."""
    return {part.name for part in parts(scalar) if isinstance(part, Accumulator) and part.name}


def replaced(scalar: Scalar, old: Scalar, new: Scalar) -> Scalar:
    """The tree with one part exchanged wherever it stands."""
    if scalar == old:
        return new
    if isinstance(scalar, Call):
        arguments = tuple(replaced(argument, old, new) for argument in scalar.arguments)
        return Call(scalar.function, arguments)
    return scalar
