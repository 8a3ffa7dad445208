"""NumPy: the library that a user would call otherwise, for every operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from skipjack.core.device import Device
from skipjack.core.operation import Arrays, DirectCall, Writing
from skipjack.core.parameters import ParameterSpace
from skipjack.core.problem import Problem
from skipjack.operations import get


class NumpySolver:
    """The operation's own NumPy call, writing into the given output where NumPy can."""

    name = "numpy"
    version = 1
    compared = True

    def refuses(self, problem: Problem, device: Device) -> str:
        """CPUs only."""
        return "" if device.kind == "cpu" else "NumPy computes on the CPU"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Nothing to vary."""
        return ParameterSpace([])

    def bind(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """``np.matmul(a, b, out=out)`` and the like."""
        operation = get(problem.operation)
        if isinstance(operation, DirectCall):
            return operation.numpy_call(problem, arrays)
        inputs = [arrays[tensor.name] for tensor in operation.inputs(problem)]
        out = arrays["out"]
        ufunc = getattr(operation, "function", None)
        if isinstance(ufunc, np.ufunc):
            return partial(ufunc, *inputs, out=out)
        if isinstance(operation, Writing):
            return partial(operation.write, problem, arrays, out)
        if hasattr(operation, "axes"):
            axes = operation.axes(problem)
            target = out if len(axes) < len(problem.shape) else out.reshape(())
            return partial(operation.function, inputs[0], axis=axes, out=target)  # type: ignore[attr-defined]

        def assign() -> None:
            out[...] = operation.reference(problem, arrays)

        return assign
