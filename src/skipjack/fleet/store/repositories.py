"""The repositories that every store has: problems, labels, jobs, machines, registrations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from skipjack.fleet.store.catalog import actions, devices, labels, machines, registrations
from skipjack.fleet.store.jobs import aborts, job_counts, job_history, jobs, problem_list
from skipjack.fleet.store.jobs import problems as imported
from skipjack.fleet.store.jobs.problems import AddedProblems
from skipjack.fleet.store.sql import statements
from skipjack.fleet.store.sql.transactions import StoreDatabase

if TYPE_CHECKING:
    from skipjack.core import Device
    from skipjack.fleet.model import (
        DeviceTime,
        Job,
        JobEvent,
        JobKind,
        JobPlan,
        JobState,
        Label,
        Machine,
        Registration,
    )
    from skipjack.fleet.store.catalog.actions import RecordedAction
    from skipjack.fleet.store.catalog.devices import DeviceClass
    from skipjack.fleet.store.catalog.labels import LabelSummary
    from skipjack.fleet.store.jobs.aborts import ResetCount
    from skipjack.fleet.store.jobs.job_history import LoggedAttempt, LogText
    from skipjack.fleet.store.jobs.jobs import AddedJobs
    from skipjack.fleet.store.jobs.problem_list import DeviceResult, ListedProblem, ProblemFilter
    from skipjack.fleet.store.jobs.problems import NewProblem, ProblemRow, Provenance


# The repositories of problems, labels and jobs.
#
# Each method runs a function of another module, which takes a connection, as a transaction.

_IMPORTED_AT_ONCE = 50_000
"""Problems in a transaction, so that a large import does not block others for long."""


class Problems:
    """Problems to tune, by key, with their tags."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database

    def add(
        self,
        problems: Iterable[NewProblem],
        tag: str,
        *,
        recurrent: bool = False,
        source: str = "",
        model: str = "",
        tag_only: bool = False,
        in_order: bool = False,
    ) -> AddedProblems:
        """Import problems and tag them; with `tag_only`, only tag known ones.

        With `in_order` their ids are in this order, which takes longer.
        """
        done = AddedProblems()
        # Within a transaction they are sorted by digest.
        for chunk in statements.chunks(problems, 1 if in_order else _IMPORTED_AT_ONCE):
            done += self._database.transaction(
                imported.add_problems,
                chunk,
                tag,
                recurrent=recurrent,
                source=source,
                model=model,
                tag_only=tag_only,
            )
        return done

    def find(
        self,
        *,
        tag: str | None = None,
        operations: Sequence[str] = (),
        recurrent: bool = False,
        directions: Sequence[str] = (),
        dtype: str | None = None,
    ) -> Iterator[ProblemRow]:
        """The problems that match and are not retired, by id."""
        return self._database.stream(
            imported.problems,
            tag=tag,
            operations=operations,
            recurrent=recurrent,
            directions=directions,
            dtype=dtype,
        )

    def listed(self, which: ProblemFilter, limit: int) -> list[ListedProblem]:
        """The problems that match, including retired ones, with their tags and results."""
        return self._database.read(problem_list.listed, which, limit)

    def get(self, key: str) -> tuple[ListedProblem, list[DeviceResult]]:
        """A problem with its newest result on each device."""
        return self._database.read(problem_list.shown, key)

    def retire(self, keys: Iterable[str], retired: bool = True) -> int:
        """Exclude problems from later loads; returns how many changed."""
        return self._database.transaction(imported.retire, list(keys), retired)

    def tags(self) -> list[tuple[str, int]]:
        """Every tag with the number of its problems."""
        return self._database.read(imported.tags)

    def tag(self, keys: Sequence[str], provenance: Provenance) -> int:
        """Tag known problems; returns the number of those that did not have the tag."""
        return self._database.transaction(problem_list.tag, keys, provenance)

    def set_calls(self, calls: Mapping[str, float], tag: str) -> None:
        """Record how often programs call the problems of a tag, by their keys."""
        self._database.transaction(imported.set_calls, calls, tag)

    def untag(self, keys: Sequence[str], tag: str) -> int:
        """Remove a tag from problems; returns the number of those that had it."""
        return self._database.transaction(problem_list.untag, keys, tag)


