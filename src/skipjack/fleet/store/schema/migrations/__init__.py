"""The schema's revisions, oldest first, in the form that Alembic reads.

A revision is never edited once released; a change is a further one. Views hold no data: they are
made anew after every upgrade, and no revision mentions them.
"""

REVISIONS = (
    *("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010"),
    "0011",
)
"""Their names in order; the last one is today's schema."""
VERSION_TABLE = "skipjack_fleet_version"
