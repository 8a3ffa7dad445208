"""What is in a bundle: rounds of jobs to evaluate, and what came of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from skipjack.core.device import Device
from skipjack.errors import MalformedError, StorageError
from skipjack.execute.wire import Message
from skipjack.fleet.bundle.container import Bundle, Entry, Part
from skipjack.fleet.engine import Host
from skipjack.fleet.task import Outcome, Task
from skipjack.reading import Field, quoted, read_json, whole_number


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
    device: Device
    """What it was built for."""

    def fits(self, here: Device) -> bool:
        """Whether it is for this device, and not for another one of the same name."""
        same = self.device.by_name or self.device.class_key == here.class_key
        return self.device.name == here.name and same and self.device.compat_key in here.loadable


def task_summaries(bundle: Bundle) -> Iterator[TaskSummary]:
    """All tasks of a bundle, in order."""
    for name in bundle.names(Part.TASK):
        with _refusing(bundle, Part.TASK, name):
            job = _job(name)
            record = read_json(bundle.body(Part.TASK, name))
            device = record["task"]["device"].of(Device)
        yield TaskSummary(job, device)


def read_task(bundle: Bundle, job: int) -> BundledTask:
    """A task with its machine code."""
    with _refusing(bundle, Part.TASK, str(job)):
        record = read_json(bundle.body(Part.TASK, str(job)))
        task = Task.of(_message(bundle, record["task"], "digests"))
        if task.job != job:
            raise record.malformed(f"it is job {task.job}")
        return BundledTask(task, record["build"].integer())


def read_outcome(bundle: Bundle, job: int) -> BundledOutcome:
    """What came of a job's round."""
    with _refusing(bundle, Part.OUTCOME, str(job)):
        raw = bundle.body(Part.OUTCOME, str(job))
        record = read_json(raw)
        outcome = Outcome.of(_message(bundle, record["outcome"], "new"))
        if outcome.job != job:
            raise record.malformed(f"it is of job {outcome.job}")
        return BundledOutcome(
            outcome,
            record["epoch"].integer(least=0),
            record["round"].integer(least=0),
            record["build"].integer(),
            record["host"].of(Host),
            record["gpu"].text(),
            record["at"].text(),
            record["seconds"].number(least=0.0),
            hashlib.sha256(raw).hexdigest()[:16],
        )


def jobs_with(bundle: Bundle, part: Part) -> list[int]:
    """Ids of the jobs that have such an entry, in order."""
    found = []
    for name in bundle.names(part):
        with _refusing(bundle, part, name):
            found.append(_job(name))
    return found


def _job(name: str) -> int:
    """The id of a job, as it is written in the name of an entry."""
    job = Field(whole_number(name)).integer(least=0)
    if str(job) != name:
        raise MalformedError(f"expected the id of a job, found {quoted(name)}")
    return job


def _message(bundle: Bundle, record: Field, names: str) -> Message:
    """A record with the machine code that it names."""
    digests = [digest.text() for digest in record[names].elements()]
    blobs = tuple(bundle.body(Part.ARTIFACT, digest) for digest in digests)
    return Message(record.mapping(), blobs)


@contextmanager
def _refusing(bundle: Bundle, part: Part, name: str) -> Iterator[None]:
    """Who has the key can seal anything, also what is no record of ours."""
    try:
        yield
    except MalformedError as error:
        raise StorageError(
            f"{bundle.path} cannot be used: {part} {quoted(name)} is malformed: {error}; make the "
            "bundle again with the same version of Skipjack on both machines"
        ) from None


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True).encode()
