"""The results of labels' jobs, as exports, projections and promotions read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from skipjack.fleet.store.claims import artifacts, precedents
from skipjack.fleet.store.jobs import jobs, verdicts
from skipjack.fleet.store.sql.database import StoreDatabase

if TYPE_CHECKING:
    from skipjack.fleet.records import Known
    from skipjack.fleet.store.claims.artifacts import Fetched
    from skipjack.fleet.store.jobs.jobs import JobResult
    from skipjack.fleet.store.jobs.verdicts import JobVerdict


class Results:
    """The evaluated jobs of labels, with their kernels; a `fleet.store_protocols.LabelResults`."""

    def __init__(self, database: StoreDatabase, key: Callable[[], bytes]) -> None:
        self._database, self._key = database, key

    def jobs(self, label: str) -> Iterator[JobResult]:
        """The label's evaluated jobs with all that was found out."""
        return self._database.stream(jobs.results, label)

    def verdicts(self, label: str, device: str | None = None) -> Iterator[JobVerdict]:
        """What the label's evaluated jobs say, without the facts; all of a problem in a row."""
        return self._database.stream(verdicts.verdicts, label, device)

    def artifacts(self, digests: Iterable[str]) -> Fetched:
        """Machine code that is whole and sealed, and why the rest of it cannot be used."""
        return self._database.transaction(artifacts.fetch, self._key(), list(digests))

    def winners(self, label: str) -> dict[tuple[str, str], Known]:
        """What is to be packed of a label, by problem and device, as far as jobs have said it."""
        return self._database.read(precedents.winners, label)

    def packed(self, label: str) -> dict[tuple[str, str], Known]:
        """What kernel jobs of a label have packed, by problem and device."""
        return self._database.read(precedents.packed, label)
