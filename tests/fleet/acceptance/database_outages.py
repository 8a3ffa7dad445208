"""Databases that are away for a while, each in its own way."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from chaos import Strike, Undo, outage
from servers import Server

DATABASE = "the database is away"


def locked_file(url: str) -> Strike:
    """Another process holds the write lock of the file: the outage of a file database."""

    def begin() -> Undo:
        other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=900)
        other.execute("BEGIN IMMEDIATE")

        def end() -> None:
            other.rollback()
            other.close()

        return end

    return outage(DATABASE, 1.0, begin, (0.5, 4.0))


def stopped_server(server: Server) -> list[Strike]:
    """The server is stopped in good order, or killed, and started again."""

    def away(how: Callable[[], None]) -> Callable[[], Undo]:
        def begin() -> Undo:
            how()
            return server.start

        return begin

    return [
        outage(f"{DATABASE}: stopped", 0.7, away(server.stop), (0.5, 6.0)),
        outage(f"{DATABASE}: killed", 0.7, away(server.kill), (0.5, 6.0)),
    ]
