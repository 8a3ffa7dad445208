"""What solvers of several stages have in common: from parts to source, machine code and slots."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.solvers.loops.compiling import LlvmSolver
from skipjack.solvers.loops.stages import Part, compose, slots_of
from skipjack.solvers.solver import Slot, Source


class StagedSolver(LlvmSolver):
    """A `BuildingSolver` whose kernels are made of `parts`; the rest is up to the subclass."""

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        """The stages in order."""
        raise NotImplementedError

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """IR text of all stages."""
        text = compose(self.parts(problem, device, config))
        return self.source(text, device)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """Of all stages."""
        return slots_of(self.parts(problem, device, config))
