"""Aborts of registered machines and of architectures, before any was seen."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from skipjack.fleet.store.sql.column_types import ShortText

revision = "0004"
down_revision = "0003"

_NAME = ShortText(255)


def upgrade() -> None:
    """From 0003."""
    # Some databases cannot undo: a process may have died after either of the two.
    there = sa.inspect(op.get_bind())
    if all(column["name"] != "aborted" for column in there.get_columns("registrations")):
        flag = sa.Column("aborted", sa.Boolean, nullable=False, server_default=sa.false())
        op.add_column("registrations", flag)
    if not there.has_table("stopped_architectures"):
        op.create_table(
            "stopped_architectures",
            sa.Column("name", _NAME, nullable=False),
            sa.Column("created", sa.Double, nullable=False),
            sa.PrimaryKeyConstraint("name", name="pk_stopped_architectures"),
        )
