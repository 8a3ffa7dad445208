"""The result of a tuning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING, Any

from skipjack.core import Config, Problem, Trial
from skipjack.errors import SkipjackError
from skipjack.execute import Ratio
from skipjack.json_formats import FORMATS
from skipjack.ledger import decision_word
from skipjack.operations import bytes_moved, get
from skipjack.runtime.local_kernels import KernelCode, banked_again, callable_of, named_again

if TYPE_CHECKING:
    from skipjack.runtime.local_kernels import GpuKernel, TunedKernel


_REASONS = 5
"""Most reasons of failed configs that a result lists."""
DEFAULT = "default"
"""The name of the first proposal as a baseline."""


class TuneOutcome(StrEnum):
    """How a tuning ended. The value is stored; tables show its `word`."""

    BANKED = "banked"  # confirmed to be faster than what was used before; entered the bank
    KEPT = "kept"  # the bank's entry was timed again and nothing beat it
    RESERVED = "reserved"  # the gain is within the noise; use the default
    VENDOR = "vendor"  # a library is faster, which the bank records
    NOISY = "noisy"  # other programs disturbed the comparison; the bank was not changed
    FAILED = "failed"  # nothing ran

    @property
    def word(self) -> str:
        """The outcome as tables show it."""
        return decision_word(self)


@dataclass(frozen=True, slots=True)
class Speedup:
    """How many times faster the winner is than its alternatives."""

    default: Ratio
    """The gain over the first proposal, which would run without tuning."""
    vendors: Mapping[str, Ratio] = field(default_factory=dict)
    """The gain over each library; NumPy first, if it takes part."""
    untuned: Ratio | None = None
    """The gain over plain loops, if a solver of loop nests was asked for by name."""
    as_called: Ratio | None = None
    """The gain over a library that is called from Python, as the winner is then too."""

    @property
    def baseline_name(self) -> str:
        """What the main figure compares with: the fastest library, or the default without one."""
        known = {name: gain.ratio for name, gain in self.vendors.items() if isfinite(gain.ratio)}
        if known:
            return min(known, key=lambda name: known[name])
        return next(iter(self.vendors), DEFAULT)

    @property
    def baseline(self) -> Ratio:
        """The main figure: the gain over `baseline_name`."""
        return self.vendors.get(self.baseline_name, self.default)

    @property
    def vendor_name(self) -> str:
        """The library that is compared with first: NumPy, or another one if it cannot do it."""
        return next(iter(self.vendors), "")

    @property
    def vendor(self) -> Ratio | None:
        """The gain over the library `vendor_name`."""
        return self.vendors.get(self.vendor_name)

    def banked(self) -> dict[str, Any]:
        """The gains that the bank keeps: over the default and the first library."""
        gains = {DEFAULT: self.default, "vendor": self.vendor}
        return {name: gain.to_json() for name, gain in gains.items() if gain}

    def to_json(self) -> dict[str, Any]:
        """All gains by the name of what they are over."""
        gains = {DEFAULT: self.default, "untuned": self.untuned, **self.vendors}
        return {name: gain.to_json() for name, gain in gains.items() if gain}


@dataclass(frozen=True, slots=True)
class SolverScore:
    """The result of one solver in the search."""

    solver: str
    trials: int
    time_ns: float | None
    """The time of its best config during the search; None if nothing ran."""
    searcher: str = ""


@dataclass(frozen=True, slots=True)
class TuneResult:
    """The winner of a study, with its evidence."""

    problem: Problem
    device: str
    solver: str
    status: TuneOutcome
    best: Config
    trials: list[Trial] = field(repr=False)
    speedup: Speedup
    time_ns: float
    spread: float
    default_ns: float
    builds: int
    runs: int
    seconds: float
    overhead: float
    """The share of the time in which nothing was built and nothing ran."""
    vendor_times_ns: Mapping[str, float] = field(default_factory=dict)
    peak_share: float | None = None
    """The share of the arithmetic peak for cube operations, of the bandwidth for vector ones."""
    ties: tuple[Config, ...] = ()
    """Other configs of the solver whose times cannot be distinguished from the winner's."""
    reason: str = ""
    interrupted: bool = False
    code: KernelCode | None = None
    solvers: tuple[SolverScore, ...] = ()
    """The solvers that took part."""
    untuned_ns: float | None = None
    """The time of plain loops, if a solver of loop nests was asked for by name."""
    deployed: str = ""
    """The deployment that was timed, as ``native/hot``: see `skipjack.core.timing`."""
    device_class: str = ""
    """The class key of the device, which the bank's entry is for."""
    pinned: Mapping[str, str] = field(default_factory=dict)
    """The settings that all configs had to have, as texts."""

    def __repr__(self) -> str:
        where = f"{self.problem.key} on {self.device}: {self.status}"
        if self.status is TuneOutcome.FAILED:
            return f"<TuneResult {where}, {self.reason}>"
        gain = f"{self.speedup.baseline.ratio:.3g} times as fast as {self.baseline}"
        what = " ".join(part for part in (self.solver, str(self.best)) if part)
        return f"<TuneResult {where}, {what}, {nanoseconds(self.time_ns)}, {gain}>"

    @property
    def baseline(self) -> str:
        """What the main figure compares with: the name of the fastest library, or ``default``."""
        return self.speedup.baseline_name

    @property
    def baseline_ns(self) -> float:
        """The time of `baseline`."""
        return self.vendor_times_ns.get(self.baseline, self.default_ns)

    @property
    def failures(self) -> list[tuple[str, int]]:
        """Why configs failed, with the number of each reason, the most frequent first."""
        failed = (trial for trial in self.trials if trial.status.failed)
        return Counter(f"{trial.status}: {trial.reason}" for trial in failed).most_common()

    @property
    def failed_by_status(self) -> dict[str, int]:
        """The number of configs with each status of failure, the most frequent first."""
        failed = (str(trial.status) for trial in self.trials if trial.status.failed)
        return dict(Counter(failed).most_common())

    @property
    def vendor(self) -> str:
        """The library whose time `vendor_ns` is; empty if there was none to compare with."""
        return self.speedup.vendor_name

    @property
    def vendor_ns(self) -> float | None:
        """The time of the library `vendor`."""
        return self.vendor_times_ns.get(self.vendor)

    @property
    def flops(self) -> int:
        """Arithmetic operations of the problem."""
        return get(self.problem.operation).flops(self.problem)

    @property
    def bytes_moved(self) -> int:
        """Bytes that the problem has to read and write at least."""
        return bytes_moved(self.problem)

    @property
    def operation_class(self) -> str:
        """``cube`` or ``vector``."""
        return get(self.problem.operation).operation_class

    def kernel(self) -> TunedKernel | GpuKernel:
        """The winner as a function of NumPy arrays, or of tensors on the GPU it was tuned on."""
        if self.code is None:
            raise SkipjackError(f"{self.problem.key} has no tuned kernel: {self.reason}")
        protocol = self.deployed or None
        if self.pinned:
            named = self.solver, self.best
            again = named_again(self.problem, self.device, None, protocol, *named)
        else:
            again = banked_again(self.problem, self.device, protocol=protocol)
        return callable_of(self.problem, self.code, self.device, again, self.solver)

    @property
    def rate(self) -> tuple[float, str]:
        """GFLOP/s for cube operations, GB/s for vector operations."""
        if self.operation_class == "cube":
            return self.flops / self.time_ns, "GFLOP/s"
        return self.bytes_moved / self.time_ns, "GB/s"

    def to_json(self) -> dict[str, Any]:
        """A flat record."""
        rate, unit = self.rate if self.status is not TuneOutcome.FAILED else (0.0, "")
        return {
            "format": FORMATS["tune"],
            "problem": self.problem.key,
            "device": self.device,
            "device_class": self.device_class,
            "deployed": self.deployed,
            "solver": self.solver,
            "config": dict(self.best),
            "pinned": dict(self.pinned),
            "time_ns": rounded(self.time_ns),
            "spread": rounded(self.spread, 5),
            "default_ns": rounded(self.default_ns),
            "vendor": self.vendor,
            "vendor_ns": rounded(self.vendor_ns),
            "vendors_ns": {name: rounded(ns) for name, ns in self.vendor_times_ns.items()},
            "untuned_ns": rounded(self.untuned_ns),
            "baseline": self.baseline,
            "baseline_ns": rounded(self.baseline_ns),
            "speedup": rounded(self.speedup.baseline.ratio, 4),
            "speedups": self.speedup.to_json(),
            "as_called": self.speedup.as_called.to_json() if self.speedup.as_called else None,
            "status": str(self.status),
            "rate": rounded(rate),
            "rate_unit": unit,
            "peak_share": rounded(self.peak_share, 4),
            "trials": len(self.trials),
            "failed": sum(trial.status.failed for trial in self.trials),
            "failed_by_status": self.failed_by_status,
            "failures": [
                {"reason": why, "count": count} for why, count in self.failures[:_REASONS]
            ],
            "builds": self.builds,
            "runs": self.runs,
            "seconds": rounded(self.seconds),
            "overhead": rounded(self.overhead, 4),
            "solvers": [
                {
                    "solver": score.solver,
                    "trials": score.trials,
                    "time_ns": rounded(score.time_ns),
                    "searcher": score.searcher,
                }
                for score in self.solvers
            ],
            "ties": [dict(config) for config in self.ties],
            "interrupted": self.interrupted,
            "reason": self.reason,
        }


def nanoseconds(time_ns: float | None) -> str:
    """``1,234 ns``, or ``12.3 ns``."""
    if time_ns is None:
        return "-"
    return f"{time_ns:,.0f} ns" if time_ns >= 100.0 else f"{time_ns:.3g} ns"


def rounded(value: float | None, digits: int = 3) -> float | None:
    """A number for JSON: None for NaN and infinities, which JSON does not have."""
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return None
    return round(value, digits)
