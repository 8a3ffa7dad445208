"""Which of two entries for one key a bank gives out: the one with the stronger evidence. Pure.

Times of different sessions do not compare, and a date says nothing about how fast a kernel is. What
compares is the guaranteed gain over the default, which is the same for all solvers of a problem:
what was confirmed to beat it does not give way to it, however slow a library was in another
session. In rankings and older entries it is the gain over the library that was timed beside a
kernel; where that is not known, the time.

An entry that replaces another after being timed beside it is at least as strong and one generation
later, so that it stays ahead whatever the clocks say. An entry that claims more generations than
can be believed is refused when it is read, and at the last one a chain starts anew from a larger
score, so that evidence can always be met by better.

Gains that differ by less than the noise are equal. To round two gains by the larger spread of the
two would make no order (a equals b, b equals c, and a beats c), so each is rounded by its own
spread: down, to as many binary digits as the spread leaves. The result is a number that depends on
one entry alone, so that the order is total, and binary digits are the same on every machine. A
noisy gain loses more by it than a steady one, and a result that is slower by more than the step of
the faster one never comes before it. Among equals the number of samples decides, then the earlier
date (what is known stays), then the text.

All of it is in the entries' own records. What a bank keeps of a key are the strongest entries of
its candidates, at most `MOST_KEPT`: who is cut in a part has as many stronger candidates in the
whole. So a union of banks does not depend on order, grouping or repetition, and a bank made anew
from a ledger is the one that was written entry by entry.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import IntEnum, StrEnum
from math import floor, frexp, inf, ldexp, nextafter
from typing import Any, NamedTuple

from skipjack.bank.entry import FIND, BankEntry, Key
from skipjack.bank.entry_evidence import BASELINE, number_or_none
from skipjack.bank.entry_reading import LARGEST_SCORE, LONGEST_CHAIN
from skipjack.core.device import Device, name_apart

MOST_KEPT = 16
"""Entries of one key that a bank keeps."""
SEAL = "sha256"
"""The field of the evidence of entries that were shipped, by which damage is found."""
_ONE_CALL = 1.25
"""A gain that is known from one long call may be smaller by this factor."""
_LARGEST_GAIN = LARGEST_SCORE / 2
"""A larger one counts as this, which leaves room above it for who takes its place."""
_FEWEST_BITS, _MOST_BITS = 3, 10
"""Binary digits of a gain that are kept: steps of 12 to 25 %, and of 0.1 to 0.2 %."""


class Grade(IntEnum):
    """What the evidence of an entry is a comparison with."""

    NOTHING = 0
    LIBRARY = 1
    DEFAULT = 2


_GRADES = tuple(Grade)


class Met(StrEnum):
    """What happened to the entry that a bank held when a new verdict was made."""

    SLOWER = "slower"  # timed side by side, and what replaces it is confirmed to be faster
    FAILED = "failed"  # it does not build, run or give right results any more
    OUTDATED = "outdated"  # its solver does not make this config any more
    AGAIN = "again"  # timed again: the same config, or a ranking with the old one's first place
    STALE = "stale"  # the same config was confirmed again with today's compiler and driver


class Strength(NamedTuple):
    """How strong evidence is; compares as a tuple."""

    grade: int
    score: float
    """The gain that is sure; where none is confirmed the time, negative."""
    generation: int
    """How many entries gave way to it in a row, each after being met."""
    samples: int
    earlier: tuple[int, ...]
    """Larger for an earlier date; least where there is none."""


def strength(entry: BankEntry) -> Strength:
    """The strength of an entry's evidence; it takes any entry that can be read."""
    own = _own(entry)
    inherited, generation = _inherited(entry)
    grade, score = max(own, inherited) if inherited else own
    earlier = tuple(-ord(letter) for letter in entry.created)
    return Strength(grade, score, generation, entry.evidence.samples or 0, earlier)


def stronger(first: BankEntry, second: BankEntry) -> BankEntry:
    """The entry that a bank keeps of two for one key."""
    mine, others = strength(first), strength(second)
    if mine != others:
        return first if mine > others else second
    return max(first, second, key=lambda entry: entry.line)


def ranked(entries: Iterable[BankEntry]) -> tuple[BankEntry, ...]:
    """What a bank keeps of the entries of one key, the strongest first.

    Of each solver, version, config and toolchain the entry with the strongest evidence, and of
    those the first `MOST_KEPT`. So the union of two banks is the same in any order.
    """
    kept: dict[tuple[object, ...], BankEntry] = {}
    for entry in entries:
        candidate = (entry.solver, entry.solver_version, config_key(entry), entry.toolchain)
        have = kept.get(candidate)
        kept[candidate] = entry if have is None else stronger(have, entry)
    if len(kept) < 2:
        return tuple(kept.values())
    order = sorted(kept.values(), key=lambda one: (strength(one), one.line), reverse=True)
    return tuple(order[:MOST_KEPT])


def config_key(entry: BankEntry) -> str:
    """Equal for equal configs."""
    return json.dumps(entry.config, sort_keys=True)


def merge_entries(entries: Iterable[BankEntry]) -> dict[Key, tuple[BankEntry, ...]]:
    """What a bank keeps of these, sorted by key: see `ranked`."""
    kept: dict[Key, list[BankEntry]] = {}
    for entry in entries:
        kept.setdefault(entry.key, []).append(entry)
    return {key: ranked(kept[key]) for key in sorted(kept)}


