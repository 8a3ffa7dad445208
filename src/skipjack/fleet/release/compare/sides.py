"""One side of a comparison: a label, the bank, a file or a directory of files, read into memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skipjack.bank import Bank
from skipjack.errors import UsageError
from skipjack.fleet.records import Job
from skipjack.fleet.release import formats
from skipjack.fleet.release.formats import SKIPJACK
from skipjack.fleet.release.placing import PACKED
from skipjack.fleet.release.results import (
    RANKINGS,
    TUNINGS,
    FoundProblem,
    RankedEntry,
    Skipped,
    found_in_bank,
    found_in_label,
    miopen_key,
    ranked,
)
from skipjack.fleet.states import State

if TYPE_CHECKING:
    # Who compares files needs no SQLAlchemy.
    from skipjack.fleet.store import JobVerdict, Store

Identity = tuple[str, str]
"""A find-db key, or a problem's where there is none, and a device."""

_WHY = {
    State.NOT_APPLICABLE: "not applicable",
    State.ERROR: "failed",
    State.ABORTED: "aborted",
}


@dataclass(frozen=True, slots=True)
class Side:
    """What is known on one side."""

    name: str
    """For people: ``label resnet``, ``the bank``, a path."""
    what: str
    """``finds``, ``tunings``, ``bank`` or ``file``."""
    found: Mapping[Identity, FoundProblem] = field(default_factory=dict)
    absent: Mapping[Identity, str] = field(default_factory=dict)
    """Problems without a result, and why."""
    skipped: tuple[Skipped, ...] = ()
    """Lines of files that could not be read."""
    repeated: int = 0
    """Further results for a problem that had one."""
    unused: tuple[str, ...] = ()
    """Files of a directory that others of the same devices were taken before."""

    @property
    def devices(self) -> tuple[str, ...]:
        """What there are results for."""
        return tuple(sorted({device for _, device in (*self.found, *self.absent)}))


def side_of_label(store: Store, label: str, device: str | None = None) -> Side:
    """What a label's finds say; its tunings if it has no find."""
    side = _gathered(Side(f"label {label}", "finds"), found_in_label(store.results, label, device))
    wanted = RANKINGS
    if not side.found:
        wanted = TUNINGS
        tunings = (
            one for one in store.results.verdicts(label, device) if wanted.includes(one.kind)
        )
        side = _gathered(Side(f"label {label}", "tunings"), _best(map(_tuned, tunings)))
    absent = dict(side.absent)
    for state in State:
        if state is not State.EVALUATED:
            for job in store.jobs.find(label=label, state=state, device=device):
                key = identity(job.plan.problem, None, job.plan.device)
                if wanted.includes(job.plan.kind, job.plan.driver) and key not in side.found:
                    absent.setdefault(key, _why(job))
    if wanted is RANKINGS:
        for verdict in store.results.verdicts(label, device):
            key = identity(verdict.problem, None, verdict.device)
            if TUNINGS.includes(verdict.kind) and key not in side.found:
                absent.setdefault(key, f"tuned, but not found: skipjack run -l {label} --find")
    return replace(side, absent=absent)


def side_of_bank(bank: Bank, device: str | None = None) -> Side:
    """What the finds of this user say."""
    return _gathered(Side("the bank", "bank"), found_in_bank(bank, device))


def side_of_path(
    path: Path, device: str | None = None, *, form: str = SKIPJACK, backend: str = "HIP"
) -> Side:
    """The rankings of a find-db, or of the find-dbs in a directory; `device` is for odd names.

    In a directory with files of several formats, those of `form` count, and of MIOpen's those of
    `backend`.
    """
    files, unused = _find_dbs(path, form, backend) if path.is_dir() else ([path], [])
    found: list[FoundProblem] = []
    skipped: list[Skipped] = []
    for file in files:
        found += (formats.of_find_db(file) or formats.get(SKIPJACK)).read_find(file, skipped)
    if any(not one.device for one in found):
        if device is None:
            raise UsageError(
                f"the name of {path} does not say which device it is for; "
                "give it a name as gfx90a68.HIP.fdb.txt, or say --device or --against-device"
            )
        found = [one if one.device else replace(one, device=device) for one in found]
    chosen = [one for one in found if device in (None, one.device)]
    if found and not chosen:
        there = ", ".join(sorted({one.device for one in found}))
        raise UsageError(f"{path} has nothing of {device}; it has {there}")
    side = Side(str(path), "file", unused=tuple(one.name for one in unused))
    return replace(_gathered(side, chosen), skipped=tuple(skipped))


