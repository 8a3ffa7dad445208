"""What happened to a job, and what workers said about it, for people to read."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from skipjack.fleet.records import StoryLine
from skipjack.fleet.states import Stage
from skipjack.fleet.store import tables
from skipjack.fleet.store.jobs import job
from skipjack.fleet.store.moments import spelled


@dataclass(frozen=True, slots=True)
class LogText:
    """What a worker said about a job."""

    stage: Stage
    epoch: int
    round: int
    attempt: int
    machine: str
    at: str
    text: str


def story(connection: Connection, id: int) -> list[StoryLine]:
    """What happened to a job, in order."""
    job(connection, id)
    line = tables.story
    found = connection.execute(
        select(line, tables.machines.c.name.label("machine_name"))
        .outerjoin(tables.machines, tables.machines.c.id == line.c.machine)
        .where(line.c.job == id)
        .order_by(line.c.id)
    )
    return [
        StoryLine(
            number,
            spelled(row.at),
            row.event,
            row.before,
            row.after,
            row.epoch,
            row.round,
            row.attempt,
            row.machine_name or "",
            row.gpu,
            row.reason,
        )
        for number, row in enumerate(found, start=1)
    ]


def log(connection: Connection, id: int) -> list[LogText]:
    """What workers said about a job, in order; the oldest may be gone."""
    job(connection, id)
    kept = tables.logs
    found = connection.execute(
        select(kept, tables.machines.c.name.label("machine_name"))
        .outerjoin(tables.machines, tables.machines.c.id == kept.c.machine)
        .where(kept.c.job == id)
        .order_by(kept.c.id)
    )
    return [
        LogText(
            Stage(row.stage),
            row.epoch,
            row.round,
            row.attempt,
            row.machine_name or "",
            spelled(row.created),
            row.text,
        )
        for row in found
    ]
