"""``status``: the states of the fleet's jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from skipjack.fleet.model import DeviceTime, Job, JobState, Label, Machine
from skipjack.fleet.store import ErrorGroup, LabelSummary, Store, Throughput, open_store
from skipjack.settings import Settings


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """Which jobs to count or list. By default, all labels are summed up."""

    label: str | None = None
    by: tuple[str, ...] = ("state",)
    """Columns to count by, such as device or build_machine."""
    state: JobState | None = None
    device: str | None = None
    jobs: bool = False
    """List the jobs instead of counting them."""
    limit: int = 50
    """Maximum number of listed jobs."""

    @property
    def is_overview(self) -> bool:
        """Whether the request selects no jobs."""
        chosen = self.label is not None or self.state or self.device or self.jobs
        return not chosen and self.by == ("state",)


@dataclass(frozen=True, slots=True)
class IdleMachines:
    """The fleet's machines, and which machines and devices get no jobs."""

    machines: Sequence[Machine]
    disabled: Collection[str]
    """Names of machines that are disabled in the registry."""
    stopped: Sequence[str]
    """Devices that are aborted."""
    architectures: Sequence[str] = ()
    """Architectures all of whose devices are aborted, including future ones."""


@dataclass(frozen=True, slots=True)
class FleetOverview:
    """All labels, newest first."""

    store: str
    """The URL of the database, without its password."""
    labels: Sequence[LabelSummary]
    idle: IdleMachines


@dataclass(frozen=True, slots=True)
class JobCounts:
    """The number of jobs for each combination of the columns' values."""

    label: Label | None
    columns: Sequence[str]
    counts: Sequence[tuple[tuple[str, ...], int]]
    idle: IdleMachines
    device_time: DeviceTime | None = None
    """The label's device time, if it has a budget."""

    @property
    def total(self) -> int:
        """The number of jobs in all rows."""
        return sum(count for _, count in self.counts)


@dataclass(frozen=True, slots=True)
class JobListing:
    """Jobs one by one."""

    jobs: Sequence[Job]


FleetStatus = FleetOverview | JobCounts | JobListing


def status(
    request: StatusRequest | None = None,
    *,
    settings: Settings | None = None,
    store: Store | None = None,
) -> FleetStatus:
    """Count or list jobs, or sum up all labels.

    The store of the settings is opened read-only, unless an open store is given.
    """
    request = request or StatusRequest()
    opened = nullcontext(store) if store else open_store(settings=settings, to_read=True)
    with opened as known:
        label = known.labels.get(request.label) if request.label is not None else None
        if request.is_overview:
            return FleetOverview(known.url_for_people, known.labels.all(), _idle(known))
        where = {"label": request.label, "device": request.device}
        if request.jobs:
            return JobListing(known.jobs.find(**where, state=request.state, limit=request.limit))
        counts = known.jobs.counts(**where, by=list(request.by), state=request.state)
        time = known.labels.device_time(label.name) if label else None
        limited = time if time and time.budget_s is not None else None
        return JobCounts(label, request.by, counts, _idle(known), limited)


def _idle(store: Store) -> IdleMachines:
    registered, workers = store.registrations.all(), store.machines.all()
    seen = {one.name for one in workers}
    unseen = [
        Machine(0, one.name, aborted=one.aborted, quarantined=one.disabled_why)
        for one in registered
        if one.name not in seen
    ]
    return IdleMachines(
        [*workers, *unseen],
        {one.name for one in registered if not one.enabled},
        store.machines.stopped_devices(),
        store.machines.stopped_architectures(),
    )


# ``status --watch``: how far jobs are, again and again.

_MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class FleetProgress:
    """How far the jobs of a label are, or all jobs."""

    label: str | None
    by_state: Mapping[str, int]
    """The number of jobs by state, in the order in which jobs pass them."""
    aborted: bool
    """Whether the label waits until it is resumed."""
    throughput: Throughput
    errors: Sequence[ErrorGroup]
    """The most frequent reasons of errors."""

    @property
    def total(self) -> int:
        """All jobs."""
        return sum(self.by_state.values())

    @property
    def open(self) -> int:
        """Jobs that wait or are in work."""
        return sum(self.by_state.get(state, 0) for state in JobState if state.going)

    @property
    def done(self) -> float:
        """The share of jobs that are over."""
        over = sum(self.by_state.get(state, 0) for state in JobState if state.over)
        return over / self.total if self.total else 0.0

    @property
    def is_over(self) -> bool:
        """Whether the jobs of a label have all ended: its progress changes only by a reset."""
        return self.label is not None and self.total > 0 and self.done >= 1.0


def progress_of(store: Store, label: str | None = None) -> FleetProgress:
    """The progress of a label's jobs, or of all; `UsageError` if there is no such label."""
    if label is not None:
        store.labels.get(label)
    counts = {values[0]: count for values, count in store.jobs.counts(label=label, by=["state"])}
    return FleetProgress(
        label,
        {str(state): counts[state] for state in JobState if counts.get(state)},
        label is not None and store.labels.is_aborted(label),
        store.browsing.throughput(label),
        store.browsing.errors(label, _MOST_REASONS),
    )
