"""A plugin: a solver whose configs never build, but for one of them where the problem is long."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack import solvers
from skipjack.core import Config, Device, Parameter, ParameterSpace, Problem
from skipjack.native import llvm, target_of
from skipjack.solvers import Blob, Slot, Solver, Source

LONG = 1000
SIZES = (991, 2003)
LAST = 5


class DoomedSolver(Solver):
    name = "doomed"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        # Other tests in the same process add, too: its problems are known by their sizes.
        return "" if problem.operation == "add" and problem.shape[0] in SIZES else "it adds some"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        return ParameterSpace([Parameter("at", range(LAST + 1))])

    def compiler(self) -> str:
        return llvm.compiler_version()

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        fine = problem.shape[0] >= LONG and config["at"] == LAST
        text = "define void @kernel(ptr %slots) {\n  ret void\n}\n" if fine else f"; {config}"
        return Source(text, target_of(device), self.compiler())

    def compile(self, source: Source) -> Blob:
        if source.text.startswith(";"):
            raise ValueError("odd" if "at=3" in source.text else "out of luck [today]")
        return Blob(llvm.compile_object(source.text, source.target))

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        return ["x", "y", "out"]


solvers.register(DoomedSolver())
