"""Registrations of machines: how to reach each, its devices, whether it is enabled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from skipjack.fleet.store.sql.column_types import LongText, ShortText

revision = "0002"
down_revision = "0001"

_TEXT = LongText()


def _word(name: str, length: int = 255, default: str | None = None) -> sa.Column[str]:
    kind = ShortText(length)
    return sa.Column(name, kind, nullable=False, server_default=default)


def _count(name: str, default: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False, server_default=sa.text(default))


def upgrade() -> None:
    """From 0001."""
    # Some databases cannot undo: a process that died after this left the table.
    if sa.inspect(op.get_bind()).has_table("registrations"):
        return
    op.create_table(
        "registrations",
        _word("name"),
        _word("host"),
        _count("port", "0"),
        _word("login", default=""),
        _word("device", default=""),
        _count("gpus", "0"),
        sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()),
        _word("disabled_why", default=""),
        sa.Column("remarks", _TEXT, nullable=False),
        _word("python", default=""),
        sa.Column("created", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_registrations"),
        # The names are whole: no convention applies to them.
        sa.CheckConstraint("port >= 0 AND port < 65536", name="ck_registrations_port_is_one"),
        sa.CheckConstraint("gpus >= 0", name="ck_registrations_gpus_count_up"),
    )
