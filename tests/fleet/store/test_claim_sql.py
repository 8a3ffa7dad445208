"""The documentation shows the SQL of a claim as it is sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from crew import LABEL, crew, load
from sqlalchemy import Engine, event

from skipjack.fleet.model import JobStage
from skipjack.fleet.store import Store
from skipjack.fleet.store.sql.dialect import dialect_of

PAGE = Path(__file__).parents[3] / "docs" / "fleet-store.md"


@contextmanager
def sent_to(engine: Engine) -> Iterator[list[str]]:
    """The statements that are sent meanwhile, without their values, through SQLAlchemy or not."""
    sent: list[str] = []

    class Noting(psycopg.Cursor[Any]):
        def execute(self, query: Any, *rest: Any, **options: Any) -> Noting:
            sent.append(query)
            return super().execute(query, *rest, **options)

    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if not isinstance(cursor, psycopg.Cursor):
            sent.append(statement)

    def use(connection: Any, *rest: Any) -> None:
        if isinstance(connection, psycopg.Connection):
            connection.cursor_factory = Noting

    def leave(connection: Any, *rest: Any) -> None:
        if isinstance(connection, psycopg.Connection):
            connection.cursor_factory = psycopg.Cursor

    event.listen(engine, "before_cursor_execute", note)
    event.listen(engine, "checkout", use)
    event.listen(engine, "checkin", leave)
    try:
        yield sent
    finally:
        event.remove(engine, "before_cursor_execute", note)
        event.remove(engine, "checkout", use)
        event.remove(engine, "checkin", leave)


def plain(sql: str) -> str:
    """SQL on one line, without the spaces that only lay it out and the columns of the job."""
    line = re.sub(r"(?<=\() | (?=\))", "", " ".join(sql.split()))
    return re.sub(r"jobs\.id(, jobs\.\w+)+(?=, jobs\.driver)", "jobs.id, ...", line)


def shown(heading: str) -> list[str]:
    """The statements of the page's block under a heading."""
    block = re.search(rf"\n### {heading}\n+```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert block, f"{PAGE.name} has no SQL under {heading}"
    return [plain(one) for one in block[1].split(";\n") if one.strip()]


def test_the_page_shows_what_a_claim_of_one_job_sends(store: Store) -> None:
    load(store, 3)
    us = crew(store)
    us.claims(JobStage.BUILD, label=LABEL)  # a new key is agreed on once
    with sent_to(store.database.engine) as sent:
        assert len(us.claims(JobStage.BUILD, label=LABEL)) == 1
    dialect = dialect_of(store.database.engine)
    heading = f"A claim on {type(dialect).__name__.removesuffix('Dialect')}"
    inside = [plain(one) for one in sent if not one.startswith(("BEGIN", "COMMIT"))]
    assert inside == shown(heading)
