"""Comparison of two sides, problem by problem, and a gate for continuous integration."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.release.compare.comparison import (
        CompareOptions,
        Comparison,
        ComparisonOutcome,
        Margin,
        MeanGain,
        ProblemComparison,
        WinnerTiming,
        compare,
    )
    from skipjack.fleet.release.compare.gate import Gate, parse_percent
    from skipjack.fleet.release.compare.sides import (
        LABEL,
        Side,
        SideReader,
        has_find_dbs,
        side_of_path,
    )

__all__ = [
    "LABEL",
    "CompareOptions",
    "Comparison",
    "ComparisonOutcome",
    "Gate",
    "Margin",
    "MeanGain",
    "ProblemComparison",
    "Side",
    "SideReader",
    "WinnerTiming",
    "compare",
    "has_find_dbs",
    "parse_percent",
    "side_of_path",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "comparison": (
            "CompareOptions Comparison ComparisonOutcome Margin MeanGain ProblemComparison "
            "WinnerTiming compare"
        ),
        "gate": "Gate parse_percent",
        "sides": "LABEL Side SideReader has_find_dbs side_of_path",
    },
)
