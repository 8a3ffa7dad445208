"""Where recorded spaces come from: T4 files, cache files of Kernel Tuner, and ledgers."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import median

from skipjack.core import Config, Status, Trial
from skipjack.errors import UsageError
from skipjack.interop import read_tuning_results
from skipjack.learn.replay.space import RecordedSpace
from skipjack.learn.trials import is_ledger, opened_ledger
from skipjack.ledger import Ledger, StudyRecord
from skipjack.reading import numbered

_LISTED = 12
_SUFFIXES = (".gz", ".json")

Group = tuple[str, str, str]
"""Problem, solver and device."""


def load_recording(
    path: Path,
    *,
    problem: str | None = None,
    solver: str | None = None,
    device: str | None = None,
) -> RecordedSpace:
    """A recorded space from a file of any kind, or from the ledger of a user directory.

    A ledger has many: the problem's key, the solver and the device's class say which one; what is
    not needed to choose may be left out.
    """
    if path.is_dir() or is_ledger(path):
        return _from_ledger(path, problem, solver, device)
    if problem or solver or device:
        raise UsageError(
            f"{path.name} is not a ledger: it has a single space, so --problem, --solver and "
            "--device do not apply"
        )
    results = read_tuning_results(path)
    name = path.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return RecordedSpace(results.trials, name.removesuffix("_T4"), results.unit)


def _from_ledger(
    path: Path, problem: str | None, solver: str | None, device: str | None
) -> RecordedSpace:
    with opened_ledger(path) as ledger:
        groups: defaultdict[Group, list[StudyRecord]] = defaultdict(list)
        for study in ledger.studies(problem):
            wanted = (solver in (None, study.solver)) and (device in (None, study.device))
            if wanted and study.tells and study.objective.endswith(":min"):
                groups[study.problem, study.solver, study.device].append(study)
        if len(groups) != 1:
            raise UsageError(_choose(path, groups))
        ((problem, solver, _), studies) = next(iter(groups.items()))
        trials = _trials(ledger, studies)
    return RecordedSpace(trials, f"{problem} {solver}", _unit(studies))


def _choose(path: Path, groups: dict[Group, list[StudyRecord]]) -> str:
    if not groups:
        return f"{path} has no study with trials of this problem, solver and device"
    counted = sorted(
        ((sum(study.tells for study in studies), group) for group, studies in groups.items()),
        key=lambda one: (-one[0], one[1]),
    )
    lines = [
        f"  --problem '{problem}' --solver {solver} --device {device} ({numbered(count, 'trial')})"
        for count, (problem, solver, device) in counted[:_LISTED]
    ]
    more = len(counted) - _LISTED
    rest = [f"  and {more} more"] if more > 0 else []
    return "\n".join([f"{path} has {len(groups)} recorded spaces; choose one:", *lines, *rest])


def _trials(ledger: Ledger, studies: list[StudyRecord]) -> list[Trial]:
    """One trial for each config, in the order in which they were first told.

    Values of different objectives, timing protocols or versions of the code do not compare, so
    those with the most trials are taken.
    """
    alike: defaultdict[tuple[str, ...], list[StudyRecord]] = defaultdict(list)
    for study in studies:
        alike[study.objective, study.protocol, study.space].append(study)
    most = max(alike.values(), key=lambda group: sum(study.tells for study in group))
    told: defaultdict[Config, list[Trial]] = defaultdict(list)
    for study in most:
        for trial in ledger.trials(study.id):
            told[trial.config].append(trial)
    return [_one(trials) for trials in told.values()]


def _one(trials: list[Trial]) -> Trial:
    """The trial of a config that was told several times: the median of its values."""
    good = [trial for trial in trials if trial.ok and trial.value is not None and trial.value > 0]
    if good:
        value = median(trial.value for trial in good if trial.value is not None)
        return Trial(good[0].config, value=value, metrics={"time_ns": value})
    failed = trials[-1]
    status = Status.NO_RESULT if failed.status is Status.OK else failed.status
    return Trial(failed.config, status, reason=failed.reason)


def _unit(studies: list[StudyRecord]) -> str:
    return "ns" if studies[0].objective.startswith("time_ns:") else ""
