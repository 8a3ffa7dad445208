"""What a find gives back: the solvers of a problem, ranked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from skipjack.core import Config, Problem, settings_text
from skipjack.errors import UsageError
from skipjack.execute import MIN_EFFECT, Ratio
from skipjack.json_formats import FORMATS
from skipjack.tuning.study import TuneOutcome, TuneResult, compared, nanoseconds, rounded

if TYPE_CHECKING:
    from skipjack.runtime.local_kernels import GpuKernel, TunedKernel

NOT_APPLICABLE = "not_applicable"
"""The status of a solver that cannot compute the problem."""
NOT_TRIED = "not_tried"
"""The status of a solver whose turn did not come before Ctrl-C."""
OK = "ok"


class FindStatus(StrEnum):
    """How a find ended."""

    OK = "ok"  # something ran and is ranked
    FAILED = "failed"  # nothing ran
    NOT_APPLICABLE = "not_applicable"  # no solver can do the problem here


@dataclass(frozen=True, slots=True)
class RankedSolver:
    """The result of one solver with its best known config."""

    solver: str
    status: str
    """``ok``, a failed trial's status, ``not_applicable`` or ``not_tried``."""
    time_ns: float | None = None
    workspace_bytes: int | None = None
    config: Config = field(default_factory=Config)
    spread: float | None = None
    samples: int = 0
    behind: Ratio | None = None
    """How many times slower than the first it is."""
    tie: bool = False
    """Whether its time cannot be distinguished from that of the first."""
    trials: int = 0
    """Trials in this run."""
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether it has a time."""
        return self.status == OK

    def to_json(self) -> dict[str, Any]:
        return {
            "solver": self.solver,
            "time_ns": rounded(self.time_ns),
            "workspace_bytes": self.workspace_bytes,
            "config": dict(self.config),
            "status": self.status,
            "spread": rounded(self.spread, 5),
            "samples": self.samples,
            "behind": self.behind.to_json() if self.behind else None,
            "tie": self.tie,
            "trials": self.trials,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class FindResult:
    """The solvers of a problem: those that ran, fastest first; those that failed; the others."""

    problem: Problem
    device: str
    status: FindStatus
    solvers: tuple[RankedSolver, ...]
    perf: TuneResult | None = None
    """The result for the fastest config that was built, as of a tuning."""
    seconds: float = 0.0
    reason: str = ""
    interrupted: bool = False
    device_class: str = ""
    """The class key of the device."""

    def __repr__(self) -> str:
        where, ranked = f"{self.problem.key} on {self.device}: {self.status}", self.ranked
        if not ranked:
            return f"<FindResult {where}, {self.reason}>"
        first = f"{ranked[0].solver} first with {nanoseconds(ranked[0].time_ns)}"
        return f"<FindResult {where}, {len(ranked)} ranked, {first}>"

    @property
    def ranked(self) -> tuple[RankedSolver, ...]:
        """The solvers that have a time, fastest first."""
        return tuple(solver for solver in self.solvers if solver.ok)

    def __getitem__(self, solver: str) -> RankedSolver:
        """The result of this solver."""
        for one in self.solvers:
            if one.solver == solver:
                return one
        raise KeyError(solver)

    @property
    def remark(self) -> str:
        """Why the first of the ranking is not the config of `perf`; empty if it is."""
        perf, ranked = self.perf, self.ranked
        if perf is None or perf.status is TuneOutcome.FAILED or not ranked:
            return ""
        first = ranked[0]
        if first.solver == perf.solver and first.config == perf.best:
            return ""
        if not first.config and not compared(first.solver):
            return f"{first.solver} is ranked for reference only"
        if perf.status is TuneOutcome.VENDOR:
            return ""
        if any(one.tie and one.solver == perf.solver for one in ranked):
            return f"{first.solver} and {perf.solver} are tied; their order is not significant"
        return (
            f"{first.solver} is first, but it is not confirmed to be more than {MIN_EFFECT:.0%} "
            f"faster than {perf.solver} with {settings_text(perf.best)}"
        )

    def kernel(self) -> TunedKernel | GpuKernel:
        """The fastest config that was built, as a function of arrays on its device."""
        if self.perf is None:
            raise UsageError(f"{self.problem.key} has no kernel: nothing was built")
        return self.perf.kernel()

    def to_json(self) -> dict[str, Any]:
        perf = self.perf
        return {
            "format": FORMATS["find"],
            "problem": self.problem.key,
            "device": self.device,
            "device_class": self.device_class,
            "status": str(self.status),
            "solvers": [solver.to_json() for solver in self.solvers],
            "verdict": _decision_json(perf) if perf else None,
            "remark": self.remark,
            "trials": len(perf.trials) if perf else 0,
            "failed": sum(trial.status.failed for trial in perf.trials) if perf else 0,
            "failed_by_status": perf.failed_by_status if perf else {},
            "builds": perf.builds if perf else 0,
            "runs": perf.runs if perf else 0,
            "seconds": rounded(self.seconds),
            "interrupted": self.interrupted,
            "reason": self.reason,
        }


def _decision_json(perf: TuneResult) -> Mapping[str, Any]:
    """The record of the decision on the fastest config that was built."""
    return {
        "status": str(perf.status),
        "solver": perf.solver,
        "config": dict(perf.best),
        "time_ns": rounded(perf.time_ns),
        "default_ns": rounded(perf.default_ns),
        "baseline": perf.baseline,
        "baseline_ns": rounded(perf.baseline_ns),
        "speedup": rounded(perf.speedup.baseline.ratio, 4),
        "speedups": perf.speedup.to_json(),
        "vendor": perf.vendor,
        "vendor_ns": rounded(perf.vendor_ns),
        "as_called": perf.speedup.as_called.to_json() if perf.speedup.as_called else None,
        "reason": perf.reason,
    }