def replacing(incumbent: BankEntry, met: Met) -> dict[str, Any]:
    """What goes into the evidence, as `REPLACED`, of an entry that takes the incumbent's place."""
    held = strength(incumbent)
    score, generation = held.score, held.generation
    if generation >= LONGEST_CHAIN:
        score, generation = min(nextafter(score, inf), LARGEST_SCORE), 0
    return {
        "entry": digest(incumbent),
        "solver": incumbent.solver,
        "config": dict(incumbent.config),
        "met": str(met),
        "grade": held.grade,
        "score": score,
        "generation": generation,
    }


def device_evidence(device: Device, driver: str = "") -> dict[str, Any]:
    """What goes into the evidence about where it was timed; a CPU has no driver."""
    known = {"model": device.model, "vector_bytes": device.vector_bytes}
    return {**known, "driver": driver} if driver else known


def entry_device_names(entries: Iterable[BankEntry], *, by_class: bool = False) -> dict[str, str]:
    """How tables name the devices of these entries, by class key: see `name_apart`."""
    known = ((entry.device, entry.device_name, entry.evidence.vector_bytes) for entry in entries)
    return name_apart(known, by_class=by_class)


def digest(entry: BankEntry) -> str:
    """A short name of exactly this entry."""
    return hashlib.sha256(entry.line.encode()).hexdigest()[:16]


def seal_of(entry: BankEntry) -> str:
    """A digest of all that an entry says, without its own `SEAL`."""
    evidence = {name: value for name, value in entry.evidence.items() if name != SEAL}
    return digest(replace(entry, evidence=evidence))  # type: ignore[arg-type]


def is_damaged(entry: BankEntry) -> bool:
    """Whether it was changed since it was shipped; what was never shipped is not."""
    seal = entry.evidence.get(SEAL)
    return seal is not None and seal != seal_of(entry)


def is_library(entry: BankEntry) -> bool:
    """Whether it names a library, of which there is nothing to set and nothing to build."""
    return not entry.config and entry.launch is None


def sure_gain(entry: BankEntry) -> float | None:
    """How much faster than the library it was compared with it is at least; None without one."""
    if not entry.vendor or not entry.vendor_ns:
        return None
    if entry.solver == entry.vendor:
        return 1.0
    if entry.kind == FIND:
        return lower_bound(_behind(entry, entry.vendor))
    if is_library(entry):  # the ratios of the entry are those of the best that was built
        return entry.vendor_ns / entry.time_ns if entry.time_ns else None
    return lower_bound(entry.speedup.get("vendor"))


def claim(
    over_library: float | None, over_default: float | None, time_ns: float
) -> tuple[int, float]:
    """The grade and the score of a verdict by the gains that are sure."""
    if over_default is not None:
        return Grade.DEFAULT, min(over_default, _LARGEST_GAIN)
    if over_library is not None:
        return Grade.LIBRARY, min(over_library, _LARGEST_GAIN)
    return Grade.NOTHING, -float(time_ns)


def lower_bound(gain: object) -> float | None:
    """The lower end of a gain's interval; None where there were too few pairs for one."""
    if not isinstance(gain, Mapping):
        return None
    low, ratio = number_or_none(gain.get("low")), number_or_none(gain.get("ratio"))
    if low is None and ratio is not None and ratio > 0.0:
        return ratio / _ONE_CALL
    return low if low is not None and low > 0.0 else None


def _behind(entry: BankEntry, solver: str) -> object:
    """How far a solver is behind the first of a ranking."""
    for row in entry.evidence.ranking:
        if isinstance(row, Mapping) and row.get("solver") == solver:
            return row.get("behind")
    return None


def _own(entry: BankEntry) -> tuple[int, float]:
    grade, score = claim(sure_gain(entry), _over_default(entry), entry.time_ns)
    return grade, rounded_down(score, entry.evidence.spread)


def rounded_down(score: float, spread: float | None) -> float:
    """To as many binary digits as the spread leaves; as it is where no spread is known."""
    if spread is None or spread < 0.0:
        return score
    digits = max(_FEWEST_BITS, min(_MOST_BITS, -frexp(spread)[1] if spread else _MOST_BITS))
    mantissa, exponent = frexp(score)
    return ldexp(floor(ldexp(mantissa, digits)), exponent - digits)


def _over_default(entry: BankEntry) -> float | None:
    """How much faster than the default it is at least; None if that is not known.

    A ranking says nothing of it, and older entries are compared with a default of their own
    solver's.
    """
    if entry.kind == FIND or BASELINE not in entry.evidence:
        return None
    if is_library(entry):  # the ratios of the entry are those of the best that was built
        return entry.default_ns / entry.time_ns if entry.time_ns and entry.default_ns else None
    return lower_bound(entry.speedup.get("default"))


def _inherited(entry: BankEntry) -> tuple[tuple[int, float] | None, int]:
    """The grade and score of the entry that it replaced, and its own generation."""
    replaced = entry.evidence.replaced
    if replaced is None:
        return None, 0
    grade, score, generation = replaced.grade, replaced.score, replaced.generation
    if grade not in _GRADES or score is None or generation is None:
        return None, 0
    if score > LARGEST_SCORE or not 0 <= generation < LONGEST_CHAIN:
        return None, 0
    return (int(grade), score), int(generation) + 1
