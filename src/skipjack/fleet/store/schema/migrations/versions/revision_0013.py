"""What people did to labels, devices and machines is recorded with their names."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from skipjack.fleet.store.sql.column_types import LongText, RowId, ShortText

revision = "0013"
down_revision = "0012"

_TABLE = "actions"


def upgrade() -> None:
    """From 0012."""
    # Some databases cannot undo: a process may have died after any of these.
    there = sa.inspect(op.get_bind())
    if not there.has_table(_TABLE):
        op.create_table(
            _TABLE,
            sa.Column("id", RowId(), primary_key=True, autoincrement=True),
            sa.Column("at", sa.Double, nullable=False),
            sa.Column("who", ShortText(255), nullable=False),
            sa.Column("action", ShortText(16), nullable=False),
            sa.Column("kind", ShortText(16), nullable=False),
            sa.Column("target", ShortText(255), nullable=False),
            sa.Column("jobs", sa.Integer, nullable=False, server_default=sa.text("0")),
            sa.Column("reason", LongText(), nullable=False),
            sa.PrimaryKeyConstraint("id", name=f"pk_{_TABLE}"),
        )
    indexes = {one["name"] for one in sa.inspect(op.get_bind()).get_indexes(_TABLE)}
    if "ix_actions_target" not in indexes:
        op.create_index("ix_actions_target", _TABLE, ["target"])
