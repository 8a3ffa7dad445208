"""Entries of other classes of devices, and of problems that are near, as answers.

What was measured elsewhere is built for this device and verified on it like anything else. It must
be of the same kind of device, run with the same instructions and on as many threads.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from skipjack.bank import BankEntry, BankLayer, Outline, family_of, nearest, size_doublings
from skipjack.core.config import Config
from skipjack.core.cpu_levels import vector_bytes
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.errors import ProblemError, StorageError
from skipjack.operations import parse
from skipjack.reading import numbered, quoted
from skipjack.runtime.answers.banked import entry_answer
from skipjack.runtime.answers.question import LookupAnswer, Question
from skipjack.runtime.checks import Guess, UselessEntryError, reason_of, solver_of
from skipjack.solvers import find_solver, refusal

NEAREST = "nearest"
_DOUBLINGS = 1.0
"""Every size of a near problem is at most so many doublings away."""
_MOST_TRIED = 8
"""Near problems whose configs are tried."""
_NONE_NEAR = "no bank knows a problem within one doubling of every size"
_NUMBER = re.compile(r"\d+")


def other_class(question: Question) -> LookupAnswer | str:
    """The best entry of the very problem on another class of devices that fits."""
    problem, device = question.problem, question.device
    said = f"no bank has an entry of {problem.key} for another class of devices"
    for layer in question.layers:
        found = [one for one in _of_problem(layer, problem.key) if one.device != device.class_key]
        # The same model of CPU with other caches is nearer than another one.
        found.sort(key=lambda entry: entry.device_name != device.name)
        for entry in found:
            if reason := unfit(entry, device) or _deployed_otherwise(entry, question):
                said = f"{layer.name}: the entry for {entry.device} {reason}"
                continue
            try:
                return entry_answer(question, entry, f"{layer.name}, other class")
            except UselessEntryError as error:
                said = f"{layer.name}: of the entry for {entry.device}: {error}"
    return said


def _deployed_otherwise(entry: BankEntry, question: Question) -> str:
    """Why an entry of another deployment is no answer; empty if it is of the one asked about."""
    if entry.deployed == question.deployed:
        return ""
    return f"is deployed as {entry.deployed}, and {question.deployed} is asked for"


def _of_problem(layer: BankLayer, problem: str) -> list[BankEntry]:
    """Of a bank that can be read; of others their own steps have told."""
    try:
        return layer.of_problem(problem)
    except StorageError:
        return []


def unfit(entry: BankEntry, device: Device) -> str:
    """Why an entry of another class says nothing about a device; empty if it does."""
    kind, _, rest = entry.device.partition(":")
    if kind != device.kind:
        return f"is for another kind of device than {device.name}"
    compat = entry.launch.compat if entry.launch else ""
    if compat and compat not in device.loadable:
        return f"was built for {compat}, and {device.name} runs {', '.join(device.loadable)}"
    if kind != "cpu":
        same = rest.partition("/")[0] == device.arch
        return "" if compat or same else f"is for another architecture than {device.arch}"
    if _units(rest) != device.units:
        return f"is of {numbered(_units(rest), 'thread')}, not of the {device.units} asked for"
    width = entry.evidence.vector_bytes or vector_bytes(compat.split(":")[1] if compat else "")
    if width != device.vector_bytes:
        return (
            f"is for vectors of {8 * width} bits, and {device.name} has {8 * device.vector_bytes}"
        )
    return ""


def _units(rest: str) -> int:
    """The threads in what follows the kind in a class key: ``znver4/2:0123456789ab``."""
    text = rest.partition(":")[0].rpartition("/")[2]
    return int(text) if text.isdigit() else 0


@dataclass(frozen=True, slots=True)
class NearEntry:
    """What a bank has of a problem that is near."""

    problem: str
    layer: str
    entry: BankEntry

    @property
    def is_near(self) -> str:
        """How a sentence about it begins."""
        return f"{self.problem} of {self.layer} is near"

    @property
    def proposes(self) -> list[object]:
        """What a guess that is made of it depends on."""
        return [self.entry.solver, self.entry.solver_version, dict(self.entry.config)]


def near_entries(question: Question) -> list[NearEntry]:
    """Entries of problems within one doubling of every size, the nearest first, and not many."""
    device = question.device
    found: list[NearEntry] = []
    for other, layer in nearest(question.problem, _neighbours(question)):
        entries = _of_problem(layer, other.key)
        entries.sort(key=lambda entry: entry.device != device.class_key)
        for entry in entries:
            if entry.device != device.class_key and unfit(entry, device):
                continue
            if _deployed_otherwise(entry, question):
                continue
            found.append(NearEntry(other.key, layer.name, entry))
            if len(found) == _MOST_TRIED:
                return found
    return found


def near(question: Question) -> LookupAnswer | str:
    """What is best for the nearest known problem, if the solver can do this one in the same way."""
    said = _NONE_NEAR
    for one in near_entries(question):
        try:
            return entry_answer(question, one.entry, NEAREST)
        except UselessEntryError as error:
            said = f"{one.is_near}, but {error}"
    return said


def near_guesses(question: Question, entries: Sequence[NearEntry]) -> Iterator[Guess]:
    """The config of the first entry that is in its solver's space for this problem."""
    if not entries:
        yield Guess(NEAREST, fault=_NONE_NEAR)
    for one in entries:
        try:
            yield _guess(question, one.entry)
            return
        except Exception as error:  # an entry may be odd in any way
            yield Guess(NEAREST, fault=f"{one.is_near}, but {reason_of(error)}")


def _guess(question: Question, entry: BankEntry) -> Guess:
    """What an entry proposes for this problem; `UselessEntryError` if its solver cannot do that."""
    problem, device = question.problem, question.device
    solver = solver_of(entry)
    if reason := refusal(solver or find_solver(entry.solver), problem, device):
        raise UselessEntryError(f"{entry.solver} cannot do this one: {reason}")
    if solver is None:
        return Guess(NEAREST, entry.solver)
    config = Config(dict(entry.config))
    if not solver.space(problem, device).contains(config):
        raise UselessEntryError(
            f"{quoted(str(config))} is not in the space of solver {solver.name} for this one"
        )
    return Guess(NEAREST, solver.name, dict(config))


def _neighbours(question: Question) -> Iterator[tuple[Problem, BankLayer]]:
    """Problems within one doubling of every size, and the banks that know them."""
    for layer in question.layers:
        with contextlib.suppress(StorageError):
            for key in _near_keys(question.problem, layer.outline()):
                if (other := _parsed(key)) is not None:
                    yield other, layer


def _near_keys(problem: Problem, outline: Outline) -> list[str]:
    """Parsing a problem takes ten times as long as comparing the numbers in its text."""
    family, shape = family_of(problem.key)
    pattern, sizes = _NUMBER.sub("#", shape), [int(text) for text in _NUMBER.findall(shape)]
    found = []
    for text, key in outline.families.get(family, {}).items():
        if key == problem.key:
            continue
        numbers = [int(number) for number in _NUMBER.findall(text)]
        if _NUMBER.sub("#", text) != pattern:  # a size at its default is left out
            other = _parsed(key)
            if other is None or len(other.shape) != len(problem.shape):
                continue
            apart = size_doublings(problem.shape, other.shape)
        else:
            apart = size_doublings(sizes, numbers)
        if max(apart, default=0.0) <= _DOUBLINGS and isfinite(sum(apart)):
            found.append(key)
    return found


@functools.lru_cache(maxsize=4096)
def _parsed(key: str) -> Problem | None:
    try:
        return parse(key)
    except ProblemError:
        return None  # an operation that is not known here
