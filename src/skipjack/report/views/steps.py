"""A step of training before and after tuning."""

from __future__ import annotations

from collections.abc import Mapping

from skipjack.app import MeasuredStep, StepCase, StepCases, StepOperation
from skipjack.app.views import TableRequest, ViewColumn, table_of
from skipjack.report.documents import DocumentSection, FactList, Prose
from skipjack.report.figures import (
    BarFigure,
    Figure,
    FigureAxis,
    FigureBar,
    Kind,
    StepFigure,
    StepPart,
)
from skipjack.report.numbers import gain_text
from skipjack.report.views.rendered_report import RenderedReport

_KINDS: Mapping[str, Kind] = {"skipjack": "best", "hooked": "running"}
_WORDS: tuple[tuple[Kind, str], ...] = (
    ("best", "Skipjack's kernel"),
    ("running", "PyTorch's kernel, hooked"),
    ("plain", "PyTorch's kernel, not hooked"),
)
_LABELS = {
    "convolution": "conv",
    "convolution_backward": "conv backward",
    "native_batch_norm": "norm",
    "native_batch_norm_backward": "norm backward",
    "max_pool2d_with_indices": "pool",
    "max_pool2d_with_indices_backward": "pool backward",
    "threshold_backward": "relu backward",
}
_ALL = TableRequest(size=1_000)


def training_step_figure(record: MeasuredStep, title: str = "") -> StepFigure:
    """The operations of a step in order, on plain PyTorch and tuned, to one scale."""
    return StepFigure(
        title or f"A step of {record.model}, batch {record.batch}, {record.device}",
        FigureAxis("time in operations, in the order of the step", "ns"),
        [
            StepPart(
                _LABELS.get(one.op, one.op.strip("_").replace("_", " ")),
                1000.0 * one.plain_us,
                1000.0 * one.tuned_us,
                _KINDS.get(one.by, "plain"),
            )
            for one in record.operations
        ],
        ("python", "skipjack exec"),
        _WORDS,
    )


def step_cases_figure(record: StepCases, title: str = "Gains of steps") -> BarFigure:
    """How many times as fast the tuned step of each network is."""
    bars = [
        FigureBar(
            one.name,
            one.ratio,
            one.low,
            one.high,
            note=f"{gain_text(one.ratio, one.low, one.high)}, {one.tuned_ms:.4g} ms",
            kind="good" if one.low > 1.0 else "failed" if one.high < 1.0 else "tie",
        )
        for one in record.cases
    ]
    return BarFigure(title, FigureAxis("times as fast as plain PyTorch", "ratio"), bars)


_OPERATION_COLUMNS = (
    ViewColumn[StepOperation]("op", "operation", lambda one: one.op),
    ViewColumn[StepOperation]("by", "run by", lambda one: one.by),
    ViewColumn[StepOperation]("before", "before", lambda one: 1000.0 * one.plain_us, "ns"),
    ViewColumn[StepOperation]("after", "after", lambda one: 1000.0 * one.tuned_us, "ns"),
    ViewColumn[StepOperation](
        "gain", "gain", lambda one: one.plain_us / one.tuned_us if one.tuned_us else None, "ratio"
    ),
)
_CASE_COLUMNS = (
    ViewColumn[StepCase]("case", "case", lambda one: one.name),
    ViewColumn[StepCase]("before", "before", lambda one: 1e6 * one.plain_ms, "ns"),
    ViewColumn[StepCase]("after", "after", lambda one: 1e6 * one.tuned_ms, "ns"),
    ViewColumn[StepCase]("gain", "gain", lambda one: one.ratio, "ratio"),
    ViewColumn[StepCase]("low", "at least", lambda one: one.low, "ratio"),
    ViewColumn[StepCase]("high", "at most", lambda one: one.high, "ratio"),
)


def training_step_report(record: MeasuredStep) -> RenderedReport:
    """The report of a step."""
    figures: dict[str, Figure] = {"before-and-after": training_step_figure(record)}
    gain = gain_text(record.ratio, record.low, record.high)
    lead = Prose(
        f"{record.plain_ms:.4g} ms before, {record.tuned_ms:.4g} ms after: {gain} times as fast."
    )
    facts = FactList(
        [
            ("network", record.model),
            ("batch", str(record.batch)),
            ("threads", str(record.threads)),
            ("device", record.device),
        ]
    )
    rows = sorted(record.operations, key=lambda one: -one.plain_us)
    sections = [
        DocumentSection("Step", [facts, *figures.values()]),
        DocumentSection("Operations", [table_of("operations", _OPERATION_COLUMNS, rows, _ALL)]),
    ]
    return RenderedReport(f"A training step of {record.model}", sections, figures, [lead])


def step_cases_report(record: StepCases) -> RenderedReport:
    """The report of steps of several networks."""
    figures: dict[str, Figure] = {"gains": step_cases_figure(record)} if record.cases else {}
    facts = FactList([("device", record.device), ("measured", record.date)])
    table = table_of("cases", _CASE_COLUMNS, record.cases, _ALL)
    sections = [
        DocumentSection("Steps", [facts, *figures.values()]),
        DocumentSection("Cases", [table]),
    ]
    return RenderedReport("Steps of networks before and after", sections, figures)
