"""Device-seconds are counted and may be limited, calls weight problems, builds have a machine."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from skipjack.fleet.store.sql.column_types import LongText

revision = "0012"
down_revision = "0011"

_INDEX = "ix_rounds_stage_created"


def _used() -> sa.Column[float]:
    return sa.Column("device_seconds", sa.Double, nullable=False, server_default=sa.text("0"))


def _columns() -> dict[str, tuple[sa.Column[Any], ...]]:
    return {
        "labels": (sa.Column("device_seconds", sa.Double),),
        "jobs": (
            sa.Column("calls", sa.Double),
            _used(),
            sa.Column("first_ns", sa.Double),
            sa.Column("trial_limit", sa.Integer),
        ),
        "rounds": (_used(),),
        "problem_tags": (sa.Column("calls", sa.Double),),
        "ledger_builds": (sa.Column("machine", LongText()),),
    }


def upgrade() -> None:
    """From 0011."""
    # Some databases cannot undo: a process may have died after any of these.
    there = sa.inspect(op.get_bind())
    for table, columns in _columns().items():
        known = {column["name"] for column in there.get_columns(table)}
        for column in columns:
            if column.name not in known:
                op.add_column(table, column)
    if _INDEX not in {one["name"] for one in there.get_indexes("rounds")}:
        op.create_index(_INDEX, "rounds", ["stage", "created"])
