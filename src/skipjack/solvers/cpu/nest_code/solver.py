"""A loop nest under a schedule, as a stage of a kernel and as a solver for every operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skipjack.core import Config, Device, Nest, NestOperation, Problem
from skipjack.native import ITEM_BYTES, parallel_slot, registers_of, workspace_slot
from skipjack.operations import get
from skipjack.solvers.cpu.ir import IRStage, LlvmSolver
from skipjack.solvers.cpu.nest import Schedule, ScheduleSpace, has_partials, is_parallel
from skipjack.solvers.cpu.nest_code.kernel import generate, partial_bytes
from skipjack.solvers.solver import Slot, Source

# A loop nest under a schedule as one stage of a kernel.


def nest_slots(
    nest: Nest, schedule: Schedule, dtype: str, threads: int, arrays: Mapping[str, Slot]
) -> tuple[Slot, ...]:
    """Pointers, the pool if threads share loops out, and a workspace for partial results."""
    accesses = (*nest.inputs, nest.output)
    slots: list[Slot] = [arrays.get(each.tensor.name, each.tensor.name) for each in accesses]
    if is_parallel(schedule):
        slots += [parallel_slot(threads), threads]
    if has_partials(schedule, nest):
        slots.append(workspace_slot(threads * partial_bytes(nest, dtype)))
    return tuple(slots)


def nest_stage(
    nest: Nest,
    schedule: Schedule,
    dtype: str,
    device: Device,
    arrays: Mapping[str, Slot],
    *,
    accumulate: bool = False,
) -> IRStage:
    """A nest as a stage; `arrays` names the slots of tensors whose slot is not their own name.

    With `accumulate` the result is added to the values in the output.
    """
    lanes = device.vector_bytes // ITEM_BYTES[dtype]
    return IRStage(
        lambda: generate(nest, schedule, dtype, lanes, accumulate=accumulate),
        nest_slots(nest, schedule, dtype, device.units, arrays),
    )


# The solver for every operation that is one loop nest: code for one shape, from a schedule.


class NestSolver(LlvmSolver):
    """Generates code for one shape: sizes are constants, so tails and addresses cost nothing."""

    name = "nest"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Accepts operations that are one loop nest, on CPUs."""
        if device.kind != "cpu":
            return f"it builds for CPUs, not for {device.name}"
        one = isinstance(get(problem.operation), NestOperation)
        return "" if one else f"{problem.operation} is not a single loop nest"

    def space(self, problem: Problem, device: Device) -> ScheduleSpace:
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
        lanes = device.vector_bytes // ITEM_BYTES[problem.dtype]
        schedule = Schedule.parse(str(config["schedule"]))
        text = generate(_nest(problem), schedule, problem.dtype, lanes)
        return self.source(text, device)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """Pointers, the pool if threads share loops out, and a workspace for partial results."""
        schedule = Schedule.parse(str(config["schedule"]))
        return nest_slots(_nest(problem), schedule, problem.dtype, device.units, {})


def _nest(problem: Problem) -> Nest:
    operation = get(problem.operation)
    assert isinstance(operation, NestOperation), "refused before"
    return operation.nest(problem)
