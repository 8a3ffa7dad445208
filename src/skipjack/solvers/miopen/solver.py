"""MIOpen as a solver: it knows its own solvers, searches and times them by itself."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.device import Device
from skipjack.core.parameters import ParameterSpace
from skipjack.core.problem import Problem
from skipjack.solvers.miopen import command
from skipjack.solvers.solver import Solver

NAME = "miopen"


class MiopenSolver(Solver):
    """Convolutions on AMD's GPUs, by MIOpenDriver; see `DrivingSolver`."""

    name = NAME
    version = 1
    kinds = ("hip",)
    dtypes = ("f32", "f16", "bf16")

    def refuses(self, problem: Problem, device: Device) -> str:
        """All but convolutions; which of its solvers can do one, MIOpen finds out."""
        return command.refuses(problem)

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Nothing that is varied from here."""
        return ParameterSpace([])

    def arguments(self, problem: Problem) -> Sequence[str]:
        """The command that searches."""
        return command.arguments(problem, command.Mode.SEARCH)
