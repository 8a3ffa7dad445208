"""What models learned from ledgers, as a document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from skipjack.app import FamilyQuality, LearningReport
from skipjack.app.views import RecordTable, TableRequest, ViewColumn
from skipjack.learn.explanation import FeatureEffect, Order
from skipjack.reading import numbered
from skipjack.report.documents import Document, DocumentSection, FactList, Part, Prose
from skipjack.report.figures import BarFigure, FigureAxis, FigureBar, LineFigure, LineSeries

_SHARES = 20
"""The most features that are shown."""


def learning_document(reports: Sequence[LearningReport]) -> Document:
    """A section for each group of operations and kind of device."""
    problems = sum(one.card["problems"] for one in reports)
    trials = sum(one.card["trials"] for one in reports)
    counted = f"{numbered(problems, 'problem')}, {numbered(trials, 'trial')}"
    lead = Prose(f"What models learn from {counted}. No model was kept.")
    sections = [DocumentSection(f"{one.group} on {one.device}", _parts(one)) for one in reports]
    return Document("What models learned", sections, [lead])


def _parts(report: LearningReport) -> list[Part]:
    parts: list[Part] = [FactList(tuple(_card(report)))]
    if report.reason:
        return [*parts, Prose(f"Nothing was learned: {report.reason}.", warning=True)]
    return [
        *parts,
        _importance(report),
        *(_effect(one) for one in report.effects),
        Prose(
            "Effects are means over measured candidates, over the least of them; the band shows "
            "the quartiles of candidates. Sizes are logarithms to base 2."
        ),
        _pruning(report),
        _families(report),
        Prose(
            "Each value is the best time that was measured over that of the way's config, as a "
            "mean over problems; their shapes were held out. The heuristic and the nearest shape "
            "name the first of their configs that was measured."
        ),
    ]


def _card(report: LearningReport) -> Iterator[tuple[str, str]]:
    card = report.card
    yield "devices", ", ".join(card["devices"])
    yield "problems", str(card["problems"])
    yield "trials", f"{card['trials']}, {card['failed']} of which failed"
    yield "solvers", ", ".join(card["solvers"])
    for name in ("dtypes", "layouts", "directions"):
        yield name, ", ".join(card[name])
    yield "digest of the trials", card["digest"]


def _importance(report: LearningReport) -> BarFigure:
    bars = [FigureBar(one.name, one.share) for one in report.shares[:_SHARES]]
    axis = FigureAxis("share of the loss that splits removed", "share", log=False, zero=True)
    return BarFigure("What mattered", axis, bars)


def _effect(effect: FeatureEffect) -> LineFigure:
    line = LineSeries(
        "mean", effect.values, effect.ratios, "line", low=effect.low, high=effect.high
    )
    return LineFigure(
        f"Effect of {effect.name}",
        FigureAxis(effect.name, log=False),
        FigureAxis("estimated time over the least", "ratio", log=False),
        [line],
        height=150.0,
    )


def _pruning(report: LearningReport) -> LineFigure:
    series = []
    for order in Order:
        rows = [one for one in report.kept if one.order is order]
        if rows:
            kept = [float(one.kept) for one in rows]
            series.append(LineSeries(str(order), kept, [one.mean for one in rows], last_text=True))
    return LineFigure(
        "What pruning loses: the best of the first configs, over the best of all",
        FigureAxis("configs that are measured", log=True, whole=True),
        FigureAxis("best time over the best of these", "share", log=False),
        series,
    )


def _families(report: LearningReport) -> RecordTable[FamilyQuality]:
    rows = [*report.families, FamilyQuality("all", report.qualities)]
    columns: list[ViewColumn[FamilyQuality]] = [
        ViewColumn("family", "family", lambda row: row.family),
        ViewColumn("problems", "problems", _most),
    ]
    for way, _ in report.qualities:
        columns.append(ViewColumn(way, way, _reader(way, "mean"), "share"))
        columns.append(ViewColumn(f"{way} p10", "10th percentile", _reader(way, "p10"), "share"))
        columns.append(ViewColumn(f"{way} least", "least", _reader(way, "least"), "share"))
    return RecordTable("families", columns, rows, len(rows), TableRequest(size=max(1, len(rows))))


def _most(row: FamilyQuality) -> int:
    return max((one.problems for _, one in row.qualities), default=0)


def _reader(way: str, figure: str) -> Callable[[FamilyQuality], float | None]:
    """Reads a figure of a way; None for families without it."""

    def read(row: FamilyQuality) -> float | None:
        one = dict(row.qualities).get(way)
        return None if one is None or not one.problems else float(getattr(one, figure))

    return read
