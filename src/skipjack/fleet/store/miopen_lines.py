"""What MIOpen's earlier jobs left about the same problem on the same device: lines of databases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from skipjack.fleet.records import MIOPEN, Kind, Known
from skipjack.fleet.states import State
from skipjack.fleet.store import tables
from skipjack.fleet.store.transitions import JobRow

_NEWEST = 6
"""Evaluated jobs of a problem that are looked into."""


def known_for(connection: Connection, row: JobRow) -> tuple[Known, ...]:
    """The newest lines of any label: parameters of a search, the ranking of a find before others.

    A find is told the parameters alone: it is to time everything anew. Builds of MIOpen may differ
    between jobs; a parameter that a solver does not take any more, MIOpen passes over by itself.
    """
    job = tables.jobs.c
    query = (
        select(job.solver, job.result)
        .where(job.problem == row.problem, job.device == row.device, job.id != row.id)
        .where(job.state == str(State.EVALUATED), job.searcher == MIOPEN)
        .order_by(job.updated.desc(), job.id.desc())
        .limit(_NEWEST)
    )
    left = [(one.solver, json.loads(one.result)) for one in connection.execute(query)]
    finds = [result for solver, result in left if Kind.of(solver) is Kind.FIND]
    searches = [result for solver, result in left if Kind.of(solver) is Kind.TUNE]
    lines = {
        "find_db": _first("find_db", *finds, *searches),
        "perf_db": _first("perf_db", *searches, *finds),
    }
    return (Known(MIOPEN, lines),) if any(lines.values()) else ()


def _first(which: str, *results: Mapping[str, Any]) -> str:
    """The first line of this database that any of the results has."""
    for result in results:
        for line in result.get("miopen", {}).get(which, ()):
            return str(line)
    return ""
