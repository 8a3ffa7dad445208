"""Machines are paused after they have lost workers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from skipjack.fleet.store.sql.column_types import ShortText

revision = "0006"
down_revision = "0005"

_TEXT = ShortText(255)


def upgrade() -> None:
    """From 0005."""
    # Some databases cannot undo: a process may have died between two of them.
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("machines")}
    for column in (
        sa.Column("losses", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("paused_until", sa.Double, nullable=False, server_default=sa.text("0")),
        sa.Column("paused_why", _TEXT, nullable=False, server_default=""),
    ):
        if column.name not in there:
            op.add_column("machines", column)
