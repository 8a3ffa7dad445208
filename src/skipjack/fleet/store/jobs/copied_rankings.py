"""Copies of other labels' rankings: find jobs as if they had been done for this label."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, exists, insert, literal, select, update

from skipjack.fleet.model import JobKind, JobState
from skipjack.fleet.store.catalog import devices, labels
from skipjack.fleet.store.catalog.devices import same_class
from skipjack.fleet.store.jobs.problems import digest_of, ids_of
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock, statements
from skipjack.fleet.store.sql.column_types import parse_stored
from skipjack.fleet.store.sql.statements import insert_long_rows, insert_rows

_AT_ONCE = 200
_FIND = str(JobKind.FIND)
_COPIED = (
    *("problem", "device", "solver", "searcher", "seed", "budget", "round_size", "priority"),
    *("attempt", "device_record", "build_machine", "eval_machine", "gpu", "trials"),
    *("failed_trials", "best_ns", "toolchain", "kind", "driver"),
)

Pair = tuple[str, str]
"""A problem's key and a device's name."""


def copy_rankings(
    connection: Connection, label: str, pairs: Iterable[Pair], toolchains: Mapping[str, str]
) -> int:
    """Add a find job to the label for each pair with a ranking by its device's toolchain.

    The newest ranking is copied. Pairs for which the label has a find job are left as they are.
    """
    label_id = labels.id_of(connection, label)
    devices.bind_unbound(connection, (), label_id)
    by_device: dict[str, list[str]] = {}
    for key, device in pairs:
        by_device.setdefault(device, []).append(key)
    for device in by_device:
        _follow(connection, label_id, device)
    return sum(
        _take(connection, label_id, device, chunk, toolchains[device])
        for device, keys in by_device.items()
        for chunk in statements.chunks(keys, _AT_ONCE)
    )


def _follow(connection: Connection, label: int, device: str) -> None:
    """Bind a label without a real device to the device of the rankings, if there is only one."""
    of, job = tables.label_devices.c, tables.jobs.c
    ranked = exists().where(
        *(job.label == of.label, job.device == of.device, job.kind == _FIND),
        job.state == str(JobState.EVALUATED),
    )
    classes = select(of.class_key).where(of.device == device, of.class_key.is_not(None), ranked)
    found = connection.execute(classes.distinct()).scalars().all()
    if len(found) == 1:
        mine = (of.label == label, of.device == device, of.class_key.is_(None))
        values = update(tables.label_devices).where(*mine).values(class_key=found[0])
        connection.execute(values)


def _take(
    connection: Connection, label: int, device: str, keys: Sequence[str], toolchain: str
) -> int:
    job = tables.jobs.c
    problems = list(ids_of(connection, map(digest_of, keys)).values())
    there = select(job.problem).where(job.label == label, job.device == device, job.kind == _FIND)
    query = (
        select(tables.jobs, tables.labels.c.name.label("label_name"))
        .join(tables.labels, tables.labels.c.id == job.label)
        .where(job.problem.in_(problems), same_class(label, device), job.kind == _FIND)
        .where(job.state == str(JobState.EVALUATED), job.toolchain == toolchain)
        .where(job.problem.not_in(there))
        .order_by(job.updated.desc(), job.id.desc())
    )
    newest: dict[int, Any] = {}
    for row in connection.execute(query):
        newest.setdefault(row.problem, row)
    if not newest:
        return 0
    now = clock.read(connection)
    fixed = {"label": label, "state": str(JobState.EVALUATED), "reason": "", "created": now}
    rows = [
        {
            **{name: getattr(row, name) for name in _COPIED},
            **fixed,
            "result": json.dumps(_marked(row), sort_keys=True),
            "updated": now,
        }
        for row in newest.values()
    ]
    made = statements.insert_new(connection, tables.jobs, rows)
    _copy_past(connection, label, device, newest, now)
    return made


def _marked(row: Any) -> dict[str, Any]:
    """The result with its origin."""
    return {
        **parse_stored(row.result),
        "taken_over": {"job": row.id, "label": row.label_name},
    }


def _copy_past(
    connection: Connection, label: int, device: str, originals: Mapping[int, Any], now: float
) -> None:
    """Copy the rounds of the originals, and add an event with the origin.

    Another run may have added some of these jobs meanwhile. Ours are those that are evaluated and
    have no history yet.
    """
    job, done = tables.jobs.c, tables.rounds.c
    mine = (
        select(job.id, job.problem)
        .where(job.label == label, job.device == device, job.kind == _FIND)
        .where(job.problem.in_(originals), job.state == str(JobState.EVALUATED))
        .where(~exists().where(tables.history.c.job == job.id))
    )
    copies = {originals[row.problem].id: row.id for row in connection.execute(mine)}
    if not copies:
        return
    same = and_(job.id == done.job, job.epoch == done.epoch)
    query = select(tables.rounds).join(tables.jobs, same).where(done.job.in_(copies))
    rows = [
        {**row, "job": copies[row["job"]], "epoch": 0}
        for row in connection.execute(query).mappings()
    ]
    if rows:
        insert_long_rows(connection, tables.rounds, rows)
        _copy_facts(connection, copies, rows)
    lines = [_line(copies[one.id], one, now) for one in originals.values() if one.id in copies]
    insert_rows(connection, tables.history, lines)


def _copy_facts(
    connection: Connection, copies: Mapping[int, int], rounds: Sequence[Mapping[str, Any]]
) -> None:
    """Copy the facts of the originals inside the database."""
    # Few programs copy rankings, and the ledger is slow to load.
    from skipjack.fleet.store.schema.ledger_tables import TABLES

    original, copy = tables.jobs.alias("original"), tables.jobs.alias("copy")
    for name in {name for one in rounds for name in parse_stored(one["ledger_rows"])}:
        table = TABLES[name]
        of = table.c
        changed = {"job": copy.c.id, "job_epoch": literal(0)}
        columns = [changed.get(column.name, column) for column in of]
        query = (
            select(*columns)
            .join(original, (original.c.id == of.job) & (original.c.epoch == of.job_epoch))
            .join(copy, copy.c.problem == original.c.problem)
            .where(of.job.in_(copies), copy.c.id.in_(copies.values()))
        )
        connection.execute(insert(table).from_select([column.name for column in of], query))


def _line(job: int, original: Any, now: float) -> dict[str, Any]:
    return {
        "job": job,
        "at": now,
        "event": "taken_over",
        "before": "",
        "after": str(JobState.EVALUATED),
        "epoch": 0,
        "round": 0,
        "attempt": original.attempt,
        "machine": None,
        "gpu": "",
        "reason": f"from job {original.id} of {original.label_name}",
    }
