"""What a find gives back: all solvers of a problem, ranked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.execute.confirm import MIN_EFFECT
from skipjack.execute.statistics import Ratio
from skipjack.tuning.lineup import compared
from skipjack.tuning.result import FORMAT, Outcome, TuneResult, rounded

if TYPE_CHECKING:
    from skipjack.runtime import GpuKernel, TunedKernel

NOT_APPLICABLE = "not_applicable"
"""The status of a solver that cannot do the problem."""
NOT_TRIED = "not_tried"
"""The status of one whose turn did not come before Ctrl-C."""
OK = "ok"


class FindStatus(StrEnum):
    """How a find ended."""

    OK = "ok"  # something ran and is ranked
    FAILED = "failed"  # nothing ran
    NOT_APPLICABLE = "not_applicable"  # no solver can do the problem here


@dataclass(frozen=True, slots=True)
class RankedSolver:
    """How one solver did with the best config that is known of it."""

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
    """It cannot be told from the first."""
    trials: int = 0
    """In this sitting."""
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether it has a time."""
        return self.status == OK

    def to_json(self) -> dict[str, Any]:
        """One record for machines."""
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
    """The solvers of a problem: those that ran, fastest first, those that failed, the others."""

    problem: Problem
    device: str
    status: FindStatus
    solvers: tuple[RankedSolver, ...]
    perf: TuneResult | None = None
    """The verdict on the fastest config that was built, as a tuning gives it."""
    seconds: float = 0.0
    reason: str = ""
    interrupted: bool = False

    @property
    def ranked(self) -> tuple[RankedSolver, ...]:
        """Those that have a time, fastest first."""
        return tuple(solver for solver in self.solvers if solver.ok)

    def __getitem__(self, solver: str) -> RankedSolver:
        """How this solver did."""
        for one in self.solvers:
            if one.solver == solver:
                return one
        raise KeyError(solver)

    @property
    def remark(self) -> str:
        """Why the first of the ranking is not what the verdict is about; empty if it is."""
        perf, ranked = self.perf, self.ranked
        if perf is None or perf.status is Outcome.FAILED or not ranked:
            return ""
        first = ranked[0]
        if first.solver == perf.solver and first.config == perf.best:
            return ""
        if not first.config and not compared(first.solver):
            return f"{first.solver} is ranked to compare with, and takes no part in verdicts"
        if perf.status is Outcome.VENDOR:
            return ""
        if any(one.tie and one.solver == perf.solver for one in ranked):
            return f"{first.solver} and {perf.solver} are a tie: which of them is first is chance"
        return (
            f"{first.solver} is first, but it is not confirmed to be more than {MIN_EFFECT:.0%} "
            f"faster than {perf.solver} with {perf.best}"
        )

    def kernel(self) -> TunedKernel | GpuKernel:
        """The fastest config that was built, as a function of arrays where it runs."""
        if self.perf is None:
            raise UsageError(f"there is no kernel of {self.problem.key}: nothing was built")
        return self.perf.kernel()

    def to_json(self) -> dict[str, Any]:
        """One record for machines."""
        perf = self.perf
        return {
            "format": FORMAT,
            "problem": self.problem.key,
            "device": self.device,
            "status": str(self.status),
            "solvers": [solver.to_json() for solver in self.solvers],
            "verdict": _verdict(perf) if perf else None,
            "remark": self.remark,
            "trials": len(perf.trials) if perf else 0,
            "failed": sum(trial.status.failed for trial in perf.trials) if perf else 0,
            "builds": perf.builds if perf else 0,
            "runs": perf.runs if perf else 0,
            "seconds": rounded(self.seconds),
            "interrupted": self.interrupted,
            "reason": self.reason,
        }


def _verdict(perf: TuneResult) -> Mapping[str, Any]:
    """What the bank says of the fastest config that was built."""
    return {
        "status": str(perf.status),
        "solver": perf.solver,
        "config": dict(perf.best),
        "time_ns": rounded(perf.time_ns),
        "default_ns": rounded(perf.default_ns),
        "baseline": perf.baseline,
        "baseline_ns": rounded(perf.baseline_ns),
        "speedup": rounded(perf.speedup.baseline.ratio, 4),
        "vendor": perf.vendor,
        "vendor_ns": rounded(perf.vendor_ns),
        "as_called": perf.speedup.as_called.to_json() if perf.speedup.as_called else None,
        "reason": perf.reason,
    }
