"""Searches and comparisons with libraries, as tables and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from skipjack.learn.tree import SearchRun, SearchStep
from skipjack.operations import get, parse
from skipjack.report import screen
from skipjack.report.numbers import duration_text, gain_text, rate_text, time_text
from skipjack.report.screen import TableColumn, out, print_rows
from skipjack.storage import atomic_write

# Comparison of searches: gains over the untuned nest, by search and by problem.

_RESAMPLES = 2000
_LEAST_FOR_INTERVAL = 3


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """The gains of one search over all its problems and seeds."""

    search: str
    problems: int
    seeds: int
    mean: float
    """Geometric mean of the gains: how many times faster than the start."""
    low: float | None
    """The lower bound of the 95 % interval of the mean over problems; None for fewer than 3."""
    high: float | None
    middle: float
    least: float
    most: float
    measured: float
    """Schedules measured, on average."""
    elapsed_s: float
    """Time of a run, on average."""


def summarize_searches(runs: Sequence[SearchRun]) -> list[SearchSummary]:
    """A summary for each search, in order of appearance; runs without a result are left out."""
    names = dict.fromkeys(run.search for run in runs)
    found = ((name, [run for run in runs if run.search == name and run.gain]) for name in names)
    return [_summary(name, some) for name, some in found if some]


def gains_of(runs: Sequence[SearchRun]) -> list[float]:
    """The gains of all runs that have one."""
    return [run.gain for run in runs if run.gain]


def _summary(name: str, runs: Sequence[SearchRun]) -> SearchSummary:
    gains = gains_of(runs)
    by_problem: dict[str, list[float]] = {}
    for run in runs:
        by_problem.setdefault(run.problem, []).append(run.gain or 1.0)
    low, high = _interval([geometric_mean(some) for some in by_problem.values()])
    return SearchSummary(
        name,
        len(by_problem),
        len({run.seed for run in runs}),
        geometric_mean(gains),
        low,
        high,
        median(gains),
        min(gains),
        max(gains),
        sum(run.measured for run in runs) / len(runs),
        sum(run.elapsed_s for run in runs) / len(runs),
    )


def _interval(gains: Sequence[float]) -> tuple[float | None, float | None]:
    """A bootstrap over problems, as these differ more than seeds."""
    if len(gains) < _LEAST_FOR_INTERVAL:
        return None, None
    rng = np.random.default_rng(0)
    drawn = rng.choice(np.log(gains), size=(_RESAMPLES, len(gains))).mean(axis=1)
    low, high = np.exp(np.quantile(drawn, (0.025, 0.975)))
    return float(low), float(high)


# The steps of searches as CSV: a row for each schedule that a search visited.

COLUMNS = (
    *("problem", "search", "seed", "step", "action", "actions", "cursor", "schedule"),
    *("seconds", "cached", "measured", "elapsed_s", "best_s"),
)
"""These are described in `docs/loops.md`."""


def steps_text(runs: Iterable[SearchRun]) -> str:
    """Quoted according to RFC 4180; missing values are empty."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(COLUMNS)
    for run in runs:
        writer.writerows([_cell(step, name) for name in COLUMNS] for step in run.steps)
    return stream.getvalue()


def write_steps(runs: Iterable[SearchRun], path: Path) -> None:
    """Replace `path` atomically."""
    atomic_write(path, steps_text(runs).encode())


def _cell(step: SearchStep, name: str) -> str:
    value = getattr(step, name)
    match value:
        case None:
            return ""
        case bool():
            return str(int(value))
        case float():
            return f"{value:.9g}"
        case tuple():
            return ",".join(value)
    return str(value)


# The report at the end of ``skipjack loops search``.


def print_searches(runs: Sequence[SearchRun], console: Console | None = None) -> None:
    """Print a row and the best schedule for each run, then a row for each search."""
    console = console or screen.out()
    print_rows(
        _columns("problem", "search", "seed", "start", "best", "gain", "rate", "measured", "s"),
        [(run.problem, run.search, str(run.seed), *_cells(run)) for run in runs],
        console=console,
    )
    for run in runs:
        best = run.best
        found = "no schedule runs" if best is None else best.schedule or "no loops"
        console.print(Text(f"{run.problem} {run.search} {run.seed}: {found}"), soft_wrap=True)
        if best is not None and best.actions:
            console.print(Text(f"  by {','.join(best.actions)}"), soft_wrap=True)
    summaries = summarize_searches(runs)
    if len(runs) <= len(summaries):
        return
    console.print()
    rows = [
        (
            each.search,
            str(each.problems),
            str(each.seeds),
            gain_text(each.mean, each.low, each.high),
            *(f"{gain:.2f}" for gain in (each.middle, each.least, each.most)),
            f"{each.measured:.0f}",
            duration_text(each.elapsed_s),
        )
        for each in summaries
    ]
    print_rows(
        _columns("search", "problems", "seeds", "gain", "median", "from", "to", "measured", "s"),
        rows,
        console=console,
    )


