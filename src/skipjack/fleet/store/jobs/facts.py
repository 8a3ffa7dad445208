"""What rounds found out: rows of the ledger's tables, written and read as the ledger has them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, select

from skipjack.fleet.store.jobs.transitions import readable
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.schema.ledger_tables import TABLES
from skipjack.fleet.store.sql.dialect import Dialect, dialect_of
from skipjack.fleet.store.sql.statements import chunks, found, insert_long_rows
from skipjack.fleet.store.sql.stored_json import stored
from skipjack.ledger import Facts, columns_of, write_facts

RoundKey = tuple[int, int, str]
"""A job, a round of its present epoch, and a stage."""


def counted(facts: Facts) -> str:
    """How many rows there are of each table, as a round says it."""
    return json.dumps({table: len(rows) for table, rows in facts.items() if rows})


def write(connection: Connection, rounds: Iterable[tuple[Mapping[str, Any], Facts]]) -> None:
    """Insert what rounds found out, whose own rows are there: one statement for each table."""
    new: dict[str, list[dict[str, Any]]] = {}
    for done, facts in rounds:
        for table, rows in facts.items():
            own = columns_of(table).items()
            new.setdefault(table, []).extend(
                {
                    "job": done["job"],
                    "job_epoch": done["epoch"],
                    "round": done["round"],
                    "stage": done["stage"],
                    "place": place,
                    **{name: _stored(row.get(name), column.default) for name, column in own},
                }
                for place, row in enumerate(rows)
            )
    for name in TABLES:
        for chunk in chunks(new.get(name, ())):
            insert_long_rows(connection, TABLES[name], chunk)


def _stored(value: Any, default: str | None) -> Any:
    if value is None:
        return default
    return readable(value) if type(value) is str and "\0" in value else value


def read(
    connection: Connection, rounds: Sequence[tuple[int, int, str, str]]
) -> dict[RoundKey, Facts]:
    """What rounds of present epochs found out; those that found out nothing are left out.

    Of each its job, round, stage and how many rows it has.
    """
    jobs: dict[str, set[int]] = {}
    for job, _, _, counts in rounds:
        for name in stored(counts):
            jobs.setdefault(name, set()).add(job)
    facts: dict[RoundKey, dict[str, list[dict[str, Any]]]] = {}
    for name in TABLES:
        if name not in jobs:
            continue
        columns = tuple(columns_of(name))
        query = _rows_of(dialect_of(connection), name)
        for job, number, stage, *values in found(connection, query, ids=sorted(jobs[name])):
            row = dict(zip(columns, values, strict=True))
            facts.setdefault((job, number, stage), {}).setdefault(name, []).append(row)
    return dict(facts)


def texts(
    connection: Connection, rounds: Sequence[tuple[int, int, str, str]]
) -> dict[RoundKey, str]:
    """Likewise, in the form in which facts travel."""
    return {key: write_facts(rows) for key, rows in read(connection, rounds).items()}


@cache
def _rows_of(dialect: Dialect, name: str) -> Select[Any]:
    of, job = TABLES[name].c, tables.jobs.c
    own = [of[column] for column in columns_of(name)]
    return (
        select(of.job, of.round, of.stage, *own)
        .join(tables.jobs, (of.job == job.id) & (of.job_epoch == job.epoch))
        .where(dialect.listed(job.id, "ids"))
        .order_by(of.job, of.round, of.stage, of.place)
    )
