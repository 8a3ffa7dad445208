"""The database's own time, so that machines need not agree on theirs.

Use `now()` inside statements, and `read` where Python has to know: both are seconds since 1970.
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
    """Seconds since 1970 when the statement runs, with at least milliseconds."""

    type = Double()
    inherit_cache = True
    name = "now"


@compiles(now)
def _now(element: now, compiler: Any, **options: Any) -> str:
    return dialect_of(compiler.dialect).now


def read(connection: Connection) -> float:
    """The time by the database's clock."""
    return float(connection.execute(select(now())).scalar_one())


def spelled(seconds: float) -> str:
    """Seconds since 1970 as people and ledgers write times: ISO 8601."""
    return timestamp(datetime.fromtimestamp(seconds, UTC))
