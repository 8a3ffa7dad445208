"""Stores of a test's own on every database there is.

The servers run for the whole session; a test that stops one finds it running again afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from servers import MariaDB, PostgreSQL, Server

if TYPE_CHECKING:
    from skipjack.fleet.store import Store

DATABASES = ("sqlite", "postgresql", "mariadb")


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A running PostgreSQL."""
    server = PostgreSQL()
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """A running MariaDB."""
    server = MariaDB()
    server.start()
    yield server
    server.close()


@pytest.fixture(params=("postgresql", "mariadb"))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Each server in turn, for tests that stop it."""
    found: Server = request.getfixturevalue(request.param)
    found.start()
    yield found
    found.start()


@pytest.fixture(params=DATABASES)
def store_url(request: pytest.FixtureRequest, user_dir: Path) -> str:
    """The URL of an empty database: a file, PostgreSQL, MariaDB."""
    if request.param == "sqlite":
        return f"sqlite:///{user_dir / 'fleet.sqlite'}"
    server: Server = request.getfixturevalue(request.param)
    return server.fresh()


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store on each kind of database."""
    from skipjack.fleet.store import open_store

    with open_store(store_url) as opened:
        yield opened
