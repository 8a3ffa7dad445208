"""The coordinator claims jobs, gives them to workers and stores their results.

A coordinator may die at any moment: its jobs are claimed again when its lease has expired, or as
soon as another coordinator on the same machine finds it dead. Only stored results count. Any number
of coordinators share one store.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from skipjack.errors import StorageError, StoreUnavailableError
from skipjack.fleet.model import (
    Claim,
    ClaimResult,
    Done,
    Engine,
    Host,
    JobStage,
    JobState,
    Lost,
    Machine,
    QueueReply,
    Slot,
    StageRequest,
    Task,
    WorkRequest,
    claim_result_of,
)
from skipjack.fleet.run.queue_interface import REFUSALS, JobQueue, finish_one_by_one
from skipjack.fleet.run.requests import Interval, RunProgress, RunRequest, RunSummary, TaskPace
from skipjack.fleet.run.shared_failures import SharedFailures
from skipjack.fleet.store import describable
from skipjack.interrupt import Interrupt
from skipjack.processes import this_process

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
"""Interval at which the lease is renewed; an abort takes effect within this time."""
_SWEEP_EVERY_S = 5.0
"""Interval at which jobs of dead coordinators are freed."""
_HOSTS_EVERY_S = 10.0
_LOGS_EVERY_S, _LOGS_AT_LEAST_S = 1.5, 4.0
_FEW_LOGS = 16
"""Interval at which the logs of running jobs are stored, for users who follow a job."""
_RETURN_S = 400.0
"""How long to wait for workers that are gone to return: longer than an engine tries."""
_ARRIVE_S = 30.0
"""The same for a stage that has had no workers yet: on a cluster they start one by one."""
_ASK_AGAIN_S = 0.25
"""Pause after a claim that found nothing, unless a result was stored since."""
_TWICE_S = 2.5 * _ASK_AGAIN_S
"""Idle time in which two claims found nothing; rows that others had locked are free by then."""


class Coordinator:
    """One run of one label on one engine. Used from one thread."""

    def __init__(self, queue: JobQueue, engine: Engine, request: RunRequest) -> None:
        self._queue, self._engine, self._request = queue, engine, request
        self._held: dict[int, Claim] = {}
        self._machines: dict[str, Machine] = {}
        self._registered: dict[str, Host] = {}
        self._buildable: dict[str, bool] = {}
        """Whether jobs for each device of the label can be built."""
        self._paces = {stage: TaskPace() for stage in JobStage}
        self._settled: Counter[str] = Counter()
        self._refused = 0
        self._owner = ""
        self._failures = SharedFailures(queue)
        self._renewed = time.monotonic()
        self._renewal = Interval(min(_LOOK_EVERY_S, request.lease_s / 4))
        self._sweep = Interval(min(_SWEEP_EVERY_S, request.lease_s / 2))
        self._hosts = Interval(_HOSTS_EVERY_S)
        self._logs = Interval(_LOGS_EVERY_S)
        self._logs_started: dict[int, int] = {}
        """Jobs whose log the store has in part, with their attempts."""
        self._idle_since: float | None = None
        self._counts: Mapping[JobState, int] = {}
        self._asked = {stage: Interval(_ASK_AGAIN_S) for stage in JobStage}
        self._found_nothing: set[JobStage] = set()
        """Stages whose claims found nothing since the last result was stored."""
        self._stages_seen: set[JobStage] = set()
        self._paused_until = -math.inf
        """When the last paused machine may have jobs again."""
        self._stages_missing: set[JobStage] = set()
        """Stages without workers at the moment: not started yet, or their node is lost."""

    def run(self, interrupt: Interrupt) -> RunSummary:
        """Work until nothing is left to do, or the user presses Ctrl-C."""
        started = time.monotonic()
        self._start_lease()
        reason = "the coordinator ended"
        try:
            wait_s = 0.0
            while not interrupt.requested and not self._finished():
                self._periodic_work(started)
                found = self._finish_and_claim(self._engine.poll(wait_s))
                wait_s = 0.02 if found else 0.1
            if interrupt.requested:
                reason = "interrupted"
        except StoreUnavailableError:
            self._owner = ""  # the store cannot be reached: the lease expires
            raise
        finally:
            self._engine.cancel(list(self._held))
            self._end_lease(reason)
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

    def _start_lease(self) -> None:
        self._owner = self._queue.start_lease(this_process(), self._request.lease_s)

    def _end_lease(self, reason: str) -> None:
        """Give back unfinished jobs, so that others need not wait until the lease expires."""
        if not self._owner:
            return
        try:
            self._queue.end_lease(self._owner, reason)
        except StorageError as error:
            log.warning(
                "the store is unreachable, so jobs become free when the lease expires: %s", error
            )

    def _periodic_work(self, started: float) -> None:
        """Work that is done at intervals."""
        if self._hosts.due():
            self._register()
        if self._renewal.due():
            self._renew()
            self._report(started)
        if self._logs.due():
            self._store_logs()
            # Each log has up to 64 KiB: with many workers they are stored less often.
            slower = max(1.0, len(self._held) / _FEW_LOGS)
            self._logs.every_s = min(_LOGS_EVERY_S * slower, _LOGS_AT_LEAST_S)
        if self._sweep.due() and (freed := self._queue.sweep()):
            log.info("freed %d jobs of coordinators that died", freed)

    def _store_logs(self) -> None:
        """Store the logs so far of jobs that are still ours."""
        ours = {(job, claim.attempt) for job, claim in self._held.items()}
        logs = [one for one in self._engine.running_logs() if (one.job, one.attempt) in ours]
        if logs:
            self._queue.store_logs(self._owner, logs)
            self._logs_started |= {one.job: one.attempt for one in logs}

    def _register(self) -> None:
        """Register our machines, and learn which of them get no jobs."""
        hosts = {host.name: host for host in self._engine.hosts()}
        same = [name for name, host in hosts.items() if self._registered.get(name) == host]
        found = self._queue.seen(same) if same else []  # a thousand cost as much as one
        evaluates = JobStage.EVALUATE in self._request.stages
        news = [
            self._queue.register(hosts[name], self._engine.name, evaluates=evaluates)
            for name in hosts.keys() - set(same)
        ]
        self._machines = {machine.name: machine for machine in [*found, *news]}
        pause_s = max((machine.pause_s for machine in self._machines.values()), default=0.0)
        if pause_s:
            self._renewal.last = -math.inf  # report it at once
        self._paused_until = time.monotonic() + pause_s if pause_s else -math.inf
        self._registered = hosts
        self._update_buildable()
        if JobStage.BUILD in self._request.stages:
            self._failures.update()

    def _update_buildable(self) -> None:
        """Jobs for devices without a builder wait for one, except those of MIOpen."""
        only = self._request.devices
        for name, seen in self._queue.built_for(self._request.label).items():
            if only and name not in only:
                continue
            self._buildable[name] = seen or self._buildable.get(name) or describable(name)

    def _renew(self) -> None:
        ours = self._queue.renew(self._owner)
        away_s, self._renewed = time.monotonic() - self._renewed, time.monotonic()
        if away_s > self._request.lease_s / 2:
            # The store was unreachable: let other coordinators renew before a sweep.
            self._sweep.last = self._renewed + self._request.lease_s / 2 - self._sweep.every_s
        if ours is None:
            log.warning("the lease was lost; running jobs are dropped, since others may have them")
            self._drop(list(self._held))
            self._start_lease()
            return
        self._drop([job for job, claim in self._held.items() if ours.get(job) != claim.attempt])
        if unknown := ours.keys() - self._held.keys():
            # Claimed by us, but the answer was lost when the connection broke.
            self._queue.release(self._owner, unknown, "the claim was not acknowledged")

    def _drop(self, jobs: Sequence[int]) -> None:
        """Stop working on jobs that were aborted or that another coordinator has now."""
        if not jobs:
            return
        self._engine.cancel(jobs)
        for job in jobs:
            self._held.pop(job, None)
        self._settled["taken_away"] += len(jobs)

    # work

    def _finish_and_claim(self, done: Sequence[Done]) -> bool:
        """Store results and claim jobs for idle workers; whether any job was found.

        Both happen in one transaction, which waits for the disk once.
        """
        claim_results = self._claim_results(done)
        if claim_results:
            self._found_nothing.clear()
            for clock in self._asked.values():
                clock.last = -math.inf  # a result makes the next stage or round possible
        stage_requests = self._stage_requests()
        if not claim_results and not stage_requests:
            return False
        label, kind = self._request.label, self._request.kind
        try:
            reply = self._queue.finish_and_claim(
                *(self._owner, claim_results, stage_requests),
                label=label,
                kind=kind,
                only=self._request.devices,
            )
        except StoreUnavailableError:
            raise
        except REFUSALS:
            if not claim_results:
                raise
            reply = QueueReply(
                tuple(finish_one_by_one(self._queue, self._owner, claim_results)), ()
            )
        self._count(claim_results, reply.refused)
        found = {claim.stage for claim, _ in reply.claimed}
        for stage_request in stage_requests:
            if stage_request.stage in found:
                self._asked[stage_request.stage].last = -math.inf
            else:
                self._found_nothing.add(stage_request.stage)
        self._hand_out(reply.claimed)
        return bool(found)

    def _hand_out(self, claimed: Sequence[tuple[Claim, Task]]) -> None:
        # A job may be claimed again while a worker still has it, after it was lost to another.
        self._drop([claim.job for claim, _ in claimed if claim.job in self._held])
        tasks: dict[str, list[Task]] = {}
        for claim, task in claimed:
            self._held[claim.job] = claim
            tasks.setdefault(claim.slot, []).append(self._failures.added_to(claim, task))
        for slot, given in tasks.items():
            self._engine.submit(slot, given)

    def _stage_requests(self) -> list[StageRequest]:
        """Requests for idle workers, except for stages whose last claim just found nothing."""
        slots = {slot.name: slot for slot in self._engine.slots()}
        here = {slot.stage for slot in slots.values()}
        self._stages_seen |= here
        self._stages_missing = set(self._request.stages) - here
        stage_requests = []
        for stage in self._request.stages:
            requests = self._requests_for(slots, stage)
            if not requests:
                self._found_nothing |= set() if self._held else {stage}
            elif self._asked[stage].due():
                stage_requests.append(StageRequest(stage, tuple(requests)))
        return stage_requests

    def _requests_for(self, slots: Mapping[str, Slot], stage: JobStage) -> list[WorkRequest]:
        has = Counter(claim.slot for claim in self._held.values())
        ahead = self._paces[stage].ahead(self._most_ahead(stage))
        requests = []
        for slot in slots.values():
            machine = self._machines.get(slot.host)
            # Claiming several jobs costs the store as much as claiming one; but a worker that has
            # begun its last job must get another before that ends.
            room = ahead - has[slot.name]
            if self._may_work(slot, stage) and machine and 0 < ahead <= 2 * room:
                builds_for = self._built_for() if stage is JobStage.BUILD else None
                count = min(room, self._request.most_claimed)
                requests.append(
                    WorkRequest(machine.id, slot.name, slot.devices, count, slot.gpu, builds_for)
                )
        return requests

    def _most_ahead(self, stage: JobStage) -> int:
        return self._request.most_ahead

    def _may_work(self, slot: Slot, stage: JobStage) -> bool:
        only = self._request.machine if stage is JobStage.EVALUATE else ""
        return slot.stage is stage and only in ("", slot.host)

    def _built_for(self) -> tuple[str, ...] | None:
        """Devices that our builders support; None for all."""
        able = tuple(name for name, possible in self._buildable.items() if possible)
        return able if self._buildable else None

    def _claim_results(self, done: Sequence[Done]) -> list[ClaimResult]:
        claim_results = []
        for one in done:
            claim = self._held.get(one.job)
            if claim is None or one.attempt not in (0, claim.attempt):
                continue  # dropped, and perhaps claimed again
            del self._held[one.job]
            if one.outcome and one.seconds:
                self._paces[claim.stage].note(one.seconds)
            log_started = self._logs_started.pop(one.job, None) == claim.attempt
            claim_results.append(replace(claim_result_of(claim, one), log_started=log_started))
        return claim_results

    def _count(self, claim_results: Sequence[ClaimResult], refused: Sequence[Claim]) -> None:
        self._refused += len(refused)
        late = {(claim.job, claim.attempt) for claim in refused}
        for claim_result in claim_results:
            if (claim_result.claim.job, claim_result.claim.attempt) not in late:
                self._settled[claim_result.event_word] += 1
            if isinstance(claim_result.event, Lost):
                self._hosts.last = -math.inf  # its machine may be paused now

    # the end

    def _finished(self) -> bool:
        """Whether nothing is left for our workers."""
        if self._held or not self._machines or not self._idle():
            self._idle_since = None
            return False
        counts = self._live()
        held_by_others = counts.get(JobState.BUILDING, 0) + counts.get(JobState.EVALUATING, 0)
        unfinished = any(count for state, count in counts.items() if not state.over)
        moved, self._counts = counts != self._counts, counts
        if moved:  # a claim also ends jobs that no machine can build
            self._idle_since = None
        if self._request.wait or held_by_others:
            self._idle_since = None
            return self._request.wait and not unfinished and not held_by_others and bool(counts)
        now = time.monotonic()
        if now < self._paused_until and any(
            counts.get(stage.waiting, 0) for stage in self._request.stages
        ):
            self._idle_since = None
            return False
        self._idle_since = self._idle_since or now
        return now - self._idle_since > self._patience_s(counts)

    def _patience_s(self, counts: Mapping[JobState, int]) -> float:
        """How long to wait for work that other coordinators may produce."""
        stages = self._request.stages
        missed = {stage for stage in self._stages_missing if counts.get(stage.waiting, 0)}
        if missed:
            return _RETURN_S if missed & self._stages_seen else _ARRIVE_S
        if JobStage.BUILD not in stages and counts.get(JobState.NEW, 0):
            others = self._queue.others(self._owner)
            return math.inf if others else self._request.linger_s
        if JobStage.EVALUATE not in stages and counts.get(JobState.BUILT, 0):
            return math.inf if self._queue.others(self._owner) else _TWICE_S
        return _TWICE_S

    def _live(self) -> Mapping[JobState, int]:
        return self._queue.live(self._request.label, self._request.kind, self._request.devices)

    def _idle_machines(self) -> list[str]:
        return [
            f"{machine.name} ({machine.quarantined or 'aborted'})"
            for machine in self._machines.values()
            if machine.aborted or machine.quarantined
        ]

    def _report(self, started: float) -> None:
        counts = self._live()
        notes = [f"{name} gets no jobs" for name in self._idle_machines()]
        pausing = [machine for machine in self._machines.values() if machine.pause]
        notes += [f"{machine.name} {machine.pause}" for machine in pausing]
        held_by_others = counts.get(JobState.BUILDING, 0) + counts.get(JobState.EVALUATING, 0)
        if held_by_others and not self._held and self._idle():
            notes.append(
                "waiting for jobs that other runs hold; "
                f"jobs of a run that died on another machine become free within about "
                f"{self._request.lease_s:g} s"
            )
        elapsed_s = time.monotonic() - started
        self._request.observer(
            RunProgress(counts, dict(self._settled), len(self._held), elapsed_s, "; ".join(notes))
        )

    def _idle(self) -> bool:
        return self._found_nothing.issuperset(self._request.stages)
