"""What an operation computes: a loop nest, or a program of several passes over each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

# Loop nests: what an operation computes, as loops, accesses, a scalar body and a reduction.
#
# Accesses are affine in the loop indices, such as ``x[h + r]`` of a convolution. A body is a small
# tree of scalar steps over the loaded inputs. A loop whose index the output does not use is a
# reduction loop. The order in which the loops run is not part of a nest but of a schedule
# (`skipjack.solvers.cpu.nest`).

_TRANSCENDENTAL = ("exp", "log", "tanh", "sigmoid", "silu", "erf", "gelu", "gelu_tanh")
UNARY = frozenset({"neg", "abs", "sqrt", "relu", "square", "reciprocal", "rsqrt", *_TRANSCENDENTAL})
SLOPES = frozenset(
    f"{name}_backward" for name in ("relu", "sigmoid", "tanh", "silu", "gelu", "gelu_tanh")
)
"""A gradient times the slope of a function, given its argument or, for relu, sigmoid and tanh, its
value."""
BINARY = frozenset({"add", "sub", "mul", "div", "max", "min"}) | SLOPES
REDUCTIONS = frozenset({"sum", "max", "min", "prod"})


@dataclass(frozen=True, slots=True)
class Affine:
    """``sum(coefficient * index) + constant`` over loop indices."""

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0

    def coefficient(self, loop: str) -> int:
        """By how much one step of the loop changes this index."""
        return sum(factor for name, factor in self.terms if name == loop)


def index(loop: str, coefficient: int = 1) -> Affine:
    """The index of one loop, optionally scaled."""
    return Affine(((loop, coefficient),))


@dataclass(frozen=True, slots=True)
class Tensor:
    """A dense array in row-major order."""

    name: str
    shape: tuple[int, ...]
    dtype: str = ""
    """Element type; empty for that of the problem."""

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance in elements between adjacent elements along each axis."""
        return tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))


@dataclass(frozen=True, slots=True)
class Access:
    """One element of a tensor, chosen by the loop indices."""

    tensor: Tensor
    indices: tuple[Affine, ...]

    def stride(self, loop: str) -> int:
        """By how many elements one step of the loop moves this access."""
        pairs = zip(self.indices, self.tensor.strides, strict=True)
        return sum(at.coefficient(loop) * stride for at, stride in pairs)

    @property
    def offset(self) -> int:
        """The element that is accessed when all loop indices are zero."""
        return sum(
            at.constant * stride
            for at, stride in zip(self.indices, self.tensor.strides, strict=True)
        )

    def check_bounds(self, extents: Mapping[str, int]) -> None:
        """Raise `ValueError` if loops with these extents lead out of the tensor."""
        name = self.tensor.name
        for axis, (at, size) in enumerate(zip(self.indices, self.tensor.shape, strict=True)):
            reach = [factor * (extents.get(loop, 1) - 1) for loop, factor in at.terms]
            first = at.constant + sum(step for step in reach if step < 0)
            last = at.constant + sum(step for step in reach if step > 0)
            if first < 0 or last >= size:
                raise ValueError(
                    f"the loops access {name} from {first} to {last} along axis {axis}, "
                    f"but it has the elements 0 to {size - 1}"
                )


@dataclass(frozen=True, slots=True)
class Load:
    """The value of input number `operand` at this iteration."""

    operand: int


@dataclass(frozen=True, slots=True)
class Constant:
    value: float


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The reduced value, for epilogues. Row programs have several, which differ by name."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar step, named in `UNARY` or `BINARY`."""

    function: str
    arguments: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        known = UNARY if len(self.arguments) == 1 else BINARY
        if self.function not in known:
            raise ValueError(
                f"unknown scalar function {self.function} of {len(self.arguments)} arguments"
            )


Scalar = Load | Constant | Accumulator | Call


@dataclass(frozen=True, slots=True)
class Nest:
    """``output[...] = epilogue(reduction over the missing loops of body(inputs[...]))``."""

    loops: tuple[tuple[str, int], ...]
    inputs: tuple[Access, ...]
    output: Access
    body: Scalar
    reduction: str = ""
    epilogue: Scalar = Accumulator()

    def __post_init__(self) -> None:
        if bool(self.reduction) != bool(self.reduction_loops):
            raise ValueError(
                "a nest has a reduction if and only if its output does not use all loops"
            )
        if self.reduction and self.reduction not in REDUCTIONS:
            raise ValueError(f"unknown reduction {self.reduction}")
        extents = dict(self.loops)
        for access in (*self.inputs, self.output):
            access.check_bounds(extents)

    def extent(self, loop: str) -> int:
        """The number of iterations of a loop."""
        return dict(self.loops)[loop]

    @property
    def reduction_loops(self) -> tuple[str, ...]:
        """Loops whose index the output does not use."""
        used = {name for at in self.output.indices for name, factor in at.terms if factor}
        return tuple(name for name, _ in self.loops if name not in used)


# Row programs: operations of several passes over a row, first statistics, then every element.
#
# A softmax is the largest element of a row, a sum that needs it, and a map that needs both.
# Elements are indexed by group (a row, or a channel), segment and column; the statistics of a group
# are over all its segments and columns. Columns are contiguous; segments are for a channel of an
# NCHW array, which has one contiguous part for each image.
#
# How many rows are computed at once and what is kept between passes is decided by a solver
# (`skipjack.solvers.cpu.rows.kernel`).

