"""What solvers of several stages have in common: from parts to source, machine code and slots."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.native import llvm
from skipjack.native.cpu import target_of
from skipjack.solvers.loops.compiling import compile_source
from skipjack.solvers.loops.stages import Part, compose, slots_of
from skipjack.solvers.solver import Blob, Slot, Source


class StagedSolver:
    """A `BuildingSolver` whose kernels are made of `parts`; the rest is up to the subclass."""

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        """The stages in order."""
        raise NotImplementedError

    def compiler(self) -> str:
        """LLVM."""
        return llvm.compiler_version()

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """IR text of all stages."""
        text = compose(self.parts(problem, device, config))
        return Source(text, target_of(device), self.compiler())

    def compile(self, source: Source) -> Blob:
        """Object code."""
        return compile_source(source)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """Of all stages."""
        return slots_of(self.parts(problem, device, config))
