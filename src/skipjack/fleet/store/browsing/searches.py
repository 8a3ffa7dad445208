"""Searches of jobs: their studies, trials, and blocks of timings, in the ledger's tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, or_, select

from skipjack.fleet.store.jobs.problems import digest_of
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.schema.ledger_tables import TABLES
from skipjack.fleet.store.sql.statements import among

_job, _problem = tables.jobs.c, tables.problems.c
_study, _log = TABLES["studies"].c, TABLES["study_log"].c
_candidate, _measured = TABLES["candidates"].c, TABLES["measurements"].c


@dataclass(frozen=True, slots=True)
class StoredSearch:
    """A study of a job, in its current epoch."""

    job: int
    study: str
    problem: str
    solver: str
    device: str
    searcher: str
    seed: str
    objective: str
    trials: int
    failed: int
    best: float | None
    created: str


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """A trial that a searcher was told."""

    number: int
    """From 1."""
    seq: int
    config: str
    """JSON."""
    status: str
    value: float | None
    spread: float | None
    reason: str
    created: str


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A block of timings of a config."""

    solver: str
    config: str
    """JSON."""
    metrics: str
    """JSON: samples and unit by name."""
    disturbed: int
    status: str
    session: str
    device_class: str
    created: str


def of_problem(connection: Connection, key: str, limit: int = 200) -> list[StoredSearch]:
    """The studies of the newest jobs of a problem, the newest job first."""
    mine = select(_problem.id).where(_problem.digest == digest_of(key)).scalar_subquery()
    query = select(_job.id, _job.epoch).where(_job.problem == mine)
    newest = query.order_by(_job.id.desc()).limit(limit)
    epochs = {row.id: row.epoch for row in connection.execute(newest)}
    return _searches(connection, epochs) if epochs else []


def of_job(connection: Connection, id: int) -> list[StoredSearch]:
    """The studies of a job."""
    epoch = connection.execute(select(_job.epoch).where(_job.id == id)).scalar()
    return [] if epoch is None else _searches(connection, {id: epoch})


def _searches(connection: Connection, epochs: dict[int, int]) -> list[StoredSearch]:
    counted = (
        select(
            _log.job,
            _log.study,
            func.count().label("trials"),
            func.count(_log.value).label("ok"),
            func.min(_log.value).label("best"),
        )
        .join(tables.jobs, (_job.id == _log.job) & (_job.epoch == _log.job_epoch))
        .where(among(connection, _log.job, list(epochs)), _log.kind == "tell")
        .group_by(_log.job, _log.study)
    )
    numbers = {(row.job, row.study): row for row in connection.execute(counted)}
    columns = (_study.job, _study.job_epoch, _study.id, _study.problem, _study.solver)
    more = (_study.device, _study.searcher, _study.seed, _study.objective, _study.created)
    query = select(*columns, *more).where(among(connection, _study.job, list(epochs)))
    found: dict[tuple[int, str], StoredSearch] = {}
    for row in connection.execute(query.order_by(_study.job.desc(), _study.round, _study.place)):
        key = row.job, row.id
        if row.job_epoch != epochs[row.job] or key in found:
            continue
        of = numbers.get(key)
        found[key] = StoredSearch(
            row.job,
            row.id,
            row.problem,
            row.solver,
            row.device,
            row.searcher,
            row.seed,
            row.objective,
            of.trials if of else 0,
            of.trials - of.ok if of else 0,
            of.best if of else None,
            row.created,
        )
    return list(found.values())


def trials(connection: Connection, job: int, study: str, limit: int) -> list[StoredTrial]:
    """The last trials of a study of a job in its current epoch, in order.

    The best of all earlier ones is before them.
    """
    columns = (_log.seq, _log.id, _log.config, _log.status, _log.value)
    query = _told(job, study, *columns, _log.spread, _log.reason, _log.created)
    newest_first = query.order_by(_log.seq.desc(), _log.id.desc()).limit(limit)
    found = list(connection.execute(newest_first))[::-1]
    if not found:
        return []
    count = func.count()
    total = connection.execute(_told(job, study, count)).scalar_one()
    kept = [_trial(number, row) for number, row in enumerate(found, total - len(found) + 1)]
    if total > len(found):
        earlier = query.where(_log.value.is_not(None), _is_before(found[0]))
        by_value = earlier.order_by(_log.value, _log.seq, _log.id).limit(1)
        for row in connection.execute(by_value):
            before = connection.execute(_told(job, study, count).where(_is_before(row)))
            kept.insert(0, _trial(before.scalar_one() + 1, row))
    return kept


def trials_mark(connection: Connection, job: int, study: str) -> str:
    """A text that changes with the trials of a study of a job."""
    total = connection.execute(_told(job, study, func.count())).scalar_one()
    last = _told(job, study, _log.job_epoch, _log.id).order_by(_log.seq.desc(), _log.id.desc())
    row = connection.execute(last.limit(1)).first()
    return f"{row.job_epoch}-{total}-{row.id}" if row else "0"


def _told(job: int, study: str, *columns: Any) -> Select[Any]:
    return (
        select(*columns)
        .select_from(TABLES["study_log"])
        .join(tables.jobs, (_job.id == _log.job) & (_job.epoch == _log.job_epoch))
        .where(_log.job == job, _log.study == study, _log.kind == "tell")
    )


def _is_before(row: Row[Any]) -> ColumnElement[bool]:
    return or_(_log.seq < row.seq, and_(_log.seq == row.seq, _log.id < row.id))


def _trial(number: int, row: Row[Any]) -> StoredTrial:
    said = row.reason or ""
    return StoredTrial(
        *(number, row.seq, row.config, row.status, row.value, row.spread, said, row.created)
    )


def blocks(connection: Connection, jobs: Sequence[int], limit: int = 5000) -> list[StoredBlock]:
    """The blocks of timings of jobs in their current epoch, in order."""
    if not jobs:
        return []
    of = select(_candidate.job, _candidate.id, _candidate.solver, _candidate.config)
    known = {
        (row.job, row.id): (row.solver, row.config)
        for row in connection.execute(of.where(among(connection, _candidate.job, jobs)))
    }
    query = (
        select(
            *(_measured.job, _measured.candidate, _measured.metrics, _measured.disturbed),
            *(_measured.status, _measured.session, _measured.device_class, _measured.created),
        )
        .join(tables.jobs, (_job.id == _measured.job) & (_job.epoch == _measured.job_epoch))
        .where(among(connection, _measured.job, jobs))
        .order_by(_measured.job, _measured.round, _measured.stage, _measured.place)
        .limit(limit)
    )
    return [
        StoredBlock(
            *known[row.job, row.candidate],
            *(row.metrics, row.disturbed, row.status, row.session, row.device_class, row.created),
        )
        for row in connection.execute(query)
        if (row.job, row.candidate) in known
    ]
