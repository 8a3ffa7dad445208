"""``skipjack.triton_kernel``: the description of a user's kernel, to build, run and check it.

The call is in the kernel's file, after the function. In terms of the sizes of a problem, it says
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

Each number may also be a name or an expression of sizes and settings (``"cols"``,
``"rows * cols"``), or a function of a mapping of them (``lambda at: triton.cdiv(at["n"], 64)``).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from skipjack.core import DTYPES, ConstraintLike, Expression, Value
from skipjack.errors import UsageError
from skipjack.integrations.triton.configs import LAUNCH_OPTIONS, as_settings
from skipjack.integrations.triton.user_operation import Adapter, At, Axes, Computed, grid_refusal

_OPTIONS = (*LAUNCH_OPTIONS, "waves_per_eu", "matrix_instr_nonkdim", "kpack")


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
    """Register a ``triton.jit`` function as an operation and a solver, to be tuned like others.

    `function` may be decorated with an autotuner, whose configs are used then. Arguments with the
    name of a tensor (optionally followed by ``_ptr``) or of a size need no entry in `arguments`.
    `reference` takes the inputs as NumPy arrays by name, and sizes if it has parameters of their
    names; it returns the output, or a tuple or mapping of several. A result may differ by
    `tolerance` roundings of its dtype, relative to `magnitude` (a function of the same arguments;
    by default the result itself). `flops` is the number of arithmetic operations of a run. The
    first of `dtypes` is the default.
    """
    jitted, tuned = _unwrap(function)
    known = inspect.signature(jitted.fn).parameters
    label = f"the adapter of {jitted.__name__}"
    adapter = Adapter(
        name=name or _name(jitted),
        path=_file(jitted),
        function=jitted.__name__,
        parameters=tuple(known),
        constexprs=frozenset(n for n, one in known.items() if "constexpr" in str(one.annotation)),
        defaults={n: one.default for n, one in known.items() if one.default is not one.empty},
        unspecialized=frozenset(
            p.name for p in getattr(jitted, "params", ()) if p.do_not_specialize
        ),
        shape=_several("shape", shape, label),
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
        dtypes=_several("dtypes", dtypes, label),
        tolerance=tolerance,
        domain=domain,
        steps=flops if flops is not None else (lambda at: prod(at[n] for n in shape)),
    )
    _check(adapter)
    from skipjack.integrations.triton.user_solver import register

    register(adapter, jitted)
    return adapter


def _unwrap(function: Any) -> tuple[Any, list[Any]]:
    """The jitted function inside tuners and heuristics, and the configs of a tuner."""
    configs: list[Any] = []
    while hasattr(function, "fn") and not inspect.isfunction(function.fn):
        configs = configs or list(getattr(function, "configs", []))
        function = function.fn
    if not hasattr(function, "arg_names"):
        name = getattr(function, "__name__", repr(function))
        raise UsageError(f"{name} is not a function made by triton.jit")
    return function, configs


def _name(jitted: Any) -> str:
    text = re.sub(r"[^a-z0-9_]", "_", f"{_file(jitted).stem}__{jitted.__name__}".lower())
    return text if text[0].isalpha() else f"k{text}"


def _file(jitted: Any) -> Path:
    path = Path(jitted.fn.__code__.co_filename)
    if path.suffix != ".py" or not path.is_file():
        raise UsageError(
            f"{jitted.__name__} is not in a file; worker processes can build only kernels in files"
        )
    return path.resolve()


# Checks of an adapter when it is made: one sentence for each mistake.


def _several(what: str, given: Sequence[Any], label: str) -> tuple[Any, ...]:
    """A tuple; `UsageError` for a string, whose characters would be taken for names."""
    if isinstance(given, str):
        raise UsageError(f'{label} has {what}={given!r}: write {what}=("{given}",)')
    return tuple(given)


def _check(adapter: Adapter) -> None:
    """Refuse an adapter that could not be built, launched or checked at any size."""
    label = f"the adapter of {adapter.function}"
    _check_names(adapter, label)
    _check_tensors(adapter, label)
    _check_settings(adapter, label)
    _check_parameters(adapter, label)
    _check_expressions(adapter, label)
    if not callable(adapter.grid) and (reason := grid_refusal(adapter.grid)):
        raise UsageError(f"{label} has grid={adapter.grid!r}: {reason}")
    for function, what in ((adapter.reference, "reference"), (adapter.magnitude, "magnitude")):
        if function is not None:
            _check_callable(function, what, adapter, label)


def _check_names(adapter: Adapter, label: str) -> None:
    for known, what in ((adapter.arguments, "argument"), (adapter.constants, "constant")):
        for name in known:
            if name not in adapter.parameters:
                raise UsageError(f"{label} gives {what} {name!r}, which the function does not take")


def _check_tensors(adapter: Adapter, label: str) -> None:
    if not adapter.outputs or not adapter.shape:
        raise UsageError(f"{label} needs at least one size in shape and one tensor in outputs")
    both = {**adapter.inputs, **adapter.outputs}
    names = [name.partition(":")[0] for name in (*adapter.inputs, *adapter.outputs)]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"{label} names tensor {name!r} twice; a kernel that overwrites its input cannot "
                "be checked and timed repeatedly: let it write to another tensor"
            )
    for name, axes in both.items():
        if isinstance(axes, str):
            raise UsageError(f'{label} gives {name!r} the axes {axes!r}: write ("{axes}",)')
    if not adapter.dtypes:
        raise UsageError(f'{label} has no dtypes: name at least one, as dtypes=("f16",)')
    own = [name.partition(":")[2] for name in both if ":" in name]
    for dtype in (*adapter.dtypes, *own):
        if dtype not in DTYPES:
            raise UsageError(
                f"{label} has an unknown dtype {dtype!r}: choose from {', '.join(DTYPES)}"
            )


def _check_settings(adapter: Adapter, label: str) -> None:
    if not adapter.values and not adapter.configs:
        raise UsageError(f"{label} needs space={{...}} or configs=[...]")
    for setting in adapter.settings:
        if setting not in (*adapter.parameters, *_OPTIONS):
            raise UsageError(
                f"{label} varies {setting!r}, which is neither a parameter of the function "
                f"nor one of {', '.join(_OPTIONS)}"
            )


def _check_parameters(adapter: Adapter, label: str) -> None:
    """Every parameter must have a value."""
    said = (*adapter.shape, *adapter.arguments, *adapter.constants, *adapter.settings)
    for parameter in adapter.parameters:
        if parameter in said or parameter in adapter.defaults:
            continue
        if adapter.tensor_of(parameter) is not None:
            continue
        if parameter in adapter.constexprs:
            how = (
                f'constants, as constants={{"{parameter}": 64}} (a string as "\'relu\'"), or in '
                "space"
            )
        else:
            how = f'arguments, as arguments={{"{parameter}": "{adapter.shape[0]}"}}'
        raise UsageError(f"{label} does not say what {parameter!r} is: give it in {how}")


def _check_expressions(adapter: Adapter, label: str) -> None:
    """Strings are expressions, whose names must have values."""
    sizes = set(adapter.shape)
    for axes in (*adapter.inputs.values(), *adapter.outputs.values()):
        for text in _texts(axes):
            _check_expression(text, sizes, f"{label} has an axis {text!r}")
    known = sizes | adapter.settings
    if not callable(adapter.grid):
        for text in _texts(adapter.grid):
            _check_expression(text, known, f"{label} has {text!r} in its grid")
    for name, given in adapter.arguments.items():
        if isinstance(given, str) and adapter.tensor_of(name) is None:
            _check_expression(given, known, f"{label} gives argument {name!r} as {given!r}")
    for name, given in adapter.constants.items():
        if isinstance(given, str) and not given.startswith("tl."):
            hint = f"; a string needs quotes of its own: \"'{given}'\""
            _check_expression(given, known, f"{label} gives constant {name!r} as {given!r}", hint)


def _texts(given: Iterable[Any]) -> list[str]:
    return [one for one in given if isinstance(one, str)]


def _check_expression(text: str, known: Iterable[str], what: str, hint: str = "") -> None:
    unknown = sorted(set(Expression(text).names) - set(known))
    if unknown:
        raise UsageError(
            f"{what}, an expression that needs {', '.join(unknown)}; known names are "
            f"{', '.join(sorted(known))}{hint}"
        )


def _check_callable(function: Callable[..., Any], what: str, adapter: Adapter, label: str) -> None:
    """It must take all inputs by name, and apart from them only sizes."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise UsageError(
            f"{label} has a {what} whose arguments cannot be read: wrap it, as lambda x: ..."
        ) from None
    inputs = [name.partition(":")[0] for name in adapter.inputs]
    named = {
        n
        for n, one in parameters.items()
        if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)
    }
    open_ended = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    missing = [] if open_ended else [name for name in inputs if name not in named]
    vain = [
        n
        for n, one in parameters.items()
        if one.default is one.empty
        and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        and n not in (*inputs, *adapter.shape)
    ]
    if missing or vain:
        wrong = f"does not take {missing[0]!r}" if missing else f"takes {vain[0]!r}"
        raise UsageError(
            f"{label} has a {what} that {wrong}: it must take the inputs by name "
            f"({', '.join(inputs)}), and may take sizes ({', '.join(adapter.shape)})"
        )
