"""Database servers for pages about the fleet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from needs import lacking
from skipjack.testing.servers import MariaDB, NotInstalledError, PostgreSQL, Server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A running PostgreSQL."""
    yield from _running(PostgreSQL, "PostgreSQL")


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Server]:
    """A running MariaDB."""
    yield from _running(MariaDB, "MariaDB")


def _running(kind: type[Server], part: str) -> Iterator[Server]:
    try:
        server = kind()
    except NotInstalledError as error:
        lacking(part, str(error))
    server.start()
    yield server
    server.close()
