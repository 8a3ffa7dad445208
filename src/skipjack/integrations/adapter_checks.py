"""What is wrong with an adapter, said when it is read: one sentence for each mistake."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from skipjack.core.dtypes import DTYPES
from skipjack.core.expressions import Expression
from skipjack.errors import UsageError
from skipjack.integrations.adapter import Adapter, grid_refusal
from skipjack.integrations.triton_configs import LAUNCH_OPTIONS

_OPTIONS = (*LAUNCH_OPTIONS, "waves_per_eu", "matrix_instr_nonkdim", "kpack")


def several(what: str, given: Sequence[Any], who: str) -> tuple[Any, ...]:
    """A tuple; `UsageError` if it is one text, whose letters would be taken for names."""
    if isinstance(given, str):
        raise UsageError(f'{who} has {what}={given!r}: write {what}=("{given}",)')
    return tuple(given)


def check(adapter: Adapter) -> None:
    """Refuse in one sentence what could not be built, launched or checked at any size."""
    who = f"the adapter of {adapter.function}"
    _check_names(adapter, who)
    _check_tensors(adapter, who)
    _check_settings(adapter, who)
    _check_parameters(adapter, who)
    _check_expressions(adapter, who)
    if not callable(adapter.grid) and (reason := grid_refusal(adapter.grid)):
        raise UsageError(f"{who} has grid={adapter.grid!r}: {reason}")
    for function, what in ((adapter.reference, "reference"), (adapter.magnitude, "magnitude")):
        if function is not None:
            _check_callable(function, what, adapter, who)


def _check_names(adapter: Adapter, who: str) -> None:
    for known, what in ((adapter.arguments, "argument"), (adapter.constants, "constant")):
        for name in known:
            if name not in adapter.parameters:
                raise UsageError(f"{who} gives {what} {name!r}, which the function does not take")


def _check_tensors(adapter: Adapter, who: str) -> None:
    if not adapter.outputs or not adapter.shape:
        raise UsageError(f"{who} needs at least one size in shape and one tensor in outputs")
    both = {**adapter.inputs, **adapter.outputs}
    names = [name.partition(":")[0] for name in (*adapter.inputs, *adapter.outputs)]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"{who} names tensor {name!r} twice; a kernel that writes into its input cannot be "
                "checked and timed again and again: let it write elsewhere"
            )
    for name, axes in both.items():
        if isinstance(axes, str):
            raise UsageError(f'{who} gives {name!r} the axes {axes!r}: write ("{axes}",)')
    if not adapter.dtypes:
        raise UsageError(f'{who} has no dtypes: name at least one, as dtypes=("f16",)')
    own = [name.partition(":")[2] for name in both if ":" in name]
    for dtype in (*adapter.dtypes, *own):
        if dtype not in DTYPES:
            raise UsageError(f"{who} has an unknown dtype {dtype!r}: choose {', '.join(DTYPES)}")


def _check_settings(adapter: Adapter, who: str) -> None:
    if not adapter.values and not adapter.configs:
        raise UsageError(f"{who} needs space={{...}} or configs=[...]")
    for setting in adapter.settings:
        if setting not in (*adapter.parameters, *_OPTIONS):
            raise UsageError(
                f"{who} varies {setting!r}, which is neither a parameter of the function "
                f"nor one of {', '.join(_OPTIONS)}"
            )


def _check_parameters(adapter: Adapter, who: str) -> None:
    """Each is something."""
    said = (*adapter.shape, *adapter.arguments, *adapter.constants, *adapter.settings)
    for parameter in adapter.parameters:
        if parameter in said or parameter in adapter.defaults:
            continue
        if adapter.tensor_of(parameter) is not None:
            continue
        if parameter in adapter.constexprs:
            how = (
                f'constants, as constants={{"{parameter}": 64}} (a text as "\'relu\'"), or in space'
            )
        else:
            how = f'arguments, as arguments={{"{parameter}": "{adapter.shape[0]}"}}'
        raise UsageError(f"{who} does not say what {parameter!r} is: give it in {how}")


def _check_expressions(adapter: Adapter, who: str) -> None:
    """Texts are expressions, and their names must have values."""
    sizes = set(adapter.shape)
    axes = [
        axis
        for given in (adapter.inputs, adapter.outputs)
        for one in given.values()
        for axis in one
    ]
    for text in _texts(axes):
        _check_expression(text, sizes, f"{who} has an axis {text!r}")
    known = sizes | adapter.settings
    if not callable(adapter.grid):
        for text in _texts(adapter.grid):
            _check_expression(text, known, f"{who} has {text!r} in its grid")
    for name, given in adapter.arguments.items():
        if isinstance(given, str) and adapter.tensor_of(name) is None:
            _check_expression(given, known, f"{who} gives argument {name!r} as {given!r}")
    for name, given in adapter.constants.items():
        if isinstance(given, str) and not given.startswith("tl."):
            hint = f"; a text has quotes of its own: \"'{given}'\""
            _check_expression(given, known, f"{who} gives constant {name!r} as {given!r}", hint)


def _texts(given: Iterable[Any]) -> Iterator[str]:
    return (one for one in given if isinstance(one, str))


def _check_expression(text: str, known: Iterable[str], what: str, hint: str = "") -> None:
    unknown = sorted(set(Expression(text).names) - set(known))
    if unknown:
        raise UsageError(
            f"{what}, an expression that needs {', '.join(unknown)}; there are "
            f"{', '.join(sorted(known))}{hint}"
        )


def _check_callable(function: Callable[..., Any], what: str, adapter: Adapter, who: str) -> None:
    """It takes all inputs by name, and besides them sizes alone."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise UsageError(
            f"{who} has a {what} whose arguments cannot be read: wrap it, as lambda x: ..."
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
            f"{who} has a {what} that {wrong}: it gets the inputs by their names "
            f"({', '.join(inputs)}), and sizes if it asks for them ({', '.join(adapter.shape)})"
        )
