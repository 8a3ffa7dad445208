"""A policy beside libraries, as a table and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from skipjack.operations import get, parse
from skipjack.report.numbers import rate_text
from skipjack.report.render import TableColumn, print_rows
from skipjack.report.screen import out
from skipjack.storage import atomic_write

_POLICY = "policy"


@dataclass(frozen=True, slots=True)
class LibraryComparison:
    """Times of a policy and of libraries on one problem."""

    problem: str
    times_ns: Mapping[str, float]
    missing: Mapping[str, str]
    """Who has no time, and why."""
    schedule: str
    """What the policy made of the nest."""
    actions: tuple[str, ...]
    notes: Mapping[str, str] = field(default_factory=dict)
    """What is to be said of a time: how it came about."""

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
    """One record for machines."""
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
    """The rate of each, how many times faster the policy is in the mean, and who is missing."""
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
    """A row for each problem: everybody's nanoseconds, and what the policy did."""
    names = list(dict.fromkeys(name for one in found for name in one.times_ns))
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["problem", *(f"{name} ns" for name in names), "actions", "schedule"])
    for one in found:
        times = [one.times_ns.get(name) for name in names]
        cells = ["" if ns is None else f"{ns:.1f}" for ns in times]
        rows.writerow([one.problem, *cells, " ".join(one.actions), one.schedule])
    atomic_write(path, text.getvalue().encode())
