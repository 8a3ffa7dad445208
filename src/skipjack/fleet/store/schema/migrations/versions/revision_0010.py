"""Jobs have columns for their kind and for the program that does them.

Before, ``find`` and ``kernels`` were values of the solver column, and ``miopen`` of the searcher
column.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from skipjack.fleet.store.sql.column_types import ShortText
from skipjack.fleet.store.sql.dialect import dialect_of

revision = "0010"
down_revision = "0009"

_INDEX = "ix_jobs_waiting"
_OLD_UNIQUE = "uq_jobs_label_problem_device_solver"
_UNIQUE = "uq_jobs_label_problem_device_kind_solver"
_UNIQUE_COLUMNS = ["label", "problem", "device", "kind", "solver"]
_CHECK = "ck_jobs_kind_is_known"
_KNOWN = "kind IN ('tune', 'find', 'kernels')"


def upgrade() -> None:
    """From 0009."""
    # Some databases cannot undo: a process may have died after any of these.
    connection = op.get_bind()
    there = {column["name"] for column in sa.inspect(connection).get_columns("jobs")}
    for name, default in (("kind", "tune"), ("driver", "")):
        if name not in there:
            column = sa.Column(name, ShortText(16), nullable=False, server_default=default)
            op.add_column("jobs", column)
    indexed = _indexed(connection)
    if indexed and "kind" not in indexed:
        op.drop_index(_INDEX, "jobs")
    old = f"CONSTRAINT {_OLD_UNIQUE} UNIQUE (label, problem, device, solver)"
    new = (
        f"CONSTRAINT {_UNIQUE} UNIQUE ({', '.join(_UNIQUE_COLUMNS)}), "
        f"CONSTRAINT {_CHECK} CHECK ({_KNOWN})"
    )
    if not dialect_of(connection).redefine(connection, "jobs", old, new):
        _alter(connection)
    if not _indexed(connection):
        order = ("state", "label", sa.text("priority DESC"), "failures", "losses", "id", "device")
        op.create_index(_INDEX, "jobs", [*order, "kind", "driver"])
    for statement in (
        "UPDATE jobs SET driver = 'miopen' WHERE solver = 'miopen' OR searcher = 'miopen'",
        "UPDATE jobs SET searcher = 'auto' WHERE searcher = 'miopen'",
        "UPDATE jobs SET kind = solver WHERE solver IN ('find', 'kernels')",
        "UPDATE jobs SET solver = 'auto' WHERE solver IN ('find', 'kernels')",
    ):
        op.execute(statement)


def _indexed(connection: sa.Connection) -> list[str | None]:
    """The columns of the index of waiting jobs; empty if there is no such index."""
    found = {one["name"]: one for one in sa.inspect(connection).get_indexes("jobs")}
    return list(found[_INDEX]["column_names"]) if _INDEX in found else []


def _alter(connection: sa.Connection) -> None:
    inspector = sa.inspect(connection)
    uniques = {one["name"] for one in inspector.get_unique_constraints("jobs")}
    if _UNIQUE not in uniques:
        op.create_unique_constraint(_UNIQUE, "jobs", _UNIQUE_COLUMNS)
    if _OLD_UNIQUE in uniques:  # only now: some databases need one for the reference to labels
        op.drop_constraint(_OLD_UNIQUE, "jobs", type_="unique")
    if _CHECK not in {one["name"] for one in inspector.get_check_constraints("jobs")}:
        op.create_check_constraint(_CHECK, "jobs", _KNOWN)
