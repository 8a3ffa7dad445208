"""The actions of the browser and of the API: what is asked before them, and what they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from skipjack.app import (
    RESET_STATES,
    ActionTarget,
    ResetRequest,
    abort_jobs,
    disable_machines,
    enable_machines,
    reset_jobs,
    resume_jobs,
    touched_by_others,
)
from skipjack.app.views import (
    Workspace,
    job_number,
    job_page,
    job_path,
    label_page,
    label_path,
    machine_page,
    machine_path,
)
from skipjack.errors import UsageError
from skipjack.fleet.model import JobState
from skipjack.fleet.store import Store
from skipjack.reading import numbered
from skipjack.web.content import PageNotFoundError

RESET_FIELDS = ("state", "to", "device")
"""Fields of a reset."""


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """An action that somebody asks for."""

    kind: str
    target: str
    action: str
    by: str
    reason: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    """``state``, ``to`` and ``device`` of a reset."""


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """What came of an action."""

    jobs: int
    message: str
    complete: bool = True
    """Whether all was done that was asked for."""


@dataclass(frozen=True, slots=True)
class FormChoice:
    """A choice in the form that asks before an action."""

    name: str
    title: str
    values: tuple[tuple[str, str], ...]
    chosen: str = ""


@dataclass(frozen=True, slots=True)
class ActionPrompt:
    """What is asked before an action."""

    title: str
    text: str
    verb: str
    back: str
    """The page of the target."""
    warning: str = ""
    choices: tuple[FormChoice, ...] = ()
    asks_reason: bool = True


@dataclass(frozen=True, slots=True)
class _Action:
    do: Callable[[Store, ActionRequest], ActionOutcome]
    says: str
    """What it does, for the question."""
    asks_reason: bool = True


def _abort(store: Store, asked: ActionRequest) -> ActionOutcome:
    done = abort_jobs(store, _target(asked), by=asked.by, reason=asked.reason)
    return ActionOutcome(done.jobs, done.sentence)


def _resume(store: Store, asked: ActionRequest) -> ActionOutcome:
    done = resume_jobs(store, _target(asked), by=asked.by, reason=asked.reason)
    if not done.still_stopped:
        return ActionOutcome(done.jobs, done.sentence)
    devices = ", ".join(done.still_stopped)
    message = f"jobs of {asked.target} are for devices that are aborted: {devices}"
    return ActionOutcome(done.jobs, message, complete=False)


def _reset(store: Store, asked: ActionRequest) -> ActionOutcome:
    state, to = (_state(asked.fields.get(name, ""), name) for name in ("state", "to"))
    device = asked.fields.get("device", "") or None
    if asked.kind == "job":
        job = store.jobs.get(job_number(asked.target))
        request = ResetRequest(job.label, job.status.state, to, jobs=[job.id])
    else:
        request = ResetRequest(asked.target, state, to, device)
    done = reset_jobs(store, request, by=asked.by)
    message = f"{numbered(done.reset, 'job')} reset to {to}"
    if done.refused:
        message += f"; {numbered(done.refused, 'job')} left unchanged: {done.reasons[0]}"
    return ActionOutcome(done.reset, message, complete=not done.refused)


def _enable(store: Store, asked: ActionRequest) -> ActionOutcome:
    enable_machines(store, [asked.target], by=asked.by, reason=asked.reason)
    return ActionOutcome(0, f"{asked.target} is enabled")


def _disable(store: Store, asked: ActionRequest) -> ActionOutcome:
    disable_machines(store, [asked.target], by=asked.by, reason=asked.reason)
    return ActionOutcome(0, f"{asked.target} is disabled")


ACTIONS: Mapping[str, Mapping[str, _Action]] = {
    "label": {
        "abort": _Action(_abort, "Its jobs stop until it is resumed. No results are lost."),
        "resume": _Action(_resume, "Its aborted jobs go on."),
        "reset": _Action(_reset, "Jobs in the chosen state are done again.", asks_reason=False),
    },
    "job": {"reset": _Action(_reset, "The job is done again.", asks_reason=False)},
    "machine": {
        "abort": _Action(
            _abort, "It gets no jobs until it is resumed, and gives back those that it has."
        ),
        "resume": _Action(_resume, "It gets jobs again; its failures are forgotten."),
        "enable": _Action(_enable, "It gets jobs again; its failures are forgotten."),
        "disable": _Action(_disable, "It gets no jobs until it is enabled. Running jobs finish."),
    },
}
"""By the kind of the target."""


def perform(workspace: Workspace, asked: ActionRequest) -> ActionOutcome:
    """Do what is asked for, and record who did it."""
    if not asked.by:
        raise UsageError("write your name, which is recorded with the action")
    return _action(asked.kind, asked.action).do(workspace.store, asked)


def question(workspace: Workspace, asked: ActionRequest) -> ActionPrompt:
    """What to ask before an action; an error if there is no such target."""
    action = _action(asked.kind, asked.action)
    back, shown, choices = _about(workspace, asked)
    warning = ""
    if asked.action == "abort":
        others = touched_by_others(workspace.store, _target(asked), asked.by)
        warning = f"This stops labels of other people: {', '.join(others)}." if others else ""
    return ActionPrompt(
        f"{asked.action.capitalize()} {shown}?",
        action.says,
        asked.action.capitalize(),
        back,
        warning,
        choices,
        action.asks_reason,
    )


def _about(workspace: Workspace, asked: ActionRequest) -> tuple[str, str, tuple[FormChoice, ...]]:
    """The page of the target, its name, and what there is to choose."""
    if asked.kind == "machine":
        machine_page(workspace, asked.target)
        return machine_path(asked.target), f"machine {asked.target}", ()
    to = tuple((str(state), _TO[state]) for state in RESET_STATES)
    if asked.kind == "job":
        row = job_page(workspace, job_number(asked.target)).row
        return job_path(row.id), f"job {row.id}", (FormChoice("to", "Go back to", to),)
    page = label_page(workspace, asked.target)
    path = label_path(asked.target)
    if asked.action != "reset":
        return path, f"label {asked.target}", ()
    states = tuple(
        (state, f"{state.replace('_', ' ')} ({count})")
        for state, count in page.row.by_state.items()
    )
    devices = (("", "all"), *((device, device) for device in page.by_device))
    return (
        path,
        f"jobs of {asked.target}",
        (
            FormChoice("state", "Jobs in state", states, "error"),
            FormChoice("to", "Go back to", to),
            FormChoice("device", "On device", devices),
        ),
    )


_TO = {
    JobState.NEW: "new: build the round again, or start over",
    JobState.BUILT: "built: evaluate the round again",
}


def _action(kind: str, name: str) -> _Action:
    action = ACTIONS.get(kind, {}).get(name)
    if action is None:
        raise PageNotFoundError(f"there is no action {name!r} for a {kind}")
    return action


def _target(asked: ActionRequest) -> ActionTarget:
    if asked.kind == "machine":
        return ActionTarget(machine=asked.target)
    return ActionTarget(label=asked.target)


def _state(text: str, field: str) -> JobState:
    try:
        return JobState(text)
    except ValueError:
        if not text and field == "state":
            return JobState.ERROR
        known = ", ".join(JobState)
        raise UsageError(f"{field} is {text!r}; choose from {known}") from None
