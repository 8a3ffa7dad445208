"""``learn``: rankers and heuristics from ledgers, and a report of what models learn from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from skipjack.app.configuration import configured
from skipjack.errors import UsageError
from skipjack.learn.explanation import (
    FeatureEffect,
    FeatureShare,
    KeptQuality,
    family_of,
    feature_effects,
    feature_shares,
    kept_qualities,
)
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
    summarized_way,
)
from skipjack.learn.ranker import (
    ProblemRows,
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
_TOO_FEW = f"fewer than {LEAST_PROBLEMS} problems have times"
_EFFECTS = 8
"""So many features have their effects in a report."""

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
        usable = _usable_rows(trials)
        if len({part.trials.problem for part in usable}) < LEAST_PROBLEMS:
            reason = _TOO_FEW
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
        return replace(model, reason=_TOO_FEW)
    if len({device_key(one.device) for one in known}) != 1:
        raise UsageError("the ledgers have devices of several kinds; name one with --device")
    options = HeuristicOptions()
    folds = Folds(known, shape_folds(known), _FOLDS)
    held = folds.evaluate(options, only_measured=True, progress=lambda _: None)
    qualities = _by_way(held)
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


def _usable_rows(trials: Sequence[ProblemTrials]) -> list[ProblemRows]:
    parts = [part for one in trials for part in problem_rows(one)]
    return [part for part in parts if len(part.rows) and part.trials.best_ns < inf]


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


@dataclass(frozen=True, slots=True)
class FamilyQuality:
    """How near to the best each way comes in a family of problems, on shapes held out."""

    family: str
    qualities: tuple[tuple[str, QualitySummary], ...]
    """By way."""


@dataclass(frozen=True, slots=True)
class LearningReport:
    """What models learn from the trials of a group of operations on a kind of device."""

    group: str
    device: str
    card: Mapping[str, Any]
    """What was measured, see `describe_trials`."""
    reason: str = ""
    """Why there is nothing else."""
    shares: tuple[FeatureShare, ...] = ()
    effects: tuple[FeatureEffect, ...] = ()
    kept: tuple[KeptQuality, ...] = ()
    """What is lost where only the first configs of an order are measured."""
    qualities: tuple[tuple[str, QualitySummary], ...] = ()
    """By way, over all problems held out."""
    families: tuple[FamilyQuality, ...] = ()

    def record(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            **{"group": self.group, "device": self.device, "card": dict(self.card)},
            "reason": self.reason,
            "shares": {one.name: one.share for one in self.shares},
            "effects": [_fields(one) for one in self.effects],
            "kept": [_fields(one) for one in self.kept],
            "held_out": {name: _fields(one) for name, one in self.qualities},
            "families": {
                one.family: {name: _fields(each) for name, each in one.qualities}
                for one in self.families
            },
        }


def learning_reports(
    request: LearnRequest, tell: Tell = lambda _: None, settings: Settings | None = None
) -> list[LearningReport]:
    """Fit models as `learn_rankers` and `learn_heuristics` do, and say what they learned.

    No model is kept.
    """
    found = []
    for (group, device), trials in _wanted(request, configured(settings)).items():
        tell(f"{group} on {device}: {numbered(len(trials), 'problem')}")
        report = LearningReport(group, device, describe_trials(trials))
        parts = _usable_rows(trials)
        if len({part.trials.problem for part in parts}) < LEAST_PROBLEMS:
            found.append(replace(report, reason=_TOO_FEW))
            continue
        ranker = fit_ranker(parts)
        shares = feature_shares(ranker)
        names = [one.name for one in shares[:_EFFECTS]]
        known = [one for one in trials if one.best_ns < inf]
        held = Folds(known, shape_folds(known), _FOLDS).evaluate(
            HeuristicOptions(), only_measured=True, progress=tell
        )
        found.append(
            replace(
                report,
                shares=tuple(shares),
                effects=tuple(feature_effects(ranker, parts, names)),
                kept=tuple(kept_qualities(parts, _FOLDS, tell)),
                qualities=_by_way(held),
                families=tuple(_families(held)),
            )
        )
    return found


def _by_way(held: Sequence[HeldOutProblem]) -> tuple[tuple[str, QualitySummary], ...]:
    return tuple((way, summarized_way(held, way)) for way in (HEURISTIC, FIRST, NEAREST))


def _families(held: Sequence[HeldOutProblem]) -> Iterator[FamilyQuality]:
    """The family on which the heuristic loses most comes first."""
    by_family: defaultdict[str, list[HeldOutProblem]] = defaultdict(list)
    for one in held:
        by_family[family_of(one.trials.problem)].append(one)
    found = [FamilyQuality(name, _by_way(every)) for name, every in by_family.items()]
    yield from sorted(found, key=lambda one: dict(one.qualities)[HEURISTIC].mean)
