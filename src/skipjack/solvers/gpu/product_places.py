"""Matrix products inside of other operations: the product's steps, on other memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from skipjack.core.device import Device
from skipjack.gpu.architectures import KNOWN
from skipjack.gpu.plan import Descriptor, Fill, Pointer, Scratch, Step, Value
from skipjack.solvers.gpu.matmul_addresses import AddressMatmul
from skipjack.solvers.gpu.matmul_descriptors import DescriptorMatmul
from skipjack.solvers.gpu.triton_solver import TritonSolver


def multiplying(dtype: str, device: Device) -> TritonSolver:
    """The solver for products that is first choice."""
    if KNOWN[device.arch].tma and dtype in DescriptorMatmul.dtypes:
        return DescriptorMatmul()
    return AddressMatmul()


def placed(steps: Sequence[Step], places: Mapping[str, Pointer | Scratch]) -> list[Step]:
    """Steps of a product whose tensors lie where `places` says."""

    def moved(value: Value) -> Value:
        if isinstance(value, Pointer):
            return places[value.tensor]
        if isinstance(value, Descriptor) and isinstance(value.of, Pointer):
            return replace(value, of=places[value.of.tensor])
        return value

    def moved_step(step: Step) -> Step:
        if isinstance(step, Fill):
            where = places[step.where.tensor] if isinstance(step.where, Pointer) else step.where
            return replace(step, where=where)
        return replace(step, values=tuple(map(moved, step.values)))

    return list(map(moved_step, steps))
