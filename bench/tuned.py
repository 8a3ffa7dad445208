"""Tuning a problem for the benchmark, with workers kept warm and nothing known beforehand."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from skipjack.bank import Bank
from skipjack.core import Problem
from skipjack.ledger import Ledger
from skipjack.storage import ArtifactStore
from skipjack.tuning import Tuner, make_budget
from skipjack.tuning.study import DeviceContext, TuneOptions, TuneOutcome, TuneResult


@dataclass(frozen=True, slots=True)
class Tuned:
    """A result and what it took."""

    result: TuneResult
    wall_seconds: float
    build_ms: float
    """Median over the builds of this study."""

    def record(self) -> dict[str, Any]:
        """For the result file."""
        result = self.result
        return {
            "status": str(result.status),
            "reason": result.reason,
            "solver": result.solver,
            "config": dict(result.best),
            # An unconfirmed gain is not taken: one gets the default, so that is what is timed.
            "timed": "default" if result.status is TuneOutcome.RESERVED else "config",
            "wall_seconds": round(self.wall_seconds, 3),
            "trials": len(result.trials),
            "failed": sum(trial.status.failed for trial in result.trials),
            "builds": result.builds,
            "runs": result.runs,
            "build_ms": round(self.build_ms, 3),
            "overhead": round(result.overhead, 4),
        }


def tune(
    tuner: Tuner, problem: Problem, solver: str | None, seconds: float, cold: bool = True
) -> Tuned:
    """Tune once, by the preferred solver if none is named.

    A cold tuning finds an empty ledger and bank, so no other shape helps it.
    """
    options = TuneOptions(budget=make_budget(None, seconds), solver=solver)
    with blank_memory(tuner.context) if cold else contextlib.nullcontext():
        started = time.monotonic()
        result = tuner.tune(problem, options)
        wall = time.monotonic() - started
        return Tuned(result, wall, _build_ms(tuner.context, started))


@contextlib.contextmanager
def blank_memory(context: DeviceContext, directory: Path | None = None) -> Iterator[None]:
    """Let a context remember nothing for a while; its workers stay.

    What it finds meanwhile is kept in the directory, if one is given; one that has a bank already
    is added to.

    The build workers look for known builds in the ledger they were started with, which nobody
    writes to meanwhile.
    """
    kept = context.ledger, context.bank, context.artifacts
    with contextlib.ExitStack() as stack:
        if directory is None:
            name = stack.enter_context(tempfile.TemporaryDirectory(prefix="skipjack-bench-"))
            directory = Path(name)
        ledger = stack.enter_context(Ledger.open(directory))
        ledger.add_device(context.device)
        context.ledger, context.bank = ledger, Bank.open(directory)
        context.artifacts = ArtifactStore(directory / "artifacts")
        try:
            yield
        finally:
            context.ledger, context.bank, context.artifacts = kept


def _build_ms(context: DeviceContext, since: float) -> float:
    found = builds_ms(context, since)
    return float(np.median(found)) if found else float("nan")


def builds_ms(context: DeviceContext, since: float) -> list[float]:
    """From the trace: builds that candidates share appear in the ledger again, at no time."""
    spans = context.tracer.spans
    return [s.seconds * 1e3 for s in spans if s.track == "build" and s.start >= since and s.seconds]
