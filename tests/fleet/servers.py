"""Real database servers of the tests' own: skipped where their programs are missing."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from skipjack.testing import servers
from skipjack.testing.servers import PASSWORD, USER, NotInstalledError, Server

__all__ = ["PASSWORD", "USER", "MariaDB", "PostgreSQL", "Server"]


class _InTests(Server):
    """Where everything must be there, a server that is not is a failure."""

    def __init__(self, *, durable: bool = False) -> None:
        try:
            super().__init__(durable=durable)
        except NotInstalledError as error:
            _do_without(str(error))


class PostgreSQL(_InTests, servers.PostgreSQL):
    """PostgreSQL, or the end of this test."""


class MariaDB(_InTests, servers.MariaDB):
    """MariaDB, or the end of this test."""


def _do_without(why: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)
