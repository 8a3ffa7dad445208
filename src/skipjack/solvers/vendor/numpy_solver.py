"""NumPy: the library that a user would call otherwise, for every operation."""

from __future__ import annotations

from collections.abc import Callable

from skipjack.core.device import Device
from skipjack.core.guarding import unguarded
from skipjack.core.operation import (
    Arrays,
    DirectCall,
    NumpyDeclared,
    Operation,
    SeveralOutputs,
)
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

        compute = _by_numpy(operation, problem)
        checked = False

        def assign() -> None:
            nonlocal checked
            found = compute(arrays) if checked else references(problem, arrays)
            checked = True
            for name, values in found.items():
                arrays[name][...] = values

        return assign


def _by_numpy(operation: Operation, problem: Problem) -> Callable[[Arrays], Arrays]:
    """`references` without its checks, which take longer than NumPy does for small arrays."""
    if isinstance(operation, SeveralOutputs):
        every = unguarded(operation.references)
        return lambda arrays: every(problem, arrays)
    name, single = operation.output(problem).name, unguarded(operation.reference)
    return lambda arrays: {name: single(problem, arrays)}
