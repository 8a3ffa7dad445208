"""Searchers on recorded spaces: ours, Optuna's samplers and every strategy of Kernel Tuner.

::

    python bench/replay.py --data DIR                  # all searchers on all spaces, 20 seeds
    python bench/replay.py --data DIR --searchers model,genetic --spaces synthetic
    python bench/replay.py --data DIR --quick          # 5 seeds, ours and Kernel Tuner's fast ones
    python bench/replay.py --data DIR --ledgers USER_DIR USER_DIR --env DIR

``--data`` are folders of T4 files (``skipjack export t4`` makes them of a ledger's studies, too),
``--ledgers`` are user directories whose largest spaces are taken, and synthetic spaces are drawn by
a seed. All searchers have the same budget of unique evaluations and the same number of seeds; a
config that fails costs an evaluation. Kernel Tuner runs in its own simulation mode
(`peers/kernel_tuner_replay.py`), in an environment that is made if ``--env`` is not there. What
needs more than ``--limit`` seconds of a core for all seeds of a space is ended; the seeds that it
had are counted.

All runs are kept under ``--cache`` (`bench/.cache/replay`) by what they depend on: the space, the
searcher's code, the budget and the seed. So a run that was interrupted goes on, peers run once, and
several processes may share the work by ``--spaces`` and ``--searchers``.

The figures are those of `skipjack.learn.replay`: the area under the curve of log(best so far /
optimum), divided by that of random search, which is computed exactly. Means over spaces are
geometric; intervals are of a bootstrap over seeds. ``bench/results/replay.json`` is written by a
complete run only; ``-o`` writes the result of any run, which names its spaces and searchers.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from machine import RESULTS, now, versions, write_result
from replay_kernel_tuner import ENVIRONMENT, KernelTuner
from replay_runs import RUNS, RunStore, with_priors
from replay_spaces import Case, ledger_cases, synthetic_cases, t4_cases
from skipjack.errors import SkipjackError
from skipjack.learn.replay import (
    Estimate,
    RandomBaseline,
    ScoredRuns,
    SearcherScore,
    summarize_recordings,
)
from table_text import table

OURS = ("model", "genetic", "hill_climbing", "simulated_annealing", "random")
OPTUNA = ("optuna:tpe", "optuna:gp", "optuna:cmaes")
CHECKED = (25, 50, 100, 200)
"""Evaluations after which searchers are compared with random search."""
PRIOR = " with prior"
"""After a searcher's name: it gets the recordings of other devices."""
SLOW = (
    *("kt:bayes_opt", "kt:basinhopping", "kt:pyatf_strategies", "optuna:cmaes"),
    *("kt:skopt", "optuna:gp"),
)
"""What begins so takes long, the last the longest."""


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    cases: tuple[Case, ...]
    searchers: tuple[str, ...]
    tuner: KernelTuner
    budget: int
    seeds: int
    limit: int
    store: RunStore
    output: Path | None
    """None unless the run is complete."""


