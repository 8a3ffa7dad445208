"""The ledger's tables in the store: the ledger's own columns, and the round of each row.

A row belongs to one round, even if another round has an equal one: coordinators never wait for each
other's rows, and the rows of a round are removed when it is built again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Column, Double, ForeignKeyConstraint, Integer, Table
from sqlalchemy.types import TypeEngine

from skipjack.fleet.store.schema.tables import metadata
from skipjack.fleet.store.sql.column_types import LongText, RowId, ShortText
from skipjack.ledger import UNION_TABLES, columns_of

_TYPES: Mapping[str, TypeEngine[Any]] = {
    "TEXT": LongText(),
    "INTEGER": BigInteger(),
    "REAL": Double(),
}


def _table(name: str) -> Table:
    return Table(
        f"ledger_{name}",
        metadata,
        Column("job", RowId(), primary_key=True, autoincrement=False),
        Column("job_epoch", Integer, primary_key=True, autoincrement=False),
        Column("round", Integer, primary_key=True, autoincrement=False),
        Column("stage", ShortText(16), primary_key=True),
        Column("place", Integer, primary_key=True, autoincrement=False),  # in the round's order
        *(
            Column(
                column,
                _TYPES[what.kind],
                nullable=not what.required and what.default is None,
            )
            for column, what in columns_of(name).items()
        ),
        ForeignKeyConstraint(
            ["job", "job_epoch", "round", "stage"],
            ["rounds.job", "rounds.epoch", "rounds.round", "rounds.stage"],
            ondelete="CASCADE",
        ),
    )


TABLES: Mapping[str, Table] = {name: _table(name) for name in UNION_TABLES}
"""Tables by their names in a ledger; parents precede the tables that refer to them."""
