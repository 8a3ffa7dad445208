"""The database's times as people and ledgers spell them."""

from __future__ import annotations

from datetime import UTC, datetime

from skipjack.storage import timestamp


def spelled(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601."""
    return timestamp(datetime.fromtimestamp(seconds, UTC))
