"""Jobs of one kind, as a condition on their rows."""

from __future__ import annotations

from sqlalchemy import ColumnElement

from skipjack.fleet.records import FIND, KERNELS, Kind
from skipjack.fleet.store import tables


def of_kind(kind: Kind) -> ColumnElement[bool]:
    """Whether a job is of this kind."""
    solver = tables.jobs.c.solver
    if kind is Kind.TUNE:
        return (solver != FIND) & (solver != KERNELS)
    return solver == str(kind)
