"""Models that were learned, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.app import LearnedModel
from skipjack.learn.heuristic import QualitySummary
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.screen import TableColumn, print_fields, print_rows


def print_models(models: Sequence[LearnedModel]) -> None:
    """Each model: what it was fitted to, how good it is on problems held out, and its file."""
    for model in models:
        screen.out().print(f"{model.what} for {model.group} on {model.device}", markup=False)
        counted = f"{numbered(model.problems, 'problem')}, {numbered(model.trials, 'trial')}"
        print_fields([("fitted to", counted)], indent=2)
        if model.ranking is not None:
            one = model.ranking
            print_fields(
                [
                    ("best score", f"{one.first:.3f} of the best time (p10 {one.first_p10:.3f})"),
                    ("best of 8", f"{one.best_of_8:.3f}"),
                    ("drawn", f"{one.drawn:.3f}"),
                ],
                indent=2,
            )
        if model.qualities:
            columns = [TableColumn("held out")]
            columns += [TableColumn(name, right=True) for name in _FIGURES]
            print_rows(columns, [[name, *_figures(one)] for name, one in model.qualities])
        kept = str(model.path) if model.path else f"not kept: {model.reason}"
        print_fields([("file", kept)], indent=2)


_FIGURES = ("problems", "mean", "interval", "p10", "least")


def _figures(one: QualitySummary) -> list[str]:
    return [
        str(one.problems),
        f"{one.mean:.3f}",
        f"{one.low:.3f} to {one.high:.3f}",
        f"{one.p10:.3f}",
        f"{one.least:.3f}",
    ]
