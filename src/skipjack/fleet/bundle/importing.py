"""Where the store is: results that a bundle brings are taken in, each one once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.fleet.bundle.container import Bundle, Part
from skipjack.fleet.bundle.contents import BundledOutcome, jobs_with, read_outcome
from skipjack.fleet.bundle.manifest import Kind
from skipjack.fleet.engine import Host
from skipjack.fleet.store import Received, Reception, Store

_CHUNK = 50
"""Results of one transaction."""
_ELSEWHERE = "the bundle's jobs came from another store, or their label was made anew"


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the results in a file."""

    label: str
    results: int
    accepted: int
    finished: int
    """Of the accepted: jobs that are evaluated now."""
    failed: int
    """Of the accepted: workers that could not do the job, which is tried again."""
    duplicates: int
    """Rounds whose result the store has already."""
    refused: int
    reasons: Mapping[str, int]
    """Why results were refused, and how many each."""


def import_bundle(
    store: Store, path: Path, *, on_progress: Callable[[int], None] | None = None
) -> Imported:
    """Merge the results in a file into the store.

    Importing twice, or from two places at once, changes nothing more. A file that is not whole or
    not sealed with the fleet's key is refused before anything is taken in. `on_progress` is told
    how many results were looked at.
    """
    with Bundle.open(path, store.key) as bundle:
        if bundle.manifest.kind is not Kind.RESULTS:
            raise UsageError(
                f"{path} holds jobs, not results; `skipjack bundle evaluate` makes results of it"
            )
        label = bundle.manifest.label
        tally = _Tally(label)
        waiting = iter(jobs_with(bundle, Part.OUTCOME))
        here = _is_ours(store, bundle)
        while chunk := [read_outcome(bundle, job) for job in islice(waiting, _CHUNK)]:
            tally.count(chunk, _taken(store, label, chunk) if here else _foreign(chunk))
            if on_progress:
                on_progress(tally.results)
    return tally.imported()


def _is_ours(store: Store, bundle: Bundle) -> bool:
    try:
        return store.bundles.origin(bundle.manifest.label) == bundle.manifest.store
    except UsageError:  # a label that nobody has heard of
        return False


def _taken(store: Store, label: str, chunk: Sequence[BundledOutcome]) -> list[Received]:
    hosts: dict[str, Host] = {result.host.name: result.host for result in chunk}
    machines = {machine.name: machine.id for machine in store.machines.all()}
    for name in hosts.keys() - machines.keys():
        # In a transaction of its own: who settles locks jobs before machines.
        machines[name] = store.queue.register(hosts[name], "bundle").id
    return store.bundles.accept(label, chunk, machines)


def _foreign(chunk: Sequence[BundledOutcome]) -> list[Received]:
    return [Received(Reception.REFUSED, _ELSEWHERE)] * len(chunk)


class _Tally:
    """Counts as results come."""

    def __init__(self, label: str) -> None:
        self._label = label
        self.results = 0
        self._receptions: Counter[Reception] = Counter()
        self._reasons: Counter[str] = Counter()
        self._finished = 0
        self._failed = 0

    def count(self, chunk: Sequence[BundledOutcome], received: Sequence[Received]) -> None:
        """Add what became of these."""
        for result, one in zip(chunk, received, strict=True):
            self.results += 1
            self._receptions[one.reception] += 1
            if one.reception is Reception.REFUSED:
                self._reasons[one.reason] += 1
            if one.reception is Reception.ACCEPTED:
                self._failed += bool(result.outcome.failed)
                self._finished += result.outcome.finished and not result.outcome.failed

    def imported(self) -> Imported:
        """The sums."""
        return Imported(
            self._label,
            self.results,
            self._receptions[Reception.ACCEPTED],
            self._finished,
            self._failed,
            self._receptions[Reception.DUPLICATE],
            self._receptions[Reception.REFUSED],
            dict(self._reasons.most_common()),
        )
