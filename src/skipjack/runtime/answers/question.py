"""The question of a lookup, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from skipjack.bank import BankLayer, layers_of
from skipjack.core import Device, Problem, Value, deployment_of
from skipjack.runtime.local_kernels import Again, KernelCode, answered_again, callable_of
from skipjack.settings import Settings

if TYPE_CHECKING:
    from skipjack.runtime.local_kernels import (
        CpuLibraryKernel,
        GpuKernel,
        GpuLibraryKernel,
        TunedKernel,
    )

    Found = TunedKernel | GpuKernel | CpuLibraryKernel | GpuLibraryKernel


@dataclass(frozen=True, slots=True)
class Question:
    """A problem on a device of this machine."""

    problem: Problem
    device: Device
    settings: Settings
    directory: str | None = None
    """The user directory, if the caller named it: pickles of the answer name it, too."""
    patience_s: float | None = None
    """How long a kernel may take to be built and verified before a library answers; None: wait."""
    library_alone: str = ""
    """Why only a library may answer; empty if any step may."""
    banks_only: bool = False
    """Whether only banks may answer."""
    asked_at: float = field(default_factory=monotonic, compare=False)
    """The start of the time budget of a search."""
    protocol: str | None = None
    """The requested deployment, as ``eager/hot``; None is the device's default."""

    @property
    def deployed(self) -> str:
        """The name of the requested deployment."""
        return deployment_of(self.protocol or "", self.device.class_key)

    @property
    def layers(self) -> tuple[BankLayer, ...]:
        """The banks in force, in order."""
        return layers_of(self.settings.user_dir, self.settings.banks, self.settings.system_dir)

    @property
    def again(self) -> Again:
        """How the answer is found again when its pickle is loaded."""
        return answered_again(self.problem, self.device.name, self.directory, self.protocol)


@dataclass(frozen=True, slots=True)
class LookupAnswer:
    """A kernel, and the step that found it."""

    kernel: Found
    source: str
    config: Mapping[str, Value] = field(default_factory=dict)
    """The config of the solver `kernel.solver`; empty for a library."""
    is_banked: bool = False
    """Whether a bank has it for exactly this problem and device class."""
    remark: str = ""
    """What else `skipjack bank why` says about it."""


def answer_of(
    question: Question,
    code: KernelCode,
    source: str,
    solver: str,
    config: Mapping[str, Value],
    again: Again | None = None,
    *,
    is_banked: bool = False,
) -> LookupAnswer:
    """Machine code as an answer."""
    from skipjack.gpu import gpu_name

    device = question.device
    where = device.name if device.kind == "cpu" else gpu_name(device)
    kernel = callable_of(question.problem, code, where, again or question.again, solver)
    kernel.source = source
    return LookupAnswer(kernel, source, dict(config), is_banked)


def library_answer(
    question: Question,
    name: str,
    source: str,
    again: Again | None = None,
    *,
    is_banked: bool = False,
) -> LookupAnswer | None:
    """A library as an answer; None if it cannot be called from Python."""
    from skipjack.runtime.local_kernels import library_kernel

    kernel = library_kernel(name, question.problem, question.device, again or question.again)
    if kernel is None:
        return None
    kernel.source = source
    return LookupAnswer(kernel, source, {}, is_banked)
