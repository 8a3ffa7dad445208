"""Trains heuristics: chooses a portfolio and fits trees that imitate a ranker on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Config, Device, Problem
from skipjack.errors import UsageError
from skipjack.learn.heuristic.variation import varied
from skipjack.learn.ranker import FAR
from skipjack.learn.trials import ProblemTrials
from skipjack.models import (
    BoostingOptions,
    CandidateFeatures,
    ConfigHeuristic,
    PortfolioMember,
    Ranker,
    SymmetricOptions,
    TreeEnsemble,
    device_key,
    fit_symmetric,
    fit_trees,
    heuristic_features,
    kind_of,
    operation_group,
)
from skipjack.solvers import PROPOSALS, AdaptedConfigs

_ILLEGAL = FAR + 0.5
"""Stands for a member that a problem cannot use."""
_BY_PROPOSALS = ("convolutions",)
_WINNERS, _NEAR = 3, 1.1
"""So many configs of a problem, so close to its best, may become members."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HeuristicOptions:
    """The size of a heuristic, and how it is trained."""

    members: int = 64
    """The configs of the portfolio, at most."""
    offered: int = 200
    """The configs from which they are chosen."""
    proposals: int | None = None
    """So many first proposals of each solver may be members, too. They take as long to make as the
    space takes to order its configs: milliseconds. None: where configs seldom fit other problems,
    as those of convolutions, `PROPOSALS`, else none."""
    drawn: int = 5
    """For each measured problem so many others are drawn on which the trees imitate the ranker."""
    deciding: int = 150
    """About so many of these take part in the choice of the portfolio."""
    far: float = 0.7
    """Logarithms of times over the best count as at most this. The trees then spend their leaves on
    the order of good configs: with 2.6, the choice loses four times as much against the ranker's
    (4.5 % instead of 1.2 %, products on a CPU with AVX-512)."""
    trees: SymmetricOptions = field(default_factory=SymmetricOptions)
    measured_weight: float = 2.0
    """What a measured problem counts, relative to a drawn one."""
    seed: int = 0


Progress = Callable[[str], None]