STATISTIC_REDUCTIONS = frozenset({"sum", "max"})
"""The reductions that a statistic may use."""
_OWN_ACCUMULATOR = Accumulator()


@dataclass(frozen=True, slots=True)
class View:
    """Strides of group, segment and column in an array, in elements.

    A vector along the columns has a group stride of 0; a value of a group has no other stride.
    """

    tensor: Tensor
    group: int = 0
    segment: int = 0
    column: int = 0
    offset: int = 0
    """Offset of the first group, in elements."""

    def __post_init__(self) -> None:
        if self.column not in (0, 1):
            raise ValueError("the column stride must be 0 or 1")

    @property
    def of_group(self) -> bool:
        """Whether it has one element for a whole group."""
        return not (self.segment or self.column)


@dataclass(frozen=True, slots=True)
class Statistic:
    """``epilogue(reduction of body over the elements of a group)``.

    The body may use earlier statistics by name, the epilogue these and its own unnamed accumulator.
    A ``max`` ignores NaN: whatever uses it meets the NaN in the element itself.
    """

    name: str
    reduction: str
    body: Scalar
    epilogue: Scalar = _OWN_ACCUMULATOR


@dataclass(frozen=True, slots=True)
class GroupResult:
    """A further output with one element for each group: ``value(its inputs, statistics)``."""

    view: View
    value: Scalar

    def __post_init__(self) -> None:
        if not self.view.of_group:
            raise ValueError("the result of a group must be one element for the whole group")


@dataclass(frozen=True, slots=True)
class ColumnSum:
    """A further output with one element for each column: the sum of a value over all groups.

    The value may use everything that the body of a program may.
    """

    view: View
    value: Scalar

    def __post_init__(self) -> None:
        if self.view.group or self.view.segment or not self.view.column:
            raise ValueError("a sum over groups must have one element for each column")


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
    """Further outputs, complete after the last group; only for groups of one segment."""

    def __post_init__(self) -> None:
        known: set[str] = set()
        for statistic in self.statistics:
            if statistic.reduction not in STATISTIC_REDUCTIONS:
                raise ValueError(f"unknown reduction {statistic.reduction}")
            self._check(statistic.body, known)
            self._check(statistic.epilogue, known | {""})
            known.add(statistic.name)
        self._check(self.body, known)
        for result in self.results:
            self._check(result.value, known)
            loads = (part for part in subexpressions(result.value) if isinstance(part, Load))
            if not all(self.inputs[load.operand].of_group for load in loads):
                raise ValueError("the result of a group cannot depend on single elements")
        for column_sum in self.column_sums:
            self._check(column_sum.value, known)
        if self.column_sums and self.segments > 1:
            raise ValueError("sums over groups require groups of one segment")

    def _check(self, scalar: Scalar, known: set[str]) -> None:
        for part in subexpressions(scalar):
            if isinstance(part, Accumulator) and part.name not in known:
                raise ValueError(f"statistic {part.name!r} is used before it is defined")
            if isinstance(part, Load) and not 0 <= part.operand < len(self.inputs):
                raise ValueError(f"input {part.operand} does not exist")

    @property
    def arrays(self) -> tuple[str, ...]:
        """Distinct names of the arrays: inputs in order, then the outputs."""
        return tuple(dict.fromkeys(view.tensor.name for view in self.views))

    @property
    def views(self) -> tuple[View, ...]:
        """Inputs, the output, further outputs of groups, and further outputs of columns."""
        of_groups = (result.view for result in self.results)
        of_columns = (column_sum.view for column_sum in self.column_sums)
        return (*self.inputs, self.output, *of_groups, *of_columns)

    def passes(self) -> tuple[tuple[Statistic, ...], ...]:
        """Groups of statistics that can be computed in one pass, in order."""
        found: list[list[Statistic]] = []
        number: dict[str, int] = {}
        for statistic in self.statistics:
            inside = [number[name] + 1 for name in statistics_used(statistic.body)]
            after = [number[name] for name in statistics_used(statistic.epilogue)]
            at = max([0, *inside, *after])
            number[statistic.name] = at
            found.extend([] for _ in range(at + 1 - len(found)))
            found[at].append(statistic)
        return tuple(map(tuple, found))


def subexpressions(scalar: Scalar) -> Iterator[Scalar]:
    """A tree and all its subtrees, from the root to the leaves."""
    yield scalar
    if isinstance(scalar, Call):
        for argument in scalar.arguments:
            yield from subexpressions(argument)


def statistics_used(scalar: Scalar) -> set[str]:
    """Names of the statistics that a tree uses."""
    return {
        part.name for part in subexpressions(scalar) if isinstance(part, Accumulator) and part.name
    }


def substituted(scalar: Scalar, old: Scalar, new: Scalar) -> Scalar:
    """The tree with every occurrence of `old` replaced by `new`."""
    if scalar == old:
        return new
    if isinstance(scalar, Call):
        arguments = tuple(substituted(argument, old, new) for argument in scalar.arguments)
        return Call(scalar.function, arguments)
    return scalar
