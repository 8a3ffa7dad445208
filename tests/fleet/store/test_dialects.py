"""What differs between databases is in one class for each; a further one is a class of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from crew import crew, load, states
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

import skipjack
from skipjack.errors import UsageError
from skipjack.fleet.model import JobState
from skipjack.fleet.store import open_store
from skipjack.fleet.store.sql import dialect
from skipjack.fleet.store.sql.dialect import dialect_of, register
from skipjack.fleet.store.sql.sqlite import SQLiteDialect
from skipjack.fleet.store.sql.urls import database_url
from skipjack.settings import Settings
from skipjack.testing.fleet.stores import StoreConformance

SRC = Path(skipjack.__file__).parent
STORE = SRC / "fleet" / "store"
PARTS = ("sqlite", "postgresql", "postgresql_pipeline", "mariadb", "__init__")
OWN = {STORE / "sql" / f"{name}.py" for name in PARTS}
"""The dialects, and the list of them."""
OTHERS = {
    SRC / "testing" / "servers.py": "starts servers for tests",
    SRC / "processes.py": "names environment variables with passwords",
}
SERVERS = re.compile(r"postgres|psycopg|mysql|mariadb", re.IGNORECASE)
ANY = re.compile(f"{SERVERS.pattern}|sqlite", re.IGNORECASE)


def _knowing(pattern: re.Pattern[str], under: Path) -> set[Path]:
    return {path for path in under.rglob("*.py") if pattern.search(path.read_text("utf-8"))}


def test_only_a_dialect_knows_its_database_by_name() -> None:
    assert _knowing(SERVERS, SRC) - OWN == set(OTHERS)
    assert _knowing(ANY, STORE) == OWN


def test_the_name_of_a_database_is_looked_up_in_one_place_and_compared_nowhere() -> None:
    asking = re.compile(r"dialect\.name|get_backend_name")
    assert _knowing(asking, SRC) == {STORE / "sql" / "dialect.py"}
    compared = re.compile(r"(==|!=|\bin|\bis|match) [^\n]*(dialect\.name|get_backend_name)")
    other_way = re.compile(r"(dialect\.name|get_backend_name\(\)) *(==|!=|in\b|is\b)")
    assert _knowing(compared, STORE) | _knowing(other_way, STORE) == set()


class HarbourBackend(SQLiteDialect_pysqlite):
    """What a package for SQLAlchemy would bring."""

    name = "harbour"
    supports_statement_cache = True


class Harbour(SQLiteDialect):
    """A database that Skipjack does not know."""

    name = "harbour"
    schemes = {"harbour": "harbour"}  # noqa: RUF012
    example = "harbour:///file"


@pytest.fixture
def harbour(monkeypatch: pytest.MonkeyPatch) -> Harbour:
    monkeypatch.setattr(dialect, "_known", dict(dialect._known))
    monkeypatch.setitem(registry.impls, "harbour", lambda: HarbourBackend)
    one = Harbour()
    register(one)
    return one


def test_a_label_is_worked_on_in_a_database_that_a_plug_in_brought(
    harbour: Harbour, tmp_path: Path
) -> None:
    with open_store(f"harbour:///{tmp_path}/jobs", settings=Settings(tmp_path)) as store:
        assert dialect_of(store.database.engine) is harbour
        jobs = load(store, 3)
        us = crew(store)
        assert [us.build(b"code") for _ in jobs] == jobs
        assert [us.tell(finished=True) for _ in jobs] == jobs
        assert states(store) == {JobState.EVALUATED: 3}


class TestAPluginsDatabase(StoreConformance):
    @pytest.fixture(autouse=True)
    def _place(self, harbour: Harbour, user_dir: Path) -> None:
        self.address = f"harbour:///{user_dir.parent}/jobs"

    def url(self) -> str:
        return self.address


def test_messages_name_the_databases_that_are_known(harbour: Harbour, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'oracle'; write sqlite:.* or harbour:///file$"):
        database_url("oracle://host/name", Settings(tmp_path))
