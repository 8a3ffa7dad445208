"""The results of labels' jobs, for exports, projections and promotions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from skipjack.fleet.store.claims import prior_results, task_inputs
from skipjack.fleet.store.jobs import jobs
from skipjack.fleet.store.sql.transactions import StoreDatabase

if TYPE_CHECKING:
    from skipjack.fleet.model import PriorResult
    from skipjack.fleet.store.claims.task_inputs import FetchedArtifacts
    from skipjack.fleet.store.jobs.jobs import JobResult, JobVerdict


class Results:
    """The evaluated jobs of labels, with their kernels; implements `LabelResults`."""

    def __init__(self, database: StoreDatabase, key: Callable[[], bytes]) -> None:
        self._database, self._key = database, key

    def jobs(self, label: str) -> Iterator[JobResult]:
        """The label's evaluated jobs with all of their facts."""
        return self._database.stream(jobs.results, label)

    def verdicts(self, label: str, device: str | None = None) -> Iterator[JobVerdict]:
        """The verdicts of the label's evaluated jobs without facts, grouped by problem."""
        return self._database.stream(jobs.verdicts, label, device)

    def artifacts(self, digests: Iterable[str]) -> FetchedArtifacts:
        """Machine code with a valid signature, and why the rest cannot be used."""
        return self._database.transaction(task_inputs.fetch_artifacts, self._key(), list(digests))

    def winners(self, label: str) -> dict[tuple[str, str], PriorResult]:
        """The kernels to pack of a label, by problem and device, according to its jobs so far."""
        return self._database.read(prior_results.winners, label)

    def packed(self, label: str) -> dict[tuple[str, str], PriorResult]:
        """The kernels that kernel jobs of a label have packed, by problem and device."""
        return self._database.read(prior_results.packed, label)
