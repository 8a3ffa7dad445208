"""What is in a bundle: rounds of jobs to evaluate, and what came of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from skipjack.core.device import Device
from skipjack.execute.wire import Message
from skipjack.fleet.bundle.checking import damaged
from skipjack.fleet.bundle.container import Bundle, Entry, Part
from skipjack.fleet.engine import Host
from skipjack.fleet.task import Outcome, Task


@dataclass(frozen=True, slots=True)
class BundledTask:
    """A round of a job that was built."""

    task: Task
    build: int
    """The attempt that built it: a result counts only while the round was not built again."""

    def entry(self) -> Entry:
        """The task without its machine code, which several tasks may share."""
        body = {"task": self.task.message().body, "build": self.build}
        return Entry(Part.TASK, str(self.task.job), _json(body))


@dataclass(frozen=True, slots=True)
class BundledOutcome:
    """What came of a task, and where."""

    outcome: Outcome
    epoch: int
    round: int
    build: int
    host: Host
    gpu: str
    at: str
    """When it was done, by the clock of that machine."""
    seconds: float
    id: str = ""
    """Tells it from all others, once it was read from a bundle."""

    def entries(self) -> list[Entry]:
        """The outcome, after machine code of its own, if any."""
        message = self.outcome.message()
        body = {
            "outcome": message.body,
            "epoch": self.epoch,
            "round": self.round,
            "build": self.build,
            "host": asdict(self.host),
            "gpu": self.gpu,
            "at": self.at,
            "seconds": self.seconds,
        }
        return [
            *artifact_entries(self.outcome.artifacts.items()),
            Entry(Part.OUTCOME, str(self.outcome.job), _json(body)),
        ]


def artifact_entries(artifacts: Iterable[tuple[str, bytes]]) -> list[Entry]:
    """Pairs of digest and machine code as entries."""
    return [Entry(Part.ARTIFACT, digest, data) for digest, data in artifacts]


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """What one must know of a task to decide whether to do it."""

    job: int
    device: str


def task_summaries(bundle: Bundle) -> Iterator[TaskSummary]:
    """All tasks of a bundle, in order."""
    for name in bundle.names(Part.TASK):
        body = _loaded(bundle, Part.TASK, name)["task"]
        yield TaskSummary(int(name), Device.from_record(body["device"]).name)


def read_task(bundle: Bundle, job: int) -> BundledTask:
    """A task with its machine code."""
    record = _loaded(bundle, Part.TASK, str(job))
    body = record["task"]
    blobs = tuple(bundle.body(Part.ARTIFACT, digest) for digest in body["digests"])
    return BundledTask(Task.of(Message(body, blobs)), int(record["build"]))


def read_outcome(bundle: Bundle, job: int) -> BundledOutcome:
    """What came of a job's round."""
    raw = bundle.body(Part.OUTCOME, str(job))
    record = _parsed(bundle, Part.OUTCOME, str(job), raw)
    body = record["outcome"]
    blobs = tuple(bundle.body(Part.ARTIFACT, digest) for digest in body["new"])
    host = record["host"]
    devices = tuple(Device.from_record(device) for device in host["devices"])
    return BundledOutcome(
        Outcome.of(Message(body, blobs)),
        int(record["epoch"]),
        int(record["round"]),
        int(record["build"]),
        Host(host["name"], host["cores"], host["memory_bytes"], devices),
        record["gpu"],
        record["at"],
        float(record["seconds"]),
        hashlib.sha256(raw).hexdigest()[:16],
    )


def jobs_with(bundle: Bundle, part: Part) -> list[int]:
    """Ids of the jobs that have such an entry, in order."""
    return [int(name) for name in bundle.names(part)]


def _loaded(bundle: Bundle, part: Part, name: str) -> dict[str, Any]:
    return _parsed(bundle, part, name, bundle.body(part, name))


def _parsed(bundle: Bundle, part: Part, name: str, raw: bytes) -> dict[str, Any]:
    try:
        record = json.loads(raw)
    except ValueError as error:
        raise damaged(bundle.path, f"{part} {name}: {error}") from None
    if not isinstance(record, dict):
        raise damaged(bundle.path, f"{part} {name} is no record")
    return record


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True).encode()
