"""The contents of a bundle: rounds of jobs to evaluate, and their outcomes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from skipjack.core import Device
from skipjack.errors import MalformedError, StorageError
from skipjack.execute import Message
from skipjack.fleet.bundle.format.container import Bundle, BundleEntry, EntryKind
from skipjack.fleet.model import Host, Task, TaskOutcome
from skipjack.reading import Field, quoted, read_json, whole_number


@dataclass(frozen=True, slots=True)
class BundledTask:
    """A built round of a job."""

    task: Task
    build: int
    """The attempt that built it: a result is accepted only if the round was not built again."""

    def entry(self) -> BundleEntry:
        """The task without its machine code, which several tasks may share."""
        body = {"task": self.task.message().body, "build": self.build}
        return BundleEntry(EntryKind.TASK, str(self.task.job), _json(body))


@dataclass(frozen=True, slots=True)
class BundledOutcome:
    """The outcome of a task, and where it was evaluated."""

    outcome: TaskOutcome
    epoch: int
    round: int
    build: int
    host: Host
    gpu: str
    at: str
    """When it finished, by the clock of that machine."""
    seconds: float
    id: str = ""
    """A unique id; set when the outcome is read from a bundle."""

    def entries(self) -> list[BundleEntry]:
        """The entries of the outcome, preceded by machine code that it brought."""
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
            BundleEntry(EntryKind.OUTCOME, str(self.outcome.job), _json(body)),
        ]


def artifact_entries(artifacts: Iterable[tuple[str, bytes]]) -> list[BundleEntry]:
    """Pairs of digest and machine code as entries."""
    return [BundleEntry(EntryKind.ARTIFACT, digest, data) for digest, data in artifacts]


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """The part of a task that decides where it can be evaluated."""

    job: int
    device: Device

    def fits(self, here: Device) -> bool:
        """Whether it is for this device, and not for another one with the same name."""
        same = self.device.by_name or self.device.class_key == here.class_key
        return self.device.name == here.name and same and self.device.compat_key in here.loadable


def task_summaries(bundle: Bundle) -> Iterator[TaskSummary]:
    """All tasks of a bundle, in order."""
    for name in bundle.names(EntryKind.TASK):
        with _refusing(bundle, EntryKind.TASK, name):
            job = _job(name)
            record = read_json(bundle.body(EntryKind.TASK, name))
            device = record["task"]["device"].of(Device)
        yield TaskSummary(job, device)


def read_task(bundle: Bundle, job: int) -> BundledTask:
    """Read a task with its machine code."""
    with _refusing(bundle, EntryKind.TASK, str(job)):
        record = read_json(bundle.body(EntryKind.TASK, str(job)))
        task = Task.of(_message(bundle, record["task"], "digests"))
        if task.job != job:
            raise record.malformed(f"it is job {task.job}")
        return BundledTask(task, record["build"].integer())


def read_outcome(bundle: Bundle, job: int) -> BundledOutcome:
    """Read the outcome of a job's round."""
    with _refusing(bundle, EntryKind.OUTCOME, str(job)):
        raw = bundle.body(EntryKind.OUTCOME, str(job))
        record = read_json(raw)
        outcome = TaskOutcome.of(_message(bundle, record["outcome"], "new"))
        if outcome.job != job:
            raise record.malformed(f"it belongs to job {outcome.job}")
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


def jobs_with(bundle: Bundle, part: EntryKind) -> list[int]:
    """Ids of the jobs that have an entry of this kind, in order."""
    found = []
    for name in bundle.names(part):
        with _refusing(bundle, part, name):
            found.append(_job(name))
    return found


def _job(name: str) -> int:
    """The id of a job in the name of an entry."""
    job = Field(whole_number(name)).integer(least=0)
    if str(job) != name:
        raise MalformedError(f"expected the id of a job, found {quoted(name)}")
    return job


def _message(bundle: Bundle, record: Field, names: str) -> Message:
    """A record with the machine code that its field `names` lists."""
    digests = [digest.text() for digest in record[names].elements()]
    blobs = tuple(bundle.body(EntryKind.ARTIFACT, digest) for digest in digests)
    return Message(record.mapping(), blobs)


@contextmanager
def _refusing(bundle: Bundle, part: EntryKind, name: str) -> Iterator[None]:
    """Report malformed records: whoever has the key can sign anything."""
    try:
        yield
    except MalformedError as error:
        raise StorageError(
            f"{bundle.path} cannot be used: {part} {quoted(name)} is malformed: {error}; make the "
            "bundle again with the same version of Skipjack on both machines"
        ) from None


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True).encode()
