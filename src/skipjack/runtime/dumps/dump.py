"""Writing a dump from a running program: counts are kept in memory and written from time to time.

Trouble with files does not affect the program: counts that could not be written are kept for the
next time, and one warning is logged.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from skipjack.core import Device, Problem
from skipjack.errors import LockTimeoutError, MalformedError, ProblemError, SkipjackError
from skipjack.operations import parse
from skipjack.reading import INT64, read_json, read_plain
from skipjack.runtime.dumps.default_kernel import default_kernel
from skipjack.runtime.dumps.problem import (
    LONGEST_NS,
    DumpedProblem,
    checked_format,
    folder_name,
    read_dumped,
)
from skipjack.runtime.process import warn_once
from skipjack.settings import Settings
from skipjack.storage import FileLock, atomic_write, output_directory

log = logging.getLogger(__name__)

PASSED_FILE = "passed_through.json"
PASSED_FORMAT = 1
_LOCK_FILE = ".lock"
_WAIT_S = 2.0
"""How long to wait for other processes that write."""
_MOST_PASSED = 5000
"""Kinds of calls that are listed; those that took the least time are left out."""


@dataclass(frozen=True, slots=True)
class PassedCalls:
    """Calls of one kind that no operation of Skipjack computes; also an increment of a count."""

    op: str
    """For example ``aten::cumsum``."""
    description: str
    """Dtypes, sizes and strides of the arguments."""
    device: str
    reason: str
    calls: int = 0
    time_ns: int = 0
    """Their time, as far as it is known."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies a row of the file."""
        return self.op, self.description, self.device

    @property
    def worth(self) -> tuple[int, int, tuple[str, str, str]]:
        """A sort key: the most valuable first, by time, then calls."""
        return -self.time_ns, -self.calls, self.key

    def __add__(self, other: PassedCalls) -> PassedCalls:
        return replace(
            self,
            calls=min(self.calls + other.calls, INT64),
            time_ns=min(self.time_ns + other.time_ns, INT64),
        )


T = TypeVar("T", DumpedProblem, PassedCalls)


