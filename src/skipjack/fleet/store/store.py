"""The store: repositories over one database.

The methods of a repository are transactions. Repositories that only coordinators, exports and
bundles use are loaded when they are first used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sqlalchemy import Engine

from skipjack.fleet.store.claims import coordinator_leases
from skipjack.fleet.store.repositories import Jobs, Labels, Machines, Problems, Registrations
from skipjack.fleet.store.sql.transactions import RetryPolicy, StoreDatabase

if TYPE_CHECKING:
    from skipjack.fleet.store.browsing.repository import Browsing
    from skipjack.fleet.store.claims.bundles import Bundles
    from skipjack.fleet.store.claims.queue import Queue
    from skipjack.fleet.store.results import Results


class Store:
    """The store. Opened by `open_store`; used from one thread; a context manager.

    Every method of a repository has committed when it returns. Operations on an unreachable
    database are retried according to `retries`; permanent errors raise a `StorageError`, whose
    message does not contain the password. An unknown name raises a `UsageError`.
    """

    def __init__(
        self, engine: Engine, key: Callable[[], bytes], retries: RetryPolicy | None = None
    ) -> None:
        self.database = StoreDatabase(engine, retries or RetryPolicy())
        self._make_key = key
        self.problems = Problems(self.database)
        self.labels = Labels(self.database)
        self.jobs = Jobs(self.database)
        self.machines = Machines(self.database)
        self.registrations = Registrations(self.database)

    @cached_property
    def queue(self) -> Queue:
        """The queue of jobs for coordinators."""
        from skipjack.fleet.store.claims.queue import Queue

        return Queue(self.database, lambda: self.key)

    @cached_property
    def results(self) -> Results:
        """The results of jobs."""
        from skipjack.fleet.store.results import Results

        return Results(self.database, lambda: self.key)

    @cached_property
    def bundles(self) -> Bundles:
        """Export of jobs to bundles, and import of their results."""
        from skipjack.fleet.store.claims.bundles import Bundles

        return Bundles(self.database, lambda: self.key)

    @cached_property
    def browsing(self) -> Browsing:
        """Tables page by page and summaries, for pages and reports."""
        from skipjack.fleet.store.browsing.repository import Browsing

        return Browsing(self.database)

    @cached_property
    def key(self) -> bytes:
        """The key that signs machine code and bundles of this fleet.

        It is read when it is first needed, and refused if it is not the store's.
        """
        key = self._make_key()
        self.database.transaction(coordinator_leases.check_key, key)
        return key

    @property
    def url_for_people(self) -> str:
        """The URL of the database without the password."""
        return self.database.url_for_people

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
