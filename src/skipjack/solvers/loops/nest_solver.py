"""Whole loop nests, generated for one shape from a schedule: the solver for every operation."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.nest import Nest
from skipjack.core.operation import NestOperation
from skipjack.core.problem import Problem
from skipjack.native.cpu import registers_of
from skipjack.native.ir import ITEM_BYTES
from skipjack.operations import get
from skipjack.solvers.cpu.nest import Schedule, ScheduleSpace
from skipjack.solvers.loops.codegen import generate
from skipjack.solvers.loops.compiling import LlvmSolver
from skipjack.solvers.loops.nest_stage import nest_slots
from skipjack.solvers.solver import Slot, Source


class NestSolver(LlvmSolver):
    """Sizes are constants in the code, so tails cost nothing and addresses are displacements."""

    name = "nest"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """CPUs only, and what is one nest."""
        if device.kind != "cpu":
            return f"it builds for CPUs, not for {device.name}"
        one = isinstance(get(problem.operation), NestOperation)
        return "" if one else f"{problem.operation} is not a single loop nest"

    def space(self, problem: Problem, device: Device) -> ScheduleSpace:
        """All schedules of the operation's nest."""
        lanes = device.vector_bytes // ITEM_BYTES[problem.dtype]
        last = max((size for _, size in device.caches), default=0)
        return ScheduleSpace(
            _nest(problem),
            lanes,
            registers_of(device),
            threads=device.units,
            cache_elements=last // ITEM_BYTES[problem.dtype],
        )

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """IR text of the nest under its schedule."""
        lanes = device.vector_bytes // ITEM_BYTES[problem.dtype]
        schedule = Schedule.parse(str(config["schedule"]))
        text = generate(_nest(problem), schedule, problem.dtype, lanes)
        return self.source(text, device)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """Pointers, the pool where threads share loops out, and room for their partial results."""
        schedule = Schedule.parse(str(config["schedule"]))
        return nest_slots(_nest(problem), schedule, problem.dtype, device.units, {})


def _nest(problem: Problem) -> Nest:
    operation = get(problem.operation)
    assert isinstance(operation, NestOperation), "refused before"
    return operation.nest(problem)
