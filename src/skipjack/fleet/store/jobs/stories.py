"""What happened to a job, and what workers said about it, for people to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from skipjack.fleet.engine import RunningLog
from skipjack.fleet.records import LONGEST_LOG, StoryLine
from skipjack.fleet.states import Stage, State
from skipjack.fleet.store.jobs.jobs import job
from skipjack.fleet.store.jobs.transitions import readable
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock
from skipjack.fleet.store.sql.clock import spelled
from skipjack.fleet.store.sql.statements import among, insert_long_rows

_STAGES = {str(stage.working): stage for stage in Stage}


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
    running: bool = False
    """Its worker is still at it: this is what it has said so far."""


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
    now = job(connection, id)
    at_it = (str(now.standing.working), now.attempt) if now.standing.state.claimed else None
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
            (row.stage, row.attempt) == at_it,
        )
        for row in found
    ]


def note_logs(connection: Connection, owner: str, said: Sequence[RunningLog]) -> int:
    """Keep what was said so far of jobs that the owner holds; gives how many those were."""
    texts = {(one.job, one.attempt): one.text for one in said}
    job = tables.jobs.c
    columns = (job.id, job.attempt, job.state, job.epoch, job.round)
    machines = (job.build_machine, job.eval_machine)
    mine = select(*columns, *machines).where(
        job.owner == owner, among(connection, job.id, [one.job for one in said])
    )
    held = [row for row in connection.execute(mine) if (row.id, row.attempt) in texts]
    now = clock.read(connection)
    rows = [
        {
            "job": row.id,
            "stage": str(_STAGES[row.state]),
            "epoch": row.epoch,
            "round": row.round,
            "attempt": row.attempt,
            "machine": row.eval_machine if row.state == State.EVALUATING else row.build_machine,
            "text": readable(texts[row.id, row.attempt][-LONGEST_LOG:]),
            "created": now,
        }
        for row in held
    ]
    forget_logs(connection, [(row.id, row.attempt) for row in held])
    insert_long_rows(connection, tables.logs, rows)
    return len(rows)


def forget_logs(connection: Connection, attempts: Sequence[tuple[int, int]]) -> None:
    """Remove what was said so far of these jobs, each in its attempt: a newer text has it all."""
    log = tables.logs.c
    of = select(log.id, log.job, log.attempt).where(
        among(connection, log.job, [job for job, _ in attempts])
    )
    wanted = set(attempts)
    old = [row.id for row in connection.execute(of) if (row.job, row.attempt) in wanted]
    if old:
        connection.execute(delete(tables.logs).where(among(connection, log.id, old)))
