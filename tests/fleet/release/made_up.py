"""Jobs as evaluators leave them behind, without their work."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import func, select, update

from skipjack.fleet.model import JobPlan, JobState, Label
from skipjack.fleet.store import FetchedArtifacts, JobVerdict, NewProblem, Store
from skipjack.fleet.store.schema import tables

CONV = "conv2d:n4c16h14w14k16y3x3p1q1:f32:NCHW:fwd"
CONV_KEY = "16-14-14-3x3-16-14-14-4-1x1-1x1-1x1-0-NCHW-FP32-F"
MATMUL = "matmul:64x64x64:f32"
CPU = "znver4/1"


def row(solver: str, time_ns: float | None, /, **more: Any) -> dict[str, Any]:
    """A solver's place in a ranking."""
    status = "ok" if time_ns is not None else "crash"
    known = {"workspace_bytes": 0, "config": {}, "spread": 0.01, "samples": 24}
    return {"solver": solver, "status": status, "time_ns": time_ns, **known, **more}


def verdict(plan: JobPlan, result: dict[str, Any], job: int = 1) -> JobVerdict:
    at = (job, plan.problem, plan.device, plan.solver)
    return JobVerdict(*at, result, "tools 1", "2026-11-15", "", plan.kind, plan.driver)


class Verdicts:
    """A store with these verdicts and kernels."""

    def __init__(self, *verdicts: JobVerdict, code: Iterable[bytes] = ()) -> None:
        self._verdicts = verdicts
        self._code = {digest(data): data for data in code}

    def verdicts(self, label: str, device: str | None = None) -> Iterator[JobVerdict]:
        return (one for one in self._verdicts if device in (None, one.device))

    def artifacts(self, digests: Iterable[str]) -> FetchedArtifacts:
        asked = list(digests)
        whole = {one: self._code[one] for one in asked if one in self._code}
        return FetchedArtifacts(whole, {one: "is gone" for one in asked if one not in whole})


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def add_job(
    store: Store,
    plan: JobPlan,
    result: dict[str, Any] | None = None,
    state: JobState | None = None,
    label: str = "L",
) -> None:
    """A job of the label in its state: evaluated if it has a result."""
    store.problems.add([NewProblem(plan.problem, plan.problem.partition(":")[0])], "t")
    store.jobs.add(Label(label, "ann", image="img:6.2", ticket="T-1"), [plan])
    reached = state or (JobState.EVALUATED if result is not None else JobState.NEW)
    values: dict[str, Any] = {"state": str(reached), "toolchain": "tools 1"}
    if result is not None:
        values["result"] = json.dumps(result)
    if reached is JobState.ERROR:
        values |= {"stage": "build", "reason": "it broke"}
    if reached is JobState.ABORTED:
        values["resume"] = "new"
    with store.database.engine.begin() as connection:
        last = connection.execute(select(func.max(tables.jobs.c.id))).scalar_one()
        connection.execute(update(tables.jobs).where(tables.jobs.c.id == last).values(values))
