"""Export of a label's built jobs as a bundle, and import of the results that a bundle brings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from skipjack.errors import StorageError, UsageError
from skipjack.fleet.bundle.format import (
    Bundle,
    BundledOutcome,
    BundleKind,
    BundleManifest,
    EntryKind,
    artifact_entries,
    jobs_with,
    read_outcome,
)
from skipjack.fleet.model import Host, JobState
from skipjack.fleet.signature import fingerprint
from skipjack.fleet.store import BuiltPage, BundleSelection, ImportedResult, Reception, Store
from skipjack.reading import numbered
from skipjack.storage import atomic_replacement

# Export of the built jobs of a label, as a file that can be evaluated anywhere.


@dataclass(frozen=True, slots=True)
class ExportedBundle:
    """What an export wrote."""

    label: str
    file: str
    slice: str
    jobs: int
    runnable: int
    """Jobs with something to run: machine code, or MIOpen's own program."""
    artifacts: int
    bytes: int
    lost: int
    """Jobs left out and built again, because their machine code is damaged or missing."""
    failed: int
    """Jobs left out because nothing is known about their device."""


def export_bundle(
    store: Store,
    wanted: BundleSelection,
    path: Path,
    *,
    on_progress: Callable[[int], None] | None = None,
) -> ExportedBundle:
    """Write the label's built jobs and their machine code to a file, which appears atomically.

    The jobs stay built. They may be evaluated here at the same time as on another machine; the
    first result counts. `on_progress` is called with the number of jobs written.
    """
    _spare_results(path, store.key)
    origin = store.bundles.origin(wanted.label)
    key = store.key
    manifest = BundleManifest(
        BundleKind.JOBS, wanted.label, origin, fingerprint(key), slice=str(wanted.part)
    )
    writer = _Writer()
    with (
        atomic_replacement(path) as temporary,
        Bundle.create(path, manifest, key, at=temporary) as bundle,
    ):
        after: int | None = 0
        while after is not None:
            page = store.bundles.built(wanted, after)
            writer.write(bundle, page)
            after = page.last
            if on_progress:
                on_progress(writer.jobs)
        if not writer.jobs:
            raise _nothing_built(store, wanted, writer)
    return ExportedBundle(
        wanted.label,
        str(path),
        str(wanted.part),
        writer.jobs,
        writer.runnable,
        len(writer.artifacts),
        path.stat().st_size,
        writer.lost,
        writer.failed,
    )


class _Writer:
    """Writes pages of jobs and counts them; machine code that jobs share is written once."""

    def __init__(self) -> None:
        self.jobs = 0
        self.runnable = 0
        self.lost = 0
        self.failed = 0
        self.artifacts: set[str] = set()

    def write(self, bundle: Bundle, page: BuiltPage) -> None:
        self.lost += page.lost
        self.failed += page.failed
        entries = []
        for bundled in page.tasks:
            artifacts = bundled.task.artifacts
            new = {name: artifacts[name] for name in artifacts if name not in self.artifacts}
            self.artifacts |= new.keys()
            self.runnable += bool(artifacts) or bundled.task.plan.by_miopen
            entries += [*artifact_entries(new.items()), bundled.entry()]
        if entries:
            bundle.append(entries)
        self.jobs += len(page.tasks)


def _spare_results(path: Path, key: bytes) -> None:
    """Refuse to replace anything but jobs: results may be the only copy of hours of work."""
    if not path.exists():
        return
    try:
        with Bundle.open(path, key) as there:
            if there.manifest.kind is BundleKind.JOBS:
                return
    except StorageError:
        pass
    raise UsageError(f"{path} exists and is not a bundle of jobs; choose another name")


