"""How good rankers are on problems that they were not fitted to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from skipjack.learn.ranker.fitting import ProblemRows, fit_ranker, shape_group
from skipjack.models import Ranker


@dataclass(frozen=True, slots=True)
class RankerSummary:
    """Shares of the best time that configs reach which are chosen by score, on held-out shapes."""

    problems: int
    first: float
    """The mean of the config with the best score."""
    first_p10: float
    """Its tenth percentile over problems."""
    best_of_8: float
    """The mean of the best of the eight best scores."""
    drawn: float
    """The mean of a config drawn from those that were measured, for comparison."""


def ranker_quality(
    parts: Sequence[ProblemRows], count: int, progress: Callable[[str], None] = lambda _: None
) -> RankerSummary:
    """The quality by folds that are grouped by shape."""
    first, eight, drawn = [], [], []
    for ranker, of_problem in held_out(parts, count, progress):
        scored: list[tuple[float, float]] = []
        for part in of_problem:
            scores = part_scores(part, ranker).tolist()
            scored += zip(scores, [one.time_ns for one in part.measured], strict=True)
        ranked = [time for _, time in sorted(scored)]
        best = min(ranked)
        if best < inf:
            first.append(best / ranked[0])
            eight.append(best / min(ranked[:8]))
            drawn.append(float(np.mean([best / time for time in ranked])))
    figures = (np.mean(first), np.quantile(first, 0.1), np.mean(eight), np.mean(drawn))
    return RankerSummary(len(first), *(round(float(one), 4) for one in figures))


def held_out(
    parts: Sequence[ProblemRows], count: int, progress: Callable[[str], None] = lambda _: None
) -> Iterator[tuple[Ranker, list[ProblemRows]]]:
    """Each problem with a ranker that was fitted to other shapes, by so many folds."""
    shapes = sorted({shape_group(part.trials.problem) for part in parts})
    order = np.random.default_rng(0).permutation(len(shapes)).tolist()
    fold = {shapes[at]: rank % count for rank, at in enumerate(order)}
    for number in range(min(count, len(shapes))):
        rest = [part for part in parts if fold[shape_group(part.trials.problem)] != number]
        out: defaultdict[str, list[ProblemRows]] = defaultdict(list)
        for part in parts:
            if fold[shape_group(part.trials.problem)] == number:
                out[part.trials.problem.key + part.trials.device.class_key].append(part)
        progress(f"fold {number + 1} of {count}")
        if rest and out:
            ranker = fit_ranker(rest)
            yield from ((ranker, of_problem) for of_problem in out.values())


def part_scores(part: ProblemRows, ranker: Ranker) -> NDArray[np.float64]:
    """The scores of what was measured, lower is better."""
    solver = part.measured[0].solver
    return ranker.scores(ranker.arranged(part.rows, part.names, solver))
