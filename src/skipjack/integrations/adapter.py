"""``skipjack.triton_kernel``: what must be known of a user's kernel to build, run and check it.

It stands in the kernel's file, beside the function, and says in terms of the sizes of a problem
which tensors there are, what each argument is, and how large the grid is::

    skipjack.triton_kernel(
        softmax,
        shape=("rows", "cols"),
        inputs={"x": ("rows", "cols")},
        outputs={"y": ("rows", "cols")},
        arguments={"stride": "cols"},
        grid=("rows",),
        space={"BLOCK": [1024, 2048, 4096], "num_warps": [4, 8, 16]},
        constraints=["BLOCK >= cols"],
        reference=lambda x: ...,
    )

Wherever a number is wanted, a name or an expression of sizes and settings may stand (``"cols"``,
``"rows * cols"``), or a function of a mapping of them (``lambda at: triton.cdiv(at["n"], 64)``).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from skipjack.core.config import Value
from skipjack.core.constraints import ConstraintLike
from skipjack.core.dtypes import DTYPES
from skipjack.core.expressions import Expression
from skipjack.core.nest import Tensor
from skipjack.errors import UsageError, blaming
from skipjack.integrations.triton_configs import LAUNCH_OPTIONS, as_settings
from skipjack.solvers.gpu.spec import Constant

At = Mapping[str, Value]
"""Sizes and settings by name."""
Computed = int | float | str | Callable[[At], Any]
"""A number, an expression of sizes and settings, or a function of them."""
Axes = Sequence[int | str]

_OPTIONS = (*LAUNCH_OPTIONS, "waves_per_eu", "matrix_instr_nonkdim", "kpack")


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
            Tensor(name.partition(":")[0], self._axes(given, at), name.partition(":")[2])
            for name, given in axes.items()
        )

    def _axes(self, given: Axes, at: At) -> tuple[int, ...]:
        return tuple(self.number(axis, at, "a tensor's axis") for axis in given)

    def launch_grid(self, at: At) -> tuple[int, ...]:
        """How many blocks along each axis."""
        given = self.grid(at) if callable(self.grid) else self.grid
        return tuple(self.number(axis, at, "the grid") for axis in given)

    def number(self, given: Computed, at: At, what: str) -> int:
        """A whole number, computed."""
        value = self.compute(given, at, what)
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"{what} of {self.function} is {value!r} and no whole number")
        return value

    def compute(self, given: Computed, at: At, what: str) -> Any:
        """A value, from sizes and settings."""
        if isinstance(given, str):
            return Expression(given).evaluate(at)
        if callable(given):
            with blaming(f"{what} of {self.function}"):
                return given(at)
        return given

    def tensor_of(self, parameter: str) -> str | None:
        """The tensor whose address an argument is; None if it is a number."""
        names = {name.partition(":")[0] for name in (*self.inputs, *self.outputs)}
        given = self.arguments.get(parameter, parameter)
        if given in names:
            return str(given)
        plain = parameter.removesuffix("_ptr")
        return plain if parameter not in self.arguments and plain in names else None


def triton_kernel(
    function: Any,
    *,
    shape: Sequence[str],
    inputs: Mapping[str, Axes],
    outputs: Mapping[str, Axes],
    grid: Sequence[int | str] | Callable[[At], Sequence[int]],
    reference: Callable[..., Any],
    arguments: Mapping[str, Computed] | None = None,
    constants: Mapping[str, Computed] | None = None,
    space: Mapping[str, Sequence[Value]] | None = None,
    constraints: Sequence[ConstraintLike] = (),
    configs: Sequence[Any] = (),
    dtypes: Sequence[str] = ("f16", "bf16", "f32"),
    tolerance: float = 32.0,
    magnitude: Callable[..., Any] | None = None,
    domain: tuple[float, float] = (-1.0, 1.0),
    flops: Computed | None = None,
    name: str = "",
) -> Adapter:
    """Make a ``triton.jit`` function known as an operation and a solver, to be tuned like others.

    `function` may be decorated with an autotuner, whose configs are then taken. Arguments named as
    a tensor (perhaps with ``_ptr`` after it) or as a size need no entry in `arguments`. `reference`
    takes the inputs as NumPy arrays by name, and sizes if it has arguments of their names; it gives
    the output, or a tuple or mapping of several. A result may be off by `tolerance` roundings of
    its type, relative to `magnitude` (of the same arguments; by default the result itself).
    `flops` is what a run counts as. The first of `dtypes` is the default.
    """
    jitted, tuned = _unwrap(function)
    signature = inspect.signature(jitted.fn)
    known = dict(signature.parameters)
    adapter = Adapter(
        name or _name(jitted),
        _file(jitted),
        jitted.__name__,
        tuple(known),
        frozenset(name for name, one in known.items() if "constexpr" in str(one.annotation)),
        {n: p.default for n, p in known.items() if p.default is not p.empty},
        frozenset(p.name for p in getattr(jitted, "params", ()) if p.do_not_specialize),
        tuple(shape),
        dict(inputs),
        dict(outputs),
        dict(arguments or {}),
        dict(constants or {}),
        grid,
        dict(space or {}),
        tuple(constraints),
        tuple(as_settings(one) for one in (configs or ([] if space else tuned))),
        reference,
        magnitude,
        tuple(dtypes),
        tolerance,
        domain,
        flops if flops is not None else (lambda at: prod(at[n] for n in shape)),
    )
    _check(adapter)
    from skipjack.integrations.triton_file import register

    register(adapter)
    return adapter


def _unwrap(function: Any) -> tuple[Any, list[Any]]:
    """The jitted function below tuners and heuristics, and the configs of a tuner."""
    configs: list[Any] = []
    while hasattr(function, "fn") and not inspect.isfunction(function.fn):
        configs = configs or list(getattr(function, "configs", []))
        function = function.fn
    if not hasattr(function, "arg_names"):
        name = getattr(function, "__name__", repr(function))
        raise UsageError(f"{name} is no function made by triton.jit")
    return function, configs


def _name(jitted: Any) -> str:
    text = re.sub(r"[^a-z0-9_]", "_", f"{_file(jitted).stem}__{jitted.__name__}".lower())
    return text if text[0].isalpha() else f"k{text}"


def _file(jitted: Any) -> Path:
    path = Path(jitted.fn.__code__.co_filename)
    if path.suffix != ".py" or not path.is_file():
        raise UsageError(
            f"{jitted.__name__} is not in a file; a kernel that is built elsewhere must be in one"
        )
    return path.resolve()


def _check(adapter: Adapter) -> None:
    """Refuse in one sentence what could not be built or launched at any size."""
    who = f"the adapter of {adapter.function}"
    for known, what in ((adapter.arguments, "argument"), (adapter.constants, "constant")):
        for name in known:
            if name not in adapter.parameters:
                raise UsageError(f"{who} gives {what} {name!r}, which the function does not take")
    if not adapter.outputs or not adapter.shape:
        raise UsageError(f"{who} needs at least one size in shape and one tensor in outputs")
    tensors = [name.partition(":")[0] for name in (*adapter.inputs, *adapter.outputs)]
    for name in tensors:
        if tensors.count(name) > 1:
            raise UsageError(
                f"{who} names tensor {name!r} twice; a kernel that writes into its input cannot be "
                "checked and timed again and again: let it write elsewhere"
            )
    if not adapter.values and not adapter.configs:
        raise UsageError(f"{who} needs space={{...}} or configs=[...]")
    for dtype in adapter.dtypes:
        if dtype not in DTYPES:
            raise UsageError(f"{who} has an unknown dtype {dtype!r}: choose {', '.join(DTYPES)}")
    for setting in adapter.settings:
        if setting not in (*adapter.parameters, *_OPTIONS):
            raise UsageError(
                f"{who} varies {setting!r}, which is neither a parameter of the function "
                f"nor one of {', '.join(_OPTIONS)}"
            )
    for parameter in adapter.parameters:
        if parameter in (*adapter.shape, *adapter.arguments, *adapter.constants, *adapter.settings):
            continue
        if adapter.tensor_of(parameter) is None and parameter not in adapter.defaults:
            place = "constants" if parameter in adapter.constexprs else "arguments"
            raise UsageError(
                f"{who} does not say what {parameter!r} is: give it in {place}, as "
                f'{place}={{"{parameter}": "{adapter.shape[0]}"}}'
            )