def _nothing_built(store: Store, wanted: BundleSelection, writer: _Writer) -> UsageError:
    counted = store.jobs.counts(label=wanted.label, device=wanted.device)
    counts = {JobState(state): count for (state,), count in counted}
    where = f"label {wanted.label}" + (f" on {wanted.device}" if wanted.device else "")
    if writer.lost or writer.failed:
        return UsageError(
            f"nothing to export from {where}: {numbered(writer.lost, 'job')} lost the machine code "
            f"and must be built again, {writer.failed} have an unknown device; run "
            f"`skipjack run -l {wanted.label} --build`"
        )
    if counts.get(JobState.BUILT):
        return UsageError(
            f"slice {wanted.part} of {where} is empty: its {counts[JobState.BUILT]} built jobs are "
            "in other slices; use fewer slices"
        )
    listed = ", ".join(f"{count} {state}" for state, count in counts.items()) or "none"
    waiting = counts.get(JobState.NEW, 0) + counts.get(JobState.BUILDING, 0)
    advice = (
        f"run `skipjack run -l {wanted.label} --build` first"
        if waiting
        else "there is nothing to evaluate"
    )
    return UsageError(f"no job of {where} is built; its jobs are: {listed}; {advice}")


# Import of the results in a bundle, each exactly once.

_CHUNK = 50
"""Results in one transaction."""
_FOREIGN_JOBS = "the bundle's jobs came from another store, or their label was created again"


@dataclass(frozen=True, slots=True)
class ImportedBundle:
    """What an import did with the results in a file."""

    label: str
    results: int
    accepted: int
    finished: int
    """Accepted results that finished their job."""
    failed: int
    """Accepted reports of workers that could not do the job; it is tried again."""
    duplicates: int
    """Rounds whose result the store had already."""
    refused: int
    reasons: Mapping[str, int]
    """Number of refused results by reason."""


def import_bundle(
    store: Store, path: Path, *, on_progress: Callable[[int], None] | None = None
) -> ImportedBundle:
    """Merge the results in a file into the store.

    Importing twice, or in two processes at once, has the same effect as importing once. A file that
    is damaged or not signed with the fleet's key is refused before anything is imported.
    `on_progress` is called with the number of results read.
    """
    with Bundle.open(path, store.key) as bundle:
        if bundle.manifest.kind is not BundleKind.RESULTS:
            raise UsageError(
                f"{path} holds jobs, not results; evaluate it with `skipjack bundle evaluate`"
            )
        label = bundle.manifest.label
        tally = _Tally(label)
        waiting = iter(jobs_with(bundle, EntryKind.OUTCOME))
        here = _is_ours(store, bundle)
        while chunk := [read_outcome(bundle, job) for job in islice(waiting, _CHUNK)]:
            tally.count(chunk, _taken(store, label, chunk) if here else _foreign(chunk))
            if on_progress:
                on_progress(tally.results)
    return tally.imported()


def _is_ours(store: Store, bundle: Bundle) -> bool:
    try:
        return store.bundles.origin(bundle.manifest.label) == bundle.manifest.store
    except UsageError:  # the store has no such label
        return False


def _taken(store: Store, label: str, chunk: Sequence[BundledOutcome]) -> list[ImportedResult]:
    hosts: dict[str, Host] = {result.host.name: result.host for result in chunk}
    machines = {machine.name: machine.id for machine in store.machines.all()}
    for name in hosts.keys() - machines.keys():
        # In a transaction of its own: a result locks its job before its machine.
        machines[name] = store.queue.register(hosts[name], "bundle").id
    return store.bundles.accept(label, chunk, machines)


def _foreign(chunk: Sequence[BundledOutcome]) -> list[ImportedResult]:
    return [ImportedResult(Reception.REFUSED, _FOREIGN_JOBS)] * len(chunk)


class _Tally:
    """Counts results as they are imported."""

    def __init__(self, label: str) -> None:
        self._label = label
        self.results = 0
        self._receptions: Counter[Reception] = Counter()
        self._reasons: Counter[str] = Counter()
        self._finished = 0
        self._failed = 0

    def count(self, chunk: Sequence[BundledOutcome], received: Sequence[ImportedResult]) -> None:
        for result, one in zip(chunk, received, strict=True):
            self.results += 1
            self._receptions[one.reception] += 1
            if one.reception is Reception.REFUSED:
                self._reasons[one.reason] += 1
            if one.reception is Reception.ACCEPTED:
                self._failed += bool(result.outcome.failed)
                self._finished += result.outcome.finished and not result.outcome.failed

    def imported(self) -> ImportedBundle:
        return ImportedBundle(
            self._label,
            self.results,
            self._receptions[Reception.ACCEPTED],
            self._finished,
            self._failed,
            self._receptions[Reception.DUPLICATE],
            self._receptions[Reception.REFUSED],
            dict(self._reasons.most_common()),
        )
