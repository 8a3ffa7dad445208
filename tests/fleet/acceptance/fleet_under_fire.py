"""A store full of jobs, coordinators that work through it, and accidents meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from chaos import Chaos, Strike, kill, stop
from coordinators import Coordinators
from database_outages import DATABASE
from process_tree import Process, survivors
from store_audit import complaints, events

from processes import PATIENCE_S
from skipjack.errors import StorageError
from skipjack.fleet.model import JobPlan, JobState, Label
from skipjack.fleet.store import NewProblem, Store, open_store
from skipjack.native import cpu

LABEL = "under_fire"
ROGUE_CRASHES, ROGUE_HANGS = 5, 6
"""Trials of a rogue job after which it was right, slow and wrong, and crashed twice; and hung."""
_LOOK_EVERY_S = 0.05


def plans(count: int, *, hanging: int = 1) -> list[JobPlan]:
    """Small problems, one in eight of which has kernels that lie and crash; some of those hang."""
    device = cpu.detect().name
    return [_plan(number, device, hanging) for number in range(count)]


def _plan(number: int, device: str, hanging: int) -> JobPlan:
    if number % 8 == 1:
        budget = ROGUE_HANGS if number // 8 < hanging else ROGUE_CRASHES
        key = f"rogue:{60 + number}:f32"
        return JobPlan(key, device, "rogue", "exhaustive", budget=budget)
    if number % 8 == 5:
        return JobPlan(f"matmul:{4 + number % 16}x8x{4 + number // 16}:f32", device, budget=2)
    rounds = 1 + number % 2
    return JobPlan(f"softmax:{1 + number}x16:f32", device, budget=3, round=3 if rounds == 1 else 2)


def load(store: Store, wanted: Sequence[JobPlan], label: str = LABEL) -> None:
    """Put the jobs into the store."""
    problems = [
        NewProblem(plan.problem, plan.problem.partition(":")[0], dtype="f32") for plan in wanted
    ]
    store.problems.add(problems, "acceptance")
    store.jobs.add(Label(label, "tests"), wanted)


@dataclass(frozen=True)
class Report:
    """What happened and how it ended."""

    seed: int
    jobs: int
    seconds: float
    struck: dict[str, int]
    history: dict[str, int]
    """Events of all histories by name: lost claims were taken over by others."""
    coordinators_started: int
    endings: dict[str, int]
    settled: dict[str, int]
    machines_resumed: int
    complaints: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return json.dumps(asdict(self), indent=1)


@dataclass
class Battle:
    """One run under fire."""

    url: str
    folder: Path
    jobs: Sequence[JobPlan]
    coordinators: Coordinators
    chaos: Chaos
    deadline_s: float

    def fight(self) -> Report:
        """Load the jobs, wait until they are done, and check the store."""
        began = time.monotonic()
        self._resumed = 0
        with open_store(self.url) as store:
            load(store, self.jobs)
        wrong: list[str] = []
        with self.coordinators as crew:
            try:
                self._until_done(began + self.deadline_s)
            except TimeoutError as error:
                wrong.append(str(error))
            finally:
                self.chaos.calm()
            if not wrong:
                wrong += [f"{one} did not end" for one in crew.wait(PATIENCE_S)]
        wrong += self._left_behind()
        report = Report(
            self.chaos.seed,
            len(self.jobs),
            round(time.monotonic() - began, 1),
            dict(sorted(self.chaos.struck.items())),
            dict(sorted(events(self.url).items())),
            self.coordinators.started,
            dict(self.coordinators.endings),
            dict(self.coordinators.settled),
            self._resumed,
            wrong + self._in_the_store(),
        )
        (self.folder / "report.json").write_text(str(report))
        return report

    def _until_done(self, deadline: float) -> None:
        look = time.monotonic()
        while True:
            self.chaos.step()
            self.coordinators.tend()
            now = time.monotonic()
            if now > look and not self.chaos.away(DATABASE):
                look = now + 1.0
                if self._done():
                    return
            if now > deadline:
                raise TimeoutError(f"not done after {self.deadline_s:g} s: {self._counts()}")
            time.sleep(_LOOK_EVERY_S)

    def _done(self) -> bool:
        """Whether all jobs are over; machines that fell into disrepute are let back meanwhile."""
        try:
            with open_store(self.url) as store:
                for machine in store.machines.all():
                    if machine.quarantined:
                        store.jobs.resume(machine=machine.name)
                        self._resumed += 1
                counts = store.queue.live(LABEL)
        except StorageError:
            return False  # a server that was killed recovers first
        return all(state.over for state, count in counts.items() if count)

    def _counts(self) -> dict[JobState, int]:
        self.chaos.calm()
        with open_store(self.url) as store:
            return dict(store.queue.live(LABEL))

    def _left_behind(self) -> list[str]:
        left = [f"{one} is left: {one.words}" for one in survivors(self.coordinators.seen, 15.0)]
        return left + self.coordinators.tracebacks

    def _in_the_store(self) -> list[str]:
        """After the leases of those that were killed have expired, of which none holds a job."""
        with open_store(self.url) as store:
            deadline = time.monotonic() + 2 * self.coordinators.lease_s
            freed = store.queue.sweep()
            while store.queue.others("") and time.monotonic() < deadline:
                time.sleep(0.2)
            freed += store.queue.sweep()
        held = [f"{freed} jobs were still held"] if freed else []
        return held + complaints(self.url)


def strikes_at_processes(crew: Coordinators) -> list[Strike]:
    """Kills and stops of coordinators, their workers, and the workers of those."""

    def workers() -> list[Process]:
        return crew.below("skipjack.fleet.work.worker")

    def sessions() -> list[Process]:
        return crew.below("skipjack.execute.pool.worker_main")

    longer = (0.5 * crew.lease_s, 1.6 * crew.lease_s)
    return [
        kill("a coordinator", 2.0, crew.alone),
        kill("a worker", 4.0, workers),
        kill("a build worker or run session", 4.0, sessions),
        stop("a coordinator", 1.5, crew.alone, longer),
        stop("a worker", 1.0, workers, (0.5, 3.0)),
        stop("a build worker or run session", 1.0, sessions, (0.5, 3.0)),
    ]