def has_find_dbs(directory: Path) -> bool:
    """Whether there is one that `side_of_path` would read."""
    return any(True for ending in _endings() for _ in directory.glob(f"*{ending}"))


def _endings(form: str = SKIPJACK, backend: str = "HIP") -> Iterator[str]:
    """What the names of find-dbs end with, the preferred first; packed ones after plain ones."""
    for one in formats.every(form):
        for ending in one.find_endings(backend):
            yield from (ending, f"{ending}{PACKED}")


def _find_dbs(directory: Path, form: str, backend: str) -> tuple[list[Path], list[Path]]:
    """One for each device, and those that are not used."""
    chosen: dict[str, Path] = {}
    there: dict[Path, None] = {}
    for ending in _endings(form, backend):
        for path in sorted(directory.glob(f"*{ending}")):
            chosen.setdefault(_stem(path), path)
            there[path] = None
    if not chosen:
        known = ", ".join(ending for one in formats.every() for ending in one.find_endings())
        raise UsageError(f"there is no find-db in {directory}: no file there ends in {known}")
    used = sorted(chosen.values())
    return used, sorted(there.keys() - set(used))


def _stem(path: Path) -> str:
    """What the names of all find-dbs of one device begin with."""
    form = formats.of_find_db(path)
    name = path.name.removesuffix(PACKED)
    return form.find_stem(name) if form else name


def identity(problem: str, key: str | None, device: str) -> Identity:
    """What the same problem is called on both sides."""
    known = None if key else miopen_key(problem)
    return key or (known.text if known else problem), device


def _gathered(empty: Side, found: Iterable[FoundProblem]) -> Side:
    kept: dict[Identity, FoundProblem] = {}
    absent: dict[Identity, str] = {}
    repeated = 0
    for one in found:
        key = identity(one.problem, one.find_key, one.device)
        if not one.ranking:
            absent.setdefault(key, "failed: no solver has a time")
        elif key in kept:
            repeated += 1
        else:
            kept[key] = one
    left = {key: why for key, why in absent.items() if key not in kept}
    return replace(empty, found=kept, absent=left, repeated=repeated)


def _best(tunings: Iterable[FoundProblem]) -> Iterable[FoundProblem]:
    """Of jobs for several solvers of a problem, the fastest, with the libraries beside it."""
    best: dict[Identity, FoundProblem] = {}
    for one in tunings:
        known = best.get((one.problem, one.device))
        if known is None or (one.ranking and _first(one) < _first(known)):
            best[one.problem, one.device] = one
    return best.values()


def _first(found: FoundProblem) -> float:
    return found.ranking[0].time_ns if found.ranking else math.inf


def _tuned(verdict: JobVerdict) -> FoundProblem:
    """A tuning's winner and the libraries that were timed beside it."""
    result = verdict.result
    entries = [*_own(result), *_libraries(result)]
    return FoundProblem(verdict.problem, None, verdict.device, ranked(entries))


def _own(result: Mapping[str, Any]) -> Iterator[RankedEntry]:
    if result.get("time_ns") is not None and result.get("status") != "failed":
        yield RankedEntry(
            result["solver"],
            result["time_ns"],
            config=result.get("config", {}),
            spread=result.get("spread"),
        )


def _libraries(result: Mapping[str, Any]) -> Iterator[RankedEntry]:
    times = result.get("vendors_ns") or {result.get("vendor"): result.get("vendor_ns")}
    for name, time_ns in times.items():
        if name and time_ns is not None and name != result.get("solver"):
            yield RankedEntry(name, time_ns)


def _why(job: Job) -> str:
    state = job.standing.state
    reason = f": {job.standing.reason}" if job.standing.reason else ""
    return f"{_WHY[state]}{reason}" if state in _WHY else f"unfinished: {state}"
