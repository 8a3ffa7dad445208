"""The order of measurements and marks: a number that grows, whatever the clock does.

It is the microseconds since 1970 at which a row was written, or one more than the largest number
that the ledger knows, whichever is more. Rows of one ledger are so in the order in which they were
written, even where a clock was set back; rows of ledgers that are merged are in the order of their
clocks, as far as nobody knew of the other.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

LARGEST = 1 << 53
"""Of versions, epochs and places in an order: counting on from there stays within 64 bits."""

_KNOWN = (
    f"SELECT (SELECT max(seq) FROM measurements WHERE seq < {LARGEST}), "
    f"(SELECT max(seq) FROM marks WHERE seq < {LARGEST})"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def number_of(created: str) -> int:
    """The number of a time as `created` has it; 0 if it is none."""
    try:
        since = datetime.fromisoformat(created) - _EPOCH
    except (ValueError, TypeError):
        return 0
    return min(max(0, since // timedelta(microseconds=1)), LARGEST - 1)


def next_number(connection: sqlite3.Connection, now: str) -> int:
    """The number of a measurement or mark that is written now."""
    known = connection.execute(_KNOWN).fetchone()
    return max(number_of(now), 1 + max(number or 0 for number in known))
