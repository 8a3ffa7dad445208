"""The table of jobs, page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    and_,
    case,
    func,
    or_,
    select,
)

from skipjack.errors import UsageError
from skipjack.fleet.model import JobKind, JobStage, JobState
from skipjack.fleet.store.browsing.row_page import RowPage, contains, ordered
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.statements import among

_job, _problem, _label = tables.jobs.c, tables.problems.c, tables.labels.c
_builder, _evaluator = tables.machines.alias("builder"), tables.machines.alias("evaluator")
_TUNE = str(JobKind.TUNE)


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job as a row of tables. Times are seconds since 1970."""

    id: int
    label: str
    problem: str
    operation: str
    device: str
    state: str
    kind: str
    solver: str
    """``auto``, or the name of the one that is tuned."""
    searcher: str
    """Or the driver, if it is not ours."""
    trials: int
    budget: int
    failed_trials: int
    first_ns: float | None
    best_ns: float | None
    stage: str
    """The stage of an error."""
    reason: str
    """Why the last attempt failed, or why it is not applicable."""
    retries: int
    priority: int
    epoch: int
    round: int
    build_machine: str
    eval_machine: str
    gpu: str
    calls: float | None
    device_seconds: float
    created: float
    updated: float

    @property
    def gain(self) -> float | None:
        """How many times as fast the best config is as the first one."""
        if self.first_ns is None or not self.best_ns:
            return None
        return self.first_ns / self.best_ns


_SORT: Mapping[str, ColumnElement[Any]] = {
    "id": _job.id,
    "label": _label.name,
    "problem": _problem.key,
    "operation": _problem.operation,
    "device": _job.device,
    "state": _job.state,
    "solver": _job.solver,
    "trials": _job.trials,
    "failed_trials": _job.failed_trials,
    "best_ns": _job.best_ns,
    "gain": _job.first_ns / func.nullif(_job.best_ns, 0.0),
    "retries": _job.failures + _job.losses,
    "priority": _job.priority,
    "build_machine": _builder.c.name,
    "eval_machine": _evaluator.c.name,
    "device_seconds": _job.device_seconds,
    "created": _job.created,
    "updated": _job.updated,
}
JOB_SORTS = tuple(_SORT)
"""Columns that the table can be sorted by."""
JOB_FILTERS = (
    *("label", "state", "device", "solver", "kind", "stage", "machine"),
    *("problem", "operation", "reason"),
)
"""Columns to filter by: problem and reason by a part of the text, all others by the value."""


def page(connection: Connection, which: RowPage) -> tuple[list[JobSummary], int]:
    """The jobs of a page, and the number of all that match."""
    conditions = _conditions(connection, which.filters)
    return rows_of(connection, _ids(connection, which, conditions)), _count(connection, conditions)


def ids(connection: Connection, which: RowPage) -> list[int]:
    """The ids of the jobs of a page."""
    return _ids(connection, which, _conditions(connection, which.filters))


def _ids(
    connection: Connection, which: RowPage, conditions: Sequence[ColumnElement[bool]]
) -> list[int]:
    needed = {_problem.key.table} if which.sort in ("problem", "operation") else set()
    query = _joined(select(_job.id), conditions, needed, which.sort)
    return list(connection.execute(ordered(query, which, _SORT, _job.id)).scalars())


def rows_of(connection: Connection, ids: Sequence[int]) -> list[JobSummary]:
    """The jobs with these ids, in this order."""
    if not ids:
        return []
    query = _rows().where(among(connection, _job.id, ids))
    found = {row.id: _summary(row) for row in connection.execute(query)}
    return [found[id] for id in ids if id in found]


def running(connection: Connection, machine: str) -> list[JobSummary]:
    """The jobs that the workers of a machine have now."""
    id = _id(connection, tables.machines.c.id, tables.machines.c.name, machine)
    building, evaluating = (str(stage.working) for stage in JobStage)
    builds = (_job.state == building) & (_job.build_machine == id)
    evaluates = (_job.state == evaluating) & (_job.eval_machine == id)
    # Not in SQL: to sort by id, a database may read the whole table.
    working = _job.state.in_([building, evaluating])
    query = select(_job.id).where(working, builds | evaluates)
    return rows_of(connection, sorted(connection.execute(query).scalars()))


def of_problem(connection: Connection, key: str, limit: int) -> list[JobSummary]:
    """The newest jobs of a problem."""
    from skipjack.fleet.store.jobs.problems import digest_of

    mine = select(_problem.id).where(_problem.digest == digest_of(key)).scalar_subquery()
    query = select(_job.id).where(_job.problem == mine).order_by(_job.id.desc()).limit(limit)
    return rows_of(connection, list(connection.execute(query).scalars()))


