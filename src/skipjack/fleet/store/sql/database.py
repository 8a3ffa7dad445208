"""A database, and transactions on it that are repeated if the connection breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import SQLAlchemyError

from skipjack.fleet.store.sql.dialect import dialect_of
from skipjack.fleet.store.sql.retrying import Patience
from skipjack.fleet.store.sql.urls import for_people, sentence

P = ParamSpec("P")
T = TypeVar("T")


class StoreDatabase:
    """A database, and the patience to wait for it. Work on it is a function of a connection."""

    def __init__(self, engine: Engine, patience: Patience) -> None:
        self.engine = engine
        self._patience = patience

    @property
    def url_for_people(self) -> str:
        """The URL of the database without the password."""
        return for_people(self.engine.url)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def transaction(
        self,
        work: Callable[Concatenate[Connection, P], T],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        """Do `work` in a transaction, and again if the connection breaks.

        That may be during the commit: work that was done already must do no harm the second time.
        """
        return self._patience.transact(
            self.engine, lambda connection: work(connection, *arguments, **options)
        )

    def transaction_once(
        self, work: Callable[[Connection], T], committed: Callable[[Connection, T], bool]
    ) -> T:
        """Likewise for work that must not be done twice.

        If the connection breaks during the commit, `committed` is asked whether it was done.
        """
        return self._patience.transact(self.engine, work, committed=committed)

    def read(
        self,
        work: Callable[Concatenate[Connection, P], T],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        """Do work that changes nothing in a transaction, and again if the connection breaks."""
        return self._patience.transact(
            self.engine, lambda connection: work(connection, *arguments, **options), reading=True
        )

    def stream(
        self,
        work: Callable[Concatenate[Connection, P], Iterator[T]],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> Iterator[T]:
        """Rows, read page by page; no transaction is open while they are used."""
        self.read(_nothing)  # waits for a database that is away
        try:
            with self.engine.connect() as bare:
                connection = bare.execution_options(**dialect_of(self.engine).streaming)
                yield from work(connection, *arguments, **options)
        except (SQLAlchemyError, UnicodeDecodeError) as error:
            raise sentence(self.engine.url, error) from None


def _nothing(connection: Connection) -> None:
    connection.execute(select(1))
