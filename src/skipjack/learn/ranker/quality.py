"""How good rankers are on problems that they were not fitted to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from skipjack.learn.ranker.fitting import ProblemRows, fit_ranker, shape_group


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
    shapes = sorted({shape_group(part.trials.problem) for part in parts})
    order = np.random.default_rng(0).permutation(len(shapes)).tolist()
    fold = {shapes[at]: rank % count for rank, at in enumerate(order)}
    first, eight, drawn = [], [], []
    for number in range(min(count, len(shapes))):
        rest = [part for part in parts if fold[shape_group(part.trials.problem)] != number]
        out = [part for part in parts if fold[shape_group(part.trials.problem)] == number]
        progress(f"fold {number + 1} of {count}")
        if not rest or not out:
            continue
        ranker = fit_ranker(rest)
        by_problem: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for part in out:
            solver = part.measured[0].solver
            scores = ranker.scores(ranker.arranged(part.rows, part.names, solver))
            by_problem[part.trials.problem.key + part.trials.device.class_key] += [
                (score, one.time_ns)
                for score, one in zip(scores.tolist(), part.measured, strict=True)
            ]
        for scored in by_problem.values():
            ranked = [time for _, time in sorted(scored)]
            best = min(ranked)
            if best < inf:
                first.append(best / ranked[0])
                eight.append(best / min(ranked[:8]))
                drawn.append(float(np.mean([best / time for time in ranked])))
    figures = (np.mean(first), np.quantile(first, 0.1), np.mean(eight), np.mean(drawn))
    return RankerSummary(len(first), *(round(float(one), 4) for one in figures))
