"""Which of two entries of one key a bank gives out: the one with the stronger evidence.

Also whether an entry is stale, being measured with another compiler or driver. No I/O.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from math import floor, frexp, inf, ldexp, nextafter
from typing import Any, NamedTuple

from skipjack.bank.entry import FIND, LARGEST_SCORE, LONGEST_CHAIN, BankEntry, Key
from skipjack.bank.evidence import BASELINE, number_or_none
from skipjack.core import Device, distinct_names

# Which of two entries for one key a bank gives out: the one with the stronger evidence. Pure.
#
# Times of different sessions are not comparable, and a date says nothing about how fast a kernel
# is. The guaranteed gain over the default is comparable, since the default is the same for all
# solvers of a problem: an entry that was confirmed to beat it is not replaced by it, however slow a
# library was in another session. In rankings and older entries it is the gain over the library that
# was timed next to a kernel; if that is unknown, the time.
#
# An entry that replaces another after being timed next to it is at least as strong and one
# generation later, so that it stays ahead whatever the clocks say. An entry that claims an
# implausible number of generations is refused when it is read, and at the last generation a chain
# starts again from a larger score, so that any evidence can be exceeded.
#
# Gains that differ by less than the noise are equal. Rounding two gains by the larger spread of the
# two would not be an order (a equals b, b equals c, and a beats c), so each is rounded by its own
# spread: down, to as many binary digits as the spread leaves. The result is a number that depends
# only on one entry, so that the order is total, and binary digits are the same on every machine. A
# noisy gain loses more by it than a steady one, and a result that is slower by more than the step
# of the faster one never comes before it. Among equals the number of samples decides, then the
# earlier date (known entries stay), then the text.
#
# All of it is in the entries' own records. A bank keeps the strongest candidates of a key, at most
# `MOST_KEPT`: an entry that is dropped from a part has as many stronger candidates in the whole. So
# a union of banks does not depend on order, grouping or repetition, and a bank that is rebuilt from
# a ledger equals the bank that was written entry by entry.

MOST_KEPT = 16
"""Entries of one key that a bank keeps."""
CHECKSUM = "sha256"
"""The field of the evidence of shipped entries with their digest, by which damage is found."""
_ONE_CALL = 1.25
"""A gain that is known from one long call may be smaller by this factor."""
_LARGEST_GAIN = LARGEST_SCORE / 2
"""A larger gain counts as this, which leaves room for larger scores of its successors."""
_FEWEST_BITS, _MOST_BITS = 3, 10
"""Least and most binary digits of a gain: steps of 12 to 25 %, and of 0.1 to 0.2 %."""


class Grade(IntEnum):
    """What an entry was compared with."""

    NOTHING = 0
    LIBRARY = 1
    DEFAULT = 2


_GRADES = tuple(Grade)


class ReplacementReason(StrEnum):
    """Why the entry that a bank held was replaced."""

    SLOWER = "slower"  # timed side by side, and its replacement is confirmed to be faster
    FAILED = "failed"  # it does not build, run or give right results anymore
    OUTDATED = "outdated"  # its solver cannot build this config anymore
    AGAIN = "again"  # timed again: the same config, or a ranking with the old one's first place
    STALE = "stale"  # the same config was confirmed again with the present compiler and driver


class Strength(NamedTuple):
    """The strength of evidence, compared as a tuple."""

    grade: int
    score: float
    """The guaranteed gain; the negative time if no gain is confirmed."""
    generation: int
    """The number of entries in a row that it replaced, each after being timed next to it."""
    samples: int
    earlier: tuple[int, ...]
    """Larger for an earlier date; least if there is none."""


def strength(entry: BankEntry) -> Strength:
    """The strength of an entry's evidence, for any entry that can be read."""
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
    """The entries of one key that a bank keeps, the strongest first.

    For each solver, version, config and toolchain it is the entry with the strongest evidence, and
    of those the first `MOST_KEPT`. So the union of two banks is the same in any order.
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
    """A text that is equal for equal configs."""
    return json.dumps(entry.config, sort_keys=True)


def merge_entries(entries: Iterable[BankEntry]) -> dict[Key, tuple[BankEntry, ...]]:
    """The entries that a bank keeps, sorted by key: see `ranked`."""
    kept: dict[Key, list[BankEntry]] = {}
    for entry in entries:
        kept.setdefault(entry.key, []).append(entry)
    return {key: ranked(kept[key]) for key in sorted(kept)}


def replacing(incumbent: BankEntry, met: ReplacementReason) -> dict[str, Any]:
    """The evidence `REPLACED` of an entry that replaces the incumbent."""
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
    """The evidence about the device that was timed; a CPU has no driver."""
    known = {"model": device.model, "vector_bytes": device.vector_bytes}
    return {**known, "driver": driver} if driver else known


def entry_device_names(entries: Iterable[BankEntry], *, by_class: bool = False) -> dict[str, str]:
    """The names of these entries' devices in tables, by class key: see `distinct_names`."""
    known = ((entry.device, entry.device_name, entry.evidence.vector_bytes) for entry in entries)
    return distinct_names(known, by_class=by_class)