class Dump:
    """The dump of one process. `add` and `pass_through` count; `flush` writes; none of them raises.

    Several threads may use it. A forked process creates its own.
    """

    def __init__(self, folder: Path, settings: Settings, *, torch: str = "") -> None:
        self.folder, self._settings, self._torch = folder, settings, torch
        self._counted: dict[tuple[str, str], DumpedProblem] = {}
        self._passed: dict[tuple[str, str, str], PassedCalls] = {}
        self._unbuilt: dict[tuple[str, str], tuple[Problem, Device]] = {}
        """Problems whose default kernel may still be missing."""
        self._seen: set[tuple[str, str]] = set()
        self._counting, self._writing = threading.Lock(), threading.Lock()

    def add(
        self,
        problem: Problem,
        device: Device,
        calls: int,
        default_ns: float | None = None,
        op: str = "",
    ) -> None:
        """Count calls of a problem; `default_ns` is the time of one call without Skipjack."""
        timed = default_ns is not None and 0.0 <= default_ns <= LONGEST_NS
        new = DumpedProblem(
            *(problem.key, device.name, device.class_key, calls),
            calls if timed else 0,
            default_ns if timed else None,
            (op,) if op else (),
            torch=self._torch,
        )
        with self._counting:
            _count(self._counted, new)
            if new.key not in self._seen:
                self._seen.add(new.key)
                self._unbuilt[new.key] = problem, device

    def pass_through(self, new: PassedCalls) -> None:
        """Count calls that no operation of Skipjack computes."""
        with self._counting:
            _count(self._passed, new)

    def flush(self, *, seconds: float | None = None) -> bool:
        """Write new counts, then missing default kernels; True if everything is written.

        After `seconds` no further kernel is built.
        """
        with self._writing:
            return self._write_counts() and self._write_kernels(seconds)

    def _write_counts(self) -> bool:
        with self._counting:
            counted, self._counted = self._counted, {}
            passed, self._passed = self._passed, {}
        if not (counted or passed):
            return True
        try:
            output_directory(self.folder)
            with self._lock():
                for key in list(counted):
                    self._merge(counted[key])
                    del counted[key]
                if passed:
                    self._merge_passed(passed.values())
                    passed = {}
            return True
        except (SkipjackError, OSError) as error:
            self._tell(error)
            with self._counting:  # before new counts
                for one in counted.values():
                    _count(self._counted, one)
                for row in passed.values():
                    _count(self._passed, row)
            return False

    def _tell(self, error: Exception) -> None:
        if not isinstance(error, LockTimeoutError):
            warn_once(log, f"problems are not dumped: {error}", about=("dump", self.folder))

    def _lock(self) -> FileLock:
        return FileLock(self.folder / _LOCK_FILE, timeout_s=_WAIT_S)

    def _merge(self, new: DumpedProblem) -> None:
        """Add to the counts of a folder; those in a damaged file are lost."""
        folder = self.folder / folder_name(*new.key)
        before = _held(folder)
        if before is None:
            folder.mkdir(exist_ok=True)
            new = replace(new, driver=_driver_line(new.problem))
        (before + new if before else new).write(folder)

    def _merge_passed(self, new: Iterable[PassedCalls]) -> None:
        path = self.folder / PASSED_FILE
        try:
            rows = {one.key: one for one in read_passed(path)}
        except (FileNotFoundError, MalformedError):
            rows = {}
        for one in new:
            _count(rows, one)
        ranked = sorted(rows.values(), key=lambda one: one.worth)[:_MOST_PASSED]
        record = {"format": PASSED_FORMAT, "calls": [asdict(one) for one in ranked]}
        atomic_write(path, (json.dumps(record, indent=1) + "\n").encode(), durable=False)

    def _write_kernels(self, seconds: float | None) -> bool:
        deadline = None if seconds is None else time.monotonic() + seconds
        while deadline is None or time.monotonic() < deadline:
            with self._counting:
                if not self._unbuilt:
                    return True
                key, (problem, device) = self._unbuilt.popitem()
            try:
                self._write_kernel(problem, device)
            except (SkipjackError, OSError) as error:
                self._tell(error)
                with self._counting:
                    self._unbuilt[key] = problem, device
                return False
        return not self._unbuilt

    def _write_kernel(self, problem: Problem, device: Device) -> None:
        """Build the default kernel, unless another process did."""
        folder = self.folder / folder_name(problem.key, device.class_key)
        before = _held(folder)
        if before is None or before.default is not None:
            return
        built = default_kernel(problem, device, self._settings)
        with self._lock():
            held = _held(folder)
            if held is None or held.default is not None:
                return
            for name, data in built.code.items():
                atomic_write(folder / name, data, durable=False)
            replace(held, default=built.kernel).write(folder)


def read_passed(path: Path) -> list[PassedCalls]:
    """The contents of a file of passed-through calls; `MalformedError` or `OSError`."""
    document = read_json(read_plain(path), str(path))
    checked_format(document, PASSED_FORMAT)
    document.known_fields(("format", "calls"))
    found = []
    for row in document["calls"].elements():
        one = row.of(PassedCalls)
        if min(one.calls, one.time_ns) < 0:
            raise row.malformed("counts must not be negative")
        found.append(one)
    return found


def _count(sums: dict[Any, T], new: T) -> None:
    sums[new.key] = sums[new.key] + new if new.key in sums else new


def _held(folder: Path) -> DumpedProblem | None:
    """The problem in a folder; None if there is none, or its file cannot be read."""
    try:
        return read_dumped(folder)
    except (FileNotFoundError, MalformedError):
        return None


def _driver_line(key: str) -> str:
    from skipjack.interop import driver_line

    try:
        return driver_line(parse(key))
    except ProblemError:
        return ""
