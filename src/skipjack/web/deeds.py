"""What may be done in the browser and through the API: the same actions, asked for in two ways."""

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
from skipjack.web.pages import job_number

RESET_FIELDS = ("state", "to", "device")
"""Fields of a reset."""


@dataclass(frozen=True, slots=True)
class Deed:
    """An action that somebody asks for."""

    kind: str
    target: str
    action: str
    by: str
    reason: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    """``state``, ``to`` and ``device`` of a reset."""


@dataclass(frozen=True, slots=True)
class DeedResult:
    """What came of an action."""

    jobs: int
    said: str
    whole: bool = True
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
    do: Callable[[Store, Deed], DeedResult]
    says: str
    """What it does, for the question."""
    asks_reason: bool = True


def _abort(store: Store, deed: Deed) -> DeedResult:
    done = abort_jobs(store, _target(deed), by=deed.by, reason=deed.reason)
    return DeedResult(done.jobs, done.sentence)


def _resume(store: Store, deed: Deed) -> DeedResult:
    done = resume_jobs(store, _target(deed), by=deed.by, reason=deed.reason)
    if not done.still_stopped:
        return DeedResult(done.jobs, done.sentence)
    devices = ", ".join(done.still_stopped)
    said = f"jobs of {deed.target} are for devices that are aborted: {devices}"
    return DeedResult(done.jobs, said, whole=False)


def _reset(store: Store, deed: Deed) -> DeedResult:
    state, to = (_state(deed.fields.get(name, ""), name) for name in ("state", "to"))
    device = deed.fields.get("device", "") or None
    if deed.kind == "job":
        job = store.jobs.get(job_number(deed.target))
        request = ResetRequest(job.label, job.status.state, to, jobs=[job.id])
    else:
        request = ResetRequest(deed.target, state, to, device)
    done = reset_jobs(store, request, by=deed.by)
    said = f"{numbered(done.reset, 'job')} reset to {to}"
    if done.refused:
        said += f"; {numbered(done.refused, 'job')} left unchanged: {done.reasons[0]}"
    return DeedResult(done.reset, said, whole=not done.refused)


def _enable(store: Store, deed: Deed) -> DeedResult:
    enable_machines(store, [deed.target], by=deed.by, reason=deed.reason)
    return DeedResult(0, f"{deed.target} is enabled")


def _disable(store: Store, deed: Deed) -> DeedResult:
    disable_machines(store, [deed.target], by=deed.by, reason=deed.reason)
    return DeedResult(0, f"{deed.target} is disabled")


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


def perform(workspace: Workspace, deed: Deed) -> DeedResult:
    """Do what is asked for, and record who did it."""
    if not deed.by:
        raise UsageError("write your name, which is recorded with the action")
    return _action(deed.kind, deed.action).do(workspace.store, deed)


def question(workspace: Workspace, deed: Deed) -> ActionPrompt:
    """What to ask before an action; an error if there is no such target."""
    action = _action(deed.kind, deed.action)
    back, shown, choices = _about(workspace, deed)
    warning = ""
    if deed.action == "abort":
        others = touched_by_others(workspace.store, _target(deed), deed.by)
        warning = f"This stops labels of other people: {', '.join(others)}." if others else ""
    return ActionPrompt(
        f"{deed.action.capitalize()} {shown}?",
        action.says,
        deed.action.capitalize(),
        back,
        warning,
        choices,
        action.asks_reason,
    )


def _about(workspace: Workspace, deed: Deed) -> tuple[str, str, tuple[FormChoice, ...]]:
    """The page of the target, its name, and what there is to choose."""
    if deed.kind == "machine":
        machine_page(workspace, deed.target)
        return machine_path(deed.target), f"machine {deed.target}", ()
    to = tuple((str(state), _TO[state]) for state in RESET_STATES)
    if deed.kind == "job":
        row = job_page(workspace, job_number(deed.target)).row
        return job_path(row.id), f"job {row.id}", (FormChoice("to", "Go back to", to),)
    page = label_page(workspace, deed.target)
    path = label_path(deed.target)
    if deed.action != "reset":
        return path, f"label {deed.target}", ()
    states = tuple(
        (state, f"{state.replace('_', ' ')} ({count})")
        for state, count in page.row.by_state.items()
    )
    devices = (("", "all"), *((device, device) for device in page.by_device))
    return (
        path,
        f"jobs of {deed.target}",
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


def _target(deed: Deed) -> ActionTarget:
    if deed.kind == "machine":
        return ActionTarget(machine=deed.target)
    return ActionTarget(label=deed.target)


def _state(text: str, field: str) -> JobState:
    try:
        return JobState(text)
    except ValueError:
        if not text and field == "state":
            return JobState.ERROR
        known = ", ".join(JobState)
        raise UsageError(f"{field} is {text!r}; choose from {known}") from None
