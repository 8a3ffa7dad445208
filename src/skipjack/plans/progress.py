"""How far a plan is: a file of JSON lines that only grows, and where the plan continues."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from skipjack.errors import (
    CorruptFileError,
    MalformedError,
    NewerFormatError,
    SkipjackError,
    StorageError,
    UsageError,
)
from skipjack.plans.commands import did_you_mean
from skipjack.plans.validation import PlannedStep
from skipjack.reading import Field, numbered, read_json
from skipjack.storage import Clock, FileLock, timestamp, utc_now, write_failure

# How far a plan is: a file of JSON lines, one for each event, to which lines are only added.
#
# A step is done once its line ``finished`` is on disk. A step that began and did not end was killed
# with its plan, and is run again.

FORMAT = 1


class Event(StrEnum):
    """The event that a line records."""

    BEGUN = "begun"
    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    FROM = "from"
    """The user chose where to continue; all steps before count as done."""
    RESTART = "restart"


@dataclass(slots=True)
class PlanHistory:
    """The state after all lines: the last event of each step, by its number."""

    last: dict[int, Mapping[str, object]] = field(default_factory=dict)
    done: dict[int, str] = field(default_factory=dict)
    """Digests of finished steps, as they were when they finished."""

    def take(self, line: Field) -> None:
        """Add a line."""
        event = line["event"].of(Event)
        if event is Event.RESTART:
            self.last.clear()
            self.done.clear()
            return
        step = line["step"].integer(1)
        if event is Event.FROM:
            self._go_on(step, [digest.text() for digest in line["digests"].elements()])
            return
        self.last[step] = line.mapping()
        if event is Event.FINISHED:
            self.done[step] = line["digest"].text()
        else:
            self.done.pop(step, None)

    def _go_on(self, step: int, digests: Sequence[str]) -> None:
        self.last = {number: line for number, line in self.last.items() if number < step}
        self.done = dict(enumerate(digests, start=1))


class PlanProgress:
    """The progress file of a plan; entering it locks out other runs of the plan."""

    def __init__(self, path: Path, clock: Clock = utc_now) -> None:
        self.path = path
        self._clock = clock
        self._lock_path = path.with_name(f".{path.name}.lock")
        self._lock = FileLock(self._lock_path, on_wait=_refuse_to_wait, timeout_s=0.0)

    def __enter__(self) -> PlanProgress:
        self._lock.__enter__()
        try:
            self._cut_torn_end()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__(None, None, None)

    def running(self) -> bool:
        """Whether a process is running the plan now."""
        try:
            descriptor = os.open(self._lock_path, os.O_RDONLY)
        except OSError:  # it has never been run
            return False
        try:
            # Released at once by closing; nothing is written, so the name of a holder stays.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def history(self) -> PlanHistory:
        """The events so far; an incomplete line of a killed run is ignored."""
        history = PlanHistory()
        for number, line in enumerate(_whole(self._read()).splitlines(), start=1):
            try:
                record = read_json(line)
                if record["format"].integer() > FORMAT:
                    raise NewerFormatError(
                        f"{self.path}:{number} was written by a newer Skipjack; "
                        "the file was not changed"
                    )
                history.take(record)
            except MalformedError as error:
                raise CorruptFileError(
                    f"{self.path}:{number} is not a line of a plan's progress ({error}); name "
                    "another file with --progress, or move this one away to start over"
                ) from None
        return history

    def step(self, event: Event, step: PlannedStep, **more: int | float | str) -> dict[str, object]:
        """Record an event of a step; returns the line."""
        return self._add(
            {
                **{"event": event, "step": step.number, "name": step.title},
                **{"digest": step.digest, "argv": list(step.argv), **more},
            }
        )

    def go_on_from(self, step: PlannedStep, before: Sequence[PlannedStep]) -> None:
        """Record that all steps before this one count as done, as they are written now."""
        digests = [one.digest for one in before]
        self._add({"event": Event.FROM, "step": step.number, "digests": digests})

    def restart(self) -> None:
        """Record that no step counts as done."""
        self._add({"event": Event.RESTART})

    def _add(self, record: dict[str, object]) -> dict[str, object]:
        line = {"format": FORMAT, **record, "time": timestamp(self._clock())}
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                os.write(descriptor, json.dumps(line).encode() + b"\n")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise write_failure(self.path, error) from error
        return line

    def _read(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror}") from error

    def _cut_torn_end(self) -> None:
        """Remove an incomplete last line, which the next line must not be appended to."""
        data = self._read()
        whole = len(_whole(data))
        if whole != len(data):
            os.truncate(self.path, whole)


def _whole(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


def _refuse_to_wait(sentence: str) -> None:
    holder = sentence.partition(", which ")[2].removesuffix(" holds")
    raise SkipjackError(f"this plan is already running: {holder}; wait for it, or stop it first")


# Where a plan continues, given its history.


class StepState(StrEnum):
    """The state of a step."""

    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    RUNNING = "running"
    CHANGED = "changed"
    """Done, but its command line has changed since."""
    DISABLED = "disabled"
    WAITING = "waiting"


_OF_EVENT = {
    Event.FAILED: StepState.FAILED,
    Event.INTERRUPTED: StepState.INTERRUPTED,
    Event.BEGUN: StepState.INTERRUPTED,
}


def state_of_step(step: PlannedStep, history: PlanHistory, *, running: bool = False) -> StepState:
    """The state of a step; with `running`, a step that has begun is still running."""
    if not step.enabled:
        return StepState.DISABLED
    done = history.done.get(step.number)
    if done is not None:
        return StepState.DONE if done == step.digest else StepState.CHANGED
    last = history.last.get(step.number)
    if last is None:
        return StepState.WAITING
    event = Event(str(last["event"]))
    if event is Event.BEGUN and running:
        return StepState.RUNNING
    return _OF_EVENT.get(event, StepState.WAITING)


def to_do(steps: Sequence[PlannedStep], history: PlanHistory) -> tuple[PlannedStep, ...]:
    """The steps that are left; `UsageError` if finished steps were changed since."""
    last = max((step.number for step in steps if step.number in history.done), default=0)
    for step in (step for step in steps if step.enabled and step.number <= last):
        if step.number not in history.done:
            raise _stale(step, f"was never run, but step {last} after it was")
        if state_of_step(step, history) is StepState.CHANGED:
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
        raise UsageError(f"several steps are {wanted!r}; choose one by number: {numbers}")
    names = [step.name or step.command for step in steps]
    hint = (
        did_you_mean(wanted, names)
        or f"; it has {numbered(len(steps), 'step')}, which skipjack plan show lists"
    )
    raise UsageError(f"the plan has no step {wanted!r}{hint}")


def _stale(step: PlannedStep, what: str) -> UsageError:
    return UsageError(
        f"step {step.number}, {step.title}, {what}; run with --from {step.number} to continue from "
        "there, or with --restart to start over"
    )