def fit_heuristic(
    trials: Sequence[ProblemTrials],
    ranker: Ranker,
    options: HeuristicOptions | None = None,
    *,
    card: Mapping[str, Any] | None = None,
    progress: Progress = lambda _: None,
    scores: PortfolioScores | None = None,
) -> ConfigHeuristic:
    """A heuristic for trials of one kind, and a ranker that was fitted to the same trials.

    `scores` keeps features for further fits.
    """
    options, scores = options or HeuristicOptions(), scores or PortfolioScores()
    known = [one for one in trials if one.best_ns < inf]
    if not known:
        raise UsageError("there are no successful trials to learn from")
    offered = cover(_measured_losses(known, winners(known)), options.offered)
    if (operation_group(known[0].problem.operation) in _BY_PROPOSALS) or options.proposals:
        offered += _proposals(offered, options.proposals)
    device = known[0].device
    drawn = list(varied([one.problem for one in known], options.drawn))
    step = max(1, len(drawn) // options.deciding)
    drawn = [one for at in range(step) for one in drawn[at::step]]
    deciding = len(drawn[::step]) if step > 1 else len(drawn)
    libraries = _library_losses(known, offered)
    progress(f"scoring {len(offered)} configs for {len(known) + len(drawn)} problems")
    known_rows = [
        scores.losses(one.problem, one.device, offered, ranker, one, libraries) for one in known
    ]
    some = [
        scores.losses(one, device, offered, ranker, None, libraries) for one in drawn[:deciding]
    ]
    weights = np.array([options.measured_weight] * len(known) + [1.0] * len(drawn))
    chosen = _cover(np.array(known_rows + some), weights[: len(known) + len(some)], options.members)
    members = tuple(offered[at] for at in chosen)
    rows = [row[chosen] for row in (*known_rows, *some)]
    rows += [
        scores.losses(one, device, members, ranker, None, libraries) for one in drawn[deciding:]
    ]
    features = [heuristic_features(one.problem, one.device) for one in known]
    table = [*features, *(heuristic_features(problem, device) for problem in drawn)]
    progress(f"fitting trees for {len(members)} configs")
    trees = fit_symmetric(
        np.array(table, np.float32),
        np.minimum(np.array(rows), options.far),
        options.trees,
        weights=weights[:, None],
        seed=options.seed,
    )
    measured = np.array(features, np.float32)
    return ConfigHeuristic(
        operation_group(known[0].problem.operation),
        device_key(device),
        members,
        trees,
        frozenset(kind_of(one.problem, one.device) for one in known),
        measured.min(axis=0),
        measured.max(axis=0),
        card=dict(card or {}),
    )


def _proposals(members: Sequence[PortfolioMember], most: int | None) -> list[PortfolioMember]:
    """First proposals of the solvers of these members."""
    solvers = sorted({one.solver for one in members if not one.is_library})
    return [
        PortfolioMember(solver, Config({}), place)
        for solver in solvers
        for place in range(PROPOSALS if most is None else most)
    ]


_LIBRARY_TREES = BoostingOptions(trees=80, depth=3, column_share=0.5, row_share=0.8)


def _library_losses(
    trials: Sequence[ProblemTrials], members: Sequence[PortfolioMember]
) -> dict[str, TreeEnsemble]:
    """What estimates how far behind the best each library is, from what was measured of it."""
    found = {}
    for solver in sorted({one.solver for one in members if one.is_library}):
        known = [(one, one.quality(solver, Config({}))) for one in trials]
        timed = [(one, quality) for one, quality in known if quality is not None]
        rows = [heuristic_features(one.problem, one.device) for one, _ in timed]
        behind = [min(FAR, -log(max(quality, 1e-9))) for _, quality in timed]
        found[solver] = fit_trees(rows, behind, _LIBRARY_TREES)
    return found


def winners(trials: Iterable[ProblemTrials]) -> list[PortfolioMember]:
    """The configs that were near the best of some problem, each once."""
    found: dict[PortfolioMember, None] = {}
    for one in trials:
        ranked = sorted(one.successful, key=lambda measured: measured.time_ns)[:_WINNERS]
        near = [each for each in ranked if each.time_ns <= _NEAR * one.best_ns]
        found |= dict.fromkeys(PortfolioMember(each.solver, each.config) for each in near)
    return list(found)


def _measured_losses(
    trials: Sequence[ProblemTrials], members: Sequence[PortfolioMember]
) -> dict[PortfolioMember, NDArray[np.float64]]:
    """What each config loses on each problem by what was measured alone."""
    return {
        member: np.array(
            [
                FAR if (quality := one.quality(member.solver, member.config)) is None
                else min(FAR, -log(max(quality, 1e-9)))
                for one in trials
            ]
        )
        for member in members
    }  # fmt: skip


def cover(
    losses: Mapping[PortfolioMember, NDArray[np.float64]], most: int
) -> list[PortfolioMember]:
    """The configs that together lose least, each problem with its best: greedy set cover."""
    members = list(losses)
    if not members:
        return []
    table = np.array([losses[one] for one in members]).T
    return [members[at] for at in _cover(table, np.ones(len(table)), most)]


def _cover(losses: Matrix, weights: NDArray[np.float64], most: int) -> list[int]:
    """Columns of an array (problems, configs), the one that gains most first."""
    best = np.full(len(losses), _ILLEGAL)
    left = list(range(losses.shape[1]))
    chosen: list[int] = []
    while left and len(chosen) < most:
        gains = weights @ np.maximum(best[:, None] - losses[:, left], 0.0)
        at = left.pop(int(gains.argmax()))
        chosen.append(at)
        best = np.minimum(best, losses[:, at])
    return chosen


class PortfolioScores:
    """How far behind the members of a portfolio are on problems.

    Features of candidates are kept, as several fits ask for those of the same ones.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _CandidatesOf] = {}

    def losses(
        self,
        problem: Problem,
        device: Device,
        members: Sequence[PortfolioMember],
        ranker: Ranker,
        trials: ProblemTrials | None = None,
        libraries: Mapping[str, TreeEnsemble] | None = None,
    ) -> Matrix:
        """The logarithms of times over the best: as measured, else as the ranker says.

        `libraries` estimate them for libraries, from the features of the problem.
        """
        key = problem.key, device.class_key
        if key not in self._known:
            self._known[key] = _CandidatesOf(problem, device)
        candidates = self._known[key]
        found: Matrix = np.full(len(members), np.nan)
        configs = candidates.configs(members)
        features = heuristic_features(problem, device)[None]
        for at, member in enumerate(members):
            if member.is_library and configs[at] is not None and member.solver in (libraries or ()):
                found[at] = float((libraries or {})[member.solver].sums(features)[0])
        for solver in dict.fromkeys(member.solver for member in members if not member.is_library):
            places = [
                at
                for at, one in enumerate(members)
                if one.solver == solver and not one.is_library and configs[at] is not None
            ]
            if places:
                legal = [config for at in places if (config := configs[at]) is not None]
                found[places] = ranker.scores(candidates.rows(ranker, solver, legal))
        unusable = np.isnan(found)
        if trials is None:
            # Relative to the best of the configs that is predicted for this problem.
            built = np.array([not member.is_library for member in members]) & ~unusable
            found[built] -= found[built].min() if built.any() else 0.0
        else:
            for at, (member, config) in enumerate(zip(members, configs, strict=True)):
                known = None if config is None else trials.quality(member.solver, config)
                if known is not None:
                    found[at] = -log(max(known, 1e-9))
        found = np.clip(found, 0.0, FAR)
        return np.where(unusable, _ILLEGAL, found)


class _CandidatesOf:
    """The members of portfolios as candidates of one problem, with their features."""

    def __init__(self, problem: Problem, device: Device) -> None:
        self._adapted = AdaptedConfigs(problem, device)
        self._configs: dict[PortfolioMember, Config | None] = {}
        self._features: dict[str, CandidateFeatures] = {}
        self._rows: dict[tuple[str, Config], NDArray[np.float32]] = {}

    def configs(self, members: Sequence[PortfolioMember]) -> list[Config | None]:
        for one in members:
            if one not in self._configs:
                self._configs[one] = self._adapted.config(one.solver, one.config, one.place)
        return [self._configs[one] for one in members]

    def rows(self, ranker: Ranker, solver: str, configs: Sequence[Config]) -> NDArray[np.float32]:
        if solver not in self._features:
            space = self._adapted.space(solver)
            assert space is not None
            self._features[solver] = CandidateFeatures(
                self._adapted.problem, self._adapted.device, space
            )
        features = self._features[solver]
        new = [one for one in dict.fromkeys(configs) if (solver, one) not in self._rows]
        for config, row in zip(new, features.rows(new), strict=True):
            self._rows[solver, config] = row
        table = np.array([self._rows[solver, one] for one in configs], np.float32)
        return ranker.arranged(table, features.names, solver)
