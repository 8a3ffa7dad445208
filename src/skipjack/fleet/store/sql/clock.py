"""The database's own time, so that clocks of machines need not agree.

Use `now()` in statements, and `read` in Python: both are seconds since 1970.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Double, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from skipjack.fleet.store.sql.dialect import dialect_of
from skipjack.storage import timestamp


class now(FunctionElement[float]):
    """Seconds since 1970 when the statement runs, at least to the millisecond."""

    type = Double()
    inherit_cache = True
    name = "now"


@compiles(now)
def _now(element: now, compiler: Any, **options: Any) -> str:
    return dialect_of(compiler.dialect).now


def read(connection: Connection) -> float:
    """The time by the database's clock."""
    return float(connection.execute(select(now())).scalar_one())


def iso_time(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601."""
    return timestamp(datetime.fromtimestamp(seconds, UTC))
