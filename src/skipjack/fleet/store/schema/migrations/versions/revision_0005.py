"""Owners identify their process, so that jobs of a dead one can be freed at once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from skipjack.fleet.store.sql.column_types import ShortText

revision = "0005"
down_revision = "0004"

_COLUMNS = ("boot", "began")


def upgrade() -> None:
    """From 0004."""
    # Some databases cannot undo: a process may have died between the two.
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("owners")}
    word = ShortText(32)
    for name in _COLUMNS:
        if name not in there:
            op.add_column("owners", sa.Column(name, word, nullable=False, server_default=""))
