"""The store: every verb of the fleet on its database, each in a transaction of its own.

What a verb does is written in the module beside this one that has its name; here is only that it
happens whole, once, and also when the database goes away for a while (`retrying`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine

from skipjack.core.device import Device
from skipjack.fleet.bundle.contents import BundledOutcome
from skipjack.fleet.engine import Host
from skipjack.fleet.exchange import Ask, Exchanged
from skipjack.fleet.machines.registration import Registration
from skipjack.fleet.records import (
    Claim,
    Job,
    Kind,
    Known,
    Label,
    Machine,
    Plan,
    Settlement,
    StoryLine,
    Want,
)
from skipjack.fleet.states import Stage, State
from skipjack.fleet.store import (
    aborting,
    agreements,
    artifacts,
    bulk,
    claims,
    counting,
    devices,
    jobs,
    labels,
    leases,
    machines,
    neighbours,
    precedents,
    problems,
    registrations,
    settling,
    taking_over,
    verdicts,
)
from skipjack.fleet.store.aborting import ResetCount
from skipjack.fleet.store.artifacts import Fetched
from skipjack.fleet.store.jobs import AddedJobs, JobResult, LogText
from skipjack.fleet.store.labels import LabelSummary
from skipjack.fleet.store.problems import Added, NewProblem, ProblemRow, add_problems
from skipjack.fleet.store.retrying import Patience
from skipjack.fleet.store.transacting import Transacting
from skipjack.fleet.store.verdicts import JobVerdict
from skipjack.fleet.task import Task

if TYPE_CHECKING:
    from skipjack.fleet.store.bundling import Page, Received, Wanted

_IMPORTED_AT_ONCE = 50_000
"""Problems in a transaction: an import of millions does not keep others waiting."""

P = ParamSpec("P")
T = TypeVar("T")


class Store(Transacting):
    """The fleet's record. Made by `open_store`; used from one thread; a context manager.

    Every verb is committed when it returns. A database that is away is waited for, as `patience`
    says; what it refuses for good is a `StorageError` without the password. Names that nobody has
    heard of are `UsageError`.
    """

    def __init__(
        self, engine: Engine, key: Callable[[], bytes], patience: Patience | None = None
    ) -> None:
        super().__init__(engine, patience or Patience())
        self._make_key = key

    @cached_property
    def _key(self) -> bytes:
        """The fleet's; who only looks needs none. Another one than the store's is refused."""
        key = self._make_key()
        self._transaction(agreements.agree_on_key, key)
        return key

    # ---- problems

    def add_problems(
        self,
        problems: Iterable[NewProblem],
        tag: str,
        *,
        recurrent: bool = False,
        source: str = "",
        model: str = "",
        tag_only: bool = False,
    ) -> Added:
        """Import problems and tag them; with `tag_only`, tag those that are known."""
        done = Added()
        for chunk in bulk.chunks(problems, _IMPORTED_AT_ONCE):
            more = self._transaction(
                add_problems,
                chunk,
                tag,
                recurrent=recurrent,
                source=source,
                model=model,
                tag_only=tag_only,
            )
            done = Added(
                done.imported + more.imported, done.known + more.known, done.tagged + more.tagged
            )
        return done

    def problems(
        self,
        *,
        tag: str | None = None,
        operation: str | None = None,
        recurrent: bool = False,
        directions: Sequence[str] = (),
        dtype: str | None = None,
    ) -> Iterator[ProblemRow]:
        """Those that match and are not retired, by id."""
        return self._streaming(
            problems.problems,
            tag=tag,
            operation=operation,
            recurrent=recurrent,
            directions=directions,
            dtype=dtype,
        )

    def tags(self) -> list[tuple[str, int]]:
        """Every tag and how many problems have it."""
        return self._reading(problems.tags)

    def retire(self, keys: Iterable[str], retired: bool = True) -> int:
        """Leave problems out of all that is loaded from now on; gives how many changed."""
        return self._transaction(problems.retire, list(keys), retired)

    # ---- labels and jobs

    def add_jobs(
        self, label: Label, plans: Iterable[Plan], *, priority: int = 0, epoch: int = 0
    ) -> AddedJobs:
        """Add the jobs that the label does not have yet; the label is made if need be."""
        return self._transaction(jobs.add_jobs, label, list(plans), priority=priority, epoch=epoch)

    def take_over(
        self, label: str, pairs: Iterable[tuple[str, str]], toolchains: Mapping[str, str]
    ) -> int:
        """Find jobs from rankings of other labels, for these problems and devices; how many."""
        return self._transaction(taking_over.take_over, label, list(pairs), toolchains)

    def winners(self, label: str) -> dict[tuple[str, str], Known]:
        """What is to be packed of a label, by problem and device, as far as jobs have said it."""
        return self._reading(precedents.winners, label)

    def packed(self, label: str) -> dict[tuple[str, str], Known]:
        """What kernel jobs of a label have packed, by problem and device."""
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

    def stale(self, device: str, toolchain: str, problem_ids: Iterable[int]) -> set[int]:
        """Those that were never evaluated on the device, or only by another toolchain."""
        return self._reading(jobs.stale, device, toolchain, list(problem_ids))

    def known_device(self, name: str) -> Device | None:
        """What is known of a real device of this name; None if none was seen yet."""
        return self._reading(jobs.known_device, name)

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

    def live(self, label: str | None = None, kind: Kind | None = None) -> dict[State, int]:
        """The number of jobs in each state, of one kind or of all, cheaply."""
        return self._reading(counting.live, label, kind)

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
        return self._reading(jobs.story, id)

    def log(self, id: int) -> list[LogText]:
        """What workers said about a job, in order."""
        return self._reading(jobs.log, id)

    def results(self, label: str) -> Iterator[JobResult]:
        """The label's evaluated jobs with all that was found out."""
        return self._streaming(jobs.results, label)

    def verdicts(self, label: str, device: str | None = None) -> Iterator[JobVerdict]:
        """What the label's evaluated jobs say, without the facts; all of a problem in a row."""
        return self._streaming(verdicts.verdicts, label, device)

    # ---- stopping and repairing

    def reset(
        self,
        label: str,
        state: State,
        to: State,
        *,
        device: str | None = None,
        kind: Kind | None = None,
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
        reason: str = "",
    ) -> int:
        """Stop a label, a device or a machine until it is resumed; how many jobs were touched."""
        return self._transaction(
            aborting.abort, label=label, device=device, machine=machine, reason=reason
        )

    def resume(
        self, *, label: str | None = None, device: str | None = None, machine: str | None = None
    ) -> int:
        """Let a label, a device or a machine go on; how many jobs were touched."""
        return self._transaction(aborting.resume, label=label, device=device, machine=machine)

    # ---- machines as people register them

    def add_registration(self, registration: Registration, *, replace: bool = False) -> bool:
        """Write down a machine; whether it replaced one of its name, which `replace` allows."""
        return self._transaction(registrations.add, registration, replace=replace)

    def registrations(self, enabled_only: bool = False) -> list[Registration]:
        """All of them by name, or those that are in use."""
        return self._reading(registrations.registrations, enabled_only=enabled_only)

    def registration(self, name: str) -> Registration:
        """That of this name."""
        return self._reading(registrations.registration, name)

    def remove_registrations(self, names: Iterable[str]) -> list[Registration]:
        """Forget machines, all or none; gives what they were."""
        return self._transaction(registrations.remove, list(names))

    def enable(self, names: Iterable[str]) -> list[str]:
        """Let machines have jobs again, also those that were set aside."""
        return self._transaction(registrations.enable, list(names))

    def disable(self, names: Iterable[str], why: str) -> list[str]:
        """Give machines no jobs until they are enabled, also if they turn up later."""
        return self._transaction(registrations.disable, list(names), why)

    # ---- coordinators

    def sign_in(self, host: str, pid: int, lease_s: float) -> str:
        """Become an owner of jobs for as long as the lease is renewed; gives the owner's id."""
        assert self._key  # a machine with another key finds out now
        return self._transaction(leases.sign_in, host, pid, lease_s)

    def renew(self, owner: str) -> dict[int, int] | None:
        """Prolong the lease; jobs that are still ours, with their attempts; None if it was lost."""
        return self._transaction(leases.renew, owner)

    def sign_out(self, owner: str, reason: str) -> int:
        """Give all jobs back and be no owner any more; how many there were."""
        return self._transaction(leases.sign_out, owner, reason)

    def release(self, owner: str, jobs: Iterable[int], reason: str) -> int:
        """Give back jobs that nobody works on; how many there were."""
        return self._transaction(leases.release, owner, list(jobs), reason)

    def others(self, owner: str) -> int:
        """How many coordinators besides this one are alive."""
        return self._reading(neighbours.others, owner)

    def devices_of(self, label: str) -> dict[str, bool]:
        """Devices that jobs of a label are for, and whether a real one was ever seen."""
        return self._reading(devices.devices_of, label)

    def toolchains_of(self, label: str) -> dict[str, list[str]]:
        """Toolchains that evaluated jobs of a label, by device."""
        return self._reading(devices.toolchains_of, label)

    def stopped_devices(self) -> list[str]:
        """Devices that get no jobs until they are resumed."""
        return self._reading(devices.stopped_devices)

    def touched(
        self, *, label: str | None = None, device: str | None = None, machine: str | None = None
    ) -> list[tuple[str, str]]:
        """Labels with jobs under way that an abort would touch, and their owners."""
        return self._reading(neighbours.touched, label=label, device=device, machine=machine)

    def sweep(self) -> int:
        """Take the jobs of owners whose lease has expired away from them; how many."""
        return self._transaction(leases.sweep)

    def register(self, host: Host, engine: str) -> Machine:
        """Note a machine as an engine found it, and its devices."""
        return self._transaction(machines.register, host, engine)

    def seen(self, names: Sequence[str]) -> list[Machine]:
        """Note that machines are still as they were registered; gives them as they stand."""
        return self._transaction(machines.seen, names)

    def machines(self) -> list[Machine]:
        """All machines that were ever seen."""
        return self._reading(machines.machines)

    def claim(
        self,
        owner: str,
        stage: Stage,
        wants: Sequence[Want],
        *,
        label: str | None = None,
        kind: Kind | None = None,
    ) -> list[tuple[Claim, Task]]:
        """Take waiting jobs for workers: those of higher priority and fewer failures first."""
        key = self._key
        return self._patience.transact(
            self._engine,
            lambda connection: claims.claim(
                connection, owner, stage, wants, label=label, key=key, kind=kind
            ),
            committed=lambda connection, taken: claims.holds(connection, owner, taken),
        )

    def settle(self, owner: str, settlements: Sequence[Settlement]) -> list[Claim]:
        """Write down what came of claims, all but those that were lost, which it returns."""
        return self._transaction(settling.settle, owner, settlements, key=self._key)

    def exchange(
        self,
        owner: str,
        settlements: Sequence[Settlement],
        asks: Sequence[Ask],
        *,
        label: str | None = None,
        kind: Kind | None = None,
    ) -> Exchanged:
        """`settle`, then `claim` for each stage that is asked for, in one transaction."""
        key = self._key  # before the transaction: agreeing on it is one of its own

        def both(connection: Connection) -> Exchanged:
            refused = settling.settle(connection, owner, settlements, key=key)
            claimed = [
                pair
                for ask in asks
                for pair in claims.claim(
                    connection, owner, ask.stage, ask.wants, label=label, key=key, kind=kind
                )
            ]
            return Exchanged(tuple(refused), tuple(claimed))

        return self._patience.transact(
            self._engine,
            both,
            committed=lambda connection, done: claims.holds(connection, owner, done.claimed),
        )

    def artifacts(self, digests: Iterable[str]) -> Fetched:
        """Machine code that is whole and sealed, and why the rest of it cannot be used."""
        return self._transaction(artifacts.fetch, self._key, list(digests))

    # ---- bundles

    @property
    def key(self) -> bytes:
        """What machine code and bundles of this fleet are sealed with."""
        return self._key

    def origin(self, label: str) -> str:
        """What tells this label of this store from all others."""
        from skipjack.fleet.store import bundling

        return self._reading(bundling.origin, label)

    def built(self, wanted: Wanted, after: int) -> Page:
        """Built jobs as tasks for a bundle, those after an id; they stay built."""
        from skipjack.fleet.store import bundling

        return self._transaction(bundling.built, wanted, after, key=self._key)

    def accept(
        self, label: str, results: Sequence[BundledOutcome], machines: Mapping[str, int]
    ) -> list[Received]:
        """Take in what a bundle brings, each result once; machines' ids are by their names."""
        from skipjack.fleet.store import bundling

        return self._transaction(bundling.accept, label, results, machines, key=self._key)
