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
from math import prod
from pathlib import Path
from typing import Any

from skipjack.core.config import Value
from skipjack.core.constraints import ConstraintLike
from skipjack.errors import UsageError
from skipjack.integrations.adapter import Adapter, At, Axes, Computed
from skipjack.integrations.adapter_checks import check, several
from skipjack.integrations.triton_configs import as_settings


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
    known = inspect.signature(jitted.fn).parameters
    who = f"the adapter of {jitted.__name__}"
    adapter = Adapter(
        name=name or _name(jitted),
        path=_file(jitted),
        function=jitted.__name__,
        parameters=tuple(known),
        constexprs=frozenset(n for n, one in known.items() if "constexpr" in str(one.annotation)),
        defaults={n: one.default for n, one in known.items() if one.default is not one.empty},
        unspecialized=_unspecialized(jitted),
        shape=several("shape", shape, who),
        inputs=dict(inputs),
        outputs=dict(outputs),
        arguments=dict(arguments or {}),
        constants=dict(constants or {}),
        grid=grid,
        values=dict(space or {}),
        constraints=tuple(constraints),
        configs=tuple(map(as_settings, configs or ([] if space else tuned))),
        reference=reference,
        magnitude=magnitude,
        dtypes=several("dtypes", dtypes, who),
        tolerance=tolerance,
        domain=domain,
        steps=flops if flops is not None else (lambda at: prod(at[n] for n in shape)),
    )
    check(adapter)
    from skipjack.integrations.triton_file import register

    register(adapter, jitted)
    return adapter


def _unspecialized(jitted: Any) -> frozenset[str]:
    return frozenset(p.name for p in getattr(jitted, "params", ()) if p.do_not_specialize)


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
