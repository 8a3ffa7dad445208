"""A plugin: a solver whose odd configs never build. It counts its compilations in a file.

Configs that differ in `same` only have one source.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from skipjack import solvers
from skipjack.core import Config, Device, Parameter, ParameterSpace, Problem
from skipjack.solvers import Blob, BuildingSolver, Slot, Solver, Source

COUNT = "PICKY_SOLVER_COUNT"
"""The variable with the path of the file."""
VERSION = "PICKY_SOLVER_VERSION"
COMPILER = "PICKY_SOLVER_COMPILER"
FAULT = "PICKY_SOLVER_FAULT"
"""What an odd config fails with: refused (the default), memory, disk."""
SIZE = 777
CONFIGS = 4


def _nest() -> BuildingSolver:
    found = solvers.find_solver("nest")
    assert isinstance(found, BuildingSolver)
    return found


class PickySolver(Solver):
    name = "picky"
    version = int(os.environ.get(VERSION, "1"))

    def refuses(self, problem: Problem, device: Device) -> str:
        # Other tests in the same process add, too.
        ours = problem.operation == "add" and problem.shape[0] in (SIZE, SIZE + 1)
        return "" if ours else "it adds some"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        return ParameterSpace([Parameter("at", tuple(range(CONFIGS))), Parameter("same", (0, 1))])

    def compiler(self) -> str:
        return os.environ.get(COMPILER, _nest().compiler())

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        default = _nest().space(problem, device).default()
        made = _nest().lower(problem, device, default)
        # The source of an odd config is the same for all problems.
        text = f"; {config['at']}" if config["at"] % 2 else f"; {config['at']}\n{made.text}"
        return Source(text, made.target, self.compiler(), made.symbol)

    def compile(self, source: Source) -> Blob:
        number = source.text[2]
        with Path(os.environ[COUNT]).open("a") as file:
            file.write(f"{number}\n")
        if int(number) % 2:
            fault = os.environ.get(FAULT)
            if fault == "memory":
                raise MemoryError
            if fault == "disk":
                raise OSError(28, "No space left on device")
            raise ValueError(f"this compiler refuses {number}")
        rest = source.text.partition("\n")[2]
        return _nest().compile(Source(rest, source.target, _nest().compiler(), source.symbol))

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        return _nest().slots(problem, device, _nest().space(problem, device).default())


solvers.register(PickySolver())