def read_options(argv: Sequence[str] | None) -> Options:
    """Read the command line, and the spaces."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, nargs="*", default=[], help="folders of T4 files")
    parser.add_argument("--ledgers", type=Path, nargs="*", default=[], help="user directories")
    parser.add_argument("--searchers", default="", help="names, or ours, optuna and kt")
    parser.add_argument("--spaces", default="", help="kinds of spaces, or parts of their names")
    parser.add_argument("--budget", type=int, default=200, help="unique evaluations")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--limit", type=int, default=120, help="seconds for a strategy and space")
    parser.add_argument("--env", type=Path, default=ENVIRONMENT, help="Kernel Tuner's")
    parser.add_argument("--cache", type=Path, default=RUNS, help="where runs are kept")
    parser.add_argument("--quick", action="store_true", help="5 seeds, without slow peers")
    parser.add_argument("-o", "--output", type=Path, help="where to write the result")
    args = parser.parse_args(argv)
    cases = [*t4_cases(args.data), *ledger_cases(args.ledgers), *synthetic_cases()]
    words = [word for word in args.spaces.split(",") if word]
    chosen = [
        one for one in cases if not words or any(w in (one.kind, *_parts(one, w)) for w in words)
    ]
    names = [word.strip() for word in (args.searchers or "ours,optuna,kt").split(",")]
    tuner = KernelTuner(args.env if any(name.startswith("kt") for name in names) else None)
    groups = {"ours": OURS, "optuna": OPTUNA, "kt": tuner.searchers()}
    searchers = [one for name in names for one in groups.get(name, [name])]
    if args.quick:
        searchers = [one for one in searchers if not _slowness(one)]
    complete = not (args.quick or args.searchers or words) and bool(args.data)
    return Options(
        *(tuple(chosen), tuple(with_priors(searchers, PRIOR)), tuner, args.budget),
        *(min(args.seeds, 5) if args.quick else args.seeds, args.limit),
        RunStore(args.cache),
        args.output or (RESULTS / "replay.json" if complete else None),
    )


def _parts(case: Case, word: str) -> list[str]:
    return [word] if word in case.name else []


@dataclass(frozen=True)
class Cell:
    """A searcher on a space."""

    case: Case
    searcher: str
    runs: ScoredRuns | None
    evaluations: float = 0.0
    """The mean over seeds: less than the budget if the searcher ended early."""
    seconds: float = 0.0
    note: str = ""


def measure(options: Options) -> Iterator[Cell]:
    """All searchers on each space; those that take long come last."""
    wanted = [(one, case) for case in options.cases for one in options.searchers]
    for searcher, case in sorted(wanted, key=lambda one: _slowness(one[0])):
        if case.prior or not searcher.endswith(PRIOR):
            yield measure_cell(options, searcher, case)


def _slowness(searcher: str) -> int:
    """0 for what is done in seconds."""
    return next((at for at, name in enumerate(SLOW, 1) if searcher.startswith(name)), 0)


def measure_cell(options: Options, searcher: str, case: Case) -> Cell:
    """A searcher on a space, with each seed."""
    seeds, budget = range(options.seeds), min(options.budget, case.space.count())
    store = options.store
    try:
        if searcher.startswith("kt:"):
            found = store.peer_runs(options.tuner, case, searcher, budget, seeds, options.limit)
        else:
            found = store.runs(case, searcher, budget, seeds, options.limit)
    except SkipjackError as error:
        return Cell(case, searcher, None, note=str(error))
    curves = [_curve(case.space.costs, asked, budget) for asked in found.asked.values()]
    if not curves:
        return Cell(case, searcher, None, note=found.note)
    runs = ScoredRuns(searcher, case.name, curves, _baseline(case, budget))
    made = sum(map(len, found.asked.values())) / len(found.asked)
    return Cell(case, searcher, runs, made, found.seconds, found.note)


@cache
def _baseline(case: Case, budget: int) -> RandomBaseline:
    return RandomBaseline(case.space, budget)


def _curve(costs: Any, asked: Sequence[int], budget: int) -> list[float]:
    """The best value after each evaluation; one that ended early keeps its last."""
    curve, best = [], math.inf
    for at in asked[:budget]:
        best = min(best, float(costs[at]))
        curve.append(best)
    return curve + [best] * (budget - len(curve))


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is missing, and show the tables."""
    options = read_options(argv)
    if options.tuner.absent:
        print(options.tuner.absent)
    cells: list[Cell] = []
    for cell in measure(options):
        cells.append(cell)
        said = (
            f"relative area {cell.runs.areas.mean() / cell.runs.expected:.3f}" if cell.runs else ""
        )
        print(f"{cell.case.name}, {cell.searcher}: {said} {cell.note}", flush=True)
    rows = summaries(cells)
    print()
    print(report(cells, rows))
    if options.output:
        write_result(options.output, record(options, cells, rows))


