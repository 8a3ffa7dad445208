"""A loop nest under a schedule as one stage of a kernel."""

from __future__ import annotations

from collections.abc import Mapping

from skipjack.core.device import Device
from skipjack.core.nest import Nest
from skipjack.native.ir import ITEM_BYTES
from skipjack.native.slots import parallel_slot, workspace_slot
from skipjack.solvers.cpu.nest import Schedule, has_partials, is_parallel
from skipjack.solvers.loops.codegen import generate
from skipjack.solvers.loops.partial_results import partial_bytes
from skipjack.solvers.loops.stages import Stage
from skipjack.solvers.solver import Slot


def nest_slots(
    nest: Nest, schedule: Schedule, dtype: str, threads: int, arrays: Mapping[str, Slot]
) -> tuple[Slot, ...]:
    """Pointers, the pool where threads share loops out, and room for their partial results."""
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
) -> Stage:
    """The stage; `arrays` says which slots hold the nest's tensors, where that is not their name.

    One that accumulates adds to what the output holds.
    """
    lanes = device.vector_bytes // ITEM_BYTES[dtype]
    return Stage(
        lambda: generate(nest, schedule, dtype, lanes, accumulate=accumulate),
        nest_slots(nest, schedule, dtype, device.units, arrays),
    )
