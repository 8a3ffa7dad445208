"""Small stores that code of earlier revisions filled, and what that code answered from them.

``earlier/revision_N.sql`` has the rows; ``revision_N_answers.json`` has the jobs as ``skipjack
status --list --json`` gave them, their numbers, and what the next round of a job under way was
given; ``revision_N_bank.jsonl`` has the entries of ``skipjack bank build``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sqlalchemy import make_url, text

from skipjack.fleet.store.schema import revisions
from skipjack.fleet.store.sql.dialect import engine_for

FOLDER = Path(__file__).parent / "earlier"
KEY = "00" * 32
"""The key of the fleet that signed the builds."""

_BYTES = re.compile(r"X'([0-9a-f]*)'")


def make(url: str, revision: str) -> None:
    """Fill an empty database with the schema and the rows of a revision."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        Path(str(parsed.database)).parent.mkdir(exist_ok=True)
    engine = engine_for(parsed)
    dialect = engine.dialect.name
    lines = (FOLDER / f"revision_{revision}.sql").read_text(encoding="utf-8").splitlines()
    try:
        with engine.begin() as connection:
            revisions._run_alembic(connection, revision)
            if dialect == "mysql":
                connection.exec_driver_sql("SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'")
            raw = connection.connection.cursor()
            for line in lines:
                if not line.startswith("--"):
                    # Of PostgreSQL, X'..' are bits.
                    raw.execute(_BYTES.sub(r"'\\x\1'", line) if dialect == "postgresql" else line)
            if dialect == "postgresql":  # which counts on from where its sequences are
                for table in ("problems", "labels", "machines", "jobs", "story", "logs"):
                    sequence = f"pg_get_serial_sequence('{table}', 'id')"
                    raw.execute(f"SELECT setval({sequence}, max(id)) FROM {table}")
            raw.close()
        if dialect == "mysql":
            with engine.begin() as connection:
                connection.exec_driver_sql("SET sql_mode = DEFAULT")
    finally:
        engine.dispose()


def facts_of_rounds(url: str) -> dict[tuple[int, int, int, str], str]:
    """What each round found out, as revisions before 0011 kept it: JSON text."""
    engine = engine_for(make_url(url))
    try:
        with engine.connect() as connection:
            found = connection.execute(text("SELECT job, epoch, round, stage, facts FROM rounds"))
            return {(row[0], row[1], row[2], row[3]): row[4] for row in found}
    finally:
        engine.dispose()


def answers(revision: str) -> dict[str, Any]:
    """What the code of the time answered, by what was asked."""
    path = FOLDER / f"revision_{revision}_answers.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def banked(revision: str) -> list[str]:
    """The lines of the bank that the code of the time built."""
    path = FOLDER / f"revision_{revision}_bank.jsonl"
    return path.read_text(encoding="utf-8").splitlines()
