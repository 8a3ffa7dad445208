"""Which problems of a dump are worth tuning first, and which are tuned.

What tuning a problem is expected to save is::

    calls * default_ns * (1 - 1 / gain)

The gain is the geometric mean of what the banks have of the eight nearest problems (in doublings
of sizes) of the same operation, layout and direction on the same kind of device, over the library
that they were compared with; `USUAL_GAIN` where they have none. A call that was not timed is taken
to run at `GUESSED_FLOPS` or `GUESSED_BYTES` a second, whichever takes longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log
from pathlib import Path

from skipjack.bank import PERF, BankEntry, is_library, layers_of, nearest
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.errors import ProblemError, StorageError
from skipjack.operations import bytes_moved, get, parse
from skipjack.runtime.dumps.problem import DumpContents, DumpedProblem
from skipjack.settings import Settings

USUAL_GAIN = 1.2
GUESSED_FLOPS, GUESSED_BYTES = 3e10, 1e10
_LEAST_GAIN = 1.01
"""Where libraries were faster so far: something is saved if they are not this time."""
_NEAREST = 8
_NOISY = "noisy"
"""The outcome of a search that has to be repeated."""


@dataclass(frozen=True, slots=True)
class ValuedProblem:
    """A dumped problem, and what to expect of tuning it."""

    folder: Path
    dumped: DumpedProblem
    problem: Problem
    gain: float
    """How many times faster it may become."""
    time_ns: float
    """What all of its calls take now."""

    @property
    def saved_ns(self) -> float:
        """What is expected to be saved."""
        return self.time_ns * (1.0 - 1.0 / self.gain)


def most_valuable_first(contents: DumpContents, settings: Settings) -> list[ValuedProblem]:
    """The problems of a dump by what they are expected to save; equals by their keys."""
    known = KnownGains(settings)
    valued = [
        ValuedProblem(
            folder,
            dumped,
            problem,
            known.gain(problem, dumped.device_class.partition(":")[0]),
            _time_ns(dumped, problem),
        )
        for folder, dumped, problem in contents.problems
    ]
    return sorted(valued, key=lambda one: (-one.saved_ns, -one.dumped.calls, one.dumped.key))


def _time_ns(dumped: DumpedProblem, problem: Problem) -> float:
    if dumped.default_ns is not None:
        return dumped.calls * dumped.default_ns
    flops, moved = get(problem.operation).flops(problem), bytes_moved(problem)
    return dumped.calls * 1e9 * max(flops / GUESSED_FLOPS, moved / GUESSED_BYTES)


class KnownGains:
    """What the banks in force tell about gains, read once."""

    def __init__(self, settings: Settings) -> None:
        self._families: dict[tuple[str, ...], list[tuple[Problem, float]]] = {}
        for layer in layers_of(settings.user_dir, settings.banks, settings.system_dir):
            try:
                entries: Sequence[BankEntry] = layer.bank.entries()
            except StorageError:
                continue  # told by whoever needs the bank
            for entry in entries:
                self._take(entry)

    def _take(self, entry: BankEntry) -> None:
        gain = _gain_of(entry)
        if gain is None:
            return
        try:
            problem = parse(entry.problem)
        except ProblemError:
            return
        kind = entry.device.partition(":")[0]
        self._families.setdefault(_family(problem, kind), []).append((problem, gain))

    def gain(self, problem: Problem, kind: str) -> float:
        """What to expect of tuning a problem on a kind of device."""
        family = self._families.get(_family(problem, kind), ())
        near = [gain for other, gain in family if other == problem]
        near += [gain for _, gain in nearest(problem, family)[:_NEAREST]]
        if not near:
            return USUAL_GAIN
        return max(exp(sum(map(log, near)) / len(near)), _LEAST_GAIN)


def _family(problem: Problem, kind: str) -> tuple[str, ...]:
    return kind, problem.operation, problem.layout, problem.direction


def _gain_of(entry: BankEntry) -> float | None:
    """Over the library that was timed beside it; 1 if that is the answer."""
    if entry.kind != PERF:
        return None
    if is_library(entry):
        return 1.0
    other = entry.vendor_ns if entry.vendor_ns else entry.default_ns
    gain = other / entry.time_ns if entry.time_ns > 0.0 else 0.0
    return gain if gain > 0.0 and isfinite(gain) else None


def is_tuned(problem: Problem, device: Device, settings: Settings, deployed: str) -> bool:
    """Whether a bank has the problem on this class of devices, or a search of it came to an end."""
    for layer in layers_of(settings.user_dir, settings.banks, settings.system_dir):
        try:
            if layer.ranked(problem.key, device.class_key, protocol=deployed):
                return True
        except StorageError:
            continue
    return any(
        verdict == (device.class_key, deployed)
        for verdict in _verdicts(problem.key, settings.user_dir)
    )


def _verdicts(problem: str, user_dir: Path) -> Iterable[tuple[str, str]]:
    """Classes of devices and deployments for which the ledger has a verdict that stands."""
    from skipjack.ledger import FILE_NAME, Ledger

    if not (user_dir / FILE_NAME).is_file():
        return
    with Ledger.read(user_dir) as ledger:
        for verdict in ledger.verdicts(problem):
            if verdict.outcome == _NOISY:
                continue
            try:
                yield verdict.device, BankEntry.from_record(verdict.record).deployed
            except ValueError:
                continue  # of an earlier version
