"""A database, and transactions on it that are retried until they succeed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from skipjack.errors import StoreUnavailableError
from skipjack.fleet.store.sql.dialect import READ_ONLY, Dialect, dialect_of
from skipjack.fleet.store.sql.urls import displayed_url, storage_error_of

if TYPE_CHECKING:
    import numpy as np


# Retries of transactions: databases restart, deadlock, and run out of connections.
#
# A transaction that failed for a temporary reason is rolled back and repeated as a whole, with
# growing pauses, until the time limit. This is safe because all reads and writes of an operation
# are in one transaction.
#
# One case needs more: if the connection breaks during COMMIT, it is unknown whether it happened.
# Every operation can be repeated even then:
#
# - Storing results looks for its own event in the job's history first: if the claim is gone because
#   *we* stored the result, it is not refused. The key of `rounds` refuses a second result anyway.
# - A claim would take other jobs and forget the first ones. So it checks whether the jobs that it
#   took are its own in the database: then the commit has happened.
# - `renew`, `register`, `abort`, `resume`, imports and loads lead to the same rows when repeated;
#   only the count that they return may be that of the second attempt.
# - The start of a lease may leave an owner without jobs, whose lease expires.

RETRY_LIMIT_S = 600.0

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 2.0
_MOST_COLLISIONS = 5
"""Collisions of inserts of the same row after which they count as an error."""

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(eq=False)
class CommitLostError(Exception, Generic[T]):
    """The connection broke during COMMIT: the result may be stored or not."""

    result: T
    cause: DBAPIError


@dataclass
class RetryPolicy:
    """How long to retry while a database is unreachable, and which callbacks to use."""

    limit_s: float = RETRY_LIMIT_S
    on_wait: Callable[[str], None] = log.warning
    """Called once, when waiting begins."""
    give_up: Callable[[], bool] = lambda: False
    """Whether to stop waiting for an unreachable server, for example after Ctrl-C."""
    when_away: bool = True
    """Whether to wait for an unreachable server; conflicts are always retried."""
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    rng: np.random.Generator | None = None
    """Randomizes pauses; created for the first pause."""

    def spread(self) -> float:
        """A random factor for a pause, so that colliding processes do not collide again."""
        if self.rng is None:
            import numpy as np  # most processes never pause

            self.rng = np.random.default_rng()
        return float(self.rng.uniform(0.5, 1.0))

    def transact(
        self,
        engine: Engine,
        work: Callable[[Connection], T],
        *,
        reading: bool = False,
        committed: Callable[[Connection, T], bool] | None = None,
    ) -> T:
        """Run `work` in a transaction and return its result after the commit.

        `committed` checks whether a result is stored whose COMMIT was not acknowledged.
        """
        failures = _Retries(self, engine)
        pending: CommitLostError[T] | None = None
        while True:
            try:
                if pending and committed and _attempt(engine, _checking(committed, pending), True):
                    return pending.result
                return _attempt(engine, work, reading)
            except CommitLostError as lost:
                pending = lost
                failures.take(lost.cause)
            except SQLAlchemyError as error:
                failures.take(error)
            except engine.dialect.loaded_dbapi.Error as error:
                # SQLAlchemy does not always wrap errors during a connect.
                failures.take(DBAPIError("", None, error))
            except UnicodeDecodeError as error:  # raised by a driver for a damaged schema
                raise storage_error_of(engine.url, error) from None
            failures.pause()

    def retry(self, engine: Engine, work: Callable[[], T]) -> T:
        """Run `work`, which is not a transaction, and retry it on conflicts."""
        failures = _Retries(self, engine)
        while True:
            try:
                return work()
            except SQLAlchemyError as error:
                failures.take(error)
            except engine.dialect.loaded_dbapi.Error as error:
                failures.take(DBAPIError("", None, error))
            except UnicodeDecodeError as error:
                raise storage_error_of(engine.url, error) from None
            failures.pause()


class _Retries:
    """The failures of one operation so far."""

    def __init__(self, retries: RetryPolicy, engine: Engine) -> None:
        self._retries = retries
        self._engine = engine
        self._dialect = dialect_of(engine)
        self._began = 0.0
        self._failures = 0
        self._collisions = 0
        self._told = False

    def take(self, error: SQLAlchemyError) -> None:
        """Count a temporary failure; any other is raised as a `StorageError`."""
        now = self._retries.monotonic()
        self._began = self._began or now
        self._failures += 1
        if _is_collision(self._dialect, error):
            self._collisions += 1
            if self._collisions > _MOST_COLLISIONS:
                raise storage_error_of(self._engine.url, error) from None
        elif not passes(self._dialect, error) or (
            is_away(self._dialect, error) and not self._retries.when_away
        ):
            raise storage_error_of(self._engine.url, error) from None
        elif now - self._began >= self._retries.limit_s:
            told = storage_error_of(self._engine.url, error)
            raise StoreUnavailableError(
                f"gave up after {self._retries.limit_s:g} seconds: {told}"
            ) from None
        elif is_away(self._dialect, error) and self._retries.give_up():
            raise StoreUnavailableError(str(storage_error_of(self._engine.url, error))) from None
        elif is_away(self._dialect, error) and not self._told:
            self._told = True
            self._retries.on_wait(
                f"{storage_error_of(self._engine.url, error)}; trying again for "
                f"{self._retries.limit_s:g} seconds"
            )

    def pause(self) -> None:
        """Wait, longer each time, with a random factor."""
        longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** (self._failures - 1))
        self._retries.sleep(longest * self._retries.spread())


def _attempt(engine: Engine, work: Callable[[Connection], T], reading: bool) -> T:
    with engine.connect() as bare:
        connection = bare.execution_options(**{READ_ONLY: reading})
        with connection.begin() as transaction:
            result = work(connection)
            try:
                transaction.commit()
            except DBAPIError as error:
                if reading:
                    raise
                raise CommitLostError(result, error) from None
            return result


def _checking(
    committed: Callable[[Connection, T], bool], lost: CommitLostError[T]
) -> Callable[[Connection], bool]:
    return lambda connection: committed(connection, lost.result)


def passes(dialect: Dialect, error: SQLAlchemyError) -> bool:
    """Whether an error is temporary, so that the same transaction may succeed later."""
    if isinstance(error, PoolTimeoutError):
        return True
    if not isinstance(error, DBAPIError) or error.orig is None:
        return False
    return is_away(dialect, error) or dialect.is_contention(error.orig)


def is_away(dialect: Dialect, error: SQLAlchemyError) -> bool:
    """Whether the server cannot be reached, in contrast to a conflict."""
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    return error.orig is not None and dialect.is_away(error.orig)


def _is_collision(dialect: Dialect, error: SQLAlchemyError) -> bool:
    """Whether another transaction inserted the same row; the next attempt sees it."""
    if not isinstance(error, DBAPIError) or error.orig is None:
        return False
    return dialect.is_collision(error.orig)


# A database, and transactions on it that are retried if the connection breaks.

P = ParamSpec("P")


class StoreDatabase:
    """A database with a retry policy. Work on it is a function of a connection."""

    def __init__(self, engine: Engine, retries: RetryPolicy) -> None:
        self.engine = engine
        self._retries = retries

    @property
    def url_for_people(self) -> str:
        """The URL of the database without the password."""
        return displayed_url(self.engine.url)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def transaction(
        self,
        work: Callable[Concatenate[Connection, P], T],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        """Run `work` in a transaction, and retry it if the connection breaks.

        This may happen during the commit, so `work` must be safe to repeat.
        """
        return self._retries.transact(
            self.engine, lambda connection: work(connection, *arguments, **options)
        )

    def transaction_once(
        self, work: Callable[[Connection], T], committed: Callable[[Connection, T], bool]
    ) -> T:
        """Run `work` in a transaction, if it must not be done twice.

        If the connection breaks during the commit, `committed` checks whether it was done.
        """
        return self._retries.transact(self.engine, work, committed=committed)

    def read(
        self,
        work: Callable[Concatenate[Connection, P], T],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        """Run read-only `work` in a transaction, and retry it if the connection breaks."""
        return self._retries.transact(
            self.engine, lambda connection: work(connection, *arguments, **options), reading=True
        )

    def stream(
        self,
        work: Callable[Concatenate[Connection, P], Iterator[T]],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> Iterator[T]:
        """Iterate over rows, read page by page, without an open transaction."""
        self.read(_nothing)  # retries while the database is unreachable
        try:
            with self.engine.connect() as bare:
                connection = bare.execution_options(**dialect_of(self.engine).streaming)
                yield from work(connection, *arguments, **options)
        except (SQLAlchemyError, UnicodeDecodeError) as error:
            raise storage_error_of(self.engine.url, error) from None


def _nothing(connection: Connection) -> None:
    connection.execute(select(1))
