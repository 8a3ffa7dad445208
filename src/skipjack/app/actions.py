"""What people do to labels, devices and machines; each is recorded with who did it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skipjack.errors import UsageError
from skipjack.fleet.model import JobState
from skipjack.fleet.store import RecordedAction, ResetCount, Store
from skipjack.reading import numbered

RESET_STATES = (JobState.NEW, JobState.BUILT)
"""States that jobs can be reset to."""


@dataclass(frozen=True, slots=True)
class ActionTarget:
    """One label, machine, device or architecture."""

    label: str | None = None
    machine: str | None = None
    device: str | None = None
    arch: str | None = None

    def __post_init__(self) -> None:
        if len(self.named()) != 1:
            raise UsageError(
                "name one target: -l LABEL, --machine NAME, --device ARCH/UNITS or -a ARCH"
            )

    def named(self) -> dict[str, str]:
        """The target by its kind."""
        named = {
            "label": self.label,
            "machine": self.machine,
            "device": self.device,
            "arch": self.arch,
        }
        return {kind: name for kind, name in named.items() if name is not None}

    def __str__(self) -> str:
        ((kind, name),) = self.named().items()
        return f"{kind} {name}"


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What an action did."""

    jobs: int
    """The number of jobs that it changed."""
    sentence: str
    still_stopped: Sequence[str] = ()
    """Devices of a resumed label that are aborted themselves, if no job was resumed."""


def abort_jobs(store: Store, target: ActionTarget, *, by: str, reason: str = "") -> ActionResult:
    """Stop jobs until they are resumed; no results are lost."""
    count = store.jobs.abort(**target.named(), reason=reason, by=by)
    if target.machine is not None:
        given_back = f"{numbered(count, 'job')} given back"
        sentence = f"{target.machine} gets no jobs until it is resumed; {given_back}"
    else:
        sentence = f"{numbered(count, 'job')} aborted"
    return ActionResult(count, sentence)


def resume_jobs(store: Store, target: ActionTarget, *, by: str, reason: str = "") -> ActionResult:
    """Let aborted jobs go on. A quarantined machine gets jobs again."""
    count = store.jobs.resume(**target.named(), reason=reason, by=by)
    still: Sequence[str] = ()
    if target.label is not None and not count:
        stopped = set(store.machines.stopped_devices())
        still = sorted(stopped & store.labels.devices(target.label).keys())
    if target.machine is not None:
        return ActionResult(count, f"{target.machine} gets jobs again")
    return ActionResult(count, f"{numbered(count, 'job')} resumed", still)


def touched_by_others(store: Store, target: ActionTarget, by: str) -> list[str]:
    """Labels of others with unfinished jobs that an abort would stop: ``resnet of ann``."""
    touched = store.jobs.touched(**target.named())
    return [f"{name} of {owner}" for name, owner in touched if owner != by]


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """Which jobs of a label to do again."""

    label: str
    state: JobState
    to: JobState
    device: str | None = None
    jobs: Sequence[int] | None = None
    """Only these; None: all."""

    def __post_init__(self) -> None:
        if self.to not in RESET_STATES:
            raise UsageError(f"jobs can be reset to new or built, not to {self.to}")


def reset_jobs(store: Store, request: ResetRequest, *, by: str) -> ResetCount:
    """Start jobs of a label over, or repeat their evaluation."""
    return store.jobs.reset(
        request.label,
        request.state,
        request.to,
        device=request.device,
        jobs=request.jobs,
        by=by,
    )


def enable_machines(store: Store, names: Sequence[str], *, by: str, reason: str = "") -> list[str]:
    """Give machines jobs again, including those quarantined for their failures."""
    return store.registrations.enable(names, reason=reason, by=by)


def disable_machines(store: Store, names: Sequence[str], *, by: str, reason: str = "") -> list[str]:
    """Exclude machines from jobs, commands, images and clusters. Running jobs finish."""
    return store.registrations.disable(names, reason, by=by)


def recorded_actions(
    store: Store, *, kind: str | None = None, target: str | None = None, limit: int = 50
) -> list[RecordedAction]:
    """The newest things that people did, to one target or to all."""
    return store.jobs.actions(kind=kind, target=target, limit=limit)