def digest(entry: BankEntry) -> str:
    """A short digest of this entry."""
    return hashlib.sha256(entry.line.encode()).hexdigest()[:16]


def checksum_of(entry: BankEntry) -> str:
    """The digest of an entry without its own `CHECKSUM`."""
    evidence = {name: value for name, value in entry.evidence.items() if name != CHECKSUM}
    return digest(replace(entry, evidence=evidence))  # type: ignore[arg-type]


def is_damaged(entry: BankEntry) -> bool:
    """Whether an entry was changed since it was shipped; false if it was never shipped."""
    seal = entry.evidence.get(CHECKSUM)
    return seal is not None and seal != checksum_of(entry)


def is_library(entry: BankEntry) -> bool:
    """Whether it is the entry of a library, which has no settings and is not built."""
    return not entry.config and entry.launch is None


def sure_gain(entry: BankEntry) -> float | None:
    """The least gain over the library it was compared with; None without a library."""
    if not entry.vendor or not entry.vendor_ns:
        return None
    if entry.solver == entry.vendor:
        return 1.0
    if entry.kind == FIND:
        return lower_bound(_behind(entry, entry.vendor))
    if is_library(entry):  # the ratios of the entry are those of the best built config
        return entry.vendor_ns / entry.time_ns if entry.time_ns else None
    return lower_bound(entry.speedup.get("vendor"))


def claim(
    over_library: float | None, over_default: float | None, time_ns: float
) -> tuple[int, float]:
    """The grade and the score that follow from the guaranteed gains."""
    if over_default is not None:
        return Grade.DEFAULT, min(over_default, _LARGEST_GAIN)
    if over_library is not None:
        return Grade.LIBRARY, min(over_library, _LARGEST_GAIN)
    return Grade.NOTHING, -float(time_ns)


def lower_bound(gain: object) -> float | None:
    """The lower end of a gain's interval; None if it is unknown."""
    if not isinstance(gain, Mapping):
        return None
    low, ratio = number_or_none(gain.get("low")), number_or_none(gain.get("ratio"))
    if low is None and ratio is not None and ratio > 0.0:
        return ratio / _ONE_CALL
    return low if low is not None and low > 0.0 else None


def _behind(entry: BankEntry, solver: str) -> object:
    """How many times slower a solver is than the first of a ranking."""
    for row in entry.evidence.ranking:
        if isinstance(row, Mapping) and row.get("solver") == solver:
            return row.get("behind")
    return None


def _own(entry: BankEntry) -> tuple[int, float]:
    grade, score = claim(sure_gain(entry), _over_default(entry), entry.time_ns)
    return grade, rounded_down(score, entry.evidence.spread)


def rounded_down(score: float, spread: float | None) -> float:
    """The score with as many binary digits as the spread leaves; unchanged without a spread."""
    if spread is None or spread < 0.0:
        return score
    digits = max(_FEWEST_BITS, min(_MOST_BITS, -frexp(spread)[1] if spread else _MOST_BITS))
    mantissa, exponent = frexp(score)
    return ldexp(floor(ldexp(mantissa, digits)), exponent - digits)


def _over_default(entry: BankEntry) -> float | None:
    """The least gain over the default; None if it is not known.

    A ranking has none, and older entries were compared with the default of their own solver.
    """
    if entry.kind == FIND or BASELINE not in entry.evidence:
        return None
    if is_library(entry):  # the ratios of the entry are those of the best built config
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


# Whether an entry was measured with the present compiler and driver. Pure.
#
# With another compiler or driver, a config may be faster or slower. An entry whose compiler or
# driver has changed is stale: it stays in the bank and ranks behind those that are not, searches
# start from it, and `skipjack bank verify` times it again.

_NAME = re.compile(r"[A-Za-z_]+")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The compilers and drivers of this machine, each by name and version."""

    compilers: tuple[str, ...] = ()
    """As in entries, perhaps without the part before the first slash."""
    drivers: tuple[str, ...] = ()


def stale_reason(entry: BankEntry, here: Toolchain) -> str:
    """What has changed since an entry was measured; empty if no change is known.

    No change is known if the compiler or driver is not installed here, or the entry names none.
    """
    for what, then, now in (
        ("compiled by", entry.toolchain, here.compilers),
        ("timed with the driver", entry.evidence.driver, here.drivers),
    ):
        other = _changed(_release(then), map(_release, now))
        if other:
            return f"{what} {_release(then)}, but this machine has {other}"
    return ""


def _changed(then: str, now: Iterable[str]) -> str:
    """The present release if it differs from the earlier one; empty if it does not."""
    name = _NAME.match(then)
    same_name = [one for one in now if name and (_NAME.match(one) or name)[0] == name[0]]
    return same_name[0] if same_name and then not in same_name else ""


def _release(text: str) -> str:
    """``llvmlite-0.45.1 -disable-lsr`` of ``llvm-20.1.8/llvmlite-0.45.1 -disable-lsr``."""
    return text.partition("/")[2] or text
