"""The store's verbs on labels and jobs: make them, look at them, stop them, start them over."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from skipjack.fleet.store.jobs import aborting, counting, jobs, labels, stories
from skipjack.fleet.store.machines import devices
from skipjack.fleet.store.sql.transacting import Transacting

if TYPE_CHECKING:
    from skipjack.core.device import Device
    from skipjack.fleet.records import Job, JobKind, Known, Label, Plan, StoryLine
    from skipjack.fleet.states import State
    from skipjack.fleet.store.jobs.aborting import ResetCount
    from skipjack.fleet.store.jobs.jobs import AddedJobs, JobResult
    from skipjack.fleet.store.jobs.labels import LabelSummary
    from skipjack.fleet.store.jobs.stories import LogText
    from skipjack.fleet.store.jobs.verdicts import JobVerdict
    from skipjack.fleet.store.machines.devices import SeenClass


class JobVerbs(Transacting):
    """What people and those who make jobs do; workers are for the `Store` itself."""

    def add_jobs(
        self,
        label: Label,
        plans: Iterable[Plan],
        *,
        priority: int = 0,
        epoch: int = 0,
        chosen: Mapping[str, Device] | None = None,
    ) -> AddedJobs:
        """Add the jobs that the label does not have yet; the label is made if need be.

        `chosen` has the devices that are meant, by name, where several have one name.
        """
        return self._transaction(
            jobs.add_jobs, label, list(plans), priority=priority, epoch=epoch, chosen=chosen
        )

    def take_over(
        self, label: str, pairs: Iterable[tuple[str, str]], toolchains: Mapping[str, str]
    ) -> int:
        """Find jobs from rankings of other labels, for these problems and devices; how many."""
        from skipjack.fleet.store.jobs import taking_over

        return self._transaction(taking_over.take_over, label, list(pairs), toolchains)

    def winners(self, label: str) -> dict[tuple[str, str], Known]:
        """What is to be packed of a label, by problem and device, as far as jobs have said it."""
        from skipjack.fleet.store.claims import precedents

        return self._reading(precedents.winners, label)

    def packed(self, label: str) -> dict[tuple[str, str], Known]:
        """What kernel jobs of a label have packed, by problem and device."""
        from skipjack.fleet.store.claims import precedents

        return self._reading(precedents.packed, label)

    def label(self, name: str) -> Label:
        """The label of this name."""
        return self._reading(labels.label, name)

    def labels(self) -> list[LabelSummary]:
        """All labels, and how far their jobs are."""
        return self._reading(labels.labels)

    def plans_of(self, label: str) -> list[Plan]:
        """What the label's jobs are to find out, for another label to do likewise."""
        return self._reading(jobs.plans_of, label)

    def stale(self, device: Device, toolchain: str, problem_ids: Iterable[int]) -> set[int]:
        """Those that were never evaluated on such a device, or only by another toolchain."""
        return self._reading(jobs.stale, device, toolchain, list(problem_ids))

    def known_device(self, name: str, label: str = "") -> Device | None:
        """The real device that a label is for, or without one the device that was seen last."""
        return self._reading(devices.known_device, name, label)

    def device_classes(self, name: str) -> list[SeenClass]:
        """The different devices of this name that machines have."""
        return self._reading(devices.classes_of, name)

    def counts(
        self,
        *,
        label: str | None = None,
        by: Sequence[str] = ("state",),
        state: State | None = None,
        device: str | None = None,
    ) -> list[tuple[tuple[str, ...], int]]:
        """The number of jobs for each combination of values that occurs."""
        return self._reading(counting.counts, label=label, by=by, state=state, device=device)

    def live(
        self,
        label: str | None = None,
        kind: JobKind | None = None,
        devices: Sequence[str] = (),
    ) -> dict[State, int]:
        """The number of jobs in each state, of one kind or of all, for some devices or for all."""
        return self._reading(counting.live, label, kind, devices)

    def job(self, id: int) -> Job:
        """The job of this number."""
        return self._reading(jobs.job, id)

    def jobs(
        self,
        *,
        label: str | None = None,
        state: State | None = None,
        device: str | None = None,
        limit: int | None = None,
    ) -> list[Job]:
        """Those that match, by number."""
        return self._reading(jobs.jobs, label=label, state=state, device=device, limit=limit)

    def story(self, id: int) -> list[StoryLine]:
        """What happened to a job, in order."""
        return self._reading(stories.story, id)

    def log(self, id: int) -> list[LogText]:
        """What workers said about a job, in order."""
        return self._reading(stories.log, id)

    def results(self, label: str) -> Iterator[JobResult]:
        """The label's evaluated jobs with all that was found out."""
        return self._streaming(jobs.results, label)

    def verdicts(self, label: str, device: str | None = None) -> Iterator[JobVerdict]:
        """What the label's evaluated jobs say, without the facts; all of a problem in a row."""
        from skipjack.fleet.store.jobs import verdicts

        return self._streaming(verdicts.verdicts, label, device)

    def reset(
        self,
        label: str,
        state: State,
        to: State,
        *,
        device: str | None = None,
        kind: JobKind | None = None,
        problems: Collection[str] | None = None,
    ) -> ResetCount:
        """Start the label's jobs of a state over, or repeat their evaluation."""
        return self._transaction(
            aborting.reset, label, state, to, device=device, kind=kind, problems=problems
        )

    def abort(
        self,
        *,
        label: str | None = None,
        device: str | None = None,
        machine: str | None = None,
        arch: str | None = None,
        reason: str = "",
    ) -> int:
        """Stop a label, device, machine or architecture until it is resumed; jobs touched."""
        return self._transaction(
            aborting.abort, label=label, device=device, machine=machine, arch=arch, reason=reason
        )

    def resume(
        self,
        *,
        label: str | None = None,
        device: str | None = None,
        machine: str | None = None,
        arch: str | None = None,
    ) -> int:
        """Let a label, device, machine or architecture go on; how many jobs were touched."""
        return self._transaction(
            aborting.resume, label=label, device=device, machine=machine, arch=arch
        )
