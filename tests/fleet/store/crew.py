"""A store with jobs in it, and a coordinator with one machine that works on them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pytest
from sqlalchemy import Connection, func, select

from skipjack.core.cpu_levels import features_of
from skipjack.core.device import Device
from skipjack.fleet.engine import Host
from skipjack.fleet.records import Claim, Job, Label, Plan, Settlement, Want
from skipjack.fleet.states import Built, Event, Stage, State, Told
from skipjack.fleet.store.jobs.problems import NewProblem
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.store import Store
from skipjack.fleet.task import Task
from skipjack.ledger.facts import Facts, read_facts
from skipjack.processes import ProcessIdentity

ZEN = Device("cpu", "znver4", 1, "a real one", ("avx2",), 8, 32, (("L1", 1 << 15),), 1 << 30, "s1")
SKYLAKE = Device("cpu", "skylake", 1, "a real one", features_of("x86-64-v3"), 8, 32)
LABEL = "resnet"
on_sqlite = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
"""For what does not depend on the kind of database: servers take their time."""
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
    """A coordinator that has signed in, and its machine."""

    store: Store
    owner: str
    machine: int

    def want(self, count: int = 1, devices: tuple[Device, ...] = (), slot: str = "0") -> Want:
        return Want(self.machine, slot, devices, count)

    def claims(
        self, stage: Stage, count: int = 1, *, label: str | None = None
    ) -> list[tuple[Claim, Task]]:
        devices = (ZEN, SKYLAKE) if stage is Stage.EVALUATE else ()
        return self.store.queue.claim(self.owner, stage, [self.want(count, devices)], label=label)

    def claim(self, stage: Stage) -> tuple[Claim, Task]:
        (pair,) = self.claims(stage)
        return pair

    def settle(self, claim: Claim, event: Event, **rest: object) -> list[Claim]:
        return self.store.queue.settle(self.owner, [Settlement(claim, event, **rest)])  # type: ignore[arg-type]

    def build(self, *codes: bytes, facts: str = "built") -> int:
        """Claim a job and build it; its id."""
        claim, _ = self.claim(Stage.BUILD)
        made = artifacts_of(codes)
        known = {"facts": found_out(facts), "digests": tuple(made), "artifacts": made}
        assert not self.settle(claim, Built(), **known)
        return claim.job

    def tell(self, *, finished: bool, facts: str = "told", digests: tuple[str, ...] = ()) -> int:
        """Claim a built job and evaluate it; its id."""
        claim, _ = self.claim(Stage.EVALUATE)
        result = RESULT if finished else None
        known = {"facts": found_out(facts), "digests": digests, "trials": 4, "result": result}
        assert not self.settle(claim, Told(finished), **known)
        return claim.job


def crew(store: Store, name: str = "host", lease_s: float = 60.0) -> Crew:
    """Another coordinator on another machine."""
    machine = store.queue.register(Host(name, 8, 1 << 30, (ZEN,)), "local")
    return Crew(store, store.queue.sign_in(ProcessIdentity(name, 1), lease_s), machine.id)


def load(
    store: Store, count: int = 1, *, label: str = LABEL, device: str = ZEN.name, priority: int = 0
) -> list[int]:
    """Jobs of a label, one for each of so many problems."""
    keys = [f"matmul:{size}x8x8" for size in range(1, count + 1)]
    store.problems.add([NewProblem(key, "matmul", "", "f32") for key in keys], "tag")
    store.jobs.add(Label(label, "me"), [Plan(key, device) for key in keys], priority=priority)
    return [job.id for job in store.jobs.find(label=label, device=device)]


def artifacts_of(codes: Sequence[bytes]) -> dict[str, bytes]:
    return {hashlib.sha256(code).hexdigest(): code for code in codes}


def states(store: Store, label: str | None = None) -> Mapping[State, int]:
    return {state: count for state, count in store.queue.live(label).items() if count}


def only(store: Store) -> Job:
    (job,) = store.jobs.find()
    return job


def rows(store: Store, table: str) -> int:
    """How many rows a table has, whoever wrote them."""

    def counted(connection: Connection) -> int:
        counting = select(func.count()).select_from(tables.metadata.tables[table])
        return int(connection.execute(counting).scalar_one())

    return store.database.read(counted)
