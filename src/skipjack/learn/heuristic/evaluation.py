"""What heuristics name for problems that they know nothing of: the folds of an evaluation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from skipjack.bank import nearest
from skipjack.core import Config, Promising
from skipjack.errors import SkipjackError
from skipjack.learn.heuristic.training import (
    HeuristicOptions,
    PortfolioScores,
    Progress,
    fit_heuristic,
)
from skipjack.learn.ranker import ProblemRows, fit_ranker, problem_rows, shape_group
from skipjack.learn.trials import ProblemTrials
from skipjack.models import TRIED, ConfigHeuristic, PortfolioMember
from skipjack.solvers import AdaptedConfigs, solvers_for

SEARCHED, FIRST, NEAREST, HEURISTIC = "searched", "first proposal", "nearest", "heuristic"
_FINALISTS = 3
"""The best of the searches that are named: which one is best is decided by timing them again."""
_RESAMPLES = 2000

Pick = tuple[str, Config]
"""A solver, and a config of it."""


@dataclass(frozen=True, slots=True)
class HeldOutProblem:
    """What each way names for a problem that the models were not fitted to."""

    trials: ProblemTrials
    group: str
    expected: float
    """How far behind the best the heuristic expects its own to be, as a logarithm."""
    picks: Mapping[str, Pick]
    """By way: the best of the searches, the first proposal, the config of the nearest problem, and
    the first members of the portfolio as ``heuristic``, ``heuristic 2`` and so on."""

    def measured_quality(self, way: str) -> float | None:
        """The best time that is known over that of a way's config; None if it was not measured."""
        pick = self.picks.get(way)
        return None if pick is None else self.trials.quality(*pick)


class Folds:
    """Fits models to all but some groups of problems at a time.

    Args:
        trials: of one kind of problems and devices.
        groups: the group of each problem that is held out at some time, by its key; others are
            always fitted to, unless they have the same shape as one that is held out.
        count: how many folds the groups are divided into.
    """

    def __init__(
        self, trials: Sequence[ProblemTrials], groups: Mapping[str, str], count: int = 5
    ) -> None:
        self._trials, self._groups = trials, groups
        self._parts: dict[str, list[ProblemRows]] = {}
        self._scores = PortfolioScores()
        self.folds = _divided(groups.values(), count)

    def evaluate(
        self,
        options: HeuristicOptions,
        *,
        only_measured: bool = False,
        listed: int = 4,
        progress: Progress = lambda _: None,
    ) -> list[HeldOutProblem]:
        """The picks for each problem of each group; the arguments are those of `named_configs`."""
        found = []
        for held in self.folds:
            out = [one for one in self._trials if self._groups.get(one.problem.key) in held]
            shapes = {shape_group(one.problem) for one in out}
            rest = [one for one in self._trials if shape_group(one.problem) not in shapes]
            progress(f"without {', '.join(sorted(held))}")
            heuristic = self.fit(rest, options)
            found += [
                named_configs(
                    one,
                    heuristic,
                    rest,
                    self._groups[one.problem.key],
                    only_measured=only_measured,
                    listed=listed,
                )
                for one in out
            ]
        return found

    def fit(self, trials: Sequence[ProblemTrials], options: HeuristicOptions) -> ConfigHeuristic:
        """A heuristic for these trials."""
        ranker = fit_ranker([part for one in trials for part in self.rows(one)])
        return fit_heuristic(trials, ranker, options, scores=self._scores)

    def rows(self, one: ProblemTrials) -> list[ProblemRows]:
        """The features of what was measured of a problem."""
        key = one.problem.key + one.device.class_key
        if key not in self._parts:
            self._parts[key] = problem_rows(one)
        return self._parts[key]


def _divided(groups: Iterable[str], count: int) -> list[set[str]]:
    """Groups by fold, about as many problems in each."""
    sizes: defaultdict[str, int] = defaultdict(int)
    for group in groups:
        sizes[group] += 1
    found: list[set[str]] = [set() for _ in range(min(count, len(sizes)))]
    loads = [0] * len(found)
    for group, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        at = loads.index(min(loads))
        found[at].add(group)
        loads[at] += size
    return found


def shape_folds(trials: Sequence[ProblemTrials], seed: int = 0) -> dict[str, str]:
    """A group for each problem, by its shape alone: where nothing says which belong together."""
    shapes = sorted({shape_group(one.problem) for one in trials})
    order = np.random.default_rng(seed).permutation(len(shapes))
    number = {shapes[at]: f"shape {rank}" for rank, at in enumerate(order.tolist())}
    return {one.problem.key: number[shape_group(one.problem)] for one in trials}


