"""The index of claims has the kind, so that rows of other kinds are not read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_INDEX = "ix_jobs_waiting"


def upgrade() -> None:
    """From 0002."""
    # Some databases cannot undo: a process may have died between the two.
    if any(one["name"] == _INDEX for one in sa.inspect(op.get_bind()).get_indexes("jobs")):
        op.drop_index(_INDEX, "jobs")
    order = ("state", "label", sa.text("priority DESC"), "failures", "losses", "id", "device")
    op.create_index(_INDEX, "jobs", [*order, "solver"])
