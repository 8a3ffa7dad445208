"""From the cases of the convolutions to numbers over all of them, and what is printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from summary import over_shapes

Record = dict[str, Any]

OURS, CHOICE = "ours", "choice"
"""The fastest of our solvers, and what a find ranks first: that one, or the library."""
LIBRARY = "onednn"
"""The solver that calls PyTorch."""
TARGETS = {CHOICE: 1.1, OURS: 0.9}
"""Geometric means over all cases, in times PyTorch's speed."""
BUILD_TARGET_MS = 150.0

GROUPS: Mapping[str, Callable[[Record], str]] = {
    "threads": lambda record: f"{record['threads']} thread{'s' * (record['threads'] > 1)}",
    "direction": lambda record: str(record["direction"]),
    "layout": lambda record: str(record["layout"]),
    "batch": lambda record: f"batch {record['batch']}",
    "kind": lambda record: str(record["kind"]),
    "network": lambda record: str(record["network"]),
}


def summarize(records: Sequence[Record]) -> Record:
    """Geometric means over all cases, by each property and by all together; losses; builds."""
    return {
        "targets": TARGETS,
        "all": _means(records),
        "by": {name: _grouped(records, group) for name, group in GROUPS.items()},
        "cells": _grouped(records, _cell),
        "solvers": _solvers(records),
        "losses": _under(records, OURS, 1.0),
        "wrong_choices": _under(records, CHOICE, 1.0),
        "without_kernel": [name_of(record) for record in records if not record["find"]["ours"]],
        "builds": _builds(records),
        "codes": sorted({record["code"] for record in records}),
    }


def name_of(record: Record) -> str:
    """A case with its number of threads."""
    return f"{record['case']} t{record['threads']}"


def _cell(record: Record) -> str:
    names = ("threads", "direction", "layout", "batch")
    return ", ".join(GROUPS[name](record) for name in names)


def _grouped(records: Sequence[Record], group: Callable[[Record], str]) -> Record:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(group(record), []).append(record)
    return {name: _means(some) for name, some in found.items()}


def _means(records: Sequence[Record]) -> Record:
    found = {}
    for column in TARGETS:
        ratios = {
            name_of(record): record["ratios"][column]["ratio"]
            for record in records
            if column in record["ratios"]
        }
        if ratios:
            found[column] = over_shapes(ratios)
    return found


def _solvers(records: Sequence[Record]) -> Record:
    """How often a find ranked each solver first, and how often it was the best of ours."""
    first: dict[str, int] = {}
    ours: dict[str, int] = {}
    for record in records:
        for counts, solver in ((first, record["find"]["choice"]), (ours, record["find"]["ours"])):
            if solver:
                counts[solver] = counts.get(solver, 0) + 1
    return {"first": _most(first), "best_of_ours": _most(ours)}


def _most(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _under(records: Sequence[Record], column: str, limit: float) -> list[Record]:
    """Cases whose whole interval lies under a limit, worst first."""
    found = [
        {
            "case": name_of(record),
            "ratio": record["ratios"][column]["ratio"],
            "solver": record["find"]["ours"],
        }
        for record in records
        if column in record["ratios"] and record["ratios"][column]["high"] < limit
    ]
    return sorted(found, key=lambda case: case["ratio"])


def _builds(records: Sequence[Record]) -> Record:
    times = [ms for record in records for ms in record["find"]["builds_ms"]]
    if not times:
        return {"count": 0}
    return {
        "count": len(times),
        "median_ms": round(float(np.median(times)), 1),
        "p90_ms": round(float(np.percentile(times, 90)), 1),
        "target_ms": BUILD_TARGET_MS,
    }


def heading() -> str:
    """The words above the columns."""
    return (
        f"{'case':<38} {'ours us':>9} {'torch us':>9} {'ours/torch':>18} {'choice':>6}  "
        f"{'find s':>6} trials  ranking"
    )


def line(record: Record) -> str:
    """One case as soon as it is done."""
    find, times = record["find"], record["times_us"]
    ours, torch = (f"{times[who]:.1f}" if who in times else "-" for who in (OURS, "torch"))
    ratio, choice = record["ratios"].get(OURS), record["ratios"].get(CHOICE)
    interval = f"{ratio['ratio']:.2f} [{ratio['low']:.2f},{ratio['high']:.2f}]" if ratio else "-"
    ranking = ", ".join(f"{one['solver']} {one['time_us']:.0f}" for one in find["ranked"])
    failures = "".join(f"; {solver} {why}" for solver, why in find["failures"].items())
    return (
        f"{record['case']:<38} {ours:>9} {torch:>9} {interval:>18} "
        f"{_number(choice):>6}  {find['wall_seconds']:>6.2f} {find['trials']:>6}  "
        f"{ranking}{failures}"
    )


def _number(ratio: Record | None) -> str:
    return f"{ratio['ratio']:.2f}" if ratio else "-"


def lines(summary: Record) -> list[str]:
    """Means, what falls short, and what builds take."""
    found = ["", f"{'times PyTorch, geometric means':<44} {'find choice':>22} {'ours alone':>22}"]
    groups = {"all": summary["all"]}
    for some in summary["by"].values():
        groups |= some
    found += [_mean_line(name, means) for name, means in (groups | summary["cells"]).items()]
    found += [_target_line(summary["all"], column) for column in TARGETS]
    for word, what in (("losses", "ours is slower"), ("wrong_choices", "the choice is slower")):
        cases = summary[word]
        listed = ", ".join(f"{case['case']} {case['ratio']:.2f}" for case in cases[:12])
        found.append(f"{what} in {len(cases)} cases{': ' * bool(cases)}{listed}")
    if summary["without_kernel"]:
        found.append(f"no kernel of ours in {len(summary['without_kernel'])} cases")
    first = ", ".join(f"{name} {count}" for name, count in summary["solvers"]["first"].items())
    found.append(f"ranked first: {first or 'nobody'}")
    found.append(_builds_line(summary["builds"]))
    if len(summary["codes"]) > 1:
        found.append(f"measured with {len(summary['codes'])} versions of the code")
    return found


def _mean_line(name: str, means: Record) -> str:
    cells = [
        f"{means[c]['geomean']:.3f} [{means[c]['low']:.3f}, {means[c]['high']:.3f}]"
        if c in means
        else "-"
        for c in TARGETS
    ]
    return f"{name:<44} {cells[0]:>22} {cells[1]:>22}"


def _target_line(means: Record, column: str) -> str:
    target = TARGETS[column]
    if column not in means:
        return f"target {target}x for {column}: nothing was measured"
    mean = means[column]
    reached = "reached" if mean["geomean"] >= target else "missed"
    return (
        f"target {target}x for {column}: {reached} with {mean['geomean']:.3f}; "
        f"least {mean['min']:.3f} at {mean['min_shape']}; under 1 in {mean['losses']} "
        f"of {mean['shapes']}"
    )


def _builds_line(builds: Record) -> str:
    if not builds["count"]:
        return "nothing was built"
    reached = "reached" if builds["median_ms"] <= builds["target_ms"] else "missed"
    return (
        f"target {builds['target_ms']:.0f} ms for the median build: {reached} with "
        f"{builds['median_ms']:.0f} ms ({builds['count']} builds, 90 % within "
        f"{builds['p90_ms']:.0f} ms)"
    )
