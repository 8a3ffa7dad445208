"""``compare``: results against a baseline, and whether they pass a gate."""

from __future__ import annotations

from dataclasses import dataclass, field

from skipjack.app.configuring import configured
from skipjack.fleet.release.compare.comparing import CompareOptions, Comparison
from skipjack.fleet.release.compare.comparing import compare as compare_sides
from skipjack.fleet.release.compare.gates import Gate
from skipjack.fleet.release.compare.naming_sides import SideReader
from skipjack.settings import Settings


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """Two sides, each a label, a find-db, a directory of them, or ``bank``."""

    new: str
    against: str
    device: str | None = None
    """None: all that both sides have."""
    against_device: str | None = None
    """Of the baseline, where it is another."""
    gate: Gate = field(default_factory=Gate)
    options: CompareOptions = field(default_factory=CompareOptions)


@dataclass(frozen=True, slots=True)
class GatedComparison:
    """A comparison, and why the gate does not let it pass."""

    comparison: Comparison
    failure: str = ""
    """Empty if it passes."""


def compare(request: CompareRequest, *, settings: Settings | None = None) -> GatedComparison:
    """Compare results with a baseline: faster, equal or slower."""
    across = request.options.across_devices
    theirs = request.against_device or (None if across else request.device)
    with SideReader(configured(settings)) as reader:
        new = reader.side(request.new, request.device)
        old = reader.side(request.against, theirs)
    comparison = compare_sides(new, old, request.options)
    return GatedComparison(comparison, request.gate.failure(comparison))
