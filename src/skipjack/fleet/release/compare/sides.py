"""One side of a comparison: a label, the bank, a file or a directory of files.

`SideReader` finds the side that a word on the command line names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from skipjack.bank import Bank
from skipjack.errors import UsageError
from skipjack.fleet.model import Job, JobState
from skipjack.fleet.release import formats
from skipjack.fleet.release.database_directory import PACKED
from skipjack.fleet.release.formats import SKIPJACK, of_find_db
from skipjack.fleet.release.results import (
    RANKINGS,
    TUNINGS,
    FoundProblem,
    RankedEntry,
    SkippedLine,
    found_in_bank,
    found_in_label,
    miopen_key,
    ranked,
)
from skipjack.fleet.store import name_suggestions
from skipjack.settings import Settings

if TYPE_CHECKING:
    from skipjack.fleet.store import JobVerdict, Store


# One side of a comparison: a label, the bank, a file or a directory of files, read into memory.

Identity = tuple[str, str]
"""A find-db key, or if there is none the key of the problem, and a device."""

_STATE_TEXTS = {
    JobState.NOT_APPLICABLE: "not applicable",
    JobState.ERROR: "failed",
    JobState.ABORTED: "aborted",
}


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison."""

    name: str
    """The name in messages: ``label resnet``, ``the bank``, a path."""
    what: str
    """``finds``, ``tunings``, ``bank`` or ``file``."""
    found: Mapping[Identity, FoundProblem] = field(default_factory=dict)
    absent: Mapping[Identity, str] = field(default_factory=dict)
    """Problems without a result, with the reason."""
    skipped: tuple[SkippedLine, ...] = ()
    """Lines of files that could not be parsed."""
    repeated: int = 0
    """Number of further results for problems that already had one."""
    unused: tuple[str, ...] = ()
    """Files of a directory that were ignored in favour of others for the same devices."""

    @property
    def devices(self) -> tuple[str, ...]:
        """All devices of the side."""
        return tuple(sorted({device for _, device in (*self.found, *self.absent)}))


def side_of_label(store: Store, label: str, device: str | None = None) -> Side:
    """The results of a label's finds, or of its tunings if it has no find."""
    side = _gathered(Side(f"label {label}", "finds"), found_in_label(store.results, label, device))
    selection = RANKINGS
    if not side.found:
        selection = TUNINGS
        tunings = (
            one for one in store.results.verdicts(label, device) if selection.includes(one.kind)
        )
        side = _gathered(Side(f"label {label}", "tunings"), _best(map(_tuned, tunings)))
    absent = dict(side.absent)
    for state in JobState:
        if state is not JobState.EVALUATED:
            for job in store.jobs.find(label=label, state=state, device=device):
                key = identity(job.plan.problem, None, job.plan.device)
                if selection.includes(job.plan.kind, job.plan.driver) and key not in side.found:
                    absent.setdefault(key, _why(job))
    if selection is RANKINGS:
        for verdict in store.results.verdicts(label, device):
            key = identity(verdict.problem, None, verdict.device)
            if TUNINGS.includes(verdict.kind) and key not in side.found:
                absent.setdefault(key, f"tuned, but not found: skipjack run -l {label} --find")
    return replace(side, absent=absent)


def side_of_bank(bank: Bank, device: str | None = None) -> Side:
    """The results of the finds in this user's bank."""
    return _gathered(Side("the bank", "bank"), found_in_bank(bank, device))


def side_of_path(
    path: Path, device: str | None = None, *, form: str = SKIPJACK, backend: str = "HIP"
) -> Side:
    """The rankings of a find-db, or of the find-dbs in a directory.

    `device` is required if a file name does not contain the device. In a directory with several
    formats, files of `form` are preferred, and among those of MIOpen files of `backend`.
    """
    files, unused = _find_dbs(path, form, backend) if path.is_dir() else ([path], [])
    found: list[FoundProblem] = []
    skipped: list[SkippedLine] = []
    for file in files:
        found += (formats.of_find_db(file) or formats.get(SKIPJACK)).read_find(file, skipped)
    if any(not one.device for one in found):
        if device is None:
            raise UsageError(
                f"the name of {path} does not contain its device; "
                "rename it to the form gfx90a68.HIP.fdb.txt, or use --device or --against-device"
            )
        found = [one if one.device else replace(one, device=device) for one in found]
    chosen = [one for one in found if device in (None, one.device)]
    if found and not chosen:
        there = ", ".join(sorted({one.device for one in found}))
        raise UsageError(f"{path} has no results for {device}; it has {there}")
    side = Side(str(path), "file", unused=tuple(one.name for one in unused))
    return replace(_gathered(side, chosen), skipped=tuple(skipped))


def has_find_dbs(directory: Path) -> bool:
    """Whether the directory has a find-db that `side_of_path` would read."""
    return any(True for ending in _endings() for _ in directory.glob(f"*{ending}"))


def _endings(form: str = SKIPJACK, backend: str = "HIP") -> Iterator[str]:
    """Endings of find-dbs, the preferred first; packed files come after plain ones."""
    for one in formats.every(form):
        for ending in one.find_endings(backend):
            yield from (ending, f"{ending}{PACKED}")


