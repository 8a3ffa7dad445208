"""The best setting of a grid together with its load, by several methods with the same runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil, exp, log, log2
from typing import Any
from zlib import crc32

import numpy as np

from skipjack.errors import SkipjackError
from skipjack.search.load import JointLoad
from skipjack.testing.scripts import play
from sweep_grids import Grid
from sweep_methods import PARAM

Record = dict[str, Any]
Setting = Mapping[str, Any]

SHARE = 0.25
"""Of the runs that bisecting every setting takes."""
CLOSE = 0.03
_STEP = 0.02
"""To which bisections go, relative to the largest load."""


class Spent(Exception):
    """All runs of the budget are used."""


@dataclass
class Runs:
    """Runs of a grid, counted; builds too."""

    grid: Grid
    rng: np.random.Generator
    most: int
    count: int = 0

    def __post_init__(self) -> None:
        self.builds: set[tuple[Any, ...]] = set()

    def holds(self, point: Setting) -> bool:
        """Run a setting at a load."""
        if self.count >= self.most:
            raise Spent
        self.count += 1
        self.builds.add(tuple(point[name] for name in self.grid.build_parameters))
        return bool(self.rng.random() < self.grid.chance(point, point[PARAM]))


@dataclass(frozen=True)
class Best:
    """The best that a method found."""

    setting: Setting
    load: float


Method = Callable[[Runs], Best | None]


def joint(runs: Runs) -> Best | None:
    """Ours."""
    searcher = JointLoad(
        (PARAM, *runs.grid.range()),
        points=[dict(setting) for setting in runs.grid.curves],
        build_parameters=runs.grid.build_parameters,
        runs=runs.most,
    )
    play(searcher, runs.holds)
    try:
        best = searcher.get_best()
    except SkipjackError:
        return None
    return Best({name: best[name] for name in runs.grid.parameters}, best[PARAM])


def in_order(runs: Runs) -> Best | None:
    """Settings as they are listed, the load of each bisected."""
    return _each(runs, [dict(setting) for setting in runs.grid.curves], barred=False)


def at_random(runs: Runs) -> Best | None:
    """Settings in a random order, the load of each bisected."""
    return _each(runs, _shuffled(runs), barred=False)


def with_bar(runs: Runs) -> Best | None:
    """Settings in a random order; one that does not hold the best load so far is dropped."""
    return _each(runs, _shuffled(runs), barred=True)


METHODS: Mapping[str, Method] = {
    "joint": joint,
    "in_order": in_order,
    "at_random": at_random,
    "with_bar": with_bar,
}


def _shuffled(runs: Runs) -> list[Setting]:
    settings: list[Setting] = [dict(setting) for setting in runs.grid.curves]
    return [settings[n] for n in runs.rng.permutation(len(settings))]


def _each(runs: Runs, settings: Sequence[Setting], *, barred: bool) -> Best | None:
    best: Best | None = None
    try:
        for setting in settings:
            for load in _bisected(runs, setting, best.load if barred and best else None):
                if best is None or load > best.load:
                    best = Best(setting, load)
    except Spent:
        pass
    return best


def _bisected(runs: Runs, setting: Setting, bar: float | None) -> Iterator[float]:
    """Loads that held; from the bar on if there is one, which must hold first."""
    lower, upper = runs.grid.range()
    if bar is not None:
        if not runs.holds({**setting, PARAM: bar}):
            return
        lower = round(bar)
    low, high = lower, upper
    while high - low > max(upper * _STEP, 1):
        middle = (low + high) // 2
        if runs.holds({**setting, PARAM: middle}):
            low = middle
            yield middle
        else:
            high = middle


def full_runs(grid: Grid) -> int:
    """What bisecting every setting takes."""
    lower, upper = grid.range()
    return len(grid.curves) * ceil(log2((upper - lower) / max(upper * _STEP, 1)))


def compare(grid: Grid, seeds: int, share: float = SHARE) -> list[Record]:
    """Every method on a grid, with the same budget."""
    most, records = int(full_runs(grid) * share), []
    for seed in range(seeds):
        for name, method in METHODS.items():
            runs = Runs(grid, np.random.default_rng([crc32(grid.name.encode()), seed]), most)
            best = method(runs)
            records.append(
                {
                    "case": f"{grid.name}/{name}/{seed}",
                    "method": name,
                    "runs": runs.count,
                    "builds": len(runs.builds),
                    "best": asdict(best) if best else None,
                    "ratio": grid.limit(best.setting) / grid.best if best else None,
                    "load_ratio": best.load / grid.best if best else None,
                }
            )
    return records


def summary(records: Sequence[Record]) -> Record:
    """Of each method: how often its setting, and its load too, are as good as the best."""
    return {name: _of_method([r for r in records if r["method"] == name]) for name in METHODS}


def _of_method(records: Sequence[Record]) -> Record:
    ratios = [record["ratio"] or 1e-3 for record in records]
    loads = [record["load_ratio"] or 1e-3 for record in records]
    return {
        "setting_within_3_percent": round(float(np.mean([r >= 1 - CLOSE for r in ratios])), 4),
        "load_within_3_percent": round(
            float(np.mean([1 - CLOSE <= r <= 1 + CLOSE for r in loads])), 4
        ),
        "geomean_ratio": round(exp(float(np.mean([log(r) for r in ratios]))), 4),
        "worst_ratio": round(min(ratios), 4),
        "mean_runs": round(float(np.mean([record["runs"] for record in records])), 1),
        "mean_builds": round(float(np.mean([record["builds"] for record in records])), 2),
    }


def lines(said: Record) -> list[str]:
    """A table of a summary."""
    head = f"{'method':<10}{'setting within 3 %':>19}{'load within 3 %':>16}{'ratio':>8}"
    table = [f"{head}{'worst':>8}{'runs':>7}{'builds':>8}"]
    for name, one in said.items():
        close = f"{one['setting_within_3_percent']:>19.0%}{one['load_within_3_percent']:>16.0%}"
        ratios = f"{one['geomean_ratio']:>8.3f}{one['worst_ratio']:>8.3f}"
        table.append(f"{name:<10}{close}{ratios}{one['mean_runs']:>7.1f}{one['mean_builds']:>8.1f}")
    return table
