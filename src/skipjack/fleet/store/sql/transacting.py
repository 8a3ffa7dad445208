"""How a verb runs: in a transaction of its own, again if the database went away meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import SQLAlchemyError

from skipjack.fleet.store.sql.dialect import dialect_of
from skipjack.fleet.store.sql.retrying import Patience
from skipjack.fleet.store.sql.urls import for_people, sentence

P = ParamSpec("P")
T = TypeVar("T")


class Transacting:
    """A database and the patience with it; a context manager."""

    def __init__(self, engine: Engine, patience: Patience) -> None:
        self._engine = engine
        self._patience = patience

    @property
    def url_for_people(self) -> str:
        """Where it is, without the password."""
        return for_people(self._engine.url)

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _transaction(
        self,
        verb: Callable[Concatenate[Connection, P], T],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        return self._patience.transact(
            self._engine, lambda connection: verb(connection, *arguments, **options)
        )

    def _reading(
        self,
        verb: Callable[Concatenate[Connection, P], T],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        return self._patience.transact(
            self._engine, lambda connection: verb(connection, *arguments, **options), reading=True
        )

    def _streaming(
        self,
        verb: Callable[Concatenate[Connection, P], Iterator[T]],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> Iterator[T]:
        """Rows as they are read, page by page; no transaction is held while they are used."""
        self._reading(_nothing)  # waits for a database that is away
        try:
            with self._engine.connect() as bare:
                connection = bare.execution_options(**dialect_of(self._engine).streaming)
                yield from verb(connection, *arguments, **options)
        except (SQLAlchemyError, UnicodeDecodeError) as error:
            raise sentence(self._engine.url, error) from None


def _nothing(connection: Connection) -> None:
    connection.execute(select(1))
