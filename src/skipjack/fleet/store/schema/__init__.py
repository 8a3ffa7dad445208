"""The schema of the database: tables, views, and its revisions."""

__all__ = [
    "revisions",
    "tables",
]
