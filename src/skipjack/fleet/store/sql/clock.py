"""The database's own time, so that machines need not agree on theirs.

Use `now()` inside statements, and `read` where Python has to know: both are seconds since 1970.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Double, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from skipjack.storage import timestamp


class now(FunctionElement[float]):
    """Seconds since 1970 when the statement runs, with at least milliseconds."""

    type = Double()
    inherit_cache = True
    name = "now"


@compiles(now, "sqlite")
def _sqlite(element: now, compiler: Any, **options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _postgresql(element: now, compiler: Any, **options: Any) -> str:
    # now() would be when the transaction began, which may have waited for locks since.
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


@compiles(now, "mysql")
def _mysql(element: now, compiler: Any, **options: Any) -> str:
    # Every session is set to UTC: an hour that occurs twice in autumn would be ambiguous.
    return "CAST(unix_timestamp(now(6)) AS double)"


def read(connection: Connection) -> float:
    """The time by the database's clock."""
    return float(connection.execute(select(now())).scalar_one())


def spelled(seconds: float) -> str:
    """Seconds since 1970 as people and ledgers write times: ISO 8601."""
    return timestamp(datetime.fromtimestamp(seconds, UTC))