class Labels:
    """Batches of jobs."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database

    def get(self, name: str) -> Label:
        """The label with this name; `UsageError` with similar names if there is none."""
        return self._database.read(labels.label, name)

    def all(self) -> list[LabelSummary]:
        """All labels with the numbers of their jobs by state."""
        return self._database.read(labels.labels)

    def is_aborted(self, name: str) -> bool:
        """Whether its jobs wait until it is resumed."""
        return self._database.read(labels.is_aborted, name)

    def plans(self, label: str) -> list[JobPlan]:
        """The plans of the label's jobs, to copy them to another label."""
        return self._database.read(jobs.plans_of, label)

    def devices(self, label: str) -> dict[str, bool]:
        """Devices of its jobs, and whether a real one was ever seen."""
        return self._database.read(devices.devices_of, label)

    def set_device_seconds(self, label: str, seconds: float) -> int:
        """Limit the device time of its tuning jobs; returns the number of these jobs."""
        from skipjack.fleet.store.jobs import device_time

        return self._database.transaction(device_time.set_budget, label, seconds)

    def device_time(self, label: str) -> DeviceTime:
        """The device time of its tuning jobs, and what they have won."""
        from skipjack.fleet.store.jobs import device_time

        return self._database.read(device_time.device_time, label)

    def toolchains(self, label: str) -> dict[str, list[str]]:
        """Toolchains that evaluated its jobs, by device."""
        return self._database.read(devices.toolchains_of, label)


class Jobs:
    """Jobs: adding, counting, showing, aborting and resetting them."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database

    def add(
        self,
        label: Label,
        plans: Iterable[JobPlan],
        *,
        priority: int = 0,
        epoch: int = 0,
        chosen: Mapping[str, Device] | None = None,
        tag: str | None = None,
    ) -> AddedJobs:
        """Add the jobs that the label does not have yet; the label is created if necessary.

        `chosen` has the real device of names that several devices have. Numbers of calls are those
        of the `tag`, or of all tags.
        """
        add = partial(jobs.add_jobs, priority=priority, epoch=epoch, chosen=chosen, tag=tag)
        return self._database.transaction(add, label, list(plans))

    def take_over(
        self, label: str, pairs: Iterable[tuple[str, str]], toolchains: Mapping[str, str]
    ) -> int:
        """Copy rankings of other labels as find jobs, for these pairs; returns their number."""
        from skipjack.fleet.store.jobs import copied_rankings

        return self._database.transaction(
            copied_rankings.copy_rankings, label, list(pairs), toolchains
        )

    def stale(self, device: Device, toolchain: str, problem_ids: Iterable[int]) -> set[int]:
        """Problems that were never evaluated on such a device, or only with another toolchain."""
        return self._database.read(jobs.stale, device, toolchain, list(problem_ids))

    def get(self, id: int) -> Job:
        """The job with this number."""
        return self._database.read(jobs.job, id)

    def find(
        self,
        *,
        label: str | None = None,
        state: JobState | None = None,
        device: str | None = None,
        limit: int | None = None,
    ) -> list[Job]:
        """The jobs that match, by number."""
        return self._database.read(jobs.jobs, label=label, state=state, device=device, limit=limit)

    def counts(
        self,
        *,
        label: str | None = None,
        by: Sequence[str] = ("state",),
        state: JobState | None = None,
        device: str | None = None,
    ) -> list[tuple[tuple[str, ...], int]]:
        """The number of jobs for each combination of values that occurs."""
        return self._database.read(
            job_counts.counts, label=label, by=by, state=state, device=device
        )

    def history(self, id: int) -> list[JobEvent]:
        """The history of a job: its events in order."""
        return self._database.read(job_history.history, id)

    def log(self, id: int, since: LoggedAttempt | None = None) -> list[LogText]:
        """The logs of workers about a job, in order, or those from an attempt's on."""
        return self._database.read(job_history.log, id, since)

    def reset(
        self,
        label: str,
        state: JobState,
        to: JobState,
        *,
        device: str | None = None,
        kind: JobKind | None = None,
        problems: Collection[str] | None = None,
        jobs: Collection[int] | None = None,
        by: str = "",
    ) -> ResetCount:
        """Start the label's jobs in a state over, or repeat their evaluation; record who did it."""
        chosen = partial(aborts.reset, device=device, kind=kind, problems=problems, jobs=jobs)
        return self._database.transaction(chosen, label, state, to, by=by)

    def abort(
        self,
        *,
        label: str | None = None,
        device: str | None = None,
        machine: str | None = None,
        arch: str | None = None,
        reason: str = "",
        by: str = "",
    ) -> int:
        """Abort a label, device, machine or architecture; returns the number of its jobs.

        `by` is who does it, which is recorded with the reason.
        """
        stop = partial(aborts.abort, label=label, device=device, machine=machine, arch=arch)
        return self._database.transaction(stop, reason=reason, by=by)

    def resume(
        self,
        *,
        label: str | None = None,
        device: str | None = None,
        machine: str | None = None,
        arch: str | None = None,
        reason: str = "",
        by: str = "",
    ) -> int:
        """Resume a label, device, machine or architecture; returns the number of its jobs."""
        go_on = partial(aborts.resume, label=label, device=device, machine=machine, arch=arch)
        return self._database.transaction(go_on, reason=reason, by=by)

    def actions(
        self, *, kind: str | None = None, target: str | None = None, limit: int = 50
    ) -> list[RecordedAction]:
        """The newest things that people did to labels, devices and machines, or to one of them."""
        return self._database.read(actions.newest, kind=kind, target=target, limit=limit)

    def touched(
        self,
        *,
        label: str | None = None,
        device: str | None = None,
        machine: str | None = None,
        arch: str | None = None,
    ) -> list[tuple[str, str]]:
        """Labels with unfinished jobs that an abort would affect, and their owners."""
        return self._database.read(
            aborts.touched, label=label, device=device, machine=machine, arch=arch
        )