def named_configs(
    one: ProblemTrials,
    heuristic: ConfigHeuristic,
    known: Sequence[ProblemTrials],
    group: str = "",
    *,
    only_measured: bool = False,
    listed: int = 4,
) -> HeldOutProblem:
    """What each way names for a problem; `known` are those whose winners may be near it.

    The heuristic names as many as `listed`, which a lookup would propose. With `only_measured`,
    ways name the first of their configs that have a time in the trials, of all that they have.
    """
    legal = AdaptedConfigs(one.problem, one.device)

    def usable(solver: str, config: Config, place: int | None = None) -> Config | None:
        near = legal.config(solver, config, place)
        if near is None or not only_measured:
            return near
        return near if one.quality(solver, near) is not None else None

    def of_member(member: PortfolioMember) -> Config | None:
        return usable(member.solver, member.config, member.place)

    found = heuristic.propose(
        one.problem,
        one.device,
        of_member,
        wanted=listed,
        tried=None if only_measured else TRIED,
    )
    expected = found[0].behind if found else inf
    picks: dict[str, Pick] = {}
    if one.best_ns < inf:
        fastest = sorted(one.successful, key=lambda measured: measured.time_ns)
        for place, best in enumerate(fastest[:_FINALISTS]):
            picks[_numbered(SEARCHED, place)] = best.solver, best.config
    if first := first_proposal(one):
        picks[FIRST] = first
    winners = [
        (other.problem, min(other.successful, key=lambda measured: measured.time_ns))
        for other in known
        if other.best_ns < inf
    ]
    for _, winner in nearest(one.problem, winners):
        config = usable(winner.solver, winner.config)
        if config is not None:
            picks[NEAREST] = winner.solver, config
            break
    for place, ranked in enumerate(found):
        picks[_numbered(HEURISTIC, place)] = ranked.solver, ranked.config
    return HeldOutProblem(one, group, expected, picks)


def _numbered(way: str, place: int) -> str:
    return f"{way} {place + 1}" if place else way


def first_proposal(one: ProblemTrials) -> Pick | None:
    """What a lookup proposes without a model: the first config of the most promising solver."""
    try:
        solver = solvers_for(one.problem, one.device)[0]
        space = solver.space(one.problem, one.device)
    except SkipjackError:
        return None
    configs = space.promising(1) if isinstance(space, Promising) else ()
    return solver.name, (configs[0] if configs else space.default())


@dataclass(frozen=True, slots=True)
class QualitySummary:
    """Qualities of a way over problems: the best time over its own, so that 1 is the best."""

    problems: int
    mean: float
    low: float
    """The mean's 95 % interval, see `interval`."""
    high: float
    p10: float
    """The tenth percentile."""
    least: float


def summarized(values: Sequence[float], groups: Sequence[Hashable] = ()) -> QualitySummary:
    """A summary; of no values, all zero. The groups are those of `interval`."""
    if not values:
        return QualitySummary(0, 0.0, 0.0, 0.0, 0.0, 0.0)
    table = np.array(values)
    low, high = interval(values, groups)
    figures = (table.mean(), low, high, np.quantile(table, 0.1), table.min())
    return QualitySummary(len(values), *(round(float(one), 4) for one in figures))


def summarized_way(held: Sequence[HeldOutProblem], way: str) -> QualitySummary:
    """A way on the problems where its config was measured; those of one shape are a group."""
    found = [
        (quality, shape_group(one.trials.problem))
        for one in held
        if (quality := one.measured_quality(way)) is not None
    ]
    return summarized([quality for quality, _ in found], [shape for _, shape in found])


def interval(values: Sequence[float], groups: Sequence[Hashable] = ()) -> tuple[float, float]:
    """The 95 % interval of a mean, by drawing groups of values again.

    `groups` has the group of each value. Values of a group depend on each other, so that a drawn
    group brings all of its values. Without groups, single values are drawn.
    """
    numbers: dict[Hashable, int] = {}
    of = [numbers.setdefault(group, len(numbers)) for group in groups or range(len(values))]
    sums, sizes = np.bincount(of, values), np.bincount(of)
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(sums), size=(_RESAMPLES, len(sums)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def is_better(held: Sequence[HeldOutProblem], other: str) -> tuple[bool, float, float]:
    """Whether the heuristic is better than another way on the problems where both were measured.

    The interval of the mean difference in quality, by drawing shapes, must lie above zero; one
    shape alone shows nothing. It comes second and third.
    """
    gains, shapes = [], []
    for one in held:
        mine, theirs = one.measured_quality(HEURISTIC), one.measured_quality(other)
        if mine is not None and theirs is not None:
            gains.append(mine - theirs)
            shapes.append(shape_group(one.trials.problem))
    if not gains:
        return False, 0.0, 0.0
    low, high = interval(gains, shapes)
    return low > 0.0 and len(set(shapes)) > 1, low, high


def finished(heuristic: ConfigHeuristic, held: Sequence[HeldOutProblem]) -> ConfigHeuristic:
    """The heuristic with its confidence, from problems that were held out from others like it.

    Shares of problems within 10 % of the best are made to fall as the expectation gets worse.
    """
    pairs = sorted(
        (one.expected, quality)
        for one in held
        if (quality := one.measured_quality(HEURISTIC)) is not None
    )
    if not pairs:
        return heuristic
    blocks = np.array_split(np.array(pairs), max(1, min(8, len(pairs) // 10)))
    rows = [(float(block[:, 0].mean()), float((block[:, 1] >= 0.9).mean())) for block in blocks]
    falling = np.minimum.accumulate([share for _, share in rows])
    table = np.array([[x, y] for (x, _), y in zip(rows, falling.tolist(), strict=True)])
    return replace(heuristic, calibration=table)
