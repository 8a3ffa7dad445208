"""Which spaces a policy plays, and the game on one."""

from __future__ import annotations

from skipjack.core.device import Device
from skipjack.core.dtypes import DTYPES
from skipjack.core.space import Space
from skipjack.learn.loops import MAX_LOOPS, LoopGame, MachineFacts, Preset
from skipjack.solvers.cpu.nest import ScheduleSpace


def refusal(space: Space, device: Device) -> str:
    """Why a policy does not play a space; empty if it does."""
    if device.kind != "cpu":
        return f"it schedules loops for CPUs, not for {device.name}"
    if not isinstance(space, ScheduleSpace):
        return "its configs are not schedules of loops, which alone the policy plays"
    count = sum(extent > 1 for _, extent in space.nest.loops)
    if count > MAX_LOOPS:
        return f"its nest has {count} loops, at most {MAX_LOOPS} are played"
    return ""


def game_on(
    space: ScheduleSpace, dtype: str, device: Device, preset: Preset = Preset.FULL
) -> LoopGame:
    """The game whose states are the schedules of the space."""
    caches = tuple(size for _, size in device.caches)
    return LoopGame(
        space.nest,
        space.limits,
        preset=preset,
        threads=space.threads,
        streaming=space.streaming,
        machine=MachineFacts(space.threads, caches, DTYPES[dtype].bytes),
    )
