"""Fits rankers to trials: boosted trees for times, and for which candidates fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Device, Problem, digest_of
from skipjack.errors import SkipjackError, UsageError
from skipjack.learn.trials import MeasuredConfig, ProblemTrials
from skipjack.models import (
    BoostingOptions,
    CandidateFeatures,
    Loss,
    Ranker,
    arranged,
    device_key,
    fit_trees,
    operation_group,
    solver_features,
)
from skipjack.solvers import BuildingSolver, find_solver, refusal

FAR = log(8.0)
"""Times further behind the best count as this far: how bad a bad config is does not matter."""
_NEAR = 2.0
"""Rows count less the further they are from the best, by the exponential of this many times
their logarithm."""
_LEAST = 0.1
"""The weight of the slowest rows."""
_FEW = 20
"""With fewer failures there is no model of them."""
TREES = BoostingOptions(
    trees=400,
    depth=6,
    shrinkage=0.05,
    least_rows=5,
    column_share=0.3,
    row_share=0.7,
    bins=32,
)
VALIDITY = BoostingOptions(
    trees=60, depth=4, column_share=0.5, row_share=0.7, bins=24, loss=Loss.LOGISTIC
)

Kind = tuple[str, str]
"""A group of operations and the devices that share a model."""
Shape = tuple[str, ...]


def shape_group(problem: Problem) -> Shape:
    """Problems that must not be in different folds: the same sizes, whatever dtype and layout."""
    return problem.operation, *map(str, problem.shape)


@dataclass(frozen=True, slots=True)
class ProblemRows:
    """The features of what was measured of one problem."""

    trials: ProblemTrials
    names: tuple[str, ...]
    rows: NDArray[np.float32]
    measured: tuple[MeasuredConfig, ...]
    """Of each row."""


MOST_ROWS, _BEST_ROWS = 64, 24
"""A problem has at most so many rows; so many are of its fastest configs, the others are drawn."""


def representative(measured: Sequence[MeasuredConfig]) -> list[MeasuredConfig]:
    """The fastest configs of a problem, and some of the others by the digest of their keys.

    The fit takes as long as there are rows, and hundreds of slow configs of one problem say less
    than dozens of each of many.
    """
    ranked = sorted(measured, key=lambda one: one.time_ns)
    rest = sorted(ranked[_BEST_ROWS:], key=lambda one: digest_of(list(one.key)))
    return ranked[:_BEST_ROWS] + rest[: MOST_ROWS - _BEST_ROWS]


def problem_rows(trials: ProblemTrials) -> list[ProblemRows]:
    """The rows of each solver of a problem; of configs that its space still has."""
    found = []
    by_solver: defaultdict[str, list[MeasuredConfig]] = defaultdict(list)
    for one in representative(trials.measured):
        by_solver[one.solver].append(one)
    problem, device = trials.problem, trials.device
    for name, every in sorted(by_solver.items()):
        solver = find_solver(name)
        if not isinstance(solver, BuildingSolver) or refusal(solver, problem, device):
            continue
        try:
            space = solver.space(problem, device)
        except SkipjackError:
            continue  # a solver may have become more careful
        legal = tuple(one for one in every if space.contains(one.config))
        features = CandidateFeatures(problem, device, space)
        rows = features.rows([one.config for one in legal])
        found.append(ProblemRows(trials, features.names, rows, legal))
    return found


def by_kind(trials: Iterable[ProblemTrials]) -> Mapping[Kind, list[ProblemTrials]]:
    """Trials by the model that they train."""
    found: defaultdict[Kind, list[ProblemTrials]] = defaultdict(list)
    for one in trials:
        kind = operation_group(one.problem.operation), device_key(one.device)
        found[kind].append(one)
    return dict(sorted(found.items()))


def fit_ranker(
    parts: Sequence[ProblemRows],
    *,
    options: BoostingOptions = TREES,
    seed: int = 0,
    card: Mapping[str, Any] | None = None,
) -> Ranker:
    """A ranker for all of these rows, which are of one kind."""
    parts = [one for one in parts if len(one.rows) and one.trials.best_ns < float("inf")]
    if not parts:
        raise UsageError("there are no trials to learn from")
    first = parts[0].trials
    solvers = sorted({one.measured[0].solver for one in parts})
    plain = tuple(dict.fromkeys(name for one in parts for name in one.names))
    names = (*plain, *solver_features(solvers))
    rows = np.vstack([_with_solver(one, plain, solvers) for one in parts])
    failed = np.concatenate([[m.time_ns == float("inf") for m in one.measured] for one in parts])
    behind = np.concatenate([_behind(one) for one in parts])
    weights = np.maximum(np.exp(-_NEAR * behind), _LEAST) * _even(parts)
    times = fit_trees(rows[~failed], behind[~failed], options, weights=weights[~failed], seed=seed)
    validity = None
    if _FEW <= failed.sum() <= len(failed) - _FEW:
        validity = fit_trees(rows, failed.astype(float), VALIDITY, seed=seed)
    kind = operation_group(first.problem.operation), device_key(first.device)
    return Ranker(*kind, names, times, validity, dict(card or {}))


def _with_solver(
    part: ProblemRows, names: Sequence[str], solvers: Sequence[str]
) -> NDArray[np.float32]:
    of = np.zeros((len(part.rows), len(solvers)), np.float32)
    of[:, solvers.index(part.measured[0].solver)] = 1.0
    return np.hstack([arranged(part.rows, part.names, names), of])


def _behind(part: ProblemRows) -> NDArray[np.float64]:
    best = part.trials.best_ns
    ratios = np.array([min(one.time_ns / best, 1e9) for one in part.measured])
    found: NDArray[np.float64] = np.minimum(np.log(ratios), FAR)
    return found


def _even(parts: Sequence[ProblemRows]) -> NDArray[np.float64]:
    """Weights by which each problem counts the same, whatever was measured of it."""
    counts: defaultdict[str, int] = defaultdict(int)
    for one in parts:
        counts[one.trials.problem.key + one.trials.device.class_key] += len(one.rows)
    mean = sum(counts.values()) / len(counts)
    shares = [mean / counts[one.trials.problem.key + one.trials.device.class_key] for one in parts]
    return np.repeat(np.sqrt(shares), [len(one.rows) for one in parts])


Progress = Callable[[str], None]


def describe_trials(trials: Sequence[ProblemTrials]) -> dict[str, Any]:
    """The data card: what a model was fitted to.

    The digest identifies the trials themselves, so that ledgers can be compared with it.
    """
    devices: dict[str, Device] = {one.device.class_key: one.device for one in trials}
    measured = [m for one in trials for m in one.measured]
    return {
        "problems": len(trials),
        "trials": len(measured),
        "digest": digest_of(sorted(_rows_of(trials))),
        "failed": sum(m.time_ns == float("inf") for m in measured),
        "devices": sorted({f"{one.name} {one.model}".strip() for one in devices.values()}),
        "solvers": sorted({m.solver for m in measured}),
        "dtypes": sorted({one.problem.dtype for one in trials}),
        "layouts": sorted({one.problem.layout for one in trials if one.problem.layout}),
        "directions": sorted({one.problem.direction for one in trials if one.problem.direction}),
    }


def _rows_of(trials: Iterable[ProblemTrials]) -> Iterator[list[Any]]:
    for one in trials:
        for each in one.measured:
            where = one.problem.key, one.device.class_key, *each.key, str(each.status)
            yield [*where, f"{each.time_ns:.6g}"]
