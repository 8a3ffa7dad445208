"""Finding the best solver of a problem for the benchmark, with nothing known beforehand."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Any

from skipjack.core import Problem
from skipjack.solvers import BuildingSolver, find_solver
from skipjack.tuning import NOT_APPLICABLE, FindResult, RankedSolver, Tuner, make_budget
from skipjack.tuning.study import TuneOptions
from tuned import blank_memory, builds_ms


@dataclass(frozen=True, slots=True)
class Found:
    """A ranking and what it took."""

    result: FindResult
    seconds: float
    """The budget."""
    wall_seconds: float
    builds_ms: tuple[float, ...]
    """Of every build."""

    @property
    def choice(self) -> str:
        """The solver that is ranked first; empty if none ran."""
        ranked = self.result.ranked
        return ranked[0].solver if ranked else ""

    @property
    def chose_ours(self) -> bool:
        """Whether that is a solver that builds, not a library."""
        return bool(self.choice) and isinstance(find_solver(self.choice), BuildingSolver)

    def record(self) -> dict[str, Any]:
        """For the result file."""
        perf = self.result.perf
        left_out = [
            one for one in self.result.solvers if not one.ok and one.status != NOT_APPLICABLE
        ]
        return {
            "seconds": self.seconds,
            "wall_seconds": round(self.wall_seconds, 3),
            "choice": self.choice,
            "ours": perf.solver if perf and perf.code else "",
            "config": dict(perf.best) if perf and perf.code else {},
            "verdict": str(perf.status) if perf else "",
            "trials": len(perf.trials) if perf else 0,
            "failed": sum(trial.status.failed for trial in perf.trials) if perf else 0,
            "builds_ms": [round(ms, 1) for ms in self.builds_ms],
            "ranked": [_place(one) for one in self.result.ranked],
            "failures": {one.solver: f"{one.status}: {one.reason}" for one in left_out},
        }


def _place(one: RankedSolver) -> dict[str, Any]:
    return {
        "solver": one.solver,
        "time_us": round((one.time_ns or 0.0) / 1e3, 2),
        "trials": one.trials,
    }


def find(tuner: Tuner, problem: Problem, seconds: float, cold: bool = True) -> Found:
    """Rank all solvers. A cold find sees an empty ledger and bank, so no other problem helps it."""
    options = TuneOptions(budget=make_budget(None, seconds))
    with blank_memory(tuner.context) if cold else contextlib.nullcontext():
        started = time.monotonic()
        result = tuner.find(problem, options)
        wall = time.monotonic() - started
        if result.interrupted:
            raise KeyboardInterrupt  # which ends a find early; here it is meant for the whole run
        return Found(result, seconds, wall, tuple(builds_ms(tuner.context, started)))
