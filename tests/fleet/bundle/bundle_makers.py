"""Bundles of made-up jobs, and a worker that does them without a device."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from skipjack.core import Device
from skipjack.fleet.bundle.format import (
    Bundle,
    BundledTask,
    BundleKind,
    BundleManifest,
    artifact_entries,
)
from skipjack.fleet.model import Host, JobPlan, JobStage, Task, TaskOutcome
from skipjack.fleet.signature import fingerprint
from skipjack.ledger import write_facts

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))
DEVICE = Device("cpu", "znver4", 1)
OTHER_DEVICE = Device("cuda", "sm_90", 132)
HOST = Host("bench7", 8, 1 << 30, (DEVICE,))
SHARED = b"a kernel that all jobs share"

CREATED = "2026-01-01T00:00:00.000000Z"


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def facts_of(text: str) -> str:
    """A row of a ledger with a text."""
    return write_facts({"protocols": [{"id": text, "text": text, "created": CREATED}]})


def task_of(job: int, device: Device = DEVICE) -> Task:
    """A round that was built; its facts are long enough to fill pages."""
    own = f"the kernel of job {job}".encode() * 40
    return Task(
        job,
        JobStage.EVALUATE,
        JobPlan(f"matmul:{job}x8x8:f32", device.name),
        device,
        facts=(facts_of(f"job {job}" + " " * 500),),
        artifacts={digest_of(data): data for data in (SHARED, own)},
    )


def jobs_bundle(path: Path, tasks: Sequence[Task], key: bytes = KEY) -> Path:
    manifest = BundleManifest(BundleKind.JOBS, "nightly", "a store", fingerprint(key))
    with Bundle.create(path, manifest, key) as bundle:
        artifacts = {digest: data for task in tasks for digest, data in task.artifacts.items()}
        bundle.append(artifact_entries(artifacts.items()))
        bundle.append([BundledTask(task, 1).entry() for task in tasks])
    return path


class Sham:
    """A worker that remembers what it did, and calls back before each job."""

    def __init__(self, before: Callable[[int], None] = lambda job: None) -> None:
        self.jobs: list[int] = []
        self.closed = False
        self.fails: set[int] = set()
        self.finished = True
        self._before = before

    def perform(self, task: Task) -> TaskOutcome:
        self._before(task.job)
        self.jobs.append(task.job)
        if task.job in self.fails:
            return TaskOutcome(task.job, task.stage, failed="the device fell off the bus")
        result = {"outcome": "kept", "solver": "nest"} if self.finished else None
        facts = facts_of(f"told {task.job}")
        return TaskOutcome(
            task.job,
            task.stage,
            finished=self.finished,
            facts=facts,
            trials=4,
            best_ns=9.5,
            result=result,
        )

    def close(self) -> None:
        self.closed = True
