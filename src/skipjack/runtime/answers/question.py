"""What is asked for, and what an answer is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from skipjack.bank import BankLayer, layers_of
from skipjack.core.config import Value
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.protocol import deployment_of
from skipjack.runtime.kernel_code import Again, KernelCode, answered_again, callable_of
from skipjack.settings import Settings

if TYPE_CHECKING:
    from skipjack.runtime.bank_lookup import Found


@dataclass(frozen=True, slots=True)
class Question:
    """A problem on a device of this machine."""

    problem: Problem
    device: Device
    settings: Settings
    directory: str | None = None
    """The user directory, if it was named rather than found: pickles of the answer name it, too."""
    patience_s: float | None = None
    """How long a kernel may take to be built and verified before a library answers; None waits."""
    library_alone: str = ""
    """Why nothing but a library may answer; empty if anything may."""
    banks_only: bool = False
    """Whether nobody else is asked where no bank knows it."""
    asked_at: float = field(default_factory=monotonic, compare=False)
    """What the budget of a search counts from."""
    protocol: str | None = None
    """The deployment that is asked about, as ``eager/hot``; None is the device's default."""

    @property
    def deployed(self) -> str:
        """The deployment that is asked about, by its name."""
        return deployment_of(self.protocol or "", self.device.class_key)

    @property
    def layers(self) -> tuple[BankLayer, ...]:
        """The banks in force, in order."""
        return layers_of(self.settings.user_dir, self.settings.banks, self.settings.system_dir)

    @property
    def again(self) -> Again:
        """How an answer is found again where its pickle is loaded."""
        return answered_again(self.problem, self.device.name, self.directory, self.protocol)


@dataclass(frozen=True, slots=True)
class LookupAnswer:
    """A kernel, and who gave it."""

    kernel: Found
    source: str
    config: Mapping[str, Value] = field(default_factory=dict)
    """Of the solver that `kernel.solver` names; empty for a library."""
    is_banked: bool = False
    """Whether a bank knew it of this very problem and class of device."""
    remark: str = ""
    """What `skipjack bank why` says of it besides."""


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
    """The answer that machine code is."""
    from skipjack.gpu.opening import gpu_name

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
    """The answer that a library is; None if it cannot be called from Python."""
    from skipjack.runtime.library_kernel import library_kernel

    kernel = library_kernel(name, question.problem, question.device, again or question.again)
    if kernel is None:
        return None
    kernel.source = source
    return LookupAnswer(kernel, source, {}, is_banked)