def run_line(run: SearchRun) -> str:
    """The result of a run in one line."""
    how = ", interrupted" if run.interrupted else ""
    gain = gain_text(run.gain, None, None)
    return f"{run.problem} {run.search} seed {run.seed}: x {gain}, {run.measured} measured{how}"


def run_record(run: SearchRun) -> dict[str, Any]:
    """The JSON record of a run; its steps are in the CSV file."""
    best = run.best
    return {
        "problem": run.problem,
        "search": run.search,
        "seed": run.seed,
        "start_s": run.start_s,
        "best_s": None if best is None else best.seconds,
        "gain": run.gain,
        "gflops": _gflops(run),
        "schedule": None if best is None else best.schedule,
        "actions": None if best is None else list(best.actions),
        "measured": run.measured,
        "elapsed_s": run.elapsed_s,
        "interrupted": run.interrupted,
    }


def _cells(run: SearchRun) -> list[str]:
    best = run.best
    return [
        _time(run.start_s),
        _time(None if best is None else best.seconds),
        gain_text(run.gain, None, None),
        rate_text(_gflops(run), "GFLOP/s"),
        str(run.measured),
        duration_text(run.elapsed_s),
    ]


def _gflops(run: SearchRun) -> float | None:
    if run.best is None or not run.best.seconds or not run.flops:
        return None
    return run.flops / run.best.seconds / 1e9


def _time(seconds: float | None) -> str:
    return time_text(None if seconds is None else seconds * 1e9)


def _columns(*names: str) -> list[TableColumn]:
    return [TableColumn(name, right=name not in ("problem", "search")) for name in names]


# A policy compared with libraries, as a table and as CSV.

_POLICY = "policy"


@dataclass(frozen=True, slots=True)
class LibraryComparison:
    """Times of a policy and of libraries on one problem."""

    problem: str
    times_ns: Mapping[str, float]
    missing: Mapping[str, str]
    """Libraries and schedules without a time, and why."""
    schedule: str
    """The schedule that the policy chose."""
    actions: tuple[str, ...]
    notes: Mapping[str, str] = field(default_factory=dict)
    """Remarks on how a time was obtained."""

    @property
    def rates(self) -> dict[str, float]:
        """GFLOP/s of each."""
        problem = parse(self.problem)
        flops = get(problem.operation).flops(problem)
        return {name: flops / time_ns for name, time_ns in self.times_ns.items()}

    def gain(self, name: str) -> float | None:
        """How many times faster the policy is than another."""
        own, other = self.times_ns.get(_POLICY), self.times_ns.get(name)
        return other / own if own and other else None


def comparison_fields(one: LibraryComparison) -> dict[str, Any]:
    """A comparison as a JSON record."""
    return {
        "problem": one.problem,
        "time_ns": {name: round(ns, 1) for name, ns in one.times_ns.items()},
        "gflops": {name: round(rate, 3) for name, rate in one.rates.items()},
        "missing": dict(one.missing),
        "notes": dict(one.notes),
        "schedule": one.schedule,
        "actions": ",".join(one.actions),
    }


def print_comparisons(found: Sequence[LibraryComparison]) -> None:
    """Print the rates, the policy's mean gains, and what is missing."""
    names = list(dict.fromkeys(name for one in found for name in one.times_ns))
    console = out()
    print_rows(
        ["problem", *(TableColumn(name, right=True) for name in names)],
        [
            (one.problem, *(rate_text(one.rates.get(name), "GFLOP/s") for name in names))
            for one in found
        ],
        console=console,
    )
    for name in names:
        gains = [gain for one in found if (gain := one.gain(name))]
        if name != _POLICY and gains:
            console.print(
                f"policy over {name}: {geometric_mean(gains):.3f} in the geometric mean of "
                f"{len(gains)}, from {min(gains):.3f} to {max(gains):.3f}"
            )
    for name, note in dict.fromkeys(pair for one in found for pair in one.notes.items()):
        console.print(f"{name}: {note}")
    reasons = dict.fromkeys((name, why) for one in found for name, why in one.missing.items())
    for name, why in reasons:
        console.print(f"without {name}: {why}")


def write_comparisons(found: Sequence[LibraryComparison], path: Path) -> None:
    """Write a row for each problem: all times in nanoseconds, and the policy's actions."""
    names = list(dict.fromkeys(name for one in found for name in one.times_ns))
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["problem", *(f"{name} ns" for name in names), "actions", "schedule"])
    for one in found:
        times = [one.times_ns.get(name) for name in names]
        cells = ["" if ns is None else f"{ns:.1f}" for ns in times]
        rows.writerow([one.problem, *cells, " ".join(one.actions), one.schedule])
    atomic_write(path, text.getvalue().encode())
