"""What a tuning gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.core.trial import Trial
from skipjack.errors import SkipjackError, UsageError
from skipjack.execute.statistics import Ratio
from skipjack.gpu.artifact import ABI as GPU_ABI

if TYPE_CHECKING:
    from skipjack.tuning.gpu_kernel import GpuKernel
    from skipjack.tuning.kernel import TunedKernel

FORMAT = 1


class Outcome(StrEnum):
    """How a tuning ended."""

    BANKED = "banked"  # confirmed faster than what was used before; entered the bank
    KEPT = "kept"  # the bank's entry was tried again and nothing beat it
    RESERVED = "reserved"  # the gain is within the noise; the default is what to use
    VENDOR = "vendor"  # a vendor's library is faster; the bank says so
    NOISY = "noisy"  # too much else ran to compare; nothing was banked, what was banked stays
    FAILED = "failed"  # nothing ran


@dataclass(frozen=True, slots=True)
class Speedup:
    """How many times faster the winner is than the default and than each vendor's library."""

    default: Ratio
    vendors: Mapping[str, Ratio] = field(default_factory=dict)
    """NumPy first, where it takes part."""

    @property
    def vendor_name(self) -> str:
        """The library that tables compare with: NumPy, or the first one where it has no such."""
        return next(iter(self.vendors), "")

    @property
    def vendor(self) -> Ratio | None:
        """Over that library."""
        return self.vendors.get(self.vendor_name)


@dataclass(frozen=True, slots=True)
class SolverScore:
    """How one of the solvers that raced did."""

    solver: str
    trials: int
    time_ns: float | None
    """Of its best config during the search; None if nothing ran."""


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


@dataclass(frozen=True, slots=True)
class TuneResult:
    """The winner of a study, with its evidence."""

    problem: Problem
    device: str
    solver: str
    status: Outcome
    best: Config
    trials: list[Trial] = field(repr=False)
    speedup: Speedup
    time_ns: float
    spread: float
    default_ns: float
    vendor_ns: float | None
    vendor_times_ns: Mapping[str, float]
    builds: int
    runs: int
    seconds: float
    overhead: float
    """Share of the seconds in which nothing was built and nothing ran."""
    flops: int
    bytes_moved: int
    peak_share: float | None
    """Of the arithmetic peak for cube operations, of the bandwidth for vector operations."""
    operation_class: str
    ties: tuple[Config, ...] = ()
    """Other configs of its solver that could not be told from the winner."""
    reason: str = ""
    interrupted: bool = False
    code: KernelCode | None = None
    solvers: tuple[SolverScore, ...] = ()
    """All that raced."""

    @property
    def vendor(self) -> str:
        """The library whose time `vendor_ns` is; empty if there was none to compare with."""
        return self.speedup.vendor_name

    def kernel(self) -> TunedKernel | GpuKernel:
        """The winner as a function: of NumPy arrays, or of tensors on the GPU it was tuned on."""
        if self.code is None:
            raise SkipjackError(f"{self.problem.key} has no tuned kernel: {self.reason}")
        again = banked_again(self.problem, self.device)
        return callable_of(self.problem, self.code, self.device, again)

    @property
    def rate(self) -> tuple[float, str]:
        """GFLOP/s for cube operations, GB/s for vector operations."""
        if self.operation_class == "cube":
            return self.flops / self.time_ns, "GFLOP/s"
        return self.bytes_moved / self.time_ns, "GB/s"

    def to_json(self) -> dict[str, Any]:
        """One flat record for machines."""
        rate, unit = self.rate if self.status is not Outcome.FAILED else (0.0, "")
        return {
            "format": FORMAT,
            "problem": self.problem.key,
            "device": self.device,
            "solver": self.solver,
            "config": dict(self.best),
            "time_ns": rounded(self.time_ns),
            "spread": rounded(self.spread, 5),
            "default_ns": rounded(self.default_ns),
            "vendor": self.vendor,
            "vendor_ns": rounded(self.vendor_ns),
            "vendors_ns": {name: rounded(ns) for name, ns in self.vendor_times_ns.items()},
            "speedup": rounded(self.speedup.default.ratio, 4),
            "speedups": {
                "default": self.speedup.default.to_json(),
                **{name: ratio.to_json() for name, ratio in self.speedup.vendors.items()},
            },
            "status": str(self.status),
            "rate": rounded(rate),
            "rate_unit": unit,
            "peak_share": rounded(self.peak_share, 4),
            "trials": len(self.trials),
            "failed": sum(trial.status.failed for trial in self.trials),
            "builds": self.builds,
            "runs": self.runs,
            "seconds": rounded(self.seconds),
            "overhead": rounded(self.overhead, 4),
            "solvers": [
                {
                    "solver": score.solver,
                    "trials": score.trials,
                    "time_ns": rounded(score.time_ns),
                }
                for score in self.solvers
            ],
            "ties": [dict(config) for config in self.ties],
            "interrupted": self.interrupted,
            "reason": self.reason,
        }


Again = tuple[Callable[..., Any], tuple[Any, ...]]
"""How a kernel that was pickled is found again: a function and its arguments."""


def banked_again(problem: Problem, device: str, user_dir: str | None = None) -> Again:
    """By looking it up in a bank, that of the settings there if none is named."""
    from skipjack.tuning.lookup import look_up_again

    return look_up_again, (problem.key, device, user_dir)


def pickled(problem: Problem, again: Again | None) -> Again:
    """What a pickle of a kernel holds; `UsageError` if nobody knows where it is found again."""
    if again is None:
        raise UsageError(f"a kernel of {problem.key} that no bank or file has cannot be pickled")
    return again


def callable_of(
    problem: Problem, code: KernelCode, device: str, again: Again | None = None
) -> TunedKernel | GpuKernel:
    """Machine code as a function on a device of this machine: ``sm_90/132``, or ``cuda:1``."""
    if code.abi == GPU_ABI:
        from skipjack.tuning.gpu_kernel import GpuKernel

        return GpuKernel(problem, code, device, again)
    from skipjack.tuning.kernel import TunedKernel

    return TunedKernel(problem, code, again)


def rounded(value: float | None, digits: int = 3) -> float | None:
    """For JSON, which has no NaN: None for what is no number."""
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return None
    return round(value, digits)
