"""Statements that are spelled once and run often: half the time of a claim of one job was spelling.

They are built by cached functions, with parameters instead of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Dialect, Select, bindparam, func


def listed(dialect: str, column: Column[Any], name: str) -> ColumnElement[bool]:
    """Whether the column is one of the values of the parameter of this name, a list."""
    if dialect != "postgresql":
        return column.in_(bindparam(name, expanding=True))
    from sqlalchemy.dialects import postgresql  # not loaded for other databases

    return column == func.any(bindparam(name, type_=postgresql.ARRAY(column.type)))


def found(connection: Connection, statement: Select[Any], **values: Any) -> Sequence[Any]:
    """The rows that a statement finds which is kept for good."""
    if connection.dialect.name != "postgresql":
        return connection.execute(statement, values).all()
    text, constants = _spelled(statement, connection.dialect)
    return connection.exec_driver_sql(text, {**constants, **values}).all()


@lru_cache(maxsize=256)
def _spelled(statement: Select[Any], dialect: Dialect) -> tuple[str, dict[str, Any]]:
    compiled = statement.compile(dialect=dialect)
    return str(compiled), dict(compiled.params)
