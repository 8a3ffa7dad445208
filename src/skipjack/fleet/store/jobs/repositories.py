"""Problems, labels and jobs of the store: add them, look at them, stop them, start them over.

A method runs a function of a connection, from one of the modules beside this one, as a
transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from skipjack.fleet.store.jobs import aborting, counting, jobs, labels, problem_list, stories
from skipjack.fleet.store.jobs import problems as imported
from skipjack.fleet.store.jobs.problems import Added
from skipjack.fleet.store.machines import devices
from skipjack.fleet.store.sql import statements
from skipjack.fleet.store.sql.database import StoreDatabase

if TYPE_CHECKING:
    from skipjack.core.device import Device
    from skipjack.fleet.records import Job, JobKind, Label, Plan, StoryLine
    from skipjack.fleet.states import State
    from skipjack.fleet.store.jobs.aborting import ResetCount
    from skipjack.fleet.store.jobs.jobs import AddedJobs
    from skipjack.fleet.store.jobs.labels import LabelSummary
    from skipjack.fleet.store.jobs.problem_list import DeviceResult, ListedProblem, ProblemFilter
    from skipjack.fleet.store.jobs.problems import NewProblem, ProblemRow, Provenance
    from skipjack.fleet.store.jobs.stories import LogText

_IMPORTED_AT_ONCE = 50_000
"""Problems in a transaction: an import of millions does not keep others waiting."""


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
    ) -> Added:
        """Import problems and tag them; with `tag_only`, tag those that are known.

        With `in_order` their numbers are in this order, which takes longer.
        """
        done = Added()
        # Those of one transaction are written in the order of their digests.
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
        """The problems that match and are not retired, in the order of their ids."""
        return self._database.stream(
            imported.problems,
            tag=tag,
            operations=operations,
            recurrent=recurrent,
            directions=directions,
            dtype=dtype,
        )

    def listed(self, which: ProblemFilter, limit: int) -> list[ListedProblem]:
        """The problems that match, retired ones too, with what is known of each."""
        return self._database.read(problem_list.listed, which, limit)

    def get(self, key: str) -> tuple[ListedProblem, list[DeviceResult]]:
        """A problem, and its newest result on each device."""
        return self._database.read(problem_list.shown, key)

    def retire(self, keys: Iterable[str], retired: bool = True) -> int:
        """Leave problems out of all that is loaded from now on; gives how many changed."""
        return self._database.transaction(imported.retire, list(keys), retired)

    def tags(self) -> list[tuple[str, int]]:
        """Every tag and how many problems have it."""
        return self._database.read(imported.tags)

    def tag(self, keys: Sequence[str], provenance: Provenance) -> int:
        """Give known problems a tag; gives how many did not have it."""
        return self._database.transaction(problem_list.tag, keys, provenance)

    def untag(self, keys: Sequence[str], tag: str) -> int:
        """Take a tag from problems; gives how many had it."""
        return self._database.transaction(problem_list.untag, keys, tag)


class Labels:
    """Batches of jobs."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database

    def get(self, name: str) -> Label:
        """The label of this name; `UsageError` with near names if there is none."""
        return self._database.read(labels.label, name)

    def all(self) -> list[LabelSummary]:
        """All labels, and how far their jobs are."""
        return self._database.read(labels.labels)

    def plans(self, label: str) -> list[Plan]:
        """What the label's jobs are to find out, for another label to do likewise."""
        return self._database.read(jobs.plans_of, label)

    def devices(self, label: str) -> dict[str, bool]:
        """Devices that its jobs are for, and whether a real one was ever seen."""
        return self._database.read(devices.devices_of, label)

    def toolchains(self, label: str) -> dict[str, list[str]]:
        """Toolchains that evaluated its jobs, by device."""
        return self._database.read(devices.toolchains_of, label)


class Jobs:
    """Jobs as commands make, count, show, stop and reset them."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database

    def add(
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
        return self._database.transaction(
            jobs.add_jobs, label, list(plans), priority=priority, epoch=epoch, chosen=chosen
        )

    def take_over(
        self, label: str, pairs: Iterable[tuple[str, str]], toolchains: Mapping[str, str]
    ) -> int:
        """Find jobs from rankings of other labels, for these problems and devices; how many."""
        from skipjack.fleet.store.jobs import taking_over

        return self._database.transaction(taking_over.take_over, label, list(pairs), toolchains)

    def stale(self, device: Device, toolchain: str, problem_ids: Iterable[int]) -> set[int]:
        """Problems that were never evaluated on such a device, or only by another toolchain."""
        return self._database.read(jobs.stale, device, toolchain, list(problem_ids))

    def get(self, id: int) -> Job:
        """The job of this number."""
        return self._database.read(jobs.job, id)

    def find(
        self,
        *,
        label: str | None = None,
        state: State | None = None,
        device: str | None = None,
        limit: int | None = None,
    ) -> list[Job]:
        """The jobs that match, in the order of their numbers."""
        return self._database.read(jobs.jobs, label=label, state=state, device=device, limit=limit)

    def counts(
        self,
        *,
        label: str | None = None,
        by: Sequence[str] = ("state",),
        state: State | None = None,
        device: str | None = None,
    ) -> list[tuple[tuple[str, ...], int]]:
        """The number of jobs for each combination of values that occurs."""
        return self._database.read(counting.counts, label=label, by=by, state=state, device=device)

    def story(self, id: int) -> list[StoryLine]:
        """What happened to a job, in order."""
        return self._database.read(stories.story, id)

    def log(self, id: int) -> list[LogText]:
        """What workers said about a job, in order."""
        return self._database.read(stories.log, id)

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
        return self._database.transaction(
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
        return self._database.transaction(
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
        return self._database.transaction(
            aborting.resume, label=label, device=device, machine=machine, arch=arch
        )

    def touched(
        self,
        *,
        label: str | None = None,
        device: str | None = None,
        machine: str | None = None,
        arch: str | None = None,
    ) -> list[tuple[str, str]]:
        """Labels with jobs under way that an abort would touch, and their owners."""
        return self._database.read(
            aborting.touched, label=label, device=device, machine=machine, arch=arch
        )
