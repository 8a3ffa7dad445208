"""Calls of PyTorch's operations that are not hooked, counted and timed while a program is dumped.

Every operation of the thread goes through Python meanwhile, which costs some microseconds each. It
is done in dumps alone, whose purpose is to find out what a program computes.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from importlib import import_module
from typing import Any

from skipjack.runtime.dumps import PassedCalls

_MOST_KINDS = 20_000
"""Programs whose shapes never repeat have no end of them."""
_NO_WORK = ("profiler",)
"""Namespaces whose operations compute nothing."""
_REASON = "the operation is not hooked"
_DTYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}
_DTYPES |= {"int64": "i64", "int32": "i32", "int8": "i8", "uint8": "u8"}


class OtherCalls:
    """Of one process, in the thread that starts it; a forked process goes on counting."""

    def __init__(self, hooked: Collection[str]) -> None:
        """`hooked` are names such as ``aten::mm``."""
        self._torch = import_module("torch")
        self._hooked = frozenset(hooked)
        self._sums: dict[tuple[Any, ...], list[int]] = {}
        self._left_out: set[Any] = set()

    def start(self) -> None:
        """Count from now on."""
        _mode_of(self).__enter__()

    def computed(self, operation: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Compute a call, and count it."""
        if operation in self._left_out:
            return operation(*arguments, **named)
        began = time.perf_counter_ns()
        result = operation(*arguments, **named)
        self._count(operation, arguments, time.perf_counter_ns() - began)
        return result

    def _count(self, operation: Any, arguments: tuple[Any, ...], taken_ns: int) -> None:
        if self._is_left_out(operation):
            self._left_out.add(operation)
            return
        tensors = [one for one in arguments if isinstance(one, self._torch.Tensor)]
        kind: tuple[Any, ...] = (
            operation,
            *((one.dtype, one.shape, one.device.type) for one in tensors),
        )
        sums = self._sums.get(kind)
        if sums is None:
            if len(self._sums) >= _MOST_KINDS:
                return
            sums = self._sums[kind] = [0, 0]
        sums[0] += 1
        sums[1] += taken_ns

    def _is_left_out(self, operation: Any) -> bool:
        """Those that are hooked, and those that compute nothing."""
        schema = operation._schema
        namespace = schema.name.partition("::")[0]
        is_no_work = namespace in _NO_WORK or bool(operation.is_view)
        return schema.name in self._hooked or is_no_work

    def __call__(self) -> Iterable[PassedCalls]:
        """What was counted until now."""
        found: dict[tuple[str, str, str], PassedCalls] = {}
        for (operation, *tensors), (calls, time_ns) in list(self._sums.items()):
            one = PassedCalls(
                str(operation._schema.name),
                ", ".join(_shown(str(dtype), shape) for dtype, shape, _ in tensors),
                next((device for _, _, device in tensors), "cpu"),
                _REASON,
                calls,
                time_ns,
            )
            found[one.key] = found[one.key] + one if one.key in found else one
        return found.values()


def _shown(dtype: str, shape: Iterable[int]) -> str:
    name = dtype.removeprefix("torch.")
    return f"{_DTYPES.get(name, name)}[{'x'.join(map(str, shape))}]"


def _mode_of(others: OtherCalls) -> Any:
    base: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode

    def dispatch(
        self: Any, operation: Any, types: Any, arguments: Any = (), named: Any = None
    ) -> Any:
        return others.computed(operation, arguments, named or {})

    mode = type("SkipjackOtherCalls", (base,), {"__torch_dispatch__": dispatch})
    return mode()
