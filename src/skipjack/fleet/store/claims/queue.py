"""The queue of jobs as coordinators use it: leases, claims, settlements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from skipjack.fleet.exchange import Ask, Exchanged
from skipjack.fleet.records import Settlement
from skipjack.fleet.states import Inapplicable, Stage
from skipjack.fleet.store.claims import claims, leases, precedents, settling
from skipjack.fleet.store.jobs import counting, stories
from skipjack.fleet.store.machines import devices, machines
from skipjack.fleet.store.sql.database import StoreDatabase

if TYPE_CHECKING:
    from skipjack.fleet.engine import Host, RunningLog
    from skipjack.fleet.records import Claim, JobKind, Machine, Want
    from skipjack.fleet.states import State
    from skipjack.fleet.task import Task
    from skipjack.processes import ProcessIdentity


class Queue:
    """Hands out jobs and takes back what came of them; a `fleet.store_protocols.JobQueue`."""

    def __init__(self, database: StoreDatabase, key: Callable[[], bytes]) -> None:
        self._database, self._key = database, key

    # owners and their leases

    def sign_in(self, process: ProcessIdentity, lease_s: float) -> str:
        """Become an owner of jobs for as long as the lease is renewed; gives the owner's id."""
        self._key()  # a machine with another key finds out now
        return self._database.transaction(leases.sign_in, process, lease_s)

    def renew(self, owner: str) -> dict[int, int] | None:
        """Prolong the lease; jobs that are still ours, with their attempts; None if it was lost."""
        return self._database.transaction(leases.renew, owner)

    def sign_out(self, owner: str, reason: str) -> int:
        """Give all jobs back and stop being an owner; gives how many jobs there were."""
        return self._database.transaction(leases.sign_out, owner, reason)

    def release(self, owner: str, jobs: Iterable[int], reason: str) -> int:
        """Give back jobs that nobody works on; gives how many there were."""
        return self._database.transaction(leases.release, owner, list(jobs), reason)

    def others(self, owner: str) -> int:
        """How many coordinators besides this one are alive."""
        return self._database.read(leases.others, owner)

    def sweep(self) -> int:
        """Free the jobs of owners whose lease has expired or whose process died on this machine."""
        return self._database.transaction(leases.sweep)

    # machines that work

    def register(self, host: Host, engine: str, *, evaluates: bool = True) -> Machine:
        """Note a machine as an engine found it, its devices, and whether they are measured on."""
        return self._database.transaction(machines.register, host, engine, evaluates=evaluates)

    def seen(self, names: Sequence[str]) -> list[Machine]:
        """Note that machines are still as they were registered; gives them as they stand."""
        return self._database.transaction(machines.seen, names)

    # jobs

    def live(
        self, label: str | None = None, kind: JobKind | None = None, devices: Sequence[str] = ()
    ) -> dict[State, int]:
        """The number of jobs in each state, of one kind or of all, for some devices or for all."""
        return self._database.read(counting.live, label, kind, devices)

    def built_for(self, label: str) -> dict[str, bool]:
        """Devices that jobs of a label are built for, and whether a real one was ever seen."""
        return self._database.read(devices.devices_of, label, built=True)

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
        ask = Ask(stage, tuple(wants))
        return list(self.exchange(owner, (), [ask], label=label, kind=kind, only=only).claimed)

    def settle(self, owner: str, settlements: Sequence[Settlement]) -> list[Claim]:
        """Write down what came of claims; gives those that were lost, which are left out."""
        return self._database.transaction(settling.settle, owner, settlements, key=self._key())

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
        key = self._key()  # before the transaction: agreeing on it is one of its own
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
        for _ in range(claims.TIMES_AT_ONCE):
            done = self._database.transaction_once(
                partial(both, given=settlements),
                committed=lambda connection, done: claims.holds(connection, owner, done.claimed),
            )
            refused += done.refused
            informed = self._informed(owner, done.claimed)
            if informed or not done.claimed:
                return Exchanged(refused, tuple(informed))
            settlements = ()  # all that was claimed came to an end: there may be more
        return Exchanged(refused, ())

    def _informed(
        self, owner: str, claimed: Sequence[tuple[Claim, Task]]
    ) -> Sequence[tuple[Claim, Task]]:
        """Claims with what other jobs found out; those for which that is nothing are settled."""
        if not any(precedents.begins_with(task) for _, task in claimed):
            return claimed
        told = self._database.read(precedents.informed, claimed)
        ended = [Settlement(claim, one) for claim, one in told if isinstance(one, Inapplicable)]
        if ended:
            self.settle(owner, ended)
        return [(claim, one) for claim, one in told if not isinstance(one, Inapplicable)]

    def note_logs(self, owner: str, said: Sequence[RunningLog]) -> int:
        """Keep what workers have said so far of jobs that the owner holds; how many those were."""
        return self._database.transaction(stories.note_logs, owner, said)