# The repositories of machines that were seen and of machines that are registered.


class Machines:
    """Machines that engines have registered, and their devices."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database

    def all(self) -> list[Machine]:
        """All machines that were ever seen."""
        return self._database.read(machines.machines)

    def devices_at(self, machine: str, label: str) -> tuple[str, ...]:
        """Devices of a machine that jobs of a label are for; `UsageError` if there are none."""
        return self._database.read(machines.devices_at, machine, label)

    def known_device(self, name: str, label: str = "") -> Device | None:
        """The real device of a label, or without a label the device that was seen last."""
        return self._database.read(devices.known_device, name, label)

    def device_classes(self, name: str) -> list[DeviceClass]:
        """The different devices with this name that machines have."""
        return self._database.read(devices.classes_of, name)

    def stopped_devices(self) -> list[str]:
        """Devices that get no jobs until they are resumed."""
        return self._database.read(devices.stopped_devices)

    def stopped_architectures(self) -> list[str]:
        """Architectures whose devices get no jobs until they are resumed."""
        return self._database.read(devices.stopped_architectures)


class Registrations:
    """Machines that the user registered, whether or not they were ever seen."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database

    def add(self, registration: Registration, *, replace: bool = False) -> bool:
        """Store a registration; whether it replaced one with its name, which `replace` allows."""
        return self._database.transaction(registrations.add, registration, replace=replace)

    def all(self, enabled_only: bool = False) -> list[Registration]:
        """All registrations by name, or only enabled ones."""
        return self._database.read(registrations.registrations, enabled_only=enabled_only)

    def get(self, name: str) -> Registration:
        """The registration with this name; `UsageError` with similar names if there is none."""
        return self._database.read(registrations.registration, name)

    def remove(self, names: Iterable[str]) -> list[Registration]:
        """Remove registrations, all or none; returns them."""
        return self._database.transaction(registrations.remove, list(names))

    def enable(self, names: Iterable[str], *, reason: str = "", by: str = "") -> list[str]:
        """Enable machines, and end their quarantine."""
        return self._database.transaction(registrations.enable, list(names), reason=reason, by=by)

    def disable(self, names: Iterable[str], why: str, *, by: str = "") -> list[str]:
        """Disable machines until they are enabled, even if they are seen later."""
        return self._database.transaction(registrations.disable, list(names), why, by=by)
