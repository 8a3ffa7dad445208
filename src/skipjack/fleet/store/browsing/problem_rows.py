"""The table of problems, page by page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, exists, func, select, true

from skipjack.errors import UsageError
from skipjack.fleet.model import JobState
from skipjack.fleet.store.browsing.row_page import RowPage, contains, ordered
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.statements import among

_problem, _tag, _job = tables.problems.c, tables.problem_tags.c, tables.jobs.c


@dataclass(frozen=True, slots=True)
class TagDetails:
    """A tag of a problem: where it came from."""

    tag: str
    recurrent: bool
    source: str
    model: str
    created: float
    calls: float | None
    """How often the program calls it, if that is known."""


@dataclass(frozen=True, slots=True)
class ProblemSummary:
    """A problem as a row of tables. Times are seconds since 1970."""

    key: str
    operation: str
    direction: str
    dtype: str
    retired: bool
    created: float
    tags: tuple[TagDetails, ...]
    jobs: int
    evaluated: int
    trials: int
    best_ns: float | None
    """The best time of its newest evaluated job."""
    device: str
    """The device of that job."""
    measured: float | None

    @property
    def calls(self) -> float | None:
        """Calls according to all tags together, if known."""
        known = [one.calls for one in self.tags if one.calls is not None]
        return sum(known) if known else None

    @property
    def recurrent(self) -> bool:
        """Whether it is to be tuned repeatedly."""
        return any(one.recurrent for one in self.tags)


_SORT: Mapping[str, ColumnElement[Any]] = {
    "id": _problem.id,
    "key": _problem.key,
    "operation": _problem.operation,
    "dtype": _problem.dtype,
    "created": _problem.created,
}
PROBLEM_SORTS = tuple(_SORT)
PROBLEM_FILTERS = ("key", "operation", "direction", "dtype", "tag", "source", "model", "retired")


def page(connection: Connection, which: RowPage) -> tuple[list[ProblemSummary], int]:
    """The problems of a page, and the number of all that match."""
    conditions = [_condition(*one) for one in which.filters.items() if one[1]]
    total = connection.execute(
        select(func.count()).select_from(tables.problems).where(*conditions)
    ).scalar_one()
    return rows_of(connection, ids(connection, which)), int(total)


def ids(connection: Connection, which: RowPage) -> list[int]:
    """The ids of the problems of a page."""
    conditions = [_condition(*one) for one in which.filters.items() if one[1]]
    query = select(_problem.id).where(*conditions)
    return list(connection.execute(ordered(query, which, _SORT, _problem.id)).scalars())


def problem(connection: Connection, key: str) -> ProblemSummary | None:
    """A problem by its key; None if the store does not have it."""
    from skipjack.fleet.store.jobs.problems import digest_of

    found = connection.execute(select(_problem.id).where(_problem.digest == digest_of(key)))
    ids = list(found.scalars())
    return rows_of(connection, ids)[0] if ids else None


def rows_of(connection: Connection, ids: Sequence[int]) -> list[ProblemSummary]:
    """The problems with these ids, in this order."""
    if not ids:
        return []
    rows = connection.execute(select(tables.problems).where(among(connection, _problem.id, ids)))
    found = {row.id: row for row in rows}
    tags: dict[int, list[TagDetails]] = defaultdict(list)
    query = select(tables.problem_tags).where(among(connection, _tag.problem, ids))
    for row in connection.execute(query.order_by(_tag.tag)):
        tags[row.problem].append(
            TagDetails(
                *(row.tag, bool(row.recurrent), row.source, row.model, row.created, row.calls)
            )
        )
    jobs: dict[int, list[Any]] = defaultdict(list)
    columns = (_job.problem, _job.id, _job.state, _job.trials, _job.best_ns, _job.device)
    query = select(*columns, _job.updated).where(among(connection, _job.problem, ids))
    for row in connection.execute(query):
        jobs[row.problem].append(row)
    return [_summary(found[id], tags[id], jobs[id]) for id in ids if id in found]


def _summary(row: Any, tags: Sequence[TagDetails], jobs: Sequence[Any]) -> ProblemSummary:
    done = [one for one in jobs if one.state == JobState.EVALUATED]
    newest = max(done, key=lambda one: (one.updated, one.id), default=None)
    return ProblemSummary(
        key=row.key,
        operation=row.operation,
        direction=row.direction,
        dtype=row.dtype,
        retired=bool(row.retired),
        created=row.created,
        tags=tuple(tags),
        jobs=len(jobs),
        evaluated=len(done),
        trials=sum(one.trials for one in jobs),
        best_ns=newest.best_ns if newest else None,
        device=newest.device if newest else "",
        measured=newest.updated if newest else None,
    )


def _condition(name: str, wanted: str) -> ColumnElement[bool]:
    exact = {
        "operation": _problem.operation,
        "direction": _problem.direction,
        "dtype": _problem.dtype,
    }
    of_tags = {"tag": _tag.tag, "source": _tag.source, "model": _tag.model}
    if name == "key":
        return contains(_problem.key, wanted)
    if name in exact:
        return exact[name] == wanted
    if name in of_tags:
        return exists().where(_tag.problem == _problem.id, of_tags[name] == wanted)
    if name == "retired":
        is_retired = _problem.retired == true()
        return is_retired if wanted.lower() in ("yes", "true", "1") else ~is_retired
    raise UsageError(
        f"cannot filter by {name!r}; columns with a filter: {', '.join(PROBLEM_FILTERS)}"
    )
