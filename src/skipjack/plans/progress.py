"""How far a plan is: a file of JSON lines, one for each thing that happened, only ever added to.

A step counts as done when its line ``finished`` is on disk. One that was begun and has no end was
killed with its plan, and is run again.
"""

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
)
from skipjack.plans.validating import PlannedStep
from skipjack.reading import Field, read_json
from skipjack.storage import Clock, FileLock, timestamp, utc_now
from skipjack.storage.failure import write_failure

FORMAT = 1


class Event(StrEnum):
    """What a line tells."""

    BEGUN = "begun"
    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    FROM = "from"
    """The user chose where to go on; what lies before counts as done."""
    RESTART = "restart"


@dataclass(slots=True)
class History:
    """What the lines add up to: the last event of each step, by its number."""

    last: dict[int, Mapping[str, object]] = field(default_factory=dict)
    done: dict[int, str] = field(default_factory=dict)
    """Digests of finished steps, as they were then."""

    def take(self, line: Field) -> None:
        """One more line."""
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


class Progress:
    """The progress file of a plan; while entered, no other run of the plan can enter."""

    def __init__(self, path: Path, clock: Clock = utc_now) -> None:
        self.path = path
        self._clock = clock
        self._lock_path = path.with_name(f".{path.name}.lock")
        self._lock = FileLock(self._lock_path, on_wait=_refuse_to_wait, timeout_s=0.0)

    def __enter__(self) -> Progress:
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
        except OSError:  # nobody ever ran it
            return False
        try:
            # Let go of at once by closing it; nothing is written, so who holds it stays signed.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def history(self) -> History:
        """What happened so far; a line that a killed run left unfinished is overlooked."""
        history = History()
        for number, line in enumerate(_whole(self._read()).splitlines(), start=1):
            try:
                record = read_json(line)
                if record["format"].integer() > FORMAT:
                    raise NewerFormatError(
                        f"{self.path}:{number} was written by a newer Skipjack; "
                        "it was left as it is"
                    )
                history.take(record)
            except MalformedError as error:
                raise CorruptFileError(
                    f"{self.path}:{number} is not a line of a plan's progress ({error}); name "
                    "another file with --progress, or move this one away to begin anew"
                ) from None
        return history

    def step(self, event: Event, step: PlannedStep, **more: int | float | str) -> dict[str, object]:
        """Keep what happened to a step; returns the line."""
        return self._add(
            {
                **{"event": event, "step": step.number, "name": step.title},
                **{"digest": step.digest, "argv": list(step.argv), **more},
            }
        )

    def go_on_from(self, step: PlannedStep, before: Sequence[PlannedStep]) -> None:
        """From now on everything before this step counts as done, as it is written now."""
        digests = [one.digest for one in before]
        self._add({"event": Event.FROM, "step": step.number, "digests": digests})

    def restart(self) -> None:
        """From now on nothing counts as done."""
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
        """A line without its end never was on disk as a whole; the next must not join it."""
        data = self._read()
        whole = len(_whole(data))
        if whole != len(data):
            os.truncate(self.path, whole)


def _whole(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


def _refuse_to_wait(sentence: str) -> None:
    holder = sentence.partition(", which ")[2].removesuffix(" holds")
    raise SkipjackError(f"this plan is running already: {holder}; wait for it, or end it first")
