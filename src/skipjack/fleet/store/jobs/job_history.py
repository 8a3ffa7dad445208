"""The history of a job, and the logs of its workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, func, select

from skipjack.fleet.model import LONGEST_LOG, JobEvent, JobStage, JobState, RunningLog
from skipjack.fleet.store.jobs.jobs import job
from skipjack.fleet.store.jobs.transitions import storable_text
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock
from skipjack.fleet.store.sql.clock import iso_time
from skipjack.fleet.store.sql.statements import among, insert_long_rows

_STAGES = {str(stage.working): stage for stage in JobStage}


@dataclass(frozen=True, slots=True)
class LogText:
    """The log of a worker about a job."""

    stage: JobStage
    epoch: int
    round: int
    attempt: int
    machine: str
    at: str
    text: str
    running: bool = False
    """Whether the task is still running; the log is partial then."""


def history(connection: Connection, id: int) -> list[JobEvent]:
    """The events of a job, in order."""
    job(connection, id)
    line = tables.history
    found = connection.execute(
        select(line, tables.machines.c.name.label("machine_name"))
        .outerjoin(tables.machines, tables.machines.c.id == line.c.machine)
        .where(line.c.job == id)
        .order_by(line.c.id)
    )
    return [
        JobEvent(
            number,
            iso_time(row.at),
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


@dataclass(frozen=True, slots=True)
class LoggedAttempt:
    """An attempt at a stage of a job, which has one log."""

    epoch: int
    round: int
    stage: str
    attempt: int


def log(connection: Connection, id: int, since: LoggedAttempt | None = None) -> list[LogText]:
    """The logs of a job, in order, or those from an attempt's on if it is still there.

    The oldest may have been removed.
    """
    now = job(connection, id)
    at_it = (str(now.status.working), now.attempt) if now.status.state.claimed else None
    kept = tables.logs
    query = (
        select(kept, tables.machines.c.name.label("machine_name"))
        .outerjoin(tables.machines, tables.machines.c.id == kept.c.machine)
        .where(kept.c.job == id)
        .order_by(kept.c.id)
    )
    if since is not None:
        wanted = (kept.c[name] == value for name, value in asdict(since).items())
        first = select(func.min(kept.c.id)).where(kept.c.job == id, *wanted)
        query = query.where(kept.c.id >= (connection.execute(first).scalar() or 0))
    found = connection.execute(query)
    return [
        LogText(
            JobStage(row.stage),
            row.epoch,
            row.round,
            row.attempt,
            row.machine_name or "",
            iso_time(row.created),
            row.text,
            (row.stage, row.attempt) == at_it,
        )
        for row in found
    ]


def store_logs(connection: Connection, owner: str, logs: Sequence[RunningLog]) -> int:
    """Store the logs so far of jobs that the owner holds; returns their number."""
    texts = {(one.job, one.attempt): one.text for one in logs}
    job = tables.jobs.c
    columns = (job.id, job.attempt, job.state, job.epoch, job.round)
    machines = (job.build_machine, job.eval_machine)
    mine = select(*columns, *machines).where(
        job.owner == owner, among(connection, job.id, [one.job for one in logs])
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
            "machine": row.eval_machine if row.state == JobState.EVALUATING else row.build_machine,
            "text": storable_text(texts[row.id, row.attempt][-LONGEST_LOG:]),
            "created": now,
        }
        for row in held
    ]
    forget_logs(connection, [(row.id, row.attempt) for row in held])
    insert_long_rows(connection, tables.logs, rows)
    return len(rows)


def forget_logs(connection: Connection, attempts: Sequence[tuple[int, int]]) -> None:
    """Remove partial logs of jobs and attempts; a newer log contains them."""
    log = tables.logs.c
    of = select(log.id, log.job, log.attempt).where(
        among(connection, log.job, [job for job, _ in attempts])
    )
    wanted = set(attempts)
    old = [row.id for row in connection.execute(of) if (row.job, row.attempt) in wanted]
    if old:
        connection.execute(delete(tables.logs).where(among(connection, log.id, old)))
