"""Doing a transaction until it is done: databases restart, deadlock and are full for a moment.

A transaction that failed for a reason that passes is rolled back and repeated as a whole, with
growing pauses, for as long as the patience lasts. That is safe because all of a verb's reads and
writes are in its one transaction.

One case needs more: the connection broke during COMMIT, and nobody knows whether it happened. Every
verb can be repeated even then:

- `settle` looks for its own line in the job's story first: a claim that is gone because *we*
  settled it is done, not refused. The key of `rounds` refuses a second result in any case.
- `claim` would take other jobs and forget the first ones. It is given a way to look whether the
  jobs it holds in its hands are its own by now: then the commit has happened.
- `renew`, `register`, `abort`, `resume`, imports and loads lead to the same rows when repeated; at
  most the count that they return says that there was nothing left to do.
- `sign_in` may leave an owner behind who holds no job, and expires.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from skipjack.errors import StoreAwayError
from skipjack.fleet.store.sql.dialect import READ_ONLY, Dialect, dialect_of
from skipjack.fleet.store.sql.urls import sentence

if TYPE_CHECKING:
    import numpy as np

PATIENCE_S = 600.0

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 2.0
_MOST_COLLISIONS = 5
"""Times that two may insert the same row at once before it is taken for a mistake."""

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(eq=False)
class CommitLostError(Exception, Generic[T]):
    """The connection broke during COMMIT: the result may be stored, or not."""

    result: T
    cause: DBAPIError


@dataclass
class Patience:
    """How long to wait for a database that is away, and whom to tell."""

    limit_s: float = PATIENCE_S
    on_wait: Callable[[str], None] = log.warning
    """Told once, when waiting begins."""
    give_up: Callable[[], bool] = lambda: False
    """Whether a server that is away is not waited for any longer: somebody pressed Ctrl-C."""
    when_away: bool = True
    """Whether a server that cannot be reached is waited for; others in the way always are."""
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    rng: np.random.Generator | None = None
    """For pauses of different lengths; one is made for the first pause."""

    def spread(self) -> float:
        """What a pause is multiplied by, so that those who collided do not meet again."""
        if self.rng is None:
            import numpy as np  # most processes never pause, and need it for nothing else

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
        """Do `work` in a transaction and give its result, once it is committed.

        `committed` looks whether a result is in the database whose COMMIT was not acknowledged.
        """
        trouble = _Trouble(self, engine)
        pending: CommitLostError[T] | None = None
        while True:
            try:
                if pending and committed and _attempt(engine, _checking(committed, pending), True):
                    return pending.result
                return _attempt(engine, work, reading)
            except CommitLostError as lost:
                pending = lost
                trouble.take(lost.cause)
            except SQLAlchemyError as error:
                trouble.take(error)
            except engine.dialect.loaded_dbapi.Error as error:
                # What a driver raises while it connects is not always wrapped.
                trouble.take(DBAPIError("", None, error))
            except UnicodeDecodeError as error:  # what a driver says of a damaged schema
                raise sentence(engine.url, error) from None
            trouble.pause()

    def insist(self, engine: Engine, work: Callable[[], T]) -> T:
        """Do what is no transaction, again as long as others are in the way."""
        trouble = _Trouble(self, engine)
        while True:
            try:
                return work()
            except SQLAlchemyError as error:
                trouble.take(error)
            except engine.dialect.loaded_dbapi.Error as error:
                trouble.take(DBAPIError("", None, error))
            except UnicodeDecodeError as error:
                raise sentence(engine.url, error) from None
            trouble.pause()


class _Trouble:
    """One verb's failures so far."""

    def __init__(self, patience: Patience, engine: Engine) -> None:
        self._patience = patience
        self._engine = engine
        self._dialect = dialect_of(engine)
        self._began = 0.0
        self._failures = 0
        self._collisions = 0
        self._told = False

    def take(self, error: SQLAlchemyError) -> None:
        """Note a failure that passes; any other is raised as one sentence."""
        now = self._patience.monotonic()
        self._began = self._began or now
        self._failures += 1
        if _is_collision(self._dialect, error):
            self._collisions += 1
            if self._collisions > _MOST_COLLISIONS:
                raise sentence(self._engine.url, error) from None
        elif not passes(self._dialect, error) or (
            is_away(self._dialect, error) and not self._patience.when_away
        ):
            raise sentence(self._engine.url, error) from None
        elif now - self._began >= self._patience.limit_s:
            told = sentence(self._engine.url, error)
            raise StoreAwayError(
                f"gave up after {self._patience.limit_s:g} seconds: {told}"
            ) from None
        elif is_away(self._dialect, error) and self._patience.give_up():
            raise StoreAwayError(str(sentence(self._engine.url, error))) from None
        elif is_away(self._dialect, error) and not self._told:
            self._told = True
            self._patience.on_wait(
                f"{sentence(self._engine.url, error)}; trying again for "
                f"{self._patience.limit_s:g} seconds"
            )

    def pause(self) -> None:
        """Wait, longer each time and never as long as others do."""
        longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** (self._failures - 1))
        self._patience.sleep(longest * self._patience.spread())


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
    """Whether the same transaction may succeed later."""
    if isinstance(error, PoolTimeoutError):
        return True
    if not isinstance(error, DBAPIError) or error.orig is None:
        return False
    return is_away(dialect, error) or dialect.is_contention(error.orig)


def is_away(dialect: Dialect, error: SQLAlchemyError) -> bool:
    """Whether the server cannot be reached, as opposed to others being in the way."""
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    return error.orig is not None and dialect.is_away(error.orig)


def _is_collision(dialect: Dialect, error: SQLAlchemyError) -> bool:
    """Whether another transaction inserted the same row in between: the next attempt sees it."""
    if not isinstance(error, DBAPIError) or error.orig is None:
        return False
    return dialect.is_collision(error.orig)
