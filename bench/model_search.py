"""The searcher ``model`` beside others on real spaces of solvers, every config of which was timed.

::

    python bench/model_search.py                       # time what is not timed yet, then search
    python bench/model_search.py --problems "matmul:192x192x192 packed"

Every config of a solver's space is timed once by `ConfigTimer`, and kept under
``bench/.cache/model_search``. Searches then run on the space itself, with its order of promising
configs as starting points as in a tuning, and are told the times of the table: equal trials, the
same for every run, no disturbance. The figure is the mean over the trials of log(best so far /
best of the table), and what is left of it after 25, 50 and 100 trials; it comes with the processor
time that a searcher takes for a trial. ``bench/results/model_search.json`` is written at the end.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from machine import FORMAT, RESULTS, now, versions, write_result
from skipjack.core import Config, Countable, Device, Problem, Promising, Space, Trial
from skipjack.learn.replay import area
from skipjack.runtime import select_device
from skipjack.runtime.local_kernels import requested_problem
from skipjack.search import SearchContext, create
from skipjack.settings import load_settings
from skipjack.solvers import solver_for
from skipjack.tuning import ConfigTimer

CACHE = Path(__file__).parent / ".cache" / "model_search"
CASES = {
    "products": (
        ("matmul:192x192x192", "packed"),
        ("matmul:256x256x256/tb=1", "packed"),
        ("matmul:64x512x256", "packed"),
        ("matmul:512x49x256", "packed"),
        ("matmul:64x768x768", "thin"),
        ("matmul:16x768x3072", "thin"),
    ),
    "convolutions": (
        ("conv2d:n1c64h28w28k64y3x3p1q1", "implicit_gemm"),
        ("conv2d:n1c128h14w14k128y3x3p1q1", "implicit_gemm"),
        ("conv2d:n1c64h28w28k128y1x1", "gemm1x1"),
        ("conv2d:n1c256h14w14k64y1x1", "gemm1x1"),
    ),
}
SEARCHERS = ("genetic", "simulated_annealing", "hill_climbing", "random", "model")
PROMISING = 16
"""Starting points of a tuning for which no similar problem is known."""
AHEAD = 2
"""Configs that are asked for before the first of them is told, as builds run ahead."""
CHECKED = (25, 50, 100)
_PART = 64
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Table:
    """A space with the time of each of its configs; failures take infinitely long."""

    kind: str
    problem: Problem
    solver: str
    device: Device
    space: Space
    times: dict[Config, float]

    @property
    def best(self) -> float:
        """The time of the fastest config."""
        return min(self.times.values())

    def trial(self, config: Config) -> Trial:
        """What a search is told."""
        value = self.times[config]
        return Trial(config, value=value) if math.isfinite(value) else _failed(config)


def _failed(config: Config) -> Trial:
    from skipjack.core import Status

    return Trial(config, Status.BUILD_ERROR, reason="it failed when it was timed")


def timed(kind: str, key: str, solver: str, timer: ConfigTimer | None) -> Table | None:
    """The table of a case: read, or made if there is a timer."""
    problem = requested_problem(key)
    device = select_device([problem], None, None)
    space = solver_for(problem, device, solver).space(problem, device)
    assert isinstance(space, Countable), f"{solver} has no list of configs"
    configs = list(space.enumerate())
    file = CACHE / f"{problem.key.replace(':', '_').replace('/', '_')}_{solver}.json"
    known: dict[str, float] = json.loads(file.read_text()) if file.exists() else {}
    left = [config for config in configs if config.key not in known]
    if left and timer is None:
        return None
    for start in range(0, len(left), _PART):
        part = left[start : start + _PART]
        assert timer is not None
        times = timer.evaluate(problem, part, solver)
        known.update(zip((config.key for config in part), times, strict=True))
        CACHE.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(known))
    times_of = {config: known[config.key] for config in configs}
    return Table(kind, problem, solver, device, space, times_of)


def search(table: Table, searcher: str, trials: int, seed: int) -> tuple[list[float], float]:
    """The best time after each trial, and the processor seconds of the searcher."""
    space = table.space
    seeds = tuple(space.promising(PROMISING)) if isinstance(space, Promising) else ()
    started = time.process_time()
    context = SearchContext(space, seed, trials, seeds, problem=table.problem, device=table.device)
    made = create(searcher, context)
    curve: list[float] = []
    best = math.inf
    while not made.done and len(curve) < trials:
        configs = made.ask(AHEAD)
        if not configs:
            break
        for config in configs:
            trial = table.trial(config)
            best = min(best, trial.value if trial.value is not None else math.inf)
            curve.append(best)
            made.tell(trial)
    return curve + [best] * (trials - len(curve)), time.process_time() - started


def compared(table: Table, searchers: Sequence[str], trials: int, seeds: int) -> dict[str, Any]:
    """The figures of all searchers on one table."""
    trials = min(trials, len(table.times) // 2)
    finite = [value for value in table.times.values() if math.isfinite(value)]
    found: dict[str, Any] = {
        "kind": table.kind,
        "problem": table.problem.key,
        "solver": table.solver,
        "configs": len(table.times),
        "failed": len(table.times) - len(finite),
        "trials": trials,
        "median_over_best": round(float(np.median(finite)) / table.best, 4),
        "searchers": {},
    }
    for name in searchers:
        runs = [search(table, name, trials, seed) for seed in range(seeds)]
        logs = np.log(np.minimum([curve for curve, _ in runs], max(finite)) / table.best)
        found["searchers"][name] = {
            "areas": [round(area(one), 6) for one in logs],
            "left": {
                str(at): round(float(logs[:, at - 1].mean()), 6) for at in CHECKED if at <= trials
            },
            "processor_ms_per_trial": round(1e3 * sum(s for _, s in runs) / seeds / trials, 3),
        }
    return found


def ratio(cases: Sequence[dict[str, Any]], one: str, other: str) -> dict[str, float]:
    """The geometric mean of the ratios of areas, with an interval by resampling the seeds."""
    pairs = [
        (np.array(c["searchers"][one]["areas"]), np.array(c["searchers"][other]["areas"]))
        for c in cases
    ]
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(_RESAMPLES):
        logs = [
            math.log(a[rng.integers(len(a), size=len(a))].mean() + 1e-6)
            - math.log(b[rng.integers(len(b), size=len(b))].mean() + 1e-6)
            for a, b in pairs
        ]
        draws.append(math.exp(sum(logs) / len(logs)))
    middle = math.exp(
        sum(math.log((a.mean() + 1e-6) / (b.mean() + 1e-6)) for a, b in pairs) / len(pairs)
    )
    low, high = np.quantile(draws, [0.025, 0.975])
    return {"ratio": round(middle, 4), "low": round(float(low), 4), "high": round(float(high), 4)}


def main(argv: Sequence[str] | None = None) -> None:
    """Time, search and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", help="problem and solver, several separated by commas")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only-known", action="store_true", help="time nothing")
    parser.add_argument("--json", type=Path, default=RESULTS / "model_search.json")
    args = parser.parse_args(argv)
    cases = {kind: list(pairs) for kind, pairs in CASES.items()}
    if args.problems:
        cases = {"given": [tuple(one.split()) for one in args.problems.split(",")]}
    tables: list[Table | None] = []
    if args.only_known:
        tables = [timed(kind, *case, None) for kind, pairs in cases.items() for case in pairs]
    else:
        with ConfigTimer(settings=load_settings()) as timer:
            for kind, pairs in cases.items():
                for case in pairs:
                    tables.append(timed(kind, *case, timer))
                    print(f"{' '.join(case)}: timed", flush=True)
    records = []
    for table in tables:
        if table is None:
            continue
        record = compared(table, SEARCHERS, args.trials, args.seeds)
        records.append(record)
        line = " ".join(
            f"{name} {np.mean(one['areas']):.4f} ({one['processor_ms_per_trial']:.2f} ms)"
            for name, one in record["searchers"].items()
        )
        print(f"{record['problem']} {record['solver']} ({record['configs']}): {line}", flush=True)
    summary = {
        kind: {name: ratio(mine, "model", name) for name in SEARCHERS if name != "model"}
        for kind in dict.fromkeys(one["kind"] for one in records)
        if (mine := [one for one in records if one["kind"] == kind])
    }
    print(json.dumps(summary, indent=1))
    device = tables[0].device.name if tables and tables[0] else ""
    write_result(
        args.json,
        {
            "format": FORMAT,
            "name": "model_search",
            "date": now(),
            "device": device,
            "versions": versions(),
            "seeds": args.seeds,
            "ahead": AHEAD,
            "promising": PROMISING,
            "areas_of_model_over_others": summary,
            "cases": records,
        },
    )


if __name__ == "__main__":
    main()
