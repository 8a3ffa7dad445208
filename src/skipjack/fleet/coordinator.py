"""Brings jobs and workers together: claims, hands out, settles; holds leases while it lives.

A coordinator may die at any moment: what it held is claimed again when its lease has expired, and
nothing counts that was not settled. Any number of them share one store.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from skipjack.errors import StorageError
from skipjack.fleet.engine import Done, Engine, Host, Slot
from skipjack.fleet.records import Claim, Machine, Settlement, Want
from skipjack.fleet.settlements import settlement_of
from skipjack.fleet.states import Stage, State
from skipjack.fleet.task import Task
from skipjack.interrupt import Interrupt

log = logging.getLogger(__name__)

LEASE_S = 60.0
_LOOK_EVERY_S = 1.0
"""How often the store is asked which jobs are still ours: an abort takes effect by then."""
_HOSTS_EVERY_S = 10.0
_LINGER_S = 15.0
"""How long a window waits for the other one to show up, while there is work for that one."""
_AHEAD_S = 0.5
"""Workers are given so much work ahead that they need not wait for the store between two jobs."""
_MOST_AHEAD = 32
_ASK_AGAIN_S = 0.25
"""After a claim that found nothing, unless something of ours was settled since."""
_TWICE_S = 2.5 * _ASK_AGAIN_S
"""Idle for so long, a claim found nothing twice; rows that others had locked are free by then."""
"""After a claim that found nothing, unless something of ours was settled since."""


class JobStore(Protocol):
    """What a coordinator needs of a store; see `fleet.store.store.Store`."""

    def sign_in(self, host: str, pid: int, lease_s: float) -> str:
        """Become an owner."""
        ...

    def renew(self, owner: str) -> frozenset[int] | None:
        """Prolong the lease; gives the jobs that are still the owner's, None if it was lost."""
        ...

    def sign_out(self, owner: str, reason: str) -> int:
        """Give back what is left."""
        ...

    def others(self, owner: str) -> int:
        """How many other owners are alive."""
        ...

    def register(self, host: Host, engine: str) -> Machine:
        """Know a machine."""
        ...

    def claim(
        self, owner: str, stage: Stage, wants: Sequence[Want], *, label: str | None = None
    ) -> list[tuple[Claim, Task]]:
        """Take jobs for workers."""
        ...

    def settle(self, owner: str, settlements: Sequence[Settlement]) -> list[Claim]:
        """Write down what came of claims; gives those that were lost in the meantime."""
        ...

    def sweep(self) -> int:
        """Free the jobs of owners whose lease has expired."""
        ...

    def live(self, label: str | None = None) -> Mapping[State, int]:
        """How many jobs there are in each state."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands; given to the observer about once a second."""

    counts: Mapping[State, int]
    settled: Mapping[str, int]
    """By what came of it: built, told, finished, failed, lost, ..."""
    running: int
    elapsed_s: float
    note: str = ""
    """Something a person should know now."""


Observer = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run did."""

    counts: Mapping[State, int]
    settled: Mapping[str, int]
    refused: int
    """Results that came too late: somebody else had the job by then."""
    seconds: float
    interrupted: bool
    idle_machines: tuple[str, ...] = ()
    """Machines of ours that get no jobs: aborted or set aside, with the reason."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a coordinator should do."""

    label: str | None
    stages: tuple[Stage, ...] = (Stage.BUILD, Stage.EVALUATE)
    wait: bool = False
    """Stay when there is nothing to do, for jobs that are still to come."""
    lease_s: float = LEASE_S
    linger_s: float = _LINGER_S
    most_ahead: int = _MOST_AHEAD
    """Jobs that a worker holds at once, at most."""
    observer: Observer = lambda _: None


@dataclass
class _Held:
    claim: Claim
    slot: str


