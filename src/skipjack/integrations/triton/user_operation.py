"""A user's kernel as an operation, described by its adapter."""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np

from skipjack.core import (
    Array,
    Arrays,
    ConstraintLike,
    Expression,
    OperationClass,
    Problem,
    Tensor,
    Tolerance,
    Value,
)
from skipjack.errors import ProblemError, UsageError, foreign_code
from skipjack.operations import refuse_unknown, require_rank
from skipjack.solvers import read_module
from skipjack.solvers.gpu.triton import Constant, kernel_text

# The description of a user's kernel that is needed to build, run and check it.

At = Mapping[str, Value]
"""Sizes and settings by name."""
Computed = int | float | str | Callable[[At], Any]
"""A number, an expression of sizes and settings, or a function of them."""
Axes = Sequence[int | str]


@dataclass(frozen=True, slots=True)
class Adapter:
    """A checked description of a kernel. Pure Python: nothing here needs Triton or a GPU."""

    name: str
    """The name of its operation and its solver."""
    path: Path
    function: str
    parameters: tuple[str, ...]
    constexprs: frozenset[str]
    defaults: Mapping[str, Constant]
    unspecialized: frozenset[str]
    """Arguments for whose values the compiler must not specialize."""
    shape: tuple[str, ...]
    inputs: Mapping[str, Axes]
    outputs: Mapping[str, Axes]
    arguments: Mapping[str, Computed]
    constants: Mapping[str, Computed]
    grid: Sequence[int | str] | Callable[[At], Sequence[int]]
    values: Mapping[str, Sequence[Value]]
    constraints: tuple[ConstraintLike, ...]
    configs: tuple[Mapping[str, Value], ...]
    reference: Callable[..., Any]
    magnitude: Callable[..., Any] | None
    dtypes: tuple[str, ...]
    tolerance: float
    domain: tuple[float, float]
    steps: Computed
    """Number of arithmetic operations of a run."""

    @property
    def settings(self) -> frozenset[str]:
        """The names of the settings that may vary."""
        return frozenset(self.values).union(*self.configs)

    def sizes(self, shape: Sequence[int]) -> dict[str, int]:
        """The sizes of a shape, by name."""
        return dict(zip(self.shape, shape, strict=True))

    def tensors(self, axes: Mapping[str, Axes], shape: Sequence[int]) -> tuple[Tensor, ...]:
        """Inputs or outputs at a shape; ``"mean:f32"`` names a tensor with its own dtype."""
        at = self.sizes(shape)
        return tuple(
            Tensor(
                name.partition(":")[0],
                tuple(self.number(axis, at, "a tensor's axis") for axis in given),
                name.partition(":")[2],
            )
            for name, given in axes.items()
        )

    def launch_grid(self, at: At) -> tuple[int, ...]:
        """The number of blocks along each axis."""
        given = self.compute(self.grid, at, "the grid") if callable(self.grid) else self.grid
        if reason := grid_refusal(given):
            raise UsageError(f"the grid of {self.function} is {given!r}: {reason}")
        return tuple(self.number(axis, at, "the grid") for axis in given)

    def number(self, given: Computed, at: At, what: str) -> int:
        """A computed whole number; `UsageError` if it is not one."""
        value = self.compute(given, at, what)
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise UsageError(f"{what} of {self.function} is {value!r}, which is not a whole number")
        return index(value)  # also for integers of NumPy

    def compute(self, given: Computed, at: At, what: str) -> Any:
        """A value computed from sizes and settings."""
        if isinstance(given, str):
            return Expression(given).evaluate(at)
        if callable(given):
            with foreign_code(f"{what} of {self.function}"):
                try:
                    return given(at)
                except KeyError as error:
                    raise UsageError(
                        f"{what} of {self.function} needs {error}, which is not one of "
                        f"{', '.join(at)}"
                    ) from None
        return given

    def tensor_of(self, parameter: str) -> str | None:
        """The tensor whose address an argument takes; None if it takes a number."""
        names = {name.partition(":")[0] for name in (*self.inputs, *self.outputs)}
        given = self.arguments.get(parameter, parameter)
        if given in names:
            return str(given)
        plain = parameter.removesuffix("_ptr")
        return plain if parameter not in self.arguments and plain in names else None


def grid_refusal(given: object) -> str:
    """Why this is not a grid; empty if it may be one."""
    if isinstance(given, tuple | list) and 1 <= len(given) <= 3:
        return ""
    return "write one to three numbers of blocks, as (64,)"


# A user's kernel as an operation: its adapter says what it computes.

_LAUNCHING = ("shape", "inputs", "outputs", "arguments", "constants", "grid")
_CHECKING = ("reference", "magnitude", "tolerance", "domain")
_CALL = "triton_kernel"


