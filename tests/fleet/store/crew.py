"""A store with jobs, and a coordinator with one machine that works on them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pytest
from sqlalchemy import Connection, func, select

from skipjack.core import Device, features_of
from skipjack.fleet.model import (
    Built,
    Claim,
    ClaimResult,
    Event,
    Host,
    Job,
    JobPlan,
    JobStage,
    JobState,
    Label,
    Task,
    Told,
    WorkRequest,
)
from skipjack.fleet.store import NewProblem, Store
from skipjack.fleet.store.schema import tables
from skipjack.ledger import Facts, read_facts
from skipjack.processes import ProcessIdentity

ZEN = Device("cpu", "znver4", 1, "a real one", ("avx2",), 8, 32, (("L1", 1 << 15),), 1 << 30, "s1")
SKYLAKE = Device("cpu", "skylake", 1, "a real one", features_of("x86-64-v3"), 8, 32)
LABEL = "resnet"
on_sqlite = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
"""For tests that do not depend on the kind of database: servers are slow."""
RESULT = {"outcome": "better", "toolchain": "llvm 20"}


def found_out(word: str) -> Facts:
    """A round's facts: one row of a ledger, with this word in it."""
    row = {"id": f"id of {word}", "text": word, "created": "2026-01-01T00:00:00.000000Z"}
    return {"protocols": [row]}


def words_of(texts: Iterable[str]) -> tuple[str, ...]:
    """The words in facts that a task or a result has."""
    return tuple(row["text"] for text in texts for row in read_facts(text)["protocols"])


@dataclass(frozen=True)
class Crew:
    """A coordinator with a lease, and its machine."""

    store: Store
    owner: str
    machine: int

    def want(
        self, count: int = 1, devices: tuple[Device, ...] = (), slot: str = "0"
    ) -> WorkRequest:
        return WorkRequest(self.machine, slot, devices, count)

    def claims(
        self, stage: JobStage, count: int = 1, *, label: str | None = None
    ) -> list[tuple[Claim, Task]]:
        devices = (ZEN, SKYLAKE) if stage is JobStage.EVALUATE else ()
        return self.store.queue.claim(self.owner, stage, [self.want(count, devices)], label=label)

    def claim(self, stage: JobStage) -> tuple[Claim, Task]:
        (pair,) = self.claims(stage)
        return pair

    def finish(self, claim: Claim, event: Event, **rest: object) -> list[Claim]:
        return self.store.queue.finish(self.owner, [ClaimResult(claim, event, **rest)])  # type: ignore[arg-type]

    def build(self, *codes: bytes, facts: str = "built") -> int:
        """Claim a job and build it; returns its id."""
        claim, _ = self.claim(JobStage.BUILD)
        made = artifacts_of(codes)
        known = {"facts": found_out(facts), "digests": tuple(made), "artifacts": made}
        assert not self.finish(claim, Built(), **known)
        return claim.job

    def tell(self, *, finished: bool, facts: str = "told", digests: tuple[str, ...] = ()) -> int:
        """Claim a built job and evaluate it; returns its id."""
        claim, _ = self.claim(JobStage.EVALUATE)
        result = RESULT if finished else None
        known = {"facts": found_out(facts), "digests": digests, "trials": 4, "result": result}
        assert not self.finish(claim, Told(finished), **known)
        return claim.job


def crew(store: Store, name: str = "host", lease_s: float = 60.0) -> Crew:
    """Another coordinator on another machine."""
    machine = store.queue.register(Host(name, 8, 1 << 30, (ZEN,)), "local")
    return Crew(store, store.queue.start_lease(ProcessIdentity(name, 1), lease_s), machine.id)


def load(
    store: Store, count: int = 1, *, label: str = LABEL, device: str = ZEN.name, priority: int = 0
) -> list[int]:
    """Load this many jobs of a label, one for each problem."""
    keys = [f"matmul:{size}x8x8" for size in range(1, count + 1)]
    store.problems.add([NewProblem(key, "matmul", "", "f32") for key in keys], "tag")
    store.jobs.add(Label(label, "me"), [JobPlan(key, device) for key in keys], priority=priority)
    return [job.id for job in store.jobs.find(label=label, device=device)]


def artifacts_of(codes: Sequence[bytes]) -> dict[str, bytes]:
    return {hashlib.sha256(code).hexdigest(): code for code in codes}


def states(store: Store, label: str | None = None) -> Mapping[JobState, int]:
    return {state: count for state, count in store.queue.live(label).items() if count}


def only(store: Store) -> Job:
    (job,) = store.jobs.find()
    return job


def rows(store: Store, table: str) -> int:
    """The number of rows of a table."""

    def counted(connection: Connection) -> int:
        counting = select(func.count()).select_from(tables.metadata.tables[table])
        return int(connection.execute(counting).scalar_one())

    return store.database.read(counted)
