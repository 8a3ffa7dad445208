"""Tasks and their outcomes as they travel, in batches; claims and results as they are exchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from skipjack.core import Device
from skipjack.errors import StorageError
from skipjack.execute import Message
from skipjack.fleet.model.jobs import (
    AUTO,
    MIOPEN,
    Claim,
    JobKind,
    JobPlan,
    PriorResult,
    WorkRequest,
)
from skipjack.fleet.model.states import JobStage
from skipjack.reading import Field, described

# Tasks and outcomes: a round of a job for a worker, and its result, as JSON and bytes.

FORMAT = 2
"""Since format 2 a plan has a kind and a driver; format 1 is still read, from bundles."""
_WITHOUT_KIND = 1


@dataclass(frozen=True, slots=True)
class Task:
    """A round of a job, with everything that a worker needs."""

    job: int
    stage: JobStage
    plan: JobPlan
    device: Device
    """The device to build for: the record of a real one if any was ever seen."""
    epoch: int = 0
    round: int = 0
    facts: tuple[str, ...] = ()
    """Facts of earlier stages of this epoch, in order."""
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    """Machine code by digest, for an evaluation."""
    attempt: int = 0
    """Number of the job's claim; the outcome repeats it."""
    known: tuple[PriorResult, ...] = ()
    """For the first build of a find, good configs of other jobs; of kernels, the winner."""
    failures: tuple[str, ...] = ()
    """Facts about builds that failed in other jobs, which the builder's machine may lack."""

    def message(self) -> Message:
        """The task as a message for a pipe, a file or Ray."""
        body = {
            "format": FORMAT,
            "job": self.job,
            "stage": str(self.stage),
            "plan": _fields(self.plan),
            "device": _fields(self.device),
            "epoch": self.epoch,
            "round": self.round,
            "facts": list(self.facts),
            "digests": list(self.artifacts),
            "attempt": self.attempt,
            "known": [_fields(one) for one in self.known],
        }
        if self.failures:  # not in tasks of bundles, which earlier versions read
            body["failures"] = list(self.failures)
        return Message(body, tuple(self.artifacts.values()))

    @classmethod
    def of(cls, message: Message) -> Task:
        """Read a message; machine code that does not match its digest is refused."""
        body, artifacts = _parsed(message, "digests")
        if message.body["format"] == _WITHOUT_KIND:
            body = Field({**body.mapping(), "plan": _with_kind(body["plan"].mapping())})
        return body.of(cls, artifacts=artifacts)


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of a task."""

    job: int
    stage: JobStage
    finished: bool = False
    """Whether the budget is spent; the verdict is in the facts and in `result` then."""
    inapplicable: str = ""
    """Why no solver supports the problem; empty if one does."""
    failed: str = ""
    """Why the worker failed; empty if it did not. Otherwise only the log is valid, and of a build
    the facts about failed builds."""
    hopeless: bool = False
    """Whether every worker would fail: the job is impossible."""
    artifact_lost: str = ""
    """Which machine code is missing; the round must be built again. Empty if none is."""
    facts: str = ""
    digests: tuple[str, ...] = ()
    """Digests of what the evaluation of a build needs, including leaders of earlier rounds."""
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    """New machine code of a build, by digest."""
    trials: int = 0
    failed_trials: int = 0
    best_ns: float | None = None
    result: Mapping[str, Any] | None = None
    log: str = ""
    attempt: int = 0
    """The attempt of the task."""
    device_seconds: float = 0.0
    """How long an evaluation had the device, without waiting for it."""

    def message(self) -> Message:
        """The outcome as a message for a pipe, a file or Ray."""
        body = {
            "format": FORMAT,
            "job": self.job,
            "stage": str(self.stage),
            "finished": self.finished,
            "inapplicable": self.inapplicable,
            "failed": self.failed,
            "hopeless": self.hopeless,
            "artifact_lost": self.artifact_lost,
            "facts": self.facts,
            "digests": list(self.digests),
            "new": list(self.artifacts),
            "trials": self.trials,
            "failed_trials": self.failed_trials,
            "best_ns": self.best_ns,
            "result": self.result,
            "log": self.log,
            "attempt": self.attempt,
            "device_seconds": self.device_seconds,
        }
        return Message(body, tuple(self.artifacts.values()))

    @classmethod
    def of(cls, message: Message) -> TaskOutcome:
        """Read a message; machine code that does not match its digest is refused."""
        body, artifacts = _parsed(message, "new")
        return body.of(cls, artifacts=artifacts)


def _with_kind(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan of format 1, in which solver and searcher implied the kind and the driver."""
    solver, searcher = plan.get("solver"), plan.get("searcher")
    further = solver in (JobKind.FIND, JobKind.KERNELS)
    return {
        **plan,
        "kind": solver if further else str(JobKind.TUNE),
        "driver": MIOPEN if MIOPEN in (solver, searcher) else "",
        "solver": AUTO if further else solver,
        "searcher": AUTO if searcher == MIOPEN else searcher,
    }


def _fields(record: JobPlan | Device | PriorResult) -> dict[str, Any]:
    """Like `asdict` for records without nested records, at a tenth of its cost."""
    return {one.name: getattr(record, one.name) for one in fields(record)}


def _parsed(message: Message, names: str) -> tuple[Field, dict[str, bytes]]:
    """The record, and the machine code whose digests its field `names` lists."""
    record = message.body
    if record.get("format") not in (_WITHOUT_KIND, FORMAT):
        raise StorageError(
            f"a task or its outcome has format {described(record.get('format'))}, but this "
            f"Skipjack reads {FORMAT}; use the same version on all machines"
        )
    digests = Field(record)[names].elements(len(message.blobs))
    artifacts: dict[str, bytes] = {}
    for digest, blob in zip(digests, message.blobs, strict=True):
        if hashlib.sha256(blob).hexdigest() != digest.text():
            raise StorageError(f"an artifact does not match its digest {described(digest.plain)}")
        artifacts[digest.text()] = blob
    rest = {name: value for name, value in record.items() if name not in ("format", names)}
    return Field(rest), artifacts


# Batches: small tasks travel in one message, since a frame costs more than a task.


def pack_batch(messages: Sequence[Message], **more: Any) -> Message:
    """One message that holds all of these in order, and the fields `more`."""
    body = {
        **more,
        "bodies": [message.body for message in messages],
        "counts": [len(message.blobs) for message in messages],
    }
    return Message(body, tuple(blob for message in messages for blob in message.blobs))


def unpack_batch(batch: Message) -> list[Message]:
    """The messages that `pack_batch` was given."""
    blobs = iter(batch.blobs)
    return [
        Message(body, tuple(next(blobs) for _ in range(count)))
        for body, count in zip(batch.body["bodies"], batch.body["counts"], strict=True)
    ]


# What a coordinator and the store exchange in one transaction: results for new jobs.


@dataclass(frozen=True, slots=True)
class StageRequest:
    """Workers of a stage that are ready for jobs."""

    stage: JobStage
    requests: tuple[WorkRequest, ...]
    jobs: tuple[int, ...] | None = None
    """The only jobs that are wanted; None: any."""


@dataclass(frozen=True, slots=True)
class QueueReply:
    """The answer of the store."""

    refused: tuple[Claim, ...]
    """Claims that were lost before their results arrived."""
    claimed: tuple[tuple[Claim, Task], ...]
    """Jobs for the workers of the request."""
