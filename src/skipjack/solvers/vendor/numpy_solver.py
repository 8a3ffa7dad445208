"""NumPy: the library that a user would call otherwise, for every operation."""

from __future__ import annotations

from collections.abc import Callable

from skipjack.core.device import Device
from skipjack.core.operation import Arrays, DirectCall, NumpyDeclared
from skipjack.core.parameters import ParameterSpace
from skipjack.core.problem import Problem
from skipjack.operations import get, references
from skipjack.solvers.solver import Solver


class NumpySolver(Solver):
    """The operation's own NumPy call, writing into the given output where NumPy can."""

    name = "numpy"
    version = 1
    compared = True

    def refuses(self, problem: Problem, device: Device) -> str:
        """CPUs only, and what NumPy has."""
        operation = get(problem.operation)
        if isinstance(operation, NumpyDeclared) and not operation.in_numpy:
            return f"NumPy has no {problem.operation}"
        return "" if device.kind == "cpu" else "NumPy computes on the CPU"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Nothing to vary."""
        return ParameterSpace([])

    def bind(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """``np.matmul(a, b, out=out)`` and the like."""
        operation = get(problem.operation)
        if isinstance(operation, DirectCall):
            return operation.numpy_call(problem, arrays)

        def assign() -> None:
            for name, values in references(problem, arrays).items():
                arrays[name][...] = values

        return assign
