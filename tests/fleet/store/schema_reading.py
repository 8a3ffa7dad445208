"""The schema of a database in a form that can be compared."""

from __future__ import annotations

import re

from sqlalchemy import Connection, inspect, text

_DEFINITIONS = {
    "sqlite": "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND type <> 'table'",
    "postgresql": "SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid) "
    "FROM pg_constraint WHERE connamespace = 'public'::regnamespace "
    "UNION ALL SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' "
    "UNION ALL SELECT viewname, definition FROM pg_views WHERE schemaname = 'public' "
    "UNION ALL SELECT table_name || '.' || column_name, concat_ws('|', data_type, "
    "character_maximum_length, is_nullable, column_default, is_identity, "
    # A number that a column had which was dropped is not given again.
    "rank() OVER (PARTITION BY table_name ORDER BY ordinal_position)) "
    "FROM information_schema.columns WHERE table_schema = 'public'",
}


def described(connection: Connection) -> dict[str, object]:
    """Tables, columns, types, defaults, checks, indices, foreign keys and views, by name."""
    inspector = inspect(connection)
    found: dict[str, object] = {"tables": sorted(inspector.get_table_names())}
    for table in inspector.get_table_names():
        found[f"{table} columns"] = [
            {key: str(value) for key, value in column.items()}
            for column in inspector.get_columns(table)
        ]
        found[f"{table} key"] = inspector.get_pk_constraint(table)
        for what in ("check_constraints", "foreign_keys", "indexes", "unique_constraints"):
            rows = getattr(inspector, f"get_{what}")(table)
            found[f"{table} {what}"] = sorted(rows, key=lambda row: str(row["name"]))
    found.update(_own_words(connection))
    return found


def _own_words(connection: Connection) -> dict[str, object]:
    """What the database itself prints, where SQLAlchemy sees only a part."""
    if connection.dialect.name != "mysql":
        rows = connection.execute(text(_DEFINITIONS[connection.dialect.name]))
        return {f"definition of {name}": definition for name, definition in rows}
    words: dict[str, object] = {}
    for (name,) in connection.execute(text("SHOW TABLES")).all():
        row = connection.execute(text(f"SHOW CREATE TABLE `{name}`")).one()
        # Views are printed with the name of their database.
        plain = re.sub(r"`test_\d+`\.", "", str(row[1]))
        # The order of keys and constraints is that of their creation, and means nothing.
        words[f"definition of {name}"] = sorted(line.rstrip(",") for line in plain.splitlines())
    return words
