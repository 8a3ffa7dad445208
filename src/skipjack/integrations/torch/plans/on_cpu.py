"""Kernels of ours as the plan of a call: which slots are which tensors, and what is borrowed."""

from __future__ import annotations

from collections.abc import Mapping

from skipjack.core.problem import Problem
from skipjack.integrations.torch.calls import CallMatch, KernelPart, StubStep
from skipjack.integrations.torch.plans.arena import Arena
from skipjack.integrations.torch.table import NativePlan, PlanPlace, PlanStep
from skipjack.runtime import TunedKernel


def make_cpu_plan(
    match: CallMatch, kernels: Mapping[Problem, TunedKernel], functions: Mapping[str, int]
) -> NativePlan | None:
    """The plan of a way to compute a call; None if stubs have no room for it.

    `functions` are addresses of those of the stubs: ``parallel`` runs tasks on PyTorch's threads.
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
