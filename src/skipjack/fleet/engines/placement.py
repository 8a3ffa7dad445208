"""Which cores and GPUs of this machine its evaluators time on."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.errors import UsageError
from skipjack.fleet.engine import Host, Slot
from skipjack.fleet.states import Stage
from skipjack.gpu.opening import find_gpus
from skipjack.native import cpu
from skipjack.settings import Settings
from skipjack.tuning.context import timing_cores


def evaluator_cores(settings: Settings, evaluators: int) -> list[tuple[int, ...]]:
    """Disjoint sets of cores of the same size; cores that are left over serve nobody."""
    usable = len(cpu.usable_cores())
    if evaluators > usable:
        raise UsageError(
            f"{evaluators} evaluators need {evaluators} cores, this process may use {usable}; "
            "start fewer"
        )
    if not evaluators:
        return []
    size = usable // evaluators
    cores = timing_cores(settings, size * evaluators)
    return [tuple(cores[at : at + size]) for at in range(0, len(cores), size)]


def builder_slots(host: Host, builders: int) -> list[Slot]:
    """They build for all devices and run wherever there is room."""
    return [Slot(f"build-{at + 1}", Stage.BUILD, host.name) for at in range(builders)]


def evaluator_slots(host: Host, cores: Sequence[tuple[int, ...]]) -> list[Slot]:
    """One for each set of cores; it measures with as many threads as it has cores, or fewer."""
    return [
        Slot(
            f"evaluate-{at + 1}",
            Stage.EVALUATE,
            host.name,
            tuple(
                device
                for device in host.devices
                if device.kind == "cpu" and device.units <= len(mine)
            ),
            f"cpu{mine[0]}",
        )
        for at, mine in enumerate(cores)
    ]


def gpu_slots(host: Host) -> list[Slot]:
    """One for each GPU; they take no cores from those that time on cores."""
    return [
        Slot(
            f"evaluate-{driver.name}-{index}",
            Stage.EVALUATE,
            host.name,
            (device,),
            f"{driver.name}:{index}",
        )
        for driver, index, device in find_gpus()
    ]
