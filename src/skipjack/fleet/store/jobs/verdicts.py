"""What a label's evaluated jobs say, without the facts behind it: quick to read for a release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, or_, select

from skipjack.fleet.records import JobKind
from skipjack.fleet.states import State
from skipjack.fleet.store.jobs.jobs import check_device
from skipjack.fleet.store.jobs.labels import id_of
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.clock import spelled
from skipjack.fleet.store.sql.stored_json import stored

_PAGE = 500


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """What came of a job."""

    job: int
    problem: str
    device: str
    solver: str
    """That of the job's plan: ``auto`` or a name."""
    result: Mapping[str, Any]
    toolchain: str
    updated: str
    built_for: str = ""
    """JSON of the device, as its code was built for it."""
    kind: JobKind = JobKind.TUNE
    driver: str = ""


def verdicts(connection: Connection, label: str, device: str | None = None) -> Iterator[JobVerdict]:
    """Those of the label's evaluated jobs, all of a problem in a row, its older jobs first."""
    job, problem = tables.jobs.c, tables.problems.c
    wanted = [job.label == id_of(connection, label), job.state == State.EVALUATED]
    if device is not None:
        check_device(connection, device)
        wanted.append(job.device == device)
    columns = (job.id, job.problem, problem.key, job.device, job.solver, job.result)
    query = (
        select(*columns, job.toolchain, job.updated, job.device_record, job.kind, job.driver)
        .join(tables.problems, problem.id == job.problem)
        .where(*wanted)
        .order_by(job.problem, job.id)
        .limit(_PAGE)
    )
    at = (0, 0)
    while True:
        beyond = or_(job.problem > at[0], and_(job.problem == at[0], job.id > at[1]))
        page = connection.execute(query.where(beyond)).all()
        for row in page:
            yield JobVerdict(
                row.id,
                row.key,
                row.device,
                row.solver,
                stored(row.result),
                row.toolchain,
                spelled(row.updated),
                row.device_record or "",
                JobKind(row.kind),
                row.driver,
            )
        if len(page) < _PAGE:
            return
        at = (page[-1].problem, page[-1].id)
