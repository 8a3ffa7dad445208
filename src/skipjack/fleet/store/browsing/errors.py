"""Jobs in state error, by reason."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from skipjack.fleet.model import JobState
from skipjack.fleet.store.schema import tables

_job = tables.jobs.c


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Jobs that failed for the same reason."""

    stage: str
    reason: str
    jobs: int
    example: int
    """The newest of these jobs."""


def groups(connection: Connection, label: int | None = None, limit: int = 20) -> list[ErrorGroup]:
    """The most frequent reasons first."""
    count = func.count()
    query = select(_job.stage, _job.reason, count, func.max(_job.id)).where(
        _job.state == str(JobState.ERROR)
    )
    if label is not None:
        query = query.where(_job.label == label)
    query = query.group_by(_job.stage, _job.reason).order_by(count.desc(), _job.reason).limit(limit)
    return [
        ErrorGroup(stage, reason, jobs, id) for stage, reason, jobs, id in connection.execute(query)
    ]
