"""``learn``: rankers and heuristics from ledgers, kept in the user directory if they are better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from skipjack.app.configuration import configured
from skipjack.errors import UsageError
from skipjack.learn.heuristic import (
    FIRST,
    HEURISTIC,
    NEAREST,
    Folds,
    HeldOutProblem,
    HeuristicOptions,
    QualitySummary,
    finished,
    is_better,
    shape_folds,
    summarized,
)
from skipjack.learn.ranker import (
    RankerSummary,
    by_kind,
    describe_trials,
    fit_ranker,
    problem_rows,
    ranker_quality,
)
from skipjack.learn.trials import ProblemTrials, read_trials
from skipjack.models import HEURISTIC_FILE, RANKER_FILE, device_key, model_file
from skipjack.reading import numbered
from skipjack.settings import Settings
from skipjack.storage import user_directory, utc_now

LEAST_PROBLEMS = 10
"""Fewer problems say nothing about problems that were never measured."""
_FOLDS = 5

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LearnRequest:
    """What to learn from, and for which devices."""

    ledgers: tuple[Path, ...] = ()
    """Ledgers or user directories; empty for the user's own."""
    device: str | None = None
    """A device or architecture, such as ``sm_90/132``; None for all in the ledgers."""
    operations: tuple[str, ...] = ()
    """Only these; empty for all."""
    output: Path | None = None
    """The directory whose folder ``models`` is written to; None for the user directory."""
    force: bool = False
    """Keep a heuristic that was not shown to be better."""


@dataclass(frozen=True, slots=True)
class LearnedModel:
    """A model, or why there is none."""

    what: str
    """``ranker`` or ``heuristic``."""
    group: str
    device: str
    problems: int
    trials: int
    path: Path | None = None
    """Its file; None if it was not kept."""
    reason: str = ""
    """Why it was not kept."""
    qualities: tuple[tuple[str, QualitySummary], ...] = ()
    """By way, on problems held out: the best time over that of the way's config."""
    ranking: RankerSummary | None = None

    def record(self) -> dict[str, Any]:
        """As plain JSON values."""
        found: dict[str, Any] = {
            "model": self.what,
            "group": self.group,
            "device": self.device,
            "problems": self.problems,
            "trials": self.trials,
            "path": str(self.path) if self.path else None,
            "reason": self.reason,
            "held_out": {name: _fields(one) for name, one in self.qualities},
        }
        if self.ranking is not None:
            found["ranking"] = _fields(self.ranking)
        return found


def _fields(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def learn_rankers(
    request: LearnRequest, tell: Tell = lambda _: None, settings: Settings | None = None
) -> list[LearnedModel]:
    """Fit a ranker for each group of operations and kind of device in the ledgers."""
    chosen = configured(settings)
    found = []
    for (group, device), trials in _wanted(request, chosen).items():
        tell(f"{group} on {device}: {numbered(len(trials), 'problem')}")
        counted = len(trials), sum(len(one.measured) for one in trials)
        parts = [part for one in trials for part in problem_rows(one)]
        usable = [part for part in parts if len(part.rows) and part.trials.best_ns < inf]
        if len({part.trials.problem for part in usable}) < LEAST_PROBLEMS:
            reason = f"fewer than {LEAST_PROBLEMS} problems have times"
            found.append(LearnedModel(RANKER_FILE, group, device, *counted, reason=reason))
            continue
        quality = ranker_quality(usable, _FOLDS, tell)
        card = {**describe_trials(trials), "made": str(utc_now()), "quality": _fields(quality)}
        ranker = fit_ranker(usable, card=card)
        path = model_file(_directory(request, chosen), RANKER_FILE, group, device)
        path.parent.mkdir(parents=True, exist_ok=True)
        ranker.save(path)
        found.append(LearnedModel(RANKER_FILE, group, device, *counted, path, ranking=quality))
    return found


def learn_heuristics(
    request: LearnRequest, tell: Tell = lambda _: None, settings: Settings | None = None
) -> list[LearnedModel]:
    """Train a heuristic for each group of operations and kind of device in the ledgers.

    One is kept only if, on shapes held out, it is better than the first proposals of solvers and
    than the configs of the nearest shapes.
    """
    chosen = configured(settings)
    found = []
    for (group, device), trials in _wanted(request, chosen).items():
        tell(f"{group} on {device}: {numbered(len(trials), 'problem')}")
        found.append(_learned(request, chosen, (group, device), trials, tell))
    return found


def _learned(
    request: LearnRequest,
    settings: Settings,
    kind: tuple[str, str],
    trials: Sequence[ProblemTrials],
    tell: Tell,
) -> LearnedModel:
    known = [one for one in trials if one.best_ns < inf]
    model = LearnedModel(HEURISTIC_FILE, *kind, len(known), sum(len(one.measured) for one in known))
    if len(known) < LEAST_PROBLEMS:
        return replace(model, reason=f"fewer than {LEAST_PROBLEMS} problems have times")
    if len({device_key(one.device) for one in known}) != 1:
        raise UsageError("the ledgers have devices of several kinds; name one with --device")
    options = HeuristicOptions()
    folds = Folds(known, shape_folds(known), _FOLDS)
    held = folds.evaluate(options, only_measured=True, progress=lambda _: None)
    qualities = tuple(
        (way, summarized(_measured(held, way))) for way in (HEURISTIC, FIRST, NEAREST)
    )
    model = replace(model, qualities=qualities)
    for other in (FIRST, NEAREST):
        better, low, high = is_better(held, other)
        if not better and not request.force:
            reason = (
                f"it is not shown to be better than the {other}: the difference on shapes held "
                f"out is from {low:+.3f} to {high:+.3f}"
            )
            return replace(model, reason=reason)
    tell(f"{kind[0]} on {kind[1]}: fitting to all problems")
    card = {
        **describe_trials(known),
        "made": str(utc_now()),
        "held_out": {name: _fields(one) for name, one in qualities},
    }
    heuristic = finished(replace(folds.fit(known, options), card=card), held)
    path = model_file(_directory(request, settings), HEURISTIC_FILE, *kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    heuristic.save(path)
    return replace(model, path=path)


def _measured(held: Sequence[HeldOutProblem], way: str) -> list[float]:
    return [quality for one in held if (quality := one.measured_quality(way)) is not None]


def _wanted(
    request: LearnRequest, settings: Settings
) -> dict[tuple[str, str], list[ProblemTrials]]:
    """The trials by model; `UsageError` if there are none."""
    paths = request.ledgers or (settings.user_dir,)
    found = read_trials(paths, operations=request.operations or None)
    if request.device is not None:
        wanted = request.device.partition("/")[0]
        found = [one for one in found if wanted in (one.device.arch, device_key(one.device))]
    if not found:
        where = ", ".join(map(str, paths))
        of = f" for {request.device}" if request.device else ""
        raise UsageError(
            f"{where} has no trials to learn from{of}; tune some problems first, "
            "for example with skipjack tune -f LIST"
        )
    return dict(by_kind(found))


def _directory(request: LearnRequest, settings: Settings) -> Path:
    return request.output or user_directory(settings)
