"""Entries of banks as answers: of this problem and device, of other devices, and of similar
problems.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from skipjack.bank import USER, BankEntry, BankLayer, Outline, family_of, nearest, size_doublings
from skipjack.core import Config, Device, Problem, Value, vector_bytes
from skipjack.errors import ProblemError, StorageError
from skipjack.operations import parse
from skipjack.reading import numbered, quoted
from skipjack.runtime.answers.proposals import untuned_answer
from skipjack.runtime.answers.question import LookupAnswer, Question, answer_of, library_answer
from skipjack.runtime.checks import UnusableEntryError, code_of, reason_of, solver_of, usable_entry
from skipjack.runtime.local_kernels import KernelCode, UntunedConfig, banked_again, fresh_first
from skipjack.runtime.process import warn_once
from skipjack.solvers import find_solver, refusal

# Entries of banks as answers to lookups.

log = logging.getLogger("skipjack.runtime.lookup")


def bank_answer(question: Question, layer: BankLayer) -> LookupAnswer | str:
    """The best entry of one bank for exactly this problem and device class that works here."""
    problem, device = question.problem, question.device
    if layer.name.startswith("bank ") and not layer.path.exists():
        sentence = f"there is no bank at {layer.path}, which SKIPJACK_BANKS lists"
        warn_once(log, sentence)
        return sentence
    entries = fresh_first(layer.ranked(problem.key, device.class_key, protocol=question.protocol))
    if not entries:
        named = f" as {question.deployed}" if question.protocol else ""
        return f"it has no entry of {problem.key} for {device.class_key}{named}"
    own = layer.name == USER
    try:
        chosen = usable_entry(
            *(entries, problem, device, question.settings),
            ledger=own,
            patience_s=question.patience_s,
        )
    except UnusableEntryError as error:
        warn_once(log, f"{problem.key}: {error}")
        return str(error)
    if chosen.passed_over:
        warn_once(log, f"{problem.key}: {chosen.passed_over}")
    try:
        return _answer(question, chosen.entry, chosen.code, layer.name, is_banked=True)
    except UnusableEntryError as error:
        return str(error)


def entry_answer(question: Question, entry: BankEntry, source: str) -> LookupAnswer:
    """An entry of another device class or problem as an answer to this one; `UnusableEntryError`.

    On a CPU its kernel is timed against the library.
    """
    if question.device.kind == "cpu" and solver_of(entry) is not None:
        return untuned_answer(question, UntunedConfig(source, entry.solver, dict(entry.config)))
    code = code_of(entry, question.problem, question.device, question.settings, question.patience_s)
    return _answer(question, entry, code, source, is_banked=False)


def _answer(
    question: Question, entry: BankEntry, code: KernelCode | None, source: str, *, is_banked: bool
) -> LookupAnswer:
    again = question.again
    if source == USER:
        again = banked_again(
            question.problem, question.device.name, question.directory, question.protocol
        )
    if code is not None:
        config: dict[str, Value] = dict(entry.config)
        return answer_of(question, code, source, entry.solver, config, again, is_banked=is_banked)
    answer = library_answer(question, entry.solver, source, again, is_banked=is_banked)
    if answer is None:
        raise UnusableEntryError(
            f"{entry.solver}, which the bank names, cannot be called from Python"
        )
    return answer


# Entries for other classes of devices, and for similar problems, as answers.
#
# Their kernels are built for this device and verified on it like all others. The other device must
# be of the same kind, with the same instructions and number of threads.

NEAREST = "nearest"
_DOUBLINGS = 1.0
"""The largest distance of each size of a similar problem, in doublings."""
_MOST_TRIED = 8
"""Similar problems whose configs are tried."""
_NONE_NEAR = "no bank knows a problem within one doubling of every size"
_NUMBER = re.compile(r"\d+")


def other_class_answer(question: Question) -> LookupAnswer | str:
    """The best entry of this problem for another, compatible class of devices."""
    problem, device = question.problem, question.device
    said = f"no bank has an entry of {problem.key} for another class of devices"
    for layer in question.layers:
        found = [one for one in _of_problem(layer, problem.key) if one.device != device.class_key]
        # The same model of CPU with other caches is more similar than another model.
        found.sort(key=lambda entry: entry.device_name != device.name)
        for entry in found:
            if reason := mismatch(entry, device) or _wrong_deployment(entry, question):
                said = f"{layer.name}: the entry for {entry.device} {reason}"
                continue
            try:
                return entry_answer(question, entry, f"{layer.name}, other class")
            except UnusableEntryError as error:
                said = f"{layer.name}: the entry for {entry.device}: {error}"
    return said


def _wrong_deployment(entry: BankEntry, question: Question) -> str:
    """Why an entry has the wrong deployment; empty if it has the requested one."""
    if entry.deployed == question.deployed:
        return ""
    return f"is for calls as {entry.deployed}, not {question.deployed}"


def _of_problem(layer: BankLayer, problem: str) -> list[BankEntry]:
    """The entries of a problem; none if the bank cannot be read, which its own step reports."""
    try:
        return layer.of_problem(problem)
    except StorageError:
        return []


def mismatch(entry: BankEntry, device: Device) -> str:
    """Why an entry of another class cannot be used on a device; empty if it can."""
    kind, _, rest = entry.device.partition(":")
    if kind != device.kind:
        return f"is for a different kind of device than {device.name}"
    compat = entry.launch.compat if entry.launch else ""
    if compat and compat not in device.loadable:
        return f"was built for {compat}, and {device.name} runs {', '.join(device.loadable)}"
    if kind != "cpu":
        same = rest.partition("/")[0] == device.arch
        return "" if compat or same else f"is for a different architecture than {device.arch}"
    if _units(rest) != device.units:
        return f"is for {numbered(_units(rest), 'thread')}, not {device.units}"
    width = entry.evidence.vector_bytes or vector_bytes(compat.split(":")[1] if compat else "")
    if width != device.vector_bytes:
        return (
            f"is for vectors of {8 * width} bits, and {device.name} has {8 * device.vector_bytes}"
        )
    return ""


def _units(rest: str) -> int:
    """The number of threads in a class key without its kind: ``znver4/2:0123456789ab``."""
    text = rest.partition(":")[0].rpartition("/")[2]
    return int(text) if text.isdigit() else 0


@dataclass(frozen=True, slots=True)
class NearestEntry:
    """An entry for a similar problem."""

    problem: str
    layer: str
    entry: BankEntry

    @property
    def is_near(self) -> str:
        """The start of a sentence about it."""
        return f"{self.problem} in bank {self.layer} is similar"

    @property
    def proposes(self) -> list[object]:
        """What a guess based on it depends on."""
        return [self.entry.solver, self.entry.solver_version, dict(self.entry.config)]


def nearest_entries(question: Question) -> list[NearestEntry]:
    """A few entries of problems within one doubling of every size, the nearest first."""
    device = question.device
    found: list[NearestEntry] = []
    for other, layer in nearest(question.problem, _near_problems(question)):
        entries = _of_problem(layer, other.key)
        entries.sort(key=lambda entry: entry.device != device.class_key)
        for entry in entries:
            if entry.device != device.class_key and mismatch(entry, device):
                continue
            if _wrong_deployment(entry, question):
                continue
            found.append(NearestEntry(other.key, layer.name, entry))
            if len(found) == _MOST_TRIED:
                return found
    return found


def nearest_answer(question: Question) -> LookupAnswer | str:
    """The best config of the nearest known problem, if the solver accepts it for this problem."""
    said = _NONE_NEAR
    for one in nearest_entries(question):
        try:
            return entry_answer(question, one.entry, NEAREST)
        except UnusableEntryError as error:
            said = f"{one.is_near}, but {error}"
    return said


def nearest_configs(question: Question, entries: Sequence[NearestEntry]) -> Iterator[UntunedConfig]:
    """The first config that is valid for this problem, after the reasons why others are not."""
    if not entries:
        yield UntunedConfig(NEAREST, fault=_NONE_NEAR)
    for one in entries:
        try:
            yield _proposed_by(question, one.entry)
            return
        except Exception as error:  # the entry may be malformed
            yield UntunedConfig(NEAREST, fault=f"{one.is_near}, but {reason_of(error)}")


def _proposed_by(question: Question, entry: BankEntry) -> UntunedConfig:
    """The proposal of an entry for this problem; `UnusableEntryError` if its solver refuses it."""
    problem, device = question.problem, question.device
    solver = solver_of(entry)
    if reason := refusal(solver or find_solver(entry.solver), problem, device):
        raise UnusableEntryError(f"{entry.solver} cannot compute this problem: {reason}")
    if solver is None:
        return UntunedConfig(NEAREST, entry.solver)
    config = Config(dict(entry.config))
    if not solver.space(problem, device).contains(config):
        raise UnusableEntryError(
            f"{quoted(str(config))} is not in the space of solver {solver.name} for this problem"
        )
    return UntunedConfig(NEAREST, solver.name, dict(config))


def _near_problems(question: Question) -> Iterator[tuple[Problem, BankLayer]]:
    """Problems within one doubling of every size, and the banks that know them."""
    for layer in question.layers:
        with contextlib.suppress(StorageError):
            for key in _near_keys(question.problem, layer.outline()):
                if (other := _parsed(key)) is not None:
                    yield other, layer


def _near_keys(problem: Problem, outline: Outline) -> list[str]:
    """Keys of similar problems; comparing numbers in keys is ten times faster than parsing."""
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
        return None  # an unknown operation