def _find_dbs(directory: Path, form: str, backend: str) -> tuple[list[Path], list[Path]]:
    """One file for each device, and the files that are not used."""
    chosen: dict[str, Path] = {}
    there: dict[Path, None] = {}
    for ending in _endings(form, backend):
        for path in sorted(directory.glob(f"*{ending}")):
            chosen.setdefault(_stem(path), path)
            there[path] = None
    if not chosen:
        known = ", ".join(ending for one in formats.every() for ending in one.find_endings())
        raise UsageError(f"{directory} contains no find-db: no file name ends in {known}")
    used = sorted(chosen.values())
    return used, sorted(there.keys() - set(used))


def _stem(path: Path) -> str:
    """The part of a file name that all find-dbs of one device share."""
    form = formats.of_find_db(path)
    name = path.name.removesuffix(PACKED)
    return form.find_stem(name) if form else name


def identity(problem: str, key: str | None, device: str) -> Identity:
    """The key of a problem that is the same on both sides."""
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
    """The fastest of several jobs for a problem, with the libraries timed in the same job."""
    best: dict[Identity, FoundProblem] = {}
    for one in tunings:
        known = best.get((one.problem, one.device))
        if known is None or (one.ranking and _first(one) < _first(known)):
            best[one.problem, one.device] = one
    return best.values()


def _first(found: FoundProblem) -> float:
    return found.ranking[0].time_ns if found.ranking else math.inf


def _tuned(verdict: JobVerdict) -> FoundProblem:
    """The winner of a tuning and the libraries timed in the same job."""
    result = verdict.result
    entries = [*_own_entry(result), *_library_entries(result)]
    return FoundProblem(verdict.problem, None, verdict.device, ranked(entries))


def _own_entry(result: Mapping[str, Any]) -> Iterator[RankedEntry]:
    if result.get("time_ns") is not None and result.get("status") != "failed":
        yield RankedEntry(
            result["solver"],
            result["time_ns"],
            config=result.get("config", {}),
            spread=result.get("spread"),
        )


def _library_entries(result: Mapping[str, Any]) -> Iterator[RankedEntry]:
    times = result.get("vendors_ns") or {result.get("vendor"): result.get("vendor_ns")}
    for name, time_ns in times.items():
        if name and time_ns is not None and name != result.get("solver"):
            yield RankedEntry(name, time_ns)


def _why(job: Job) -> str:
    state = job.status.state
    reason = f": {job.status.reason}" if job.status.reason else ""
    return f"{_STATE_TEXTS[state]}{reason}" if state in _STATE_TEXTS else f"unfinished: {state}"


# The side of a comparison that a word on the command line names.
#
# ``bank`` is the bank, ``label:NAME`` a label, ``file:PATH`` a file or directory. Any other word is
# a file if it has a slash or the ending of a find-db, and otherwise the label or the file with this
# name. If both exist, the word needs a prefix.

BANK, LABEL, FILE = "bank", "label:", "file:"
_ENDINGS = (".txt", ".jsonl", PACKED)


class SideReader:
    """Reads sides; opens the store when the first label is needed."""

    def __init__(self, settings: Settings, store: Store | None = None) -> None:
        self._settings = settings
        self._store = store
        self._mine = store is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._store is not None and self._mine:
            self._store.close()

    def side(self, text: str, device: str | None = None) -> Side:
        """The side that a word names; `UsageError` if it does not exist."""
        if text == BANK:
            return self._full(side_of_bank(Bank.open(self._settings.user_dir), device), device)
        if text.startswith(LABEL):
            return self._of_label(text.removeprefix(LABEL), device)
        if text.startswith(FILE) or self._is_file(text):
            path = Path(text.removeprefix(FILE))
            if not path.exists():
                raise UsageError(f"the file or directory {path} does not exist")
            return self._full(side_of_path(path, device), device)
        return self._of_label(text, device)

    def _is_file(self, text: str) -> bool:
        if "/" in text or text.endswith(_ENDINGS) or of_find_db(Path(text)):
            return True
        if not Path(text).exists():
            return False
        if text in self._labels():
            raise UsageError(
                f"{text} is both a label and a file; write {LABEL}{text} or {FILE}{text}"
            )
        return True

    def _of_label(self, label: str, device: str | None) -> Side:
        known = self._labels()
        if label not in known:
            near = f"; of the labels, {name_suggestions(label, known)}" if known else ""
            raise UsageError(f"no label and no file is named {label!r}{near}")
        side = side_of_label(self._opened(), label, device)
        if not side.found:
            raise UsageError(
                f"label {label} has no finished job with a result{_on(device)}; "
                f"skipjack status -l {label} shows its progress"
            )
        return side

    def _full(self, side: Side, device: str | None) -> Side:
        if not side.found:
            raise UsageError(f"{side.name} has no ranking{_on(device)} to compare")
        return side

    def _labels(self) -> list[str]:
        return [one.label.name for one in self._opened().labels.all()]

    def _opened(self) -> Store:
        from skipjack.fleet.store import open_store

        if self._store is None:
            self._store = open_store(settings=self._settings)
        return self._store


def _on(device: str | None) -> str:
    return f" on {device}" if device else ""
