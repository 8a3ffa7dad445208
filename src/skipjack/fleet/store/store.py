"""The store: the fleet's record as repositories over one database.

Each repository is a class in the folder of its subject; its methods are transactions. Repositories
that only coordinators, exports and bundles use are loaded when they are first used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sqlalchemy import Engine

from skipjack.fleet.store.claims import leases
from skipjack.fleet.store.jobs.repositories import Jobs, Labels, Problems
from skipjack.fleet.store.machines.repositories import Machines, Registrations
from skipjack.fleet.store.sql.database import StoreDatabase
from skipjack.fleet.store.sql.retrying import Patience

if TYPE_CHECKING:
    from skipjack.fleet.store.claims.bundling import Bundles
    from skipjack.fleet.store.claims.queue import Queue
    from skipjack.fleet.store.results import Results


class Store:
    """The fleet's record. Made by `open_store`; used from one thread; a context manager.

    Every method of a repository is committed when it returns. A database that is away is waited
    for, as `patience` says; what it refuses for good raises a `StorageError`, whose message does
    not have the password. An unknown name raises a `UsageError`.
    """

    def __init__(
        self, engine: Engine, key: Callable[[], bytes], patience: Patience | None = None
    ) -> None:
        self.database = StoreDatabase(engine, patience or Patience())
        self._make_key = key
        self.problems = Problems(self.database)
        self.labels = Labels(self.database)
        self.jobs = Jobs(self.database)
        self.machines = Machines(self.database)
        self.registrations = Registrations(self.database)

    @cached_property
    def queue(self) -> Queue:
        """Jobs as coordinators claim and settle them."""
        from skipjack.fleet.store.claims.queue import Queue

        return Queue(self.database, lambda: self.key)

    @cached_property
    def results(self) -> Results:
        """What came of jobs."""
        from skipjack.fleet.store.results import Results

        return Results(self.database, lambda: self.key)

    @cached_property
    def bundles(self) -> Bundles:
        """Jobs and results that travel in files."""
        from skipjack.fleet.store.claims.bundling import Bundles

        return Bundles(self.database, lambda: self.key)

    @cached_property
    def key(self) -> bytes:
        """What machine code and bundles of this fleet are sealed with.

        It is read when it is first needed, and refused if it is not the store's.
        """
        key = self._make_key()
        self.database.transaction(leases.agree_on_key, key)
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
