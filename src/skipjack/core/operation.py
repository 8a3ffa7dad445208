"""What an operation must say about itself; the known ones live in `skipjack.operations`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from skipjack.core.nest import Nest, Tensor
from skipjack.core.problem import Problem
from skipjack.core.program import RowProgram

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
OperationClass = Literal["cube", "vector"]
TorchFunction = Callable[[Mapping[str, Any]], dict[str, Any]]
"""From PyTorch's tensors by name to the outputs by name."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may be from the float64 reference, element by element.

    ``|result - reference| <= factor * eps * scale``, where `scale` is what the same operation
    gives on the magnitudes of its inputs. `factor` grows with the length of the reduction.
    """

    factor: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.factor < math.inf:
            raise ValueError(f"the factor of a tolerance is {self.factor!r}; give a finite number")


class Operation(Protocol):
    """One thing that can be computed. Implementations are stateless; every method is pure.

    What solvers generate code from is said by a `NestOperation` or a `ProgramOperation`.
    """

    @property
    def name(self) -> str:
        """As in the first part of a problem's key."""
        ...

    @property
    def operation_class(self) -> OperationClass:
        """Cube or vector."""
        ...

    @property
    def example(self) -> str:
        """A short key, shown in messages and help."""
        ...

    @property
    def dtypes(self) -> Sequence[str]:
        """Element types that it can be computed in."""
        ...

    @property
    def domain(self) -> tuple[float, float]:
        """Random inputs for tests and timing lie in this range."""
        ...

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """Complete and sort the attributes, or raise `ProblemError` that names `where`."""
        ...

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """What is read, in the order of a call."""
        ...

    def output(self, problem: Problem) -> Tensor:
        """What is written. An operation that writes more is one of `SeveralOutputs`."""
        ...

    def flops(self, problem: Problem) -> int:
        """Arithmetic steps of one run."""
        ...

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        """The result by NumPy, in the precision of the inputs given."""
        ...

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The scale of rounding errors at each output element, from inputs in float64."""
        ...

    def tolerance(self, problem: Problem) -> Tolerance:
        """How far rounding may carry a correct result."""
        ...


@runtime_checkable
class NestOperation(Operation, Protocol):
    """An operation that is one loop nest."""

    def nest(self, problem: Problem) -> Nest:
        """The index expression, from which loop solvers generate code."""
        ...


@runtime_checkable
class ProgramOperation(Operation, Protocol):
    """An operation of several passes over each row."""

    def programs(self, problem: Problem) -> Mapping[str, RowProgram]:
        """Ways to compute it by name; the first is the plain one."""
        ...


@runtime_checkable
class SeveralOutputs(Protocol):
    """An operation that writes more than its `output`, at least in some of its problems.

    Each array is checked with the operation's one tolerance. Everybody else asks
    `skipjack.operations.outputs`, which knows operations with one output too.
    """

    def outputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """All that is written: first `Operation.output`, then further arrays of other names."""
        ...

    def references(self, problem: Problem, arrays: Arrays) -> Arrays:
        """Each output by name, by NumPy and in the precision of the inputs given."""
        ...

    def magnitudes(self, problem: Problem, arrays: Arrays) -> Arrays:
        """The scale of rounding errors of each output, from inputs in float64."""
        ...


@runtime_checkable
class LetteredShape(Protocol):
    """An operation whose shape is not written as ``4x5``."""

    def parse_shape(self, text: str, where: str) -> tuple[tuple[int, ...], str]:
        """The sizes and their canonical text, or `ProblemError` that names `where`."""
        ...


@runtime_checkable
class Directed(Protocol):
    """An operation whose arrays can lie in several layouts, and that has several directions."""

    @property
    def layouts(self) -> Sequence[str]:
        """As in a problem's key; the first is the default."""
        ...

    @property
    def directions(self) -> Sequence[str]:
        """As in a problem's key; the first is the default."""
        ...


@runtime_checkable
class NumpyDeclared(Protocol):
    """An operation that declares whether NumPy computes it; NumPy computes those that do not."""

    in_numpy: bool


@runtime_checkable
class DirectCall(Protocol):
    """An operation that says how a user would call NumPy for it, writing into ``out``.

    The call is what gets timed: everything that can be looked up before belongs outside of it.
    """

    def numpy_call(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """The call on these arrays, ``out`` among them."""
        ...


@runtime_checkable
class TorchComputed(Protocol):
    """An operation that says how a user would call PyTorch for it, in eager mode.

    PyTorch is passed in, so that operations do not load it. Everything that can be looked up
    before belongs outside of the function, which is timed.
    """

    def torch_function(self, torch: Any, problem: Problem) -> TorchFunction:
        """Computes the outputs from tensors on any device."""
        ...


@runtime_checkable
class TorchMagnitude(TorchComputed, Protocol):
    """An operation with one output, ``out``, whose results PyTorch checks on the GPU.

    Results of other operations are checked on the host, which takes much longer.
    """

    def torch_magnitude(
        self, torch: Any, problem: Problem, inputs: Mapping[str, Any], reference: Any
    ) -> Any:
        """`Operation.magnitude` from inputs and the output in float64."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """Some elements of an output, with their reference and their scale of rounding errors."""

    place: tuple[Any, ...]
    """Indexes the output."""
    exact: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]


@runtime_checkable
class PaddedCheck(Protocol):
    """An operation whose reference needs more room than its arrays in float64."""

    def check_elements(self, problem: Problem) -> int:
        """Elements in float64 that computing the reference takes besides."""
        ...


@runtime_checkable
class Projectable(Protocol):
    """An operation whose large results can be checked without computing all of the reference."""

    def can_project(self, problem: Problem) -> bool:
        """Whether this problem allows it."""
        ...

    def as_matrix(self, problem: Problem, result: Array) -> Array:
        """The output as rows and columns, in any order; `project` is about the columns."""
        ...

    def project(
        self, problem: Problem, arrays: Arrays, vectors: Array
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """``reference @ vectors`` and ``magnitude @ |vectors|``, cheaply; each is a column."""
        ...

    def sampled(
        self, problem: Problem, arrays: Arrays, rng: np.random.Generator
    ) -> Sequence[Sample]:
        """Parts of the output that show where it is wrong and how."""
        ...
