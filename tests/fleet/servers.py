"""Real database servers of the tests' own: skipped where their programs are missing."""

from __future__ import annotations

from needs import lacking
from skipjack.testing import servers
from skipjack.testing.servers import PASSWORD, USER, NotInstalledError, Server

__all__ = ["PASSWORD", "USER", "MariaDB", "PostgreSQL", "Server"]


class _InTests(Server):
    """Where everything must be there, a server that is not is a failure."""

    part: str

    def __init__(self, *, durable: bool = False) -> None:
        try:
            super().__init__(durable=durable)
        except NotInstalledError as error:
            lacking(self.part, str(error))


class PostgreSQL(_InTests, servers.PostgreSQL):
    """PostgreSQL, or the end of this test."""

    part = "PostgreSQL"


class MariaDB(_InTests, servers.MariaDB):
    """MariaDB, or the end of this test."""

    part = "MariaDB"