class UserOperation:
    """Implements `skipjack.core.operation.Operation`, with one output or several.

    A problem's attribute ``source`` identifies the text of the kernel and of its launch, so results
    of another text are never confused with results of this one.
    """

    operation_class: OperationClass = "vector"

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter

    @property
    def name(self) -> str:
        return self.adapter.name

    @property
    def example(self) -> str:
        return f"{self.name}:{'x'.join(['1024'] * len(self.adapter.shape))}"

    @property
    def dtypes(self) -> Sequence[str]:
        return self.adapter.dtypes

    @property
    def domain(self) -> tuple[float, float]:
        return self.adapter.domain

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """Check the number of sizes, and fill in the source."""
        refuse_unknown(attributes, ("source",), where)
        require_rank(shape, len(self.adapter.shape), "x".join(self.adapter.shape), where)
        return (("source", attributes.get("source") or source_digest(self.adapter)),)

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        return self.adapter.tensors(self.adapter.inputs, problem.shape)

    def output(self, problem: Problem) -> Tensor:
        """The first output."""
        return self.outputs(problem)[0]

    def outputs(self, problem: Problem) -> tuple[Tensor, ...]:
        return self.adapter.tensors(self.adapter.outputs, problem.shape)

    def flops(self, problem: Problem) -> int:
        at = self.adapter.sizes(problem.shape)
        return int(self.adapter.compute(self.adapter.steps, at, "flops"))

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        """The reference of the first output."""
        return self.references(problem, arrays)[self.output(problem).name]

    def references(self, problem: Problem, arrays: Arrays) -> Arrays:
        return self._call(self.adapter.reference, "reference", problem, arrays)

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The magnitude of the first output."""
        return self.magnitudes(problem, arrays)[self.output(problem).name]

    def magnitudes(self, problem: Problem, arrays: Arrays) -> Arrays:
        """By the adapter's function; else each result's size plus the mean, for results near 0."""
        if self.adapter.magnitude is not None:
            return self._call(self.adapter.magnitude, "magnitude", problem, arrays)
        exact = self.references(problem, arrays)
        return {name: np.abs(a) + np.mean(np.abs(a), dtype=np.float64) for name, a in exact.items()}

    def tolerance(self, problem: Problem) -> Tolerance:
        return Tolerance(self.adapter.tolerance)

    def _call(self, function: Any, what: str, problem: Problem, arrays: Arrays) -> Arrays:
        names = [tensor.name for tensor in self.inputs(problem)]
        given: dict[str, Any] = {name: arrays[name] for name in names}
        sizes = self.adapter.sizes(problem.shape)
        wanted = inspect.signature(function).parameters
        given |= {name: size for name, size in sizes.items() if name in wanted}
        with foreign_code(f"the {what} of {self.adapter.function}"):
            found = function(**given)
        return self._by_name(found, what, problem)

    def _by_name(self, found: Any, what: str, problem: Problem) -> Arrays:
        tensors = self.outputs(problem)
        if not isinstance(found, Mapping):
            several = found if isinstance(found, tuple) else (found,)
            found = dict(zip((tensor.name for tensor in tensors), several, strict=False))
        result = {}
        for tensor in tensors:
            if tensor.name not in found:
                raise ProblemError(
                    f"the {what} of {self.adapter.function} does not return {tensor.name!r}"
                )
            array = _array(found[tensor.name])
            if array.shape != tensor.shape:
                raise ProblemError(
                    f"the {what} of {self.adapter.function} returns {tensor.name!r} of shape "
                    f"{array.shape}, but the adapter says {tensor.shape}"
                )
            result[tensor.name] = array
        return result


def _array(value: Any) -> Array:
    """A NumPy array, also of a PyTorch tensor."""
    return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


def source_digest(adapter: Adapter) -> str:
    """Eight hexadecimal digits for a kernel's text and the launch and checks in its adapter.

    Machines that build and machines that run must agree on it, so it is made of canonical text that
    does not depend on the version of Python. The reference is included, since a config may be wrong
    by one and right by another. Parts that do not change results (the space, the dtypes) are left
    out, so results stay valid when they are edited.
    """
    path = adapter.path
    texts = [kernel_text(str(path), adapter.function), *_said(path, adapter.function)]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]


def _said(path: Path, function: str) -> Iterator[str]:
    """The adapter's text about launches and checks, with functions of the file that it uses."""
    names = read_module(path, path.stat().st_mtime_ns)
    for keyword in _keywords(path, function):
        yield ast.unparse(keyword)
        mentioned = {node.id for node in ast.walk(keyword) if isinstance(node, ast.Name)}
        for name in sorted(mentioned & names.definitions.keys() - {function}):
            yield kernel_text(str(path), name)


def _keywords(path: Path, function: str) -> Iterator[ast.keyword]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        of = node.args[0]
        if called == _CALL and isinstance(of, ast.Name) and of.id == function:
            yield from sorted(
                (one for one in node.keywords if one.arg in (*_LAUNCHING, *_CHECKING)),
                key=lambda one: one.arg or "",
            )
