"""Whole loop nests, generated for one shape from a schedule: the solver for every operation."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.native import llvm
from skipjack.native.cpu import registers_of, target_of
from skipjack.native.ir import ITEM_BYTES
from skipjack.operations import get, tensors
from skipjack.solvers.loops.codegen import generate
from skipjack.solvers.loops.schedule import Schedule
from skipjack.solvers.loops.schedule_space import ScheduleSpace
from skipjack.solvers.solver import Blob, Slot, Source


class NestSolver:
    """Sizes are constants in the code, so tails cost nothing and addresses are displacements."""

    name = "nest"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """CPUs only."""
        return "" if device.kind == "cpu" else f"it builds for CPUs, not for {device.name}"

    def space(self, problem: Problem, device: Device) -> ScheduleSpace:
        """All schedules of the operation's nest."""
        lanes = device.vector_bytes // ITEM_BYTES[problem.dtype]
        return ScheduleSpace(get(problem.operation).nest(problem), lanes, registers_of(device))

    def compiler(self) -> str:
        """LLVM."""
        return llvm.compiler_version()

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """IR text of the nest under its schedule."""
        lanes = device.vector_bytes // ITEM_BYTES[problem.dtype]
        schedule = Schedule.parse(str(config["schedule"]))
        nest = get(problem.operation).nest(problem)
        text = generate(nest, schedule, problem.dtype, lanes)
        return Source(text, target_of(device), self.compiler())

    def compile(self, source: Source) -> Blob:
        """Object code."""
        return compile_source(source)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """Pointers alone."""
        return [tensor.name for tensor in tensors(problem)]


def compile_source(source: Source) -> Blob:
    """Object code of LLVM IR text."""
    data = llvm.compile_object(source.text, source.target)
    return Blob(data, source.symbol, resources={"object_bytes": float(len(data))})