def summaries(cells: Sequence[Cell]) -> list[SearcherScore]:
    """Each searcher over all spaces, the best first; those that lack a space come last."""
    by_searcher: dict[str, list[ScoredRuns]] = defaultdict(list)
    for cell in cells:
        if cell.runs:
            by_searcher[cell.searcher].append(cell.runs)
    found = [summarize_recordings(runs) for runs in by_searcher.values()]
    return sorted(found, key=lambda one: -one.score.mean)


def report(cells: Sequence[Cell], rows: Sequence[SearcherScore]) -> str:
    """A table of means over spaces, then one of relative areas by space."""
    names = list(dict.fromkeys(cell.case.name for cell in cells))
    spaces = {
        row.searcher: sum(c.searcher == row.searcher and c.runs is not None for c in cells)
        for row in rows
    }
    head = (
        "searcher",
        "spaces",
        "runs",
        "relative area",
        "ratio",
        "within 5 %",
        "evaluations",
        f"random needs, at {' '.join(map(str, CHECKED))}",
    )
    means = table(
        head,
        [
            (
                row.searcher,
                str(spaces[row.searcher]),
                str(row.runs),
                _text(row.score.through(lambda score: 1 - score), 3),
                _text(row.ratio, 3),
                f"{row.reached}",
                f"{row.evaluations:.0f}",
                " ".join(f"{x:.1f}" for x in mean_needs(cells, row.searcher).values()),
            )
            for row in rows
        ],
    )
    shares = {
        (cell.searcher, cell.case.name): f"{cell.runs.areas.mean() / cell.runs.expected:.2f}"
        for cell in cells
        if cell.runs
    }
    lines = [
        [row.searcher, *(shares.get((row.searcher, name), "") for name in names)] for row in rows
    ]
    return f"{means}\n\n{table(['searcher', *names], lines)}"


def random_needs(runs: ScoredRuns) -> dict[str, float]:
    """How many times as many evaluations random search needs for what a searcher has after so many.

    Random search has the best config of a space after all of its configs at the latest.
    """
    means = runs.ratios.mean(axis=0)
    return {
        str(n): runs.baseline.evaluations_for(float(means[n - 1])) / n
        for n in CHECKED
        if n <= len(means)
    }


def mean_needs(cells: Sequence[Cell], searcher: str) -> dict[str, float]:
    """The geometric means over the spaces of a searcher."""
    found = [random_needs(c.runs) for c in cells if c.searcher == searcher and c.runs]
    shared = [name for name in map(str, CHECKED) if found and all(name in one for one in found)]
    return {name: geometric_mean(one[name] for one in found) for name in shared}


def _text(found: Estimate, digits: int) -> str:
    return f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def record(
    options: Options, cells: Sequence[Cell], rows: Sequence[SearcherScore]
) -> dict[str, Any]:
    """The result file."""
    spaces = [
        {
            "name": one.name,
            "kind": one.kind,
            "configs": one.space.count(),
            "digest": one.digest,
            "parameters": len(one.space.parameters),
            "failed": sum(not trial.ok for trial in one.space.trials),
        }
        for one in options.cases
    ]
    cases = [
        {
            **(_plain(asdict(cell.runs.summary())) if cell.runs else {"searcher": cell.searcher}),
            "recording": cell.case.name,
            "random_needs": _plain(random_needs(cell.runs)) if cell.runs else None,
            "mean_evaluations": round(cell.evaluations, 1),
            "seconds": round(cell.seconds, 1),
            "note": cell.note,
        }
        for cell in cells
    ]
    return {
        "format": 1,
        "name": "replay",
        "date": now(),
        "device": "none: recorded spaces",
        "versions": {**versions(), "kernel_tuner": options.tuner.version},
        "budget": options.budget,
        "seeds": options.seeds,
        "limit_seconds": options.limit,
        "spaces": spaces,
        "means": [
            _plain({**asdict(row), "random_needs": mean_needs(cells, row.searcher)}) for row in rows
        ],
        "cases": cases,
    }


def _plain(value: Any) -> Any:
    """Without long fractions, and without infinite numbers, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value


if __name__ == "__main__":
    main()
