"""Facts of rounds are in the ledger's tables, one row for each, instead of in JSON texts.

A text that cannot be parsed becomes a log of its job.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from skipjack.errors import NewerFormatError, StorageError
from skipjack.fleet.store.sql.column_types import LongText, RowId, ShortText
from skipjack.ledger import columns_of, read_facts

revision = "0011"
down_revision = "0010"

log = logging.getLogger(__name__)

_LEDGER_FORMAT = 5
"""The ledger's format of these tables; its migrations up to this format never change."""
_NAMES = (
    *("devices", "protocols", "studies", "epochs", "study_log", "candidates", "builds"),
    *("candidate_builds", "measurements", "marks", "verdicts"),
)
_TYPES: Mapping[str, sa.types.TypeEngine[Any]] = {
    "TEXT": LongText(),
    "INTEGER": sa.BigInteger(),
    "REAL": sa.Double(),
}
_KEY = ("job", "job_epoch", "round", "stage")
_JOBS_AT_ONCE = 50

_rounds = sa.table(
    "rounds",
    *map(sa.column, ("job", "epoch", "round", "stage", "facts", "attempt", "machine", "created")),
    sa.column("ledger_rows"),
)
_logs = sa.table(
    "logs",
    *map(sa.column, ("job", "stage", "epoch", "round", "attempt", "machine", "text", "created")),
)


def upgrade() -> None:
    """From 0010."""
    # Some databases cannot undo: a process may have died after any of these.
    connection = op.get_bind()
    there = sa.inspect(connection)
    for name in _NAMES:
        if not there.has_table(f"ledger_{name}"):
            _create(name)
    columns = {column["name"] for column in there.get_columns("rounds")}
    if "ledger_rows" not in columns:
        counts = sa.Column("ledger_rows", ShortText(255), nullable=False, server_default="{}")
        op.add_column("rounds", counts)
    if "facts" in columns:
        _convert(connection)
        op.drop_column("rounds", "facts")


def _create(name: str) -> None:
    table = f"ledger_{name}"
    op.create_table(
        table,
        sa.Column("job", RowId(), nullable=False, autoincrement=False),
        sa.Column("job_epoch", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("round", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("stage", ShortText(16), nullable=False),
        sa.Column("place", sa.Integer, nullable=False, autoincrement=False),
        *(
            sa.Column(
                column, _TYPES[what.kind], nullable=not what.required and what.default is None
            )
            for column, what in columns_of(name, _LEDGER_FORMAT).items()
        ),
        sa.PrimaryKeyConstraint(*_KEY, "place", name=f"pk_{table}"),
        sa.ForeignKeyConstraint(
            _KEY,
            ["rounds.job", "rounds.epoch", "rounds.round", "rounds.stage"],
            name=f"fk_{table}_job",
            ondelete="CASCADE",
        ),
    )


def _convert(connection: sa.Connection) -> None:
    for name in _NAMES:  # of a process that died before the texts were dropped
        connection.execute(sa.delete(sa.table(f"ledger_{name}")))
    job = _rounds.c.job
    jobs = connection.execute(sa.select(job).distinct().order_by(job)).scalars().all()
    for start in range(0, len(jobs), _JOBS_AT_ONCE):
        some = jobs[start : start + _JOBS_AT_ONCE]
        _convert_rounds(connection, connection.execute(sa.select(_rounds).where(job.in_(some))))


def _convert_rounds(connection: sa.Connection, rounds: sa.CursorResult[Any]) -> None:
    new: dict[str, list[dict[str, Any]]] = {}
    counts, unread = [], []
    for row in rounds.all():
        try:
            facts = read_facts(row.facts) if row.facts else {}
        except (StorageError, NewerFormatError) as error:
            log.warning(
                "what round %d of job %d found out (%s) is kept as a log: %s",
                *(row.round, row.job, row.stage, error),
            )
            kept = {
                column.name: getattr(row, column.name)
                for column in _logs.c
                if column.name != "text"
            }
            unread.append({**kept, "text": row.facts})
            continue
        key = (row.job, row.epoch, row.round, row.stage)
        counts.append(
            {
                **dict(zip(("a_job", "an_epoch", "a_round", "a_stage"), key, strict=True)),
                "counts": json.dumps({name: len(rows) for name, rows in facts.items() if rows}),
            }
        )
        for name, rows in facts.items():
            new.setdefault(name, []).extend(_rows(name, key, rows))
    of = _rounds.c
    same = (
        *(of.job == sa.bindparam("a_job"), of.epoch == sa.bindparam("an_epoch")),
        *(of.round == sa.bindparam("a_round"), of.stage == sa.bindparam("a_stage")),
    )
    if counts:
        changing = sa.update(_rounds).where(*same).values(ledger_rows=sa.bindparam("counts"))
        connection.execute(changing, counts)
    for name, rows in new.items():
        if rows:
            table = sa.table(f"ledger_{name}", *map(sa.column, rows[0]))
            connection.execute(sa.insert(table), rows)
    if unread:
        connection.execute(sa.insert(_logs), unread)


def _rows(
    name: str, key: tuple[int, int, int, str], rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    columns = columns_of(name, _LEDGER_FORMAT).items()
    return [
        {
            **dict(zip(_KEY, key, strict=True)),
            "place": place,
            **{column: _value(row.get(column), what.default) for column, what in columns},
        }
        for place, row in enumerate(rows)
    ]


def _value(value: Any, default: str | None) -> Any:
    if value is None:
        return default
    # Inside of JSON it was written as an escape; not every database has it in texts.
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
