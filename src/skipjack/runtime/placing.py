"""Which device of this machine a tuning is for."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.devices import device_for
from skipjack.errors import UsageError
from skipjack.gpu.opening import find_gpus
from skipjack.solvers import for_gpus_alone, refusal_of_all


class NoGpuError(UsageError):
    """A problem that is for GPUs alone, where there is none or another device was named."""


def place(
    problems: Sequence[Problem], text: str | None = None, threads: int | None = None
) -> Device:
    """The device that is named, or else the CPU; problems that are for GPUs alone go to the first.

    `NoGpuError` if there is none for them.
    """
    device = device_for({problem.dtype for problem in problems}, text, threads)
    stranded = next((one for one in problems if for_gpus_alone(one, device)), None)
    if stranded is None:
        return device
    gpus = [gpu for _, _, gpu in find_gpus()]
    if gpus and text is None and threads is None:
        return gpus[0]
    where = f"{device.name} is a CPU" if gpus else "there is no GPU here"
    raise NoGpuError(f"{where}, and {refusal_of_all(stranded, device)}")
