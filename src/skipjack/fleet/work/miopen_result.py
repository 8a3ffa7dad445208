"""What a job of MIOpen keeps: a ranking as a find's, and the lines of MIOpen's own databases."""

from __future__ import annotations

import logging
from typing import Any

from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.errors import WorkerError
from skipjack.interop.miopen import Record
from skipjack.solvers.miopen.driving import Driven, Entry
from skipjack.tuning.finding import OK, FindResult, FindStatus, RankedSolver

log = logging.getLogger(__name__)

FIND_DB, PERF_DB = "find_db", "perf_db"
"""Where a result has the lines of databases; a task that builds upon them, too."""
UNTIMED = "untimed"
"""The status of a solver without a time that is believed: its result is wrong, or the time that
MIOpen stored cannot be one."""


def result_of(problem: Problem, device: str, driven: Driven) -> dict[str, Any]:
    """One record for machines; `WorkerError` if no solver has a time that can be believed."""
    if not any(entry.time_ms is not None for entry in driven.entries):
        remarks = "; ".join(entry.remark for entry in driven.entries[:1])
        raise WorkerError(
            f"none of the {len(driven.entries)} solvers that MIOpen stored has a time that can be "
            f"believed: {remarks or 'the record is empty'}"
        )
    ranked = tuple(map(_ranked, driven.entries))
    found = FindResult(problem, device, FindStatus.OK, ranked, seconds=driven.seconds)
    log.info("ranked: %s", ", ".join(f"{one.solver} {one.time_ns:,.0f} ns" for one in found.ranked))
    record = found.to_json()
    for row, entry in zip(record["solvers"], driven.entries, strict=True):
        row |= {"algorithm": entry.algorithm, "verified": entry.verified}
    first = record["solvers"][0]
    return {
        **record,
        # As other jobs say who won; no version of ours is behind it.
        **{name: first[name] for name in ("solver", "config", "time_ns", "spread")},
        "solver_version": None,
        "trials": len(driven.entries),
        "failed": len(driven.entries) - len(found.ranked),
        "runs": driven.runs,
        "toolchain": f"MIOpen {driven.installation.version}",
        "miopen": _databases(driven),
    }


def _ranked(entry: Entry) -> RankedSolver:
    return RankedSolver(
        entry.solver,
        UNTIMED if entry.time_ms is None else OK,
        None if entry.time_ms is None else entry.time_ms * 1e6,
        entry.workspace_bytes,
        Config({"params": entry.params} if entry.params else {}),
        reason=entry.remark,
    )


def _databases(driven: Driven) -> dict[str, Any]:
    harvest = driven.harvest
    return {
        "version": driven.installation.version,
        FIND_DB: _lines(harvest.find),
        PERF_DB: _lines(harvest.perf),
        "kernels": [
            {"name": one.name, "args": one.args, "digest": one.digest} for one in harvest.kernels
        ],
        "unbelieved": driven.unbelieved,
    }


def _lines(record: Record | None) -> list[str]:
    """Verbatim, as exports pass them on."""
    return [record.line] if record else []
