"""What a tuned call is known by in other processes: its function, its arguments, its device."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

from skipjack.core.device import Device
from skipjack.core.problem import CALLS, Problem
from skipjack.core.protocol import call_protocol
from skipjack.errors import SkipjackError
from skipjack.integrations.autotune_results import AutotunePlace
from skipjack.integrations.hook_identity import hook_text
from skipjack.integrations.kernel_identity import digest, function_text, value_text
from skipjack.integrations.tuned_call import TunedCall

EARLIER_PROTOCOL = "gpu events around each launch; caches cleared before it; interleaved"
"""How earlier versions called `call_protocol`."""

Described = list[tuple[str, str]]


def place_of(call: TunedCall, benchmark: str = "") -> AutotunePlace:
    """Where results of a call belong; `SkipjackError` where there is no GPU.

    `benchmark` identifies a ``do_bench`` of the user's.
    """
    function: Any = call.tuner.fn
    heuristics: dict[str, str] = {}
    while not hasattr(function, "src"):  # a heuristic around the function, or several
        values: Mapping[str, Callable[..., object]] = getattr(function, "values", {})
        heuristics |= {f"heuristic {name}": hook_text(one) for name, one in values.items()}
        function = function.fn
    types = argument_types(function, call.named)
    known = dict(types)
    constants = {name: value for name, value in call.given.items() if name not in known}
    constants |= heuristics
    try:
        device = current_device()
    except RuntimeError as error:
        raise SkipjackError(
            f"kernel {function.__name__} cannot be tuned: Triton finds no GPU here ({error})"
        ) from error
    problem = problem_of(function, call.key, types, constants)
    earlier = f"do_bench {benchmark}" if benchmark else EARLIER_PROTOCOL
    return AutotunePlace(problem, device, call_protocol(benchmark), earlier)


def problem_of(
    function: Any, key: Sequence[Any], types: Described, constants: Mapping[str, Any]
) -> Problem:
    """The problem of a call; another source, type, constant or Triton makes it another one."""
    arguments = json.dumps([types, {n: _text(v) for n, v in sorted(constants.items())}])
    values = ",".join(_text(value) for value in key) or "none"
    attributes = {
        "source": digest(function_text(function)),
        "arguments": digest(arguments),
        "key": values,
        "triton": metadata.version("triton"),
    }
    return Problem(CALLS, (), "", tuple(attributes.items()), shape_text=function.__name__)


def argument_types(function: Any, named: Mapping[str, Any]) -> Described:
    """Type and divisibility of each run-time argument, as Triton's own specialisation sees them."""
    return [
        (parameter.name, f"{_type(named[parameter.name])}{_divisibility(parameter, named)}")
        for parameter in function.params
        if parameter.name in named and not parameter.is_constexpr
    ]


def _type(value: Any) -> str:
    from triton.runtime.jit import mangle_type

    if hasattr(value, "block_shape"):
        # A descriptor's block is a config's to set, and may be another one each time we look.
        return f"descriptor of {value.base.dtype} {len(value.block_shape)}"
    return str(mangle_type(value))


def _divisibility(parameter: Any, named: Mapping[str, Any]) -> str:
    value = named[parameter.name]
    if parameter.do_not_specialize:
        return ""
    if hasattr(value, "data_ptr"):
        return " /16" if value.data_ptr() % 16 == 0 else ""
    if isinstance(value, int) and not isinstance(value, bool):
        return " =1" if value == 1 else " /16" if value % 16 == 0 else ""
    return ""


def _text(value: Any) -> str:
    """A text for a value that is the same in every process."""
    if hasattr(value, "src"):
        return digest(function_text(value))
    if isinstance(value, str):
        return value
    if (plain := value_text(value)) is not None:
        return plain
    if callable(value):
        return hook_text(value)
    text = str(value)
    # Python's own text for an object has an address in it.
    return type(value).__qualname__ if text == object.__repr__(value) else text


def current_device() -> Device:
    """The GPU that a launch would go to, as far as it decides which config is best."""
    from triton.runtime import driver

    index = driver.active.get_current_device()
    target = driver.active.get_current_target()
    told = driver.active.utils.get_device_properties(index)
    speeds = [f"{name} {told.get(name, 0)}" for name in ("sm_clock_rate", "mem_clock_rate")]
    arch = f"sm_{target.arch}" if target.backend == "cuda" else str(target.arch).partition(":")[0]
    return Device(
        target.backend,
        arch,
        int(told.get("multiprocessor_count", 1)),
        model=", ".join([*speeds, f"bus {told.get('mem_bus_width', 0)}"]),
        caches=(("shared", int(told.get("max_shared_mem", 0))),),
        serial=str(index),
    )
