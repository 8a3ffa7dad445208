"""What must be known of a user's kernel to build, run and check it: `adapting` reads it in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex

from skipjack.core.config import Value
from skipjack.core.constraints import ConstraintLike
from skipjack.core.expressions import Expression
from skipjack.core.nest import Tensor
from skipjack.errors import UsageError, blaming
from skipjack.solvers.gpu.spec import Constant

At = Mapping[str, Value]
"""Sizes and settings by name."""
Computed = int | float | str | Callable[[At], Any]
"""A number, an expression of sizes and settings, or a function of them."""
Axes = Sequence[int | str]


@dataclass(frozen=True, slots=True)
class Adapter:
    """A checked description of a kernel. Pure Python: nothing here needs Triton or a GPU."""

    name: str
    """Of its operation and its solver."""
    path: Path
    function: str
    parameters: tuple[str, ...]
    constexprs: frozenset[str]
    defaults: Mapping[str, Constant]
    unspecialized: frozenset[str]
    """Arguments whose values the compiler must not be told anything about."""
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
    """Arithmetic steps of a run."""

    @property
    def settings(self) -> frozenset[str]:
        """What may vary."""
        return frozenset(self.values).union(*self.configs)

    def sizes(self, shape: Sequence[int]) -> dict[str, int]:
        """By their names."""
        return dict(zip(self.shape, shape, strict=True))

    def tensors(self, axes: Mapping[str, Axes], shape: Sequence[int]) -> tuple[Tensor, ...]:
        """Inputs or outputs at a shape; ``"mean:f32"`` is a tensor of its own type."""
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
        """How many blocks along each axis."""
        given = self.compute(self.grid, at, "the grid") if callable(self.grid) else self.grid
        if reason := grid_refusal(given):
            raise UsageError(f"the grid of {self.function} is {given!r}: {reason}")
        return tuple(self.number(axis, at, "the grid") for axis in given)

    def number(self, given: Computed, at: At, what: str) -> int:
        """A whole number, computed."""
        value = self.compute(given, at, what)
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise UsageError(f"{what} of {self.function} is {value!r} and no whole number")
        return index(value)  # NumPy's are whole, too

    def compute(self, given: Computed, at: At, what: str) -> Any:
        """A value, from sizes and settings."""
        if isinstance(given, str):
            return Expression(given).evaluate(at)
        if callable(given):
            with blaming(f"{what} of {self.function}"):
                try:
                    return given(at)
                except KeyError as error:
                    raise UsageError(
                        f"{what} of {self.function} asks for {error}; there are {', '.join(at)}"
                    ) from None
        return given

    def tensor_of(self, parameter: str) -> str | None:
        """The tensor whose address an argument is; None if it is a number."""
        names = {name.partition(":")[0] for name in (*self.inputs, *self.outputs)}
        given = self.arguments.get(parameter, parameter)
        if given in names:
            return str(given)
        plain = parameter.removesuffix("_ptr")
        return plain if parameter not in self.arguments and plain in names else None


def grid_refusal(given: object) -> str:
    """Why this is no grid; empty if it may be one."""
    if isinstance(given, tuple | list) and 1 <= len(given) <= 3:
        return ""
    return "give one to three numbers of blocks, as (64,)"
