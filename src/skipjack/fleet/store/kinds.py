"""Jobs of one kind, as a condition on their rows."""

from __future__ import annotations

from sqlalchemy import ColumnElement

from skipjack.fleet.records import FIND, KERNELS, JobKind
from skipjack.fleet.store import tables


def of_kind(kind: JobKind) -> ColumnElement[bool]:
    """Whether a job is of this kind."""
    solver = tables.jobs.c.solver
    if kind is JobKind.TUNE:
        return (solver != FIND) & (solver != KERNELS)
    return solver == str(kind)
