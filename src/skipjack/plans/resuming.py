"""Where a plan goes on, given what happened before."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from skipjack.errors import UsageError
from skipjack.plans.commands import did_you_mean
from skipjack.plans.progress import Event, History
from skipjack.plans.validating import PlannedStep


class Standing(StrEnum):
    """Where a step stands."""

    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    RUNNING = "running"
    CHANGED = "changed"
    """Done, but it says something else now."""
    DISABLED = "disabled"
    WAITING = "waiting"


_OF_EVENT = {
    Event.FAILED: Standing.FAILED,
    Event.INTERRUPTED: Standing.INTERRUPTED,
    Event.BEGUN: Standing.INTERRUPTED,
}


def standing(step: PlannedStep, history: History, *, running: bool = False) -> Standing:
    """Where this step stands; `running` if the plan is: what was begun then goes on."""
    if not step.enabled:
        return Standing.DISABLED
    done = history.done.get(step.number)
    if done is not None:
        return Standing.DONE if done == step.digest else Standing.CHANGED
    last = history.last.get(step.number)
    if last is None:
        return Standing.WAITING
    event = Event(str(last["event"]))
    if event is Event.BEGUN and running:
        return Standing.RUNNING
    return _OF_EVENT.get(event, Standing.WAITING)


def to_do(steps: Sequence[PlannedStep], history: History) -> tuple[PlannedStep, ...]:
    """The steps that are left; `UsageError` if what was done is no longer what the plan says."""
    last = max((step.number for step in steps if step.number in history.done), default=0)
    for step in (step for step in steps if step.enabled and step.number <= last):
        if step.number not in history.done:
            raise _stale(step, f"was never run, and step {last} behind it was")
        if standing(step, history) is Standing.CHANGED:
            raise _stale(step, "was changed after it had finished")
    return tuple(step for step in steps if step.enabled and step.number > last)


def find_step(steps: Sequence[PlannedStep], wanted: str) -> PlannedStep:
    """The step of this number or name, or the only one with this command."""
    if wanted.isdecimal():
        found = [step for step in steps if step.number == int(wanted)]
    else:
        found = [step for step in steps if step.name == wanted]
        found = found or [step for step in steps if step.command == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        numbers = ", ".join(str(step.number) for step in found)
        raise UsageError(f"several steps are {wanted!r}: say one of {numbers}")
    names = [step.name or step.command for step in steps]
    hint = did_you_mean(wanted, names) or f"; it has {len(steps)}, and plan show lists them"
    raise UsageError(f"the plan has no step {wanted!r}{hint}")


def _stale(step: PlannedStep, what: str) -> UsageError:
    return UsageError(
        f"step {step.number}, {step.title}, {what}; run with --from {step.number} to go on from "
        "there, or with --restart to begin anew"
    )
