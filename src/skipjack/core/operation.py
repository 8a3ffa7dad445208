"""Protocols of operations; the built-in operations are in `skipjack.operations`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from skipjack.core.nest import Nest, RowProgram, Tensor
from skipjack.core.problem import Problem

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
OperationClass = Literal["cube", "vector"]
TorchFunction = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Maps PyTorch tensors by name to the outputs by name."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may be from the float64 reference, element by element.

    ``|result - reference| <= factor * eps * scale``, where `scale` is the result of the same
    operation on the magnitudes of its inputs. `factor` grows with the length of the reduction.
    """

    factor: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.factor < math.inf:
            raise ValueError(f"the factor of a tolerance is {self.factor!r}; give a finite number")


class Operation(Protocol):
    """One kind of computation. Implementations are stateless; every method is pure.

    A `NestOperation` or a `ProgramOperation` also describes how solvers generate code for it.
    """

    @property
    def name(self) -> str:
        """The first part of a problem's key."""
        ...

    @property
    def operation_class(self) -> OperationClass:
        """``cube`` for matrix products and convolutions, else ``vector``."""
        ...

    @property
    def example(self) -> str:
        """A short key for messages and help."""
        ...

    @property
    def dtypes(self) -> Sequence[str]:
        """Supported element types; the first is the default."""
        ...

    @property
    def domain(self) -> tuple[float, float]:
        """Range of the random inputs for tests and timing."""
        ...

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """The attributes, completed and sorted; raises `ProblemError` that mentions `where`."""
        ...

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """The input arrays, in the order of a call."""
        ...

    def output(self, problem: Problem) -> Tensor:
        """The output array. Operations with further outputs implement `SeveralOutputs`."""
        ...

    def flops(self, problem: Problem) -> int:
        """Number of arithmetic operations of one run."""
        ...

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        """The result computed by NumPy, in the precision of the inputs."""
        ...

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The scale of rounding errors of each output element, from inputs in float64."""
        ...

    def tolerance(self, problem: Problem) -> Tolerance:
        """How far rounding may move a correct result."""
        ...


@runtime_checkable
class NestOperation(Operation, Protocol):
    """An operation that is a single loop nest."""

    def nest(self, problem: Problem) -> Nest:
        """The index expression, from which loop solvers generate code."""
        ...


@runtime_checkable
class ProgramOperation(Operation, Protocol):
    """An operation that takes several passes over each row."""

    def programs(self, problem: Problem) -> Mapping[str, RowProgram]:
        """Alternative programs by name; the first is the plain one."""
        ...


@runtime_checkable
class SeveralOutputs(Protocol):
    """An operation with more outputs than `output`, at least for some problems.

    Each output is checked with the one tolerance of the operation. Callers use
    `skipjack.operations.outputs`, which also handles operations with a single output.
    """

    def outputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """All outputs: first `Operation.output`, then further arrays with other names."""
        ...

    def references(self, problem: Problem, arrays: Arrays) -> Arrays:
        """Each output by name, computed by NumPy in the precision of the inputs."""
        ...

    def magnitudes(self, problem: Problem, arrays: Arrays) -> Arrays:
        """The scale of rounding errors of each output, from inputs in float64."""
        ...


@runtime_checkable
class LetteredShape(Protocol):
    """An operation whose shape is written with letters, not as ``4x5``."""

    def parse_shape(self, text: str, where: str) -> tuple[tuple[int, ...], str]:
        """The sizes and their canonical text; raises `ProblemError` that mentions `where`."""
        ...


@runtime_checkable
class Directed(Protocol):
    """An operation with several layouts of its arrays and several directions."""

    @property
    def layouts(self) -> Sequence[str]:
        """Layouts in keys of problems; the first is the default."""
        ...

    @property
    def directions(self) -> Sequence[str]:
        """Directions in keys of problems; the first is the default."""
        ...


@runtime_checkable
class NumpyDeclared(Protocol):
    """An operation that declares whether NumPy computes it. The default is that it does."""

    in_numpy: bool


@runtime_checkable
class DirectCall(Protocol):
    """An operation that defines how a user would call NumPy for it, writing into ``out``.

    The call is timed, so everything that can be prepared in advance belongs outside of it.
    """

    def numpy_call(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """A call on these arrays, which include ``out``."""
        ...


@runtime_checkable
class TorchComputed(Protocol):
    """An operation that defines how a user would call PyTorch for it, in eager mode.

    PyTorch is passed in, so that operations do not import it. The returned function is timed, so
    everything that can be prepared in advance belongs outside of it.
    """

    def torch_function(self, torch: Any, problem: Problem) -> TorchFunction:
        """A function that computes the outputs from tensors on any device."""
        ...


@runtime_checkable
class TorchMagnitude(TorchComputed, Protocol):
    """An operation with one output, ``out``, whose results PyTorch can check on the GPU.

    Results of other operations are checked on the host, which is much slower.
    """

    def torch_magnitude(
        self, torch: Any, problem: Problem, inputs: Mapping[str, Any], reference: Any
    ) -> Any:
        """`Operation.magnitude` from inputs and the output in float64."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """Some elements of an output, with their reference and the scale of their rounding errors."""

    place: tuple[Any, ...]
    """Index of these elements in the output."""
    exact: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]


@runtime_checkable
class PaddedCheck(Protocol):
    """An operation whose reference needs more memory than its arrays in float64."""

    def check_elements(self, problem: Problem) -> int:
        """Number of additional float64 elements that computing the reference takes."""
        ...


@runtime_checkable
class Projectable(Protocol):
    """An operation whose large results can be checked without the complete reference."""

    def can_project(self, problem: Problem) -> bool:
        """Whether this problem supports it."""
        ...

    def as_matrix(self, problem: Problem, result: Array) -> Array:
        """The output as a matrix, in any order; `project` multiplies its columns."""
        ...

    def project(
        self, problem: Problem, arrays: Arrays, vectors: Array
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """``reference @ vectors`` and ``magnitude @ |vectors|``, computed cheaply."""
        ...

    def sampled(
        self, problem: Problem, arrays: Arrays, rng: np.random.Generator
    ) -> Sequence[Sample]:
        """Parts of the output for a direct comparison, to locate errors."""
        ...
