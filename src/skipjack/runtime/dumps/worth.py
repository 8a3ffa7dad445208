"""The problems of a dump that are worth tuning first, and those that are tuned already.

The time that tuning a problem is expected to save is::

    calls * default_ns * (1 - 1 / gain)

The gain is the geometric mean of the speedups over the library that the banks have for the eight
nearest problems (in doublings of sizes) of the same operation, layout and direction on the same
kind of device; `USUAL_GAIN` if they have none. A call that was not timed is assumed to run at
`ESTIMATED_FLOPS` or `ESTIMATED_BYTES` per second, whichever takes longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log
from pathlib import Path

from skipjack.bank import PERF, BankEntry, is_library, layers_of, nearest
from skipjack.core import Device, Problem
from skipjack.errors import ProblemError, StorageError
from skipjack.operations import bytes_moved, get, parse
from skipjack.runtime.dumps.problem import DumpContents, DumpedProblem
from skipjack.settings import Settings

USUAL_GAIN = 1.2
ESTIMATED_FLOPS, ESTIMATED_BYTES = 3e10, 1e10
_LEAST_GAIN = 1.01
"""The gain where libraries were faster: small, since a kernel may still win."""
_NEAREST = 8
_NOISY = "noisy"
"""The outcome of a search that must be repeated."""


@dataclass(frozen=True, slots=True)
class ValuedProblem:
    """A dumped problem with the expected gain from tuning it."""

    folder: Path
    dumped: DumpedProblem
    problem: Problem
    gain: float
    """The expected speedup."""
    time_ns: float
    """The current time of all its calls."""

    @property
    def saved_ns(self) -> float:
        """The time that tuning is expected to save."""
        return self.time_ns * (1.0 - 1.0 / self.gain)


def most_valuable_first(contents: DumpContents, settings: Settings) -> list[ValuedProblem]:
    """The problems of a dump by their expected savings, then by number of calls and key."""
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
    return dumped.calls * 1e9 * max(flops / ESTIMATED_FLOPS, moved / ESTIMATED_BYTES)


class KnownGains:
    """The gains in the banks in force, read once."""

    def __init__(self, settings: Settings) -> None:
        self._families: dict[tuple[str, ...], list[tuple[Problem, float]]] = {}
        for layer in layers_of(settings.user_dir, settings.banks, settings.system_dir):
            try:
                entries: Sequence[BankEntry] = layer.bank.entries()
            except StorageError:
                continue  # reported by lookups
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
        """The expected gain for a problem on a kind of device."""
        family = self._families.get(_family(problem, kind), ())
        near = [gain for other, gain in family if other == problem]
        near += [gain for _, gain in nearest(problem, family)[:_NEAREST]]
        if not near:
            return USUAL_GAIN
        return max(exp(sum(map(log, near)) / len(near)), _LEAST_GAIN)


def _family(problem: Problem, kind: str) -> tuple[str, ...]:
    return kind, problem.operation, problem.layout, problem.direction


def _gain_of(entry: BankEntry) -> float | None:
    """The gain over the library that an entry was compared with; 1 for a library's entry."""
    if entry.kind != PERF:
        return None
    if is_library(entry):
        return 1.0
    other = entry.vendor_ns if entry.vendor_ns else entry.default_ns
    gain = other / entry.time_ns if entry.time_ns > 0.0 else 0.0
    return gain if gain > 0.0 and isfinite(gain) else None


def is_tuned(problem: Problem, device: Device, settings: Settings, deployed: str) -> bool:
    """Whether a bank has the problem for this class of devices, or a search for it ended."""
    for layer in layers_of(settings.user_dir, settings.banks, settings.system_dir):
        try:
            if layer.ranked(problem.key, device.class_key, protocol=deployed):
                return True
        except StorageError:
            continue
    return any(
        verdict == (device.class_key, deployed)
        for verdict in _decided_searches(problem.key, settings.user_dir)
    )


def _decided_searches(problem: str, user_dir: Path) -> Iterable[tuple[str, str]]:
    """Device classes and deployments for which the ledger has a final decision."""
    from skipjack.ledger import FILE_NAME, Ledger

    if not (user_dir / FILE_NAME).is_file():
        return
    with Ledger.read(user_dir) as ledger:
        for verdict in ledger.decisions(problem):
            if verdict.outcome == _NOISY:
                continue
            try:
                yield verdict.device, BankEntry.from_record(verdict.record).deployed
            except ValueError:
                continue  # a record of an earlier version
