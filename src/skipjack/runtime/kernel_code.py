"""Machine code with its launch data, and how the kernel made of it is found again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skipjack import plugins
from skipjack.core.config import Value
from skipjack.core.problem import Problem
from skipjack.errors import UsageError

if TYPE_CHECKING:
    from skipjack.runtime.gpu_kernel import GpuKernel
    from skipjack.runtime.kernel import TunedKernel


@dataclass(frozen=True, slots=True)
class KernelCode:
    """What is needed to call the winner in a process."""

    data: bytes = field(repr=False)
    digest: str
    symbol: str
    abi: str
    slots: tuple[str | int, ...]

    def record(self) -> dict[str, Any]:
        """Everything but the machine code itself, which travels by its digest."""
        return {
            "digest": self.digest,
            "symbol": self.symbol,
            "abi": self.abi,
            "slots": list(self.slots),
        }


Again = tuple[Callable[..., Any], tuple[Any, ...]]
"""How a kernel that was pickled is found again: a function and its arguments."""


def banked_again(
    problem: Problem, device: str, user_dir: str | None = None, protocol: str | None = None
) -> Again:
    """By looking it up in a bank, that of the settings there if none is named.

    The plug-ins that are loaded here are named, to tell who lacks one; nobody loads them by that.
    """
    from skipjack.runtime.bank_lookup import look_up_again

    return look_up_again, (problem.key, device, user_dir, *_how(protocol))


def answered_again(
    problem: Problem, device: str, user_dir: str | None = None, protocol: str | None = None
) -> Again:
    """By asking as the first time: there, another step of the lookup may have the answer."""
    from skipjack.runtime.bank_lookup import answer_again

    return answer_again, (problem.key, device, user_dir, *_how(protocol))


def named_again(
    problem: Problem,
    device: str,
    user_dir: str | None,
    protocol: str | None,
    solver: str,
    config: Mapping[str, Value] | None,
) -> Again:
    """By asking for the same solver and config."""
    from skipjack.runtime.bank_lookup import answer_again

    found = problem.key, device, user_dir, plugins.loaded(), protocol
    return answer_again, (*found, solver, dict(config) if config else None)


def _how(protocol: str | None) -> tuple[object, ...]:
    """The last arguments of what looks a kernel up again, left out where they are the defaults."""
    return (plugins.loaded(), protocol) if protocol else named_plugins()


def named_plugins() -> tuple[tuple[str, ...], ...]:
    """The last argument of what finds a kernel again: the plug-ins, left out if there are none."""
    names = plugins.loaded()
    return (names,) if names else ()


def lacking(pickled_with: tuple[str, ...]) -> str:
    """What to do about plug-ins that a pickle names and that are not loaded; empty if all are."""
    known = plugins.loaded()
    missing = [name for name in map(str, pickled_with) if name not in known]
    if not missing:
        return ""
    names = ", ".join(name if name.isprintable() else ascii(name) for name in missing)
    what = "plug-ins" if len(missing) > 1 else "plug-in"
    return (
        f"it was pickled with {what} {names}, not loaded here: if you trust that code, name it in "
        f"{plugins.VARIABLE}"
    )


def pickled(problem: Problem, again: Again | None) -> Again:
    """What a pickle of a kernel holds; `UsageError` if nobody knows where it is found again."""
    if again is None:
        raise UsageError(f"a kernel of {problem.key} that no bank or file has cannot be pickled")
    return again


def callable_of(
    problem: Problem, code: KernelCode, device: str, again: Again | None = None, solver: str = ""
) -> TunedKernel | GpuKernel:
    """Machine code as a function on a device of this machine: ``sm_90/132``, or ``cuda:1``."""
    from skipjack.gpu.artifact import ABI as GPU_ABI

    if code.abi == GPU_ABI:
        from skipjack.runtime.gpu_kernel import GpuKernel

        return GpuKernel(problem, code, device, again, solver)
    from skipjack.runtime.kernel import TunedKernel

    return TunedKernel(problem, code, again, solver)
