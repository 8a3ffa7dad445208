"""What MIOpen's earlier jobs left about the same problem on the same device: lines of databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, or_, select

from skipjack.fleet.records import MIOPEN, JobKind, Known
from skipjack.fleet.states import State
from skipjack.fleet.store.jobs import labels
from skipjack.fleet.store.jobs.transitions import JobRow
from skipjack.fleet.store.machines.devices import same_class
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.statements import chunks
from skipjack.fleet.store.sql.stored_json import stored
from skipjack.fleet.winners import Result

_NEWEST = 6
"""Evaluated jobs of a problem that are looked into."""
_AT_ONCE = 200
_KERNELS = str(JobKind.KERNELS)


def known_for(connection: Connection, row: JobRow) -> tuple[Known, ...]:
    """The newest lines of any label: parameters of a search, the ranking of a find before others.

    A find is told the parameters alone: it is to time everything anew. Builds of MIOpen may differ
    between jobs; a parameter that a solver does not take any more, MIOpen passes over by itself.
    """
    job = tables.jobs.c
    query = _evaluated().where(
        job.problem == row.problem, same_class(row.label, row.device), job.id != row.id
    )
    found = connection.execute(query.limit(_NEWEST))
    known = _newest([(JobKind(one.kind), stored(one.result)) for one in found])
    return (known,) if known else ()


def rankings(connection: Connection, label: str) -> dict[tuple[str, str], Known]:
    """What `known_for` says today to the kernel jobs of a label that are done.

    Not of problems that nobody has ranked: their kernel jobs rank for themselves.
    """
    job = tables.jobs.c
    label_id = labels.id_of(connection, label)
    mine = (
        select(job.problem, job.device, tables.problems.c.key)
        .join(tables.problems, tables.problems.c.id == job.problem)
        .where(job.label == label_id, job.kind == _KERNELS)
        .where(job.driver == MIOPEN, job.state == str(State.EVALUATED))
    )
    found: dict[tuple[str, str], Known] = {}
    for chunk in chunks(connection.execute(mine).all(), _AT_ONCE):
        keys = {(row.problem, row.device): row.key for row in chunk}
        left: dict[tuple[int, str], list[Result]] = {}
        alike = or_(*(same_class(label_id, device) for device in {name for _, name in keys}))
        these = _evaluated().where(job.problem.in_({id for id, _ in keys}), alike)
        for one in connection.execute(these):
            result = JobKind(one.kind), stored(one.result)
            left.setdefault((one.problem, one.device), []).append(result)
        for pair, key in keys.items():
            known = _newest(left.get(pair, ()))
            if known and _ranked(str(known.config["find_db"])):
                found[key, pair[1]] = known
    return found


def known_of(
    finds: Sequence[Mapping[str, Any]], searches: Sequence[Mapping[str, Any]]
) -> Known | None:
    """The lines of these results, those that come first before others; None if there are none."""
    lines = {
        "find_db": _first("find_db", *finds, *searches),
        "perf_db": _first("perf_db", *searches, *finds),
    }
    return Known(MIOPEN, lines) if any(lines.values()) else None


def _evaluated() -> Select[Any]:
    """Jobs that searched or ranked, newest first."""
    job = tables.jobs.c
    return (
        select(job.problem, job.device, job.kind, job.result)
        .where(job.state == str(State.EVALUATED), job.driver == MIOPEN, job.kind != _KERNELS)
        .order_by(job.updated.desc(), job.id.desc())
    )


def _newest(left: Sequence[Result]) -> Known | None:
    looked = left[:_NEWEST]
    finds = [result for kind, result in looked if kind is JobKind.FIND]
    searches = [result for kind, result in looked if kind is JobKind.TUNE]
    return known_of(finds, searches)


def _ranked(line: str) -> bool:
    """Whether a line of the find-db has any time that can be one."""
    # Those alone need it who have jobs of MIOpen's.
    from skipjack.interop.miopen import Record
    from skipjack.solvers.miopen.databases import believed

    key, _, contents = line.partition("=")
    return bool(contents) and believed(Record.of_texts(key, contents)) is not None


def _first(which: str, *results: Mapping[str, Any]) -> str:
    """The first line of this database that any of the results has."""
    for result in results:
        for line in result.get("miopen", {}).get(which, ()):
            return str(line)
    return ""
