"""What travels: a round of a job to a worker, and what came of it back, as JSON and bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from skipjack.core.device import Device
from skipjack.errors import StorageError
from skipjack.execute.wire import Message
from skipjack.fleet.records import AUTO, MIOPEN, JobKind, Known, Plan
from skipjack.fleet.states import Stage
from skipjack.reading import Field, described

FORMAT = 2
"""Since 2 a plan has a kind and a driver; 1 is read too, from bundles."""
_WITHOUT_KIND = 1


@dataclass(frozen=True, slots=True)
class Task:
    """A round of a job: everything that a worker needs that knows nothing else."""

    job: int
    stage: Stage
    plan: Plan
    device: Device
    """What it is built for: the record of a real one if any was ever seen."""
    epoch: int = 0
    round: int = 0
    facts: tuple[str, ...] = ()
    """Of this epoch's earlier stages, in order."""
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    """Machine code by digest, for an evaluation."""
    attempt: int = 0
    """Of which claim it is, counted for each job; its outcome says so too."""
    known: tuple[Known, ...] = ()
    """For the first build of a find: configs that did well before; of kernels: the winner."""

    def message(self) -> Message:
        """As a frame for a pipe, a file or Ray."""
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
        return Message(body, tuple(self.artifacts.values()))

    @classmethod
    def of(cls, message: Message) -> Task:
        """What `message` made; machine code that does not match its digest is refused."""
        body, artifacts = _taken_apart(message, "digests")
        if message.body["format"] == _WITHOUT_KIND:
            body = Field({**body.mapping(), "plan": _with_kind(body["plan"].mapping())})
        return body.of(cls, artifacts=artifacts)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a task."""

    job: int
    stage: Stage
    finished: bool = False
    """An evaluation spent the budget, and its verdict is in the facts and in `result`."""
    inapplicable: str = ""
    """Why no solver can do this, if none can."""
    failed: str = ""
    """Why the worker could not do its work; the other fields then mean nothing but the log."""
    hopeless: bool = False
    """Whether no worker could: the job asks for something that cannot be."""
    artifact_lost: str = ""
    """Which machine code is missing, if any is: the round must be built again."""
    facts: str = ""
    digests: tuple[str, ...] = ()
    """Of a build: what its evaluation needs, the leaders of earlier rounds among it."""
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    """New ones, of a build."""
    trials: int = 0
    failed_trials: int = 0
    best_ns: float | None = None
    result: Mapping[str, Any] | None = None
    log: str = ""
    attempt: int = 0
    """That of the task."""

    def message(self) -> Message:
        """As a frame for a pipe, a file or Ray."""
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
        }
        return Message(body, tuple(self.artifacts.values()))

    @classmethod
    def of(cls, message: Message) -> Outcome:
        """What `message` made; machine code that does not match its digest is refused."""
        body, artifacts = _taken_apart(message, "new")
        return body.of(cls, artifacts=artifacts)


def _with_kind(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan of format 1, where words in the places of solver and searcher told the kind."""
    solver, searcher = plan.get("solver"), plan.get("searcher")
    further = solver in (JobKind.FIND, JobKind.KERNELS)
    return {
        **plan,
        "kind": solver if further else str(JobKind.TUNE),
        "driver": MIOPEN if MIOPEN in (solver, searcher) else "",
        "solver": AUTO if further else solver,
        "searcher": AUTO if searcher == MIOPEN else searcher,
    }


def _fields(record: Plan | Device | Known) -> dict[str, Any]:
    """As `asdict` for records that hold no others, at a tenth of its cost."""
    return {one.name: getattr(record, one.name) for one in fields(record)}


def _taken_apart(message: Message, names: str) -> tuple[Field, dict[str, bytes]]:
    """The record, and the machine code whose digests stand in its field `names`."""
    record = message.body
    if record.get("format") not in (_WITHOUT_KIND, FORMAT):
        raise StorageError(
            f"a task or its outcome has format {described(record.get('format'))}, this Skipjack "
            f"knows {FORMAT}; use the same version on all machines"
        )
    digests = Field(record)[names].elements(len(message.blobs))
    artifacts: dict[str, bytes] = {}
    for digest, blob in zip(digests, message.blobs, strict=True):
        if hashlib.sha256(blob).hexdigest() != digest.text():
            raise StorageError(f"an artifact does not match its digest {described(digest.plain)}")
        artifacts[digest.text()] = blob
    rest = {name: value for name, value in record.items() if name not in ("format", names)}
    return Field(rest), artifacts
