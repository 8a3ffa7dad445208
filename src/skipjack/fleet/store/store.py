"""The store: every verb of the fleet on its database, each in a transaction of its own.

What a verb does is written in the module beside this one that has its name; here is only that it
happens whole, once, and also when the database goes away for a while (`retrying`). What only
workers need is loaded by their verbs: who looks at the store does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine

from skipjack.fleet.records import Settlement
from skipjack.fleet.states import Inapplicable, Stage
from skipjack.fleet.store.claims import leases
from skipjack.fleet.store.job_verbs import JobVerbs
from skipjack.fleet.store.jobs import aborting, problem_list, problems, stories
from skipjack.fleet.store.jobs.problem_list import DeviceResult, ListedProblem, ProblemFilter
from skipjack.fleet.store.jobs.problems import (
    Added,
    NewProblem,
    ProblemRow,
    Provenance,
    add_problems,
)
from skipjack.fleet.store.machines import devices, machines
from skipjack.fleet.store.registry_verbs import RegistryVerbs
from skipjack.fleet.store.sql import statements
from skipjack.fleet.store.sql.retrying import Patience

if TYPE_CHECKING:
    from skipjack.fleet.bundle.contents import BundledOutcome
    from skipjack.fleet.engine import Host, RunningLog
    from skipjack.fleet.exchange import Ask, Exchanged
    from skipjack.fleet.records import Claim, JobKind, Machine, Want
    from skipjack.fleet.store.claims.artifacts import Fetched
    from skipjack.fleet.store.claims.bundling import Page, Received, Wanted
    from skipjack.fleet.task import Task
    from skipjack.processes import ProcessIdentity

_IMPORTED_AT_ONCE = 50_000
"""Problems in a transaction: an import of millions does not keep others waiting."""


class Store(JobVerbs, RegistryVerbs):
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
        self._transaction(leases.agree_on_key, key)
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
        for chunk in statements.chunks(problems, _IMPORTED_AT_ONCE):
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
        operations: Sequence[str] = (),
        recurrent: bool = False,
        directions: Sequence[str] = (),
        dtype: str | None = None,
    ) -> Iterator[ProblemRow]:
        """Those that match and are not retired, by id."""
        return self._streaming(
            problems.problems,
            tag=tag,
            operations=operations,
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

    def problem_list(self, which: ProblemFilter, limit: int) -> list[ListedProblem]:
        """Problems that are asked for, retired ones too, with what is known of each."""
        return self._reading(problem_list.listed, which, limit)

    def problem(self, key: str) -> tuple[ListedProblem, list[DeviceResult]]:
        """A problem, and its newest result on each device."""
        return self._reading(problem_list.shown, key)

    def tag(self, keys: Sequence[str], provenance: Provenance) -> int:
        """Give known problems a tag; how many did not have it."""
        return self._transaction(problem_list.tag, keys, provenance)

    def untag(self, keys: Sequence[str], tag: str) -> int:
        """Take a tag from problems; how many had it."""
        return self._transaction(problem_list.untag, keys, tag)

    # ---- coordinators

    def sign_in(self, process: ProcessIdentity, lease_s: float) -> str:
        """Become an owner of jobs for as long as the lease is renewed; gives the owner's id."""
        assert self._key  # a machine with another key finds out now
        return self._transaction(leases.sign_in, process, lease_s)

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
        return self._reading(aborting.others, owner)

    def devices_of(self, label: str, *, built: bool = False) -> dict[str, bool]:
        """Devices that jobs of a label are for, and whether a real one was ever seen.

        With `built`, those alone that something is built for.
        """
        return self._reading(devices.devices_of, label, built=built)

    def toolchains_of(self, label: str) -> dict[str, list[str]]:
        """Toolchains that evaluated jobs of a label, by device."""
        return self._reading(devices.toolchains_of, label)

    def devices_at(self, machine: str, label: str) -> tuple[str, ...]:
        """Devices of a machine that jobs of a label are for; `UsageError` if there are none."""
        return self._reading(machines.devices_at, machine, label)

    def stopped_devices(self) -> list[str]:
        """Devices that get no jobs until they are resumed."""
        return self._reading(devices.stopped_devices)

    def stopped_architectures(self) -> list[str]:
        """Architectures whose devices get no jobs until they are resumed."""
        return self._reading(devices.stopped_architectures)

    def touched(
        self,
        *,
        label: str | None = None,
        device: str | None = None,
        machine: str | None = None,
        arch: str | None = None,
    ) -> list[tuple[str, str]]:
        """Labels with jobs under way that an abort would touch, and their owners."""
        return self._reading(
            aborting.touched, label=label, device=device, machine=machine, arch=arch
        )

    def sweep(self) -> int:
        """Take the jobs of owners away whose lease has expired, or who died on this machine."""
        return self._transaction(leases.sweep)

    def register(self, host: Host, engine: str, *, evaluates: bool = True) -> Machine:
        """Note a machine as an engine found it, and its devices; whether they are measured on."""
        return self._transaction(machines.register, host, engine, evaluates=evaluates)

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
        kind: JobKind | None = None,
        only: Sequence[str] = (),
    ) -> list[tuple[Claim, Task]]:
        """Take waiting jobs for workers: those of higher priority and fewer failures first.

        Of one label, of one kind, and `only` for devices of these names, where they are given.
        """
        from skipjack.fleet.exchange import Ask

        ask = Ask(stage, tuple(wants))
        return list(self.exchange(owner, (), [ask], label=label, kind=kind, only=only).claimed)

    def note_logs(self, owner: str, said: Sequence[RunningLog]) -> int:
        """Keep what workers have said so far of jobs that the owner holds; how many those were."""
        return self._transaction(stories.note_logs, owner, said)

    def settle(self, owner: str, settlements: Sequence[Settlement]) -> list[Claim]:
        """Write down what came of claims, all but those that were lost, which it returns."""
        from skipjack.fleet.store.claims import settling

        return self._transaction(settling.settle, owner, settlements, key=self._key)

    def exchange(
        self,
        owner: str,
        settlements: Sequence[Settlement],
        asks: Sequence[Ask],
        *,
        label: str | None = None,
        kind: JobKind | None = None,
        only: Sequence[str] = (),
    ) -> Exchanged:
        """`settle`, then `claim` for each stage that is asked for, in one transaction.

        Claims that begin with what other jobs found out are told it afterwards.
        """
        from skipjack.fleet.exchange import Exchanged
        from skipjack.fleet.store.claims import claims, settling

        key = self._key  # before the transaction: agreeing on it is one of its own
        # Evaluators first: the first one decides which device of a name a label is for.
        ordered = sorted(asks, key=lambda ask: ask.stage is Stage.BUILD)

        def both(connection: Connection, given: Sequence[Settlement]) -> Exchanged:
            refused = settling.settle(connection, owner, given, key=key)
            claimed: list[tuple[Claim, Task]] = []
            for ask in ordered:
                claimed += claims.claim(
                    *(connection, owner, ask.stage, ask.wants, label),
                    key=key,
                    kind=kind,
                    only=only,
                )
            return Exchanged(tuple(refused), tuple(claimed))

        refused: tuple[Claim, ...] = ()
        while True:
            done = self._patience.transact(
                self._engine,
                partial(both, given=settlements),
                committed=lambda connection, done: claims.holds(connection, owner, done.claimed),
            )
            refused += done.refused
            informed = self._informed(owner, done.claimed)
            if informed or not done.claimed:
                return Exchanged(refused, tuple(informed))
            settlements = ()  # all that was claimed came to an end: there may be more

    def _informed(
        self, owner: str, claimed: Sequence[tuple[Claim, Task]]
    ) -> Sequence[tuple[Claim, Task]]:
        """Claims with what other jobs found out; those for which that is nothing are settled."""
        from skipjack.fleet.store.claims import precedents

        if not any(precedents.begins_with(task) for _, task in claimed):
            return claimed
        told = self._reading(precedents.informed, claimed)
        ended = [Settlement(claim, one) for claim, one in told if isinstance(one, Inapplicable)]
        if ended:
            self.settle(owner, ended)
        return [(claim, one) for claim, one in told if not isinstance(one, Inapplicable)]

    def artifacts(self, digests: Iterable[str]) -> Fetched:
        """Machine code that is whole and sealed, and why the rest of it cannot be used."""
        from skipjack.fleet.store.claims import artifacts

        return self._transaction(artifacts.fetch, self._key, list(digests))

    # ---- bundles

    @property
    def key(self) -> bytes:
        """What machine code and bundles of this fleet are sealed with."""
        return self._key

    def origin(self, label: str) -> str:
        """What tells this label of this store from all others."""
        from skipjack.fleet.store.claims import bundling

        return self._reading(bundling.origin, label)

    def built(self, wanted: Wanted, after: int) -> Page:
        """Built jobs as tasks for a bundle, those after an id; they stay built."""
        from skipjack.fleet.store.claims import bundling

        return self._transaction(bundling.built, wanted, after, key=self._key)

    def accept(
        self, label: str, results: Sequence[BundledOutcome], machines: Mapping[str, int]
    ) -> list[Received]:
        """Take in what a bundle brings, each result once; machines' ids are by their names."""
        from skipjack.fleet.store.claims import bundling

        return self._transaction(bundling.accept, label, results, machines, key=self._key)
