"""A policy beside libraries, as a table and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from rich import box
from rich.table import Table

from skipjack.operations import get, parse
from skipjack.report.numbers import rate_text
from skipjack.report.screen import out, print_table
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

    def to_json(self) -> dict[str, Any]:
        """One record."""
        return {
            "problem": self.problem,
            "time_ns": {name: round(ns, 1) for name, ns in self.times_ns.items()},
            "gflops": {name: round(rate, 3) for name, rate in self.rates.items()},
            "missing": dict(self.missing),
            "notes": dict(self.notes),
            "schedule": self.schedule,
            "actions": ",".join(self.actions),
        }


def print_comparisons(found: Sequence[LibraryComparison]) -> None:
    """The rate of each, how many times faster the policy is in the mean, and who is missing."""
    names = list(dict.fromkeys(name for one in found for name in one.times_ns))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("problem")
    for name in names:
        table.add_column(name, justify="right")
    for one in found:
        rates = one.rates
        cells = [rate_text(rates.get(name), "GFLOP/s") for name in names]
        table.add_row(one.problem, *cells)
    console = out()
    print_table(table, console)
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
