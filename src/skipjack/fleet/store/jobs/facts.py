"""Facts of rounds: rows of the ledger's tables, stored in tables with the same columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, select

from skipjack.fleet.store.jobs.transitions import storable_text
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.schema.ledger_tables import TABLES
from skipjack.fleet.store.sql.column_types import parse_stored
from skipjack.fleet.store.sql.dialect import Dialect, dialect_of
from skipjack.fleet.store.sql.statements import chunks, found, insert_long_rows
from skipjack.ledger import Facts, columns_of, write_facts

RoundKey = tuple[int, int, str]
"""A job, a round of its current epoch, and a stage."""


def counted(facts: Facts) -> str:
    """The number of rows of each table, as JSON for a round."""
    return json.dumps({table: len(rows) for table, rows in facts.items() if rows})


def write(connection: Connection, rounds: Iterable[tuple[Mapping[str, Any], Facts]]) -> None:
    """Insert facts of rounds, whose own rows exist: one statement for each table."""
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
    return storable_text(value) if type(value) is str and "\0" in value else value


def read(
    connection: Connection, rounds: Sequence[tuple[int, int, str, str]]
) -> dict[RoundKey, Facts]:
    """The facts of rounds of current epochs; rounds without facts are left out.

    A round is given by its job, number, stage, and the numbers of its rows.
    """
    jobs: dict[str, set[int]] = {}
    for job, _, _, counts in rounds:
        for name in parse_stored(counts):
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
    """The facts of rounds as text, as in tasks and outcomes."""
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
