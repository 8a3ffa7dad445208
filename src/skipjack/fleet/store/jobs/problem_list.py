"""Lists of problems with their tags and results, read from the views; tagging of problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, column, delete, exists, false, select, table, true

from skipjack.errors import UsageError
from skipjack.fleet.store.jobs.problems import (
    NewProblem,
    Provenance,
    add_problems,
    check_tag,
    digest_of,
    ids_of,
)
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import statements

_LISTED = table(
    "problem_list",
    *map(column, ("id", "problem", "operation", "direction", "dtype", "recurrent", "retired")),
    *map(column, ("created", "measured", "machine", "device", "solver")),
)
_RESULTS = table(
    "results",
    *map(column, ("job", "label", "problem", "device", "outcome", "solver", "time_ns")),
    *map(column, ("toolchain", "eval_machine", "gpu", "evaluated")),
)


@dataclass(frozen=True, slots=True)
class LastMeasured:
    """When and where a problem was last measured."""

    at: str
    machine: str
    device: str
    solver: str
    """The solver that won."""


@dataclass(frozen=True, slots=True)
class ListedProblem:
    """A problem with its tags and its last measurement."""

    problem: str
    operation: str
    direction: str
    dtype: str
    tags: tuple[Provenance, ...]
    """Its tags with their details."""
    recurrent: bool
    """Whether any of its tags is recurrent."""
    retired: bool
    created: str
    measured: LastMeasured | None = None


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """The newest result of a problem on a device."""

    job: int
    label: str
    device: str
    outcome: str
    solver: str
    time_ns: float | None
    toolchain: str
    machine: str
    gpu: str
    at: str


@dataclass(frozen=True, slots=True)
class ProblemFilter:
    """A filter of problems; all conditions must hold."""

    tag: str | None = None
    operations: Sequence[str] = ()
    recurrent: bool = False
    retired: bool = False


def listed(connection: Connection, which: ProblemFilter, limit: int) -> list[ListedProblem]:
    """The problems that match the filter, by id."""
    if which.tag is not None:
        check_tag(connection, which.tag)
    query = _asked_for(which).order_by(_LISTED.c.id).limit(limit)
    rows = connection.execute(query).all()
    tags = _tags(connection, [row.id for row in rows])
    return [_problem(row, tags) for row in rows]


def _asked_for(which: ProblemFilter) -> Select[Any]:
    """The query of a filter. Conditions use the tables, which have indexes."""
    known, tags = tables.problems.c, tables.problem_tags.c
    query = select(_LISTED)
    if which.tag is not None or which.recurrent:
        having = [tags.problem == _LISTED.c.id]
        having += [tags.tag == which.tag] if which.tag is not None else []
        having += [tags.recurrent == true()] if which.recurrent else []
        query = query.where(exists().where(*having))
    if which.operations:
        query = query.where(_LISTED.c.operation.in_(which.operations))
    if which.retired:
        query = query.where(exists().where(known.id == _LISTED.c.id, known.retired != false()))
    return query


def _tags(connection: Connection, ids: Sequence[int]) -> dict[int, list[Provenance]]:
    """The tags of problems, by the problem's id."""
    of = tables.problem_tags.c
    tags: dict[int, list[Provenance]] = {}
    for chunk in statements.chunks(ids):
        mine = select(tables.problem_tags).where(
            statements.among_thousands(connection, of.problem, chunk)
        )
        for row in connection.execute(mine.order_by(of.problem, of.tag)):
            provenance = Provenance(row.tag, bool(row.recurrent), row.source, row.model)
            tags.setdefault(row.problem, []).append(provenance)
    return tags


def shown(connection: Connection, key: str) -> tuple[ListedProblem, list[DeviceResult]]:
    """A problem with its newest result on each device."""
    (id,) = _known_ids(connection, [key])
    row = connection.execute(select(_LISTED).where(_LISTED.c.id == id)).one()
    problem = _problem(row, _tags(connection, [id]))
    results = select(_RESULTS).where(_RESULTS.c.problem == key)
    newest: dict[str, DeviceResult] = {}
    order = (_RESULTS.c.evaluated.desc(), _RESULTS.c.job.desc())
    for row in connection.execute(results.order_by(*order)):
        newest.setdefault(row.device, _result(row))
    return problem, list(newest.values())


def tag(connection: Connection, keys: Sequence[str], provenance: Provenance) -> int:
    """Tag known problems; returns the number of those that did not have the tag."""
    _known_ids(connection, keys)
    problems = [NewProblem(key, "") for key in keys]
    return add_problems(
        connection,
        problems,
        provenance.tag,
        recurrent=provenance.recurrent,
        source=provenance.source,
        model=provenance.model,
        tag_only=True,
    ).tagged


def untag(connection: Connection, keys: Sequence[str], tag: str) -> int:
    """Remove a tag from problems; returns the number of those that had it."""
    check_tag(connection, tag)
    of, ids = tables.problem_tags, _known_ids(connection, keys)
    return sum(
        connection.execute(
            delete(of).where(
                of.c.tag == tag, statements.among_thousands(connection, of.c.problem, chunk)
            )
        ).rowcount
        for chunk in statements.chunks(ids)
    )


def _known_ids(connection: Connection, keys: Iterable[str]) -> list[int]:
    """The ids of problems; `UsageError` for the first unknown one."""
    digests = {digest_of(key): key for key in keys}
    found = ids_of(connection, digests)
    for digest, key in digests.items():
        if digest not in found:
            raise UsageError(f"the store does not know {key}; import it with skipjack import -t")
    return sorted(found.values())


def _problem(row: Row[Any], tags: Mapping[int, Sequence[Provenance]]) -> ListedProblem:
    measured = None
    if row.measured is not None:
        measured = LastMeasured(
            _timestamp(row.measured), row.machine or "", row.device, row.solver or ""
        )
    return ListedProblem(
        row.problem,
        row.operation,
        row.direction,
        row.dtype,
        tuple(tags.get(row.id, ())),
        bool(row.recurrent),
        bool(row.retired),
        _timestamp(row.created),
        measured,
    )


def _result(row: Row[Any]) -> DeviceResult:
    return DeviceResult(
        *(row.job, row.label, row.device, row.outcome or "", row.solver or "", row.time_ns),
        *(row.toolchain, row.eval_machine or "", row.gpu, _timestamp(row.evaluated)),
    )


def _timestamp(value: datetime | str) -> str:
    """A view's timestamp as ISO 8601 in UTC, in seconds; some databases return texts."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    aware = moment.astimezone(UTC) if moment.tzinfo else moment
    return aware.strftime("%Y-%m-%dT%H:%M:%SZ")
