"""Kernels on a GPU as the plan of a call: launches that the native stubs make without Python."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skipjack.core.problem import Problem
from skipjack.execute.gpu import LoadedKernel, hidden_scratch, packed
from skipjack.gpu.cuda import CudaGpu, TensorMap, launch_config
from skipjack.gpu.plan import Descriptor, Fill, Launch, Number, Pointer, Scratch
from skipjack.integrations.torch.calls import CallMatch, KernelPart
from skipjack.integrations.torch.plans.arena import Arena
from skipjack.integrations.torch.stubs import FILL, LAUNCH, MOST_ARGUMENTS, MOST_DESCRIPTORS
from skipjack.integrations.torch.table import NativePlan, PlanPlace, PlanStep
from skipjack.runtime import GpuKernel

CUDA = 1
"""PyTorch's number of the type of device."""
_DESCRIPTOR_ALIGNMENT = 16


def make_gpu_plan(
    match: CallMatch,
    kernels: Mapping[Problem, GpuKernel],
    functions: Mapping[str, int],
    index: int,
) -> NativePlan | None:
    """The plan of a way to compute a call on the GPU of this number; None if there is no room."""
    if match.after:
        return None
    made = _Made(functions, index)
    for part in match.parts:
        made.add(part, kernels[part.problem].loaded(index))
    outputs = [replace(one, device_type=CUDA, device_index=index) for one in match.outputs]
    plan = NativePlan(
        tuple(outputs),
        tuple(made.places),
        tuple(made.steps),
        made.arena.bytes,
        match.left_to_torch,
        CUDA << 8 | index,
        (*kernels.values(), *made.keep),
    )
    return plan if plan.fits and made.fits else None


@dataclass(slots=True)
class _Value:
    """An argument of a launch: a number, an address, or a descriptor of what is there."""

    number: int = 0
    place: PlanPlace | None = None
    divisible: int = 1
    record: int = 0


@dataclass(slots=True)
class _Made:
    """A plan in the making."""

    functions: Mapping[str, int]
    index: int
    steps: list[PlanStep] = field(default_factory=list)
    places: dict[PlanPlace, int] = field(default_factory=dict)
    keep: list[Any] = field(default_factory=list)
    arena: Arena = field(default_factory=Arena)
    fits: bool = True
    _arrays: Mapping[str, PlanPlace] = field(default_factory=dict)

    def add(self, part: KernelPart, loaded: LoadedKernel) -> None:
        """All steps of a kernel."""
        self.arena.begin()
        self._arrays = part.arrays
        gpu = loaded.gpu
        assert isinstance(gpu, CudaGpu)
        for step in loaded.steps:
            if isinstance(step, Fill):
                self._fill(step, gpu)
            else:
                self._launch(step, loaded, gpu)

    def _fill(self, step: Fill, gpu: CudaGpu) -> None:
        values = (0, 0, step.byte, step.size, self.index, gpu.context)
        place = self.places.setdefault(self._place(step.where), len(self.places))
        self.steps.append(PlanStep(self.functions[FILL], values, ((1, place),)))

    def _launch(self, step: Launch, loaded: LoadedKernel, gpu: CudaGpu) -> None:
        function, shape, abi = loaded.launched(step)
        config = launch_config(shape, 0)
        self.keep.append(config)
        given = list(self._values(step, loaded))
        given += [
            _Value(place=self._place(memory)) if memory.size else _Value()
            for memory in hidden_scratch(step, abi)
        ]
        descriptors = sum(1 for one in given if one.record)
        self.fits &= len(given) <= MOST_ARGUMENTS and descriptors <= MOST_DESCRIPTORS
        values = [0, ctypes.addressof(config), function, self.index, gpu.context, len(given)]
        binds = []
        for one in given:
            values += [one.record, one.divisible - 1, one.number]
            if one.place is not None:
                binds.append((len(values) - 1, self.places.setdefault(one.place, len(self.places))))
        self.steps.append(PlanStep(self.functions[LAUNCH], tuple(values), tuple(binds)))

    def _values(self, step: Launch, loaded: LoadedKernel) -> Iterator[_Value]:
        """Checked and packed as for any launch; places stand where addresses will be."""
        places: list[PlanPlace] = []
        records: list[int] = []

        def address(of: Pointer | Scratch) -> int:
            places.append(self._place(of))
            return 0

        def tensor_map(
            _: int, sizes: Sequence[int], strides: Sequence[int], meta: dict[str, Any]
        ) -> bytes:
            records.append(self._record(TensorMap.of(sizes, strides, meta)))
            return b""

        abi = loaded.launched(step)[2]
        divisible = [
            max(argument.divisible, _DESCRIPTOR_ALIGNMENT if isinstance(value, Descriptor) else 1)
            for value, argument in zip(step.values, abi.arguments, strict=True)
            if not isinstance(value, Number)
        ]
        for value in packed(step, abi, address, tensor_map):
            if places:
                record = records.pop() if records else 0
                yield _Value(0, places.pop(), divisible.pop(0), record)
            else:
                yield _Value(int.from_bytes(value, "little"))

    def _place(self, of: Pointer | Scratch) -> PlanPlace:
        if isinstance(of, Scratch):
            return self.arena.place(of.name, of.size, shared=True)
        found = self._arrays[of.tensor]
        return replace(found, offset=found.offset + of.offset)

    def _record(self, wanted: TensorMap) -> int:
        """A descriptor as the stubs read it."""
        longs = [(ctypes.c_uint64 * wanted.rank)(*one) for one in (wanted.sizes, wanted.steps)]
        boxes = [(ctypes.c_uint32 * wanted.rank)(*one) for one in (wanted.box, [1] * wanted.rank)]
        arrays = [*map(ctypes.addressof, longs), *map(ctypes.addressof, boxes)]
        record = (ctypes.c_int64 * 7)(wanted.element, wanted.rank, *arrays, wanted.swizzle)
        self.keep += [*longs, *boxes, record]
        return ctypes.addressof(record)
