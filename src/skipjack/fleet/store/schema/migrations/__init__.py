"""The schema's revisions, oldest first, as Alembic reads them.

A released revision is never edited; a change is a new one. Views hold no data: they are created
again after every upgrade, and no revision mentions them.
"""

REVISIONS = (
    *("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010"),
    *("0011", "0012", "0013"),
)
"""Their names in order; the last one is the current schema."""
VERSION_TABLE = "skipjack_fleet_version"