@dataclass
class _Pace:
    """How long a task takes, and so how many a worker should hold."""

    seconds: float = math.inf

    def note(self, seconds: float) -> None:
        before = self.seconds if self.seconds < math.inf else seconds
        self.seconds = 0.8 * before + 0.2 * seconds

    def ahead(self, most: int) -> int:
        if self.seconds == math.inf:
            return min(2, most)
        wanted = 1 + math.ceil(_AHEAD_S / max(self.seconds, 1e-4))
        return max(1, min(most, wanted))


@dataclass
class _Clock:
    """When something was last done, to do it every so often."""

    every_s: float
    last: float = field(default=-math.inf)

    def due(self) -> bool:
        now = time.monotonic()
        if now - self.last < self.every_s:
            return False
        self.last = now
        return True


class Coordinator:
    """One run of one label on one engine. Use from one thread."""

    def __init__(self, store: JobStore, engine: Engine, request: RunRequest) -> None:
        self._store, self._engine, self._request = store, engine, request
        self._held: dict[int, _Held] = {}
        self._machines: dict[str, Machine] = {}
        self._paces = {stage: _Pace() for stage in Stage}
        self._settled: Counter[str] = Counter()
        self._refused = 0
        self._owner = ""
        self._look = _Clock(min(_LOOK_EVERY_S, request.lease_s / 4))
        self._sweep = _Clock(request.lease_s / 2)
        self._hosts = _Clock(_HOSTS_EVERY_S)
        self._idle_since: float | None = None
        self._counts: Mapping[State, int] = {}
        self._asked = {stage: _Clock(_ASK_AGAIN_S) for stage in Stage}
        self._fruitless: set[Stage] = set()
        """Stages of which nothing was found since something was last settled."""

    def run(self, interrupt: Interrupt) -> RunSummary:
        """Work until there is nothing left to do, or somebody presses Ctrl-C."""
        started = time.monotonic()
        self._sign_in()
        reason = "the coordinator ended"
        try:
            while not interrupt.requested and not self._over():
                self._keep_up(started)
                busy = self._hand_out()
                self._settle(self._engine.poll(0.02 if busy else 0.1))
            if interrupt.requested:
                reason = "interrupted"
        except StorageError:
            self._owner = ""  # the store is not there to sign out from: the lease ends by itself
            raise
        finally:
            self._engine.cancel(list(self._held))
            if self._owner:
                # What runs is given back: another coordinator need not wait for the lease.
                self._store.sign_out(self._owner, reason)
        self._register()
        counts = self._store.live(self._request.label)
        return RunSummary(
            counts,
            dict(self._settled),
            self._refused,
            time.monotonic() - started,
            interrupt.requested,
            tuple(sorted(self._idle_machines())),
        )

    # leases

    def _sign_in(self) -> None:
        self._owner = self._store.sign_in(os.uname().nodename, os.getpid(), self._request.lease_s)

    def _keep_up(self, started: float) -> None:
        """Everything that is done now and then."""
        if self._hosts.due():
            self._register()
        if self._look.due():
            self._renew()
            self._report(started)
        if self._sweep.due() and (freed := self._store.sweep()):
            log.info("%d jobs of coordinators that are gone are free again", freed)

    def _register(self) -> None:
        """Say which machines we have, and hear which of them get no jobs."""
        self._machines = {
            host.name: self._store.register(host, self._engine.name)
            for host in self._engine.hosts()
        }

    def _renew(self) -> None:
        ours = self._store.renew(self._owner)
        if ours is None:
            log.warning("the lease was lost: what ran is dropped, others have it by now")
            self._drop(list(self._held))
            self._sign_in()
            return
        self._drop([job for job in self._held if job not in ours])

    def _drop(self, jobs: Sequence[int]) -> None:
        """Stop working on jobs that somebody took away: they were aborted, or are another's now."""
        if not jobs:
            return
        self._engine.cancel(jobs)
        for job in jobs:
            self._held.pop(job, None)
        self._settled["taken_away"] += len(jobs)

    # work

    def _hand_out(self) -> bool:
        """Give idle workers something to do; whether anything was found."""
        slots = {slot.name: slot for slot in self._engine.slots()}
        found = False
        for stage in self._request.stages:
            wants = self._wants(slots, stage)
            if not wants:
                self._fruitless |= set() if self._held else {stage}
                continue
            if not self._asked[stage].due():
                continue
            claimed = self._store.claim(self._owner, stage, wants, label=self._request.label)
            if claimed:
                found = True
                self._asked[stage].last = -math.inf
            else:
                self._fruitless.add(stage)
            tasks: dict[str, list[Task]] = {}
            for claim, task in claimed:
                self._held[claim.job] = _Held(claim, claim.slot)
                tasks.setdefault(claim.slot, []).append(task)
            for slot, given in tasks.items():
                self._engine.submit(slot, given)
        return found

    def _wants(self, slots: Mapping[str, Slot], stage: Stage) -> list[Want]:
        has = Counter(held.slot for held in self._held.values())
        ahead = self._paces[stage].ahead(self._request.most_ahead)
        wants = []
        for slot in slots.values():
            machine = self._machines.get(slot.host)
            # Asking for a handful at once costs the store as much as asking for one.
            room = ahead - has[slot.name]
            if slot.stage is stage and machine and room > ahead // 2:
                wants.append(Want(machine.id, slot.name, slot.devices, room, slot.gpu))
        return wants

    def _settle(self, done: Sequence[Done]) -> None:
        settlements = []
        for one in done:
            held = self._held.pop(one.job, None)
            if held is None:
                continue  # it was dropped
            if one.outcome and one.seconds:
                self._paces[held.claim.stage].note(one.seconds)
            settlements.append(settlement_of(held.claim, one))
        if not settlements:
            return
        refused = self._store.settle(self._owner, settlements)
        self._fruitless.clear()
        for clock in self._asked.values():
            clock.last = -math.inf  # what was built may be evaluated, what was told built
        self._refused += len(refused)
        late = {(claim.job, claim.attempt) for claim in refused}
        for settlement in settlements:
            if (settlement.claim.job, settlement.claim.attempt) not in late:
                self._settled[_word(settlement)] += 1

    # the end

    def _over(self) -> bool:
        """Whether nothing is left that our workers could do."""
        if self._held or not self._machines or not self._fruitless.issuperset(self._request.stages):
            self._idle_since = None
            return False
        counts = self._store.live(self._request.label)
        elsewhere = counts.get(State.BUILDING, 0) + counts.get(State.EVALUATING, 0)
        unfinished = any(count for state, count in counts.items() if not state.over)
        moved, self._counts = counts != self._counts, counts
        if moved:  # claims end some jobs by themselves: those that nobody can build
            self._idle_since = None
        if self._request.wait or elsewhere:
            self._idle_since = None
            return self._request.wait and not unfinished and not elsewhere and bool(counts)
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        return now - self._idle_since > self._patience_s(counts)

    def _patience_s(self, counts: Mapping[State, int]) -> float:
        """How long to wait for others to give us something to do."""
        stages = self._request.stages
        if Stage.BUILD not in stages and counts.get(State.NEW, 0):
            others = self._store.others(self._owner)
            return math.inf if others else self._request.linger_s
        if Stage.EVALUATE not in stages and counts.get(State.BUILT, 0):
            return math.inf if self._store.others(self._owner) else _TWICE_S
        return _TWICE_S

    def _idle_machines(self) -> list[str]:
        return [
            f"{machine.name} ({machine.set_aside or 'aborted'})"
            for machine in self._machines.values()
            if machine.aborted or machine.set_aside
        ]

    def _report(self, started: float) -> None:
        self._request.observer(
            Progress(
                self._store.live(self._request.label),
                dict(self._settled),
                len(self._held),
                time.monotonic() - started,
                "; ".join(f"{name} gets no jobs" for name in self._idle_machines()),
            )
        )


def _word(settlement: Settlement) -> str:
    name = type(settlement.event).__name__.lower()
    return "finished" if settlement.result is not None else name
