"""Brings jobs and workers together: claims, hands out, settles; holds leases while it lives.

A coordinator may die at any moment: what it held is claimed again when its lease has expired, or as
soon as another one on its machine finds it dead; nothing counts that was not settled. Any number of
them share one store.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from skipjack.errors import StorageError, StoreAwayError
from skipjack.fleet.engine import Done, Engine, Host, Slot
from skipjack.fleet.exchange import Ask, Exchanged
from skipjack.fleet.pacing import Every, Pace
from skipjack.fleet.records import Claim, Machine, Settlement, Want
from skipjack.fleet.runs import RunProgress, RunRequest, RunSummary
from skipjack.fleet.settlements import settlement_of
from skipjack.fleet.states import Failed, Lost, Stage, State
from skipjack.fleet.store.machines.devices import describable
from skipjack.fleet.store_protocols import JobQueue
from skipjack.fleet.task import Task
from skipjack.interrupt import Interrupt
from skipjack.processes import this_process

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
"""How often the store is asked which jobs are still ours: an abort takes effect by then."""
_SWEEP_EVERY_S = 5.0
"""How often it is looked who died: on this machine that is known at once."""
_HOSTS_EVERY_S = 10.0
_LOGS_EVERY_S, _LOGS_AT_LEAST_S = 1.5, 4.0
_FEW_LOGS = 16
"""How often what workers have said so far is written down, for people who follow a job."""
_RETURN_S = 400.0
"""How long workers are waited for that were there and are gone: longer than an engine tries."""
_ARRIVE_S = 30.0
"""Likewise for workers of a stage that has had none yet: on a cluster they come one by one."""
_ASK_AGAIN_S = 0.25
"""After a claim that found nothing, unless something of ours was settled since."""
_TWICE_S = 2.5 * _ASK_AGAIN_S
"""Idle for so long, a claim found nothing twice; rows that others had locked are free by then."""


_REFUSALS = (StorageError, ValueError, OverflowError)
"""What a store and its driver say of a result that they cannot take."""


class Coordinator:
    """One run of one label on one engine. Use from one thread."""

    def __init__(self, queue: JobQueue, engine: Engine, request: RunRequest) -> None:
        self._queue, self._engine, self._request = queue, engine, request
        self._held: dict[int, Claim] = {}
        self._machines: dict[str, Machine] = {}
        self._registered: dict[str, Host] = {}
        self._buildable: dict[str, bool] = {}
        """By device of the label's jobs."""
        self._paces = {stage: Pace() for stage in Stage}
        self._settled: Counter[str] = Counter()
        self._refused = 0
        self._owner = ""
        self._renewed = time.monotonic()
        self._look = Every(min(_LOOK_EVERY_S, request.lease_s / 4))
        self._sweep = Every(min(_SWEEP_EVERY_S, request.lease_s / 2))
        self._hosts = Every(_HOSTS_EVERY_S)
        self._logs = Every(_LOGS_EVERY_S)
        self._overheard: dict[int, int] = {}
        """Jobs of which the store has the beginning of a log, with their attempts."""
        self._idle_since: float | None = None
        self._counts: Mapping[State, int] = {}
        self._asked = {stage: Every(_ASK_AGAIN_S) for stage in Stage}
        self._fruitless: set[Stage] = set()
        """Stages of which nothing was found since something was last settled."""
        self._had: set[Stage] = set()
        self._paused_until = -math.inf
        """When the last of our machines that pause may have jobs again."""
        self._missed: set[Stage] = set()
        """Stages that have no workers at the moment: they are yet to come, or a node is away."""

    def run(self, interrupt: Interrupt) -> RunSummary:
        """Work until there is nothing left to do, or somebody presses Ctrl-C."""
        started = time.monotonic()
        self._sign_in()
        reason = "the coordinator ended"
        try:
            wait_s = 0.0
            while not interrupt.requested and not self._over():
                self._keep_up(started)
                found = self._exchange(self._engine.poll(wait_s))
                wait_s = 0.02 if found else 0.1
            if interrupt.requested:
                reason = "interrupted"
        except StoreAwayError:
            self._owner = ""  # the store is not there to sign out from: the lease ends by itself
            raise
        finally:
            self._engine.cancel(list(self._held))
            self._leave(reason)
        self._register()
        return RunSummary(
            self._live(),
            dict(self._settled),
            self._refused,
            time.monotonic() - started,
            interrupt.requested,
            tuple(sorted(self._idle_machines())),
            tuple(sorted(name for name, able in self._buildable.items() if not able)),
        )

    # leases

    def _sign_in(self) -> None:
        self._owner = self._queue.sign_in(this_process(), self._request.lease_s)

    def _leave(self, reason: str) -> None:
        """Give back what runs: another coordinator need not wait for the lease."""
        if not self._owner:
            return
        try:
            self._queue.sign_out(self._owner, reason)
        except StorageError as error:
            log.warning("jobs are free when the lease ends, the store is away: %s", error)

    def _keep_up(self, started: float) -> None:
        """Everything that is done now and then."""
        if self._hosts.due():
            self._register()
        if self._look.due():
            self._renew()
            self._report(started)
        if self._logs.due():
            self._write_down()
            # Each writes up to 64 KiB: a store that many workers write to is spared.
            slower = max(1.0, len(self._held) / _FEW_LOGS)
            self._logs.every_s = min(_LOGS_EVERY_S * slower, _LOGS_AT_LEAST_S)
        if self._sweep.due() and (freed := self._queue.sweep()):
            log.info("%d jobs of coordinators that are gone are free again", freed)

    def _write_down(self) -> None:
        """What workers have said so far about jobs that are still ours."""
        heard = {(one.job, one.attempt): one for one in self._engine.heard()}
        ours = [heard.get((job, claim.attempt)) for job, claim in self._held.items()]
        said = [one for one in ours if one]
        if said:
            self._queue.note_logs(self._owner, said)
            self._overheard |= {one.job: one.attempt for one in said}

    def _register(self) -> None:
        """Say which machines we have, and hear which of them get no jobs."""
        hosts = {host.name: host for host in self._engine.hosts()}
        same = [name for name, host in hosts.items() if self._registered.get(name) == host]
        found = self._queue.seen(same) if same else []  # a thousand cost as much as one
        evaluates = Stage.EVALUATE in self._request.stages
        news = [
            self._queue.register(hosts[name], self._engine.name, evaluates=evaluates)
            for name in hosts.keys() - set(same)
        ]
        self._machines = {machine.name: machine for machine in [*found, *news]}
        pause_s = max((machine.pause_s for machine in self._machines.values()), default=0.0)
        if pause_s:
            self._look.last = -math.inf  # to be said at once
        self._paused_until = time.monotonic() + pause_s if pause_s else -math.inf
        self._registered = hosts
        self._learn_what_can_be_built()

    def _learn_what_can_be_built(self) -> None:
        """Jobs for other devices wait for somebody who can build for them, all but MIOpen's."""
        only = self._request.devices
        for name, seen in self._queue.built_for(self._request.label).items():
            if only and name not in only:
                continue
            self._buildable[name] = seen or self._buildable.get(name) or describable(name)

    def _renew(self) -> None:
        ours = self._queue.renew(self._owner)
        away_s, self._renewed = time.monotonic() - self._renewed, time.monotonic()
        if away_s > self._request.lease_s / 2:
            # The store was away, for the others too: let them renew before they are swept.
            self._sweep.last = self._renewed + self._request.lease_s / 2 - self._sweep.every_s
        if ours is None:
            log.warning("the lease was lost: what ran is dropped, others have it by now")
            self._drop(list(self._held))
            self._sign_in()
            return
        self._drop([job for job, claim in self._held.items() if ours.get(job) != claim.attempt])
        if unknown := ours.keys() - self._held.keys():
            # Claimed by us, but the answer never came: the database went away in between.
            self._queue.release(self._owner, unknown, "the claim was not acknowledged")

    def _drop(self, jobs: Sequence[int]) -> None:
        """Stop working on jobs that somebody took away: they were aborted, or are another's now."""
        if not jobs:
            return
        self._engine.cancel(jobs)
        for job in jobs:
            self._held.pop(job, None)
        self._settled["taken_away"] += len(jobs)

    # work

    def _exchange(self, done: Sequence[Done]) -> bool:
        """Settle what is done and give idle workers something to do; whether there was any.

        Both are one transaction: the disk is waited for once.
        """
        settlements = self._settlements(done)
        if settlements:
            self._fruitless.clear()
            for clock in self._asked.values():
                clock.last = -math.inf  # what was built may be evaluated, what was told built
        asks = self._asks()
        if not settlements and not asks:
            return False
        label, kind = self._request.label, self._request.kind
        try:
            exchanged = self._queue.exchange(
                *(self._owner, settlements, asks),
                label=label,
                kind=kind,
                only=self._request.devices,
            )
        except StoreAwayError:
            raise
        except _REFUSALS:
            if not settlements:
                raise
            exchanged = Exchanged(tuple(self._settle_singly(settlements)), ())
        self._note(settlements, exchanged.refused)
        found = {claim.stage for claim, _ in exchanged.claimed}
        for ask in asks:
            if ask.stage in found:
                self._asked[ask.stage].last = -math.inf
            else:
                self._fruitless.add(ask.stage)
        self._hand_out(exchanged.claimed)
        return bool(found)

    def _settle_singly(self, settlements: Sequence[Settlement]) -> list[Claim]:
        """One that the store cannot take must not keep the others from it: it has failed."""
        refused: list[Claim] = []
        for one in settlements:
            try:
                refused += self._queue.settle(self._owner, [one])
            except StoreAwayError:
                raise
            except _REFUSALS as error:
                log.error("the result of job %d cannot be stored: %s", one.claim.job, error)
                failed = Failed(f"its result cannot be stored: {error}")
                refused += self._queue.settle(self._owner, [Settlement(one.claim, failed)])
        return refused

    def _hand_out(self, claimed: Sequence[tuple[Claim, Task]]) -> None:
        # A job may come back while a worker still has it: it was given away in the meantime.
        self._drop([claim.job for claim, _ in claimed if claim.job in self._held])
        tasks: dict[str, list[Task]] = {}
        for claim, task in claimed:
            self._held[claim.job] = claim
            tasks.setdefault(claim.slot, []).append(task)
        for slot, given in tasks.items():
            self._engine.submit(slot, given)

    def _asks(self) -> list[Ask]:
        """What idle workers could do now, unless it was asked for in vain a moment ago."""
        slots = {slot.name: slot for slot in self._engine.slots()}
        here = {slot.stage for slot in slots.values()}
        self._had |= here
        self._missed = set(self._request.stages) - here
        asks = []
        for stage in self._request.stages:
            wants = self._wants(slots, stage)
            if not wants:
                self._fruitless |= set() if self._held else {stage}
            elif self._asked[stage].due():
                asks.append(Ask(stage, tuple(wants)))
        return asks

    def _wants(self, slots: Mapping[str, Slot], stage: Stage) -> list[Want]:
        has = Counter(claim.slot for claim in self._held.values())
        ahead = self._paces[stage].ahead(self._request.most_ahead)
        wants = []
        for slot in slots.values():
            machine = self._machines.get(slot.host)
            # Asking for a handful at once costs the store as much as asking for one; but who has
            # begun the last one must have another before it ends.
            room = ahead - has[slot.name]
            if self._may_work(slot, stage) and machine and 0 < ahead <= 2 * room:
                builds_for = self._built_for() if stage is Stage.BUILD else None
                count = min(room, self._request.most_claimed)
                wants.append(Want(machine.id, slot.name, slot.devices, count, slot.gpu, builds_for))
        return wants

    def _may_work(self, slot: Slot, stage: Stage) -> bool:
        only = self._request.machine if stage is Stage.EVALUATE else ""
        return slot.stage is stage and only in ("", slot.host)

    def _built_for(self) -> tuple[str, ...] | None:
        """Devices that our builders build for, None for all."""
        able = tuple(name for name, possible in self._buildable.items() if possible)
        return able if self._buildable else None

    def _settlements(self, done: Sequence[Done]) -> list[Settlement]:
        settlements = []
        for one in done:
            claim = self._held.get(one.job)
            if claim is None or one.attempt not in (0, claim.attempt):
                continue  # it was dropped, and perhaps claimed again
            del self._held[one.job]
            if one.outcome and one.seconds:
                self._paces[claim.stage].note(one.seconds)
            overheard = self._overheard.pop(one.job, None) == claim.attempt
            settlements.append(replace(settlement_of(claim, one), overheard=overheard))
        return settlements

    def _note(self, settlements: Sequence[Settlement], refused: Sequence[Claim]) -> None:
        self._refused += len(refused)
        late = {(claim.job, claim.attempt) for claim in refused}
        for settlement in settlements:
            if (settlement.claim.job, settlement.claim.attempt) not in late:
                self._settled[_word(settlement)] += 1
            if isinstance(settlement.event, Lost):
                self._hosts.last = -math.inf  # does its machine pause now?

    # the end

    def _over(self) -> bool:
        """Whether nothing is left that our workers could do."""
        if self._held or not self._machines or not self._idle():
            self._idle_since = None
            return False
        counts = self._live()
        elsewhere = counts.get(State.BUILDING, 0) + counts.get(State.EVALUATING, 0)
        unfinished = any(count for state, count in counts.items() if not state.over)
        moved, self._counts = counts != self._counts, counts
        if moved:  # claims end some jobs by themselves: those that nobody can build
            self._idle_since = None
        if self._request.wait or elsewhere:
            self._idle_since = None
            return self._request.wait and not unfinished and not elsewhere and bool(counts)
        now = time.monotonic()
        if now < self._paused_until and any(
            counts.get(stage.waiting, 0) for stage in self._request.stages
        ):
            self._idle_since = None
            return False
        self._idle_since = self._idle_since or now
        return now - self._idle_since > self._patience_s(counts)

    def _patience_s(self, counts: Mapping[State, int]) -> float:
        """How long to wait for others to give us something to do."""
        stages = self._request.stages
        missed = {stage for stage in self._missed if counts.get(stage.waiting, 0)}
        if missed:
            return _RETURN_S if missed & self._had else _ARRIVE_S
        if Stage.BUILD not in stages and counts.get(State.NEW, 0):
            others = self._queue.others(self._owner)
            return math.inf if others else self._request.linger_s
        if Stage.EVALUATE not in stages and counts.get(State.BUILT, 0):
            return math.inf if self._queue.others(self._owner) else _TWICE_S
        return _TWICE_S

    def _live(self) -> Mapping[State, int]:
        return self._queue.live(self._request.label, self._request.kind, self._request.devices)

    def _idle_machines(self) -> list[str]:
        return [
            f"{machine.name} ({machine.set_aside or 'aborted'})"
            for machine in self._machines.values()
            if machine.aborted or machine.set_aside
        ]

    def _report(self, started: float) -> None:
        counts = self._live()
        notes = [f"{name} gets no jobs" for name in self._idle_machines()]
        pausing = [machine for machine in self._machines.values() if machine.pause]
        notes += [f"{machine.name} {machine.pause}" for machine in pausing]
        elsewhere = counts.get(State.BUILDING, 0) + counts.get(State.EVALUATING, 0)
        if elsewhere and not self._held and self._idle():
            notes.append(
                "waiting for jobs that other runs hold; "
                f"those of a run that died on another machine are free within "
                f"{self._request.lease_s:g} s or so"
            )
        elapsed_s = time.monotonic() - started
        self._request.observer(
            RunProgress(counts, dict(self._settled), len(self._held), elapsed_s, "; ".join(notes))
        )

    def _idle(self) -> bool:
        return self._fruitless.issuperset(self._request.stages)


def _word(settlement: Settlement) -> str:
    name = type(settlement.event).__name__.lower()
    return "finished" if settlement.result is not None else name
