"""Jobs of one kind, as conditions on their rows."""

from __future__ import annotations

from sqlalchemy import ColumnElement

from skipjack.fleet.records import FIND, KERNELS, MIOPEN, JobKind
from skipjack.fleet.store.schema import tables


def of_kind(kind: JobKind) -> ColumnElement[bool]:
    """Whether a job is of this kind."""
    solver = tables.jobs.c.solver
    if kind is JobKind.TUNE:
        return (solver != FIND) & (solver != KERNELS)
    return solver == str(kind)


def by_miopen() -> ColumnElement[bool]:
    """Whether MIOpenDriver does a job, as `Plan.by_miopen` says: nothing is built for it."""
    return (tables.jobs.c.solver == MIOPEN) | (tables.jobs.c.searcher == MIOPEN)
