"""Kernels of ours as plans of calls, which native stubs follow without Python."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skipjack.core import Problem
from skipjack.execute.gpu import LoadedKernel, hidden_scratch, packed
from skipjack.gpu import (
    CudaGpu,
    Descriptor,
    Fill,
    Launch,
    Number,
    Pointer,
    Scratch,
    TensorMap,
    launch_config,
)
from skipjack.integrations.torch.matching import CallMatch, KernelPart, StubStep
from skipjack.integrations.torch.stubs import (
    ARENA,
    FILL,
    LAUNCH,
    MOST_ARGUMENTS,
    MOST_DESCRIPTORS,
    NativePlan,
    PlanPlace,
    PlanStep,
)
from skipjack.runtime.local_kernels import GpuKernel, TunedKernel

# Scratch memory for the kernels of a plan.

_PAGE = 4096
"""Scratch memory starts at a page boundary, as for other calls of kernels."""


class Arena:
    """The scratch memory of a plan; its kernels run one after another, so they share it."""

    def __init__(self) -> None:
        self.bytes = 0
        self._next = 0
        self._named: dict[str, int] = {}

    def begin(self) -> None:
        """Start the next kernel."""
        self._next, self._named = 0, {}

    def place(self, name: str, size: int, *, shared: bool) -> PlanPlace:
        """A place of this size; if shared, the kernel's earlier place of the same name."""
        if shared and name in self._named:
            return PlanPlace(ARENA, 0, self._named[name])
        offset = self._next
        self._named[name] = offset
        self._next += -(-size // _PAGE) * _PAGE
        self.bytes = max(self.bytes, self._next)
        return PlanPlace(ARENA, 0, offset)


# Plans of CPU kernels: which slots are which tensors, and which scratch memory is used.


def make_cpu_plan(
    match: CallMatch, kernels: Mapping[Problem, TunedKernel], functions: Mapping[str, int]
) -> NativePlan | None:
    """The plan of a way to compute a call; None if it exceeds the limits of stubs.

    `functions` has addresses of the stubs' functions: ``parallel`` uses PyTorch's threads.
    """
    arena = Arena()
    places: dict[PlanPlace, int] = {}
    steps = []
    for part in match.parts:
        arena.begin()
        steps.append(_step(part, kernels[part.problem], functions["parallel"], arena, places))
    steps += [_stub_step(one, functions, places) for one in match.after]
    plan = NativePlan(
        match.outputs,
        tuple(places),
        tuple(steps),
        arena.bytes,
        match.left_to_torch,
        keep=tuple(kernels.values()),
    )
    return plan if plan.fits else None


def _step(
    part: KernelPart,
    kernel: TunedKernel,
    parallel: int,
    arena: Arena,
    places: dict[PlanPlace, int],
) -> PlanStep:
    values, binds = [], []
    for at, slot in enumerate(kernel.slots):
        if isinstance(slot, int):
            values.append(slot)
            continue
        values.append(parallel if slot.startswith("@parallel:") else 0)
        if slot.startswith("@parallel:"):
            continue
        place = _borrowed(slot, arena) if slot.startswith("@") else part.arrays[slot]
        binds.append((at, places.setdefault(place, len(places))))
    return PlanStep(kernel.address, tuple(values), tuple(binds))


def _borrowed(slot: str, arena: Arena) -> PlanPlace:
    name, _, size = slot.rpartition(":")
    return arena.place(name, int(size), shared=name.startswith("@scratch:"))


def _stub_step(
    step: StubStep, functions: Mapping[str, int], places: dict[PlanPlace, int]
) -> PlanStep:
    values = tuple(slot if isinstance(slot, int) else 0 for slot in step.slots)
    binds = tuple(
        (at, places.setdefault(slot, len(places)))
        for at, slot in enumerate(step.slots)
        if isinstance(slot, PlanPlace)
    )
    return PlanStep(functions[step.function], values, binds)


# Plans of GPU kernels: launches that native stubs make without Python.

CUDA = 1
"""PyTorch's number of this device type."""
_DESCRIPTOR_ALIGNMENT = 16


def make_gpu_plan(
    match: CallMatch,
    kernels: Mapping[Problem, GpuKernel],
    functions: Mapping[str, int],
    index: int,
) -> NativePlan | None:
    """The plan of a way to compute a call on a GPU; None if it exceeds the limits of stubs."""
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
    """A plan under construction."""

    functions: Mapping[str, int]
    index: int
    steps: list[PlanStep] = field(default_factory=list)
    places: dict[PlanPlace, int] = field(default_factory=dict)
    keep: list[Any] = field(default_factory=list)
    arena: Arena = field(default_factory=Arena)
    fits: bool = True
    _arrays: Mapping[str, PlanPlace] = field(default_factory=dict)

    def add(self, part: KernelPart, loaded: LoadedKernel) -> None:
        """Add all steps of a kernel."""
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
        """The checked and packed arguments of a launch, with places instead of addresses."""
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
        """The address of a descriptor's record for the stubs."""
        longs = [(ctypes.c_uint64 * wanted.rank)(*one) for one in (wanted.sizes, wanted.steps)]
        boxes = [(ctypes.c_uint32 * wanted.rank)(*one) for one in (wanted.box, [1] * wanted.rank)]
        arrays = [*map(ctypes.addressof, longs), *map(ctypes.addressof, boxes)]
        record = (ctypes.c_int64 * 7)(wanted.element, wanted.rank, *arrays, wanted.swizzle)
        self.keep += [*longs, *boxes, record]
        return ctypes.addressof(record)
