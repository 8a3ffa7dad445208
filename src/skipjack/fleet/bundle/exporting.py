"""Where the store is: the built jobs of a label become a file that evaluates anywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from skipjack.errors import StorageError, UsageError
from skipjack.fleet.bundle.container import Bundle
from skipjack.fleet.bundle.contents import artifact_entries
from skipjack.fleet.bundle.manifest import Kind, Manifest
from skipjack.fleet.seal import fingerprint
from skipjack.fleet.states import State
from skipjack.fleet.store import Page, Store, Wanted
from skipjack.reading import numbered
from skipjack.storage import atomic_replacement


@dataclass(frozen=True, slots=True)
class Exported:
    """What is in the file."""

    label: str
    file: str
    slice: str
    jobs: int
    runnable: int
    """Those of them with something to run: machine code, or MIOpen's own program."""
    artifacts: int
    bytes: int
    """Size of the file."""
    lost: int
    """Jobs that were left out and are new again: their machine code is damaged or gone."""
    failed: int
    """Jobs that were left out, because nothing is known of their device."""


def export_bundle(
    store: Store,
    wanted: Wanted,
    path: Path,
    *,
    on_progress: Callable[[int], None] | None = None,
) -> Exported:
    """Write the label's built jobs and their machine code to a file, which appears whole.

    The jobs stay built: what a bundle brings back and what is evaluated here may race, and the
    first result counts. `on_progress` is told how many jobs are written.
    """
    _spare_results(path, store.key)
    origin = store.bundles.origin(wanted.label)
    key = store.key
    manifest = Manifest(Kind.JOBS, wanted.label, origin, fingerprint(key), slice=str(wanted.part))
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
    return Exported(
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
    """Counts what it wrote; machine code that jobs share is written once."""

    def __init__(self) -> None:
        self.jobs = 0
        self.runnable = 0
        self.lost = 0
        self.failed = 0
        self.artifacts: set[str] = set()

    def write(self, bundle: Bundle, page: Page) -> None:
        """Add a page's jobs to the bundle."""
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
    """Refuse to replace anything but jobs: results may be hours of work that are nowhere else."""
    if not path.exists():
        return
    try:
        with Bundle.open(path, key) as there:
            if there.manifest.kind is Kind.JOBS:
                return
    except StorageError:
        pass
    raise UsageError(f"{path} is there and is not a bundle of jobs; choose another name")


def _nothing_built(store: Store, wanted: Wanted, writer: _Writer) -> UsageError:
    counted = store.jobs.counts(label=wanted.label, device=wanted.device)
    counts = {State(state): count for (state,), count in counted}
    where = f"label {wanted.label}" + (f" on {wanted.device}" if wanted.device else "")
    if writer.lost or writer.failed:
        return UsageError(
            f"nothing to export of {where}: {numbered(writer.lost, 'job')} lost the machine code "
            f"and must be built again, of {writer.failed} the device is not known; run "
            f"`skipjack run -l {wanted.label} --build`"
        )
    if counts.get(State.BUILT):
        return UsageError(
            f"slice {wanted.part} of {where} is empty, its {counts[State.BUILT]} built jobs are in "
            "other slices; use fewer slices"
        )
    listed = ", ".join(f"{count} {state}" for state, count in counts.items()) or "none"
    waiting = counts.get(State.NEW, 0) + counts.get(State.BUILDING, 0)
    advice = (
        f"run `skipjack run -l {wanted.label} --build` first"
        if waiting
        else "there is nothing to evaluate"
    )
    return UsageError(f"no job of {where} is built, its jobs are: {listed}; {advice}")