def _count(connection: Connection, conditions: Sequence[ColumnElement[bool]]) -> int:
    query = _joined(select(func.count()), conditions, set(), "")
    return int(connection.execute(query).scalar_one())


def _joined(
    query: Select[Any], conditions: Sequence[ColumnElement[bool]], needed: set[Any], sort: str
) -> Select[Any]:
    """The query over jobs, joined with the tables that conditions and order need."""
    source: FromClause = tables.jobs
    used = needed.union(*(_tables_of(one) for one in conditions)) if conditions else needed
    if tables.problems in used:
        source = source.join(tables.problems, _problem.id == _job.problem)
    if sort == "label":
        source = source.join(tables.labels, _label.id == _job.label)
    if sort == "build_machine":
        source = source.outerjoin(_builder, _builder.c.id == _job.build_machine)
    if sort == "eval_machine":
        source = source.outerjoin(_evaluator, _evaluator.c.id == _job.eval_machine)
    return query.select_from(source).where(*conditions)


def _tables_of(condition: ColumnElement[bool]) -> set[Any]:
    return {tables.problems} if tables.problems in condition._from_objects else set()


def _conditions(connection: Connection, filters: Mapping[str, str]) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    for name, wanted in filters.items():
        if name not in JOB_FILTERS:
            raise UsageError(
                f"cannot filter by {name!r}; columns with a filter: {', '.join(JOB_FILTERS)}"
            )
        if wanted:
            found.append(_condition(connection, name, wanted))
    return found


def _condition(connection: Connection, name: str, wanted: str) -> ColumnElement[bool]:
    if name == "label":
        return _job.label == _id(connection, _label.id, _label.name, wanted)
    if name == "machine":
        id = _id(connection, tables.machines.c.id, tables.machines.c.name, wanted)
        return or_(_job.build_machine == id, _job.eval_machine == id)
    if name == "problem":
        return contains(_problem.key, wanted)
    if name == "operation":
        return _problem.operation == wanted
    if name == "reason":
        return contains(_job.reason, wanted)
    if name == "solver" and wanted in [str(kind) for kind in JobKind]:
        return _job.kind == wanted
    if name == "state" and wanted not in [str(state) for state in JobState]:
        raise UsageError(f"there is no state {wanted!r}; choose from {', '.join(JobState)}")
    if name == "state":
        return _job.state == wanted
    exact: Mapping[str, ColumnElement[Any]] = {
        "device": _job.device,
        "solver": _job.solver,
        "kind": _job.kind,
        "stage": and_(_job.state == str(JobState.ERROR), _job.stage == wanted),
    }
    if name == "stage":
        return exact[name]
    return exact[name] == wanted


def _id(
    connection: Connection, id: ColumnElement[int], name: ColumnElement[str], wanted: str
) -> int:
    """The id of a name; one that no job has, if the name is unknown."""
    return connection.execute(select(id).where(name == wanted)).scalar() or -1


def _rows() -> Select[Any]:
    return (
        select(
            *(_job.id, _job.device, _job.state, _job.kind, _job.searcher, _job.trials),
            *(_job.budget, _job.failed_trials, _job.first_ns, _job.best_ns, _job.stage),
            *(_job.reason, _job.priority, _job.epoch, _job.round, _job.gpu, _job.calls),
            *(_job.device_seconds, _job.created, _job.updated, _job.driver),
            (_job.failures + _job.losses).label("retries"),
            case((_job.kind == _TUNE, _job.solver), else_=_job.kind).label("solver"),
            _label.name.label("label"),
            _problem.key.label("problem"),
            _problem.operation,
            _builder.c.name.label("build_machine"),
            _evaluator.c.name.label("eval_machine"),
        )
        .join(tables.labels, _label.id == _job.label)
        .join(tables.problems, _problem.id == _job.problem)
        .outerjoin(_builder, _builder.c.id == _job.build_machine)
        .outerjoin(_evaluator, _evaluator.c.id == _job.eval_machine)
    )


def _summary(row: Any) -> JobSummary:
    return JobSummary(
        id=row.id,
        label=row.label,
        problem=row.problem,
        operation=row.operation,
        device=row.device,
        state=row.state,
        kind=row.kind,
        solver=row.solver,
        searcher=row.driver or row.searcher,
        trials=row.trials,
        budget=row.budget,
        failed_trials=row.failed_trials,
        first_ns=row.first_ns,
        best_ns=row.best_ns,
        stage=row.stage or "",
        reason=row.reason,
        retries=row.retries,
        priority=row.priority,
        epoch=row.epoch,
        round=row.round,
        build_machine=row.build_machine or "",
        eval_machine=row.eval_machine or "",
        gpu=row.gpu,
        calls=row.calls,
        device_seconds=row.device_seconds,
        created=row.created,
        updated=row.updated,
    )
