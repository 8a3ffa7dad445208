"""The search of a tuning: what each trial took, the best until then, and what there was to beat."""

from __future__ import annotations

from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING

from skipjack.core.trial import Status
from skipjack.report.library import library_name
from skipjack.report.numbers import time_unit
from skipjack.report.sweep_best_so_far import BestSoFar, draw_search
from skipjack.tuning import TuneResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_trials(result: TuneResult) -> Figure | None:
    """None where nothing was tried."""
    search = trials_search(result)
    drawn = draw_search(search)
    if drawn is not None:
        drawn.suptitle(f"{result.problem.key} on {result.device}", x=0.01, ha="left")
    return drawn


def trials_search(result: TuneResult) -> BestSoFar:
    """The trials of a tuning in their order; those that a rule refused are none."""
    tried = [trial for trial in result.trials if trial.status is not Status.INFEASIBLE]
    times = [trial.value if trial.ok else None for trial in tried]
    levels = {"default": result.default_ns}
    levels |= {library_name(name): ns for name, ns in result.vendor_times_ns.items()}
    unit_ns, unit = time_unit([ns for ns in (*times, *levels.values()) if ns is not None])
    values = tuple(None if ns is None else ns / unit_ns for ns in times)
    return BestSoFar(
        values,
        tuple(accumulate(values, _lesser)),
        f"time, {unit} (less is better)",
        run="trial",
        levels=tuple((name, ns / unit_ns) for name, ns in levels.items() if isfinite(ns)),
    )


def _lesser(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return min(known, default=None)
