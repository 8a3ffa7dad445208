"""The table that ``skipjack tune`` ends with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from skipjack.core.config import settings_text
from skipjack.execute.statistics import Ratio
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.library import library_cell, library_column, library_name
from skipjack.report.numbers import gain_text, percent_text, rate_text, time_text
from skipjack.report.render import TableColumn, table
from skipjack.tuning import Limits
from skipjack.tuning.result import DEFAULT, Outcome, TuneResult

_STYLES = {
    Outcome.BANKED: "green",
    Outcome.KEPT: "green",
    Outcome.RESERVED: "yellow",
    Outcome.VENDOR: "yellow",
    Outcome.NOISY: "yellow",
    Outcome.FAILED: "red",
}


def print_results(results: Sequence[TuneResult], console: Console | None = None) -> None:
    """One row for each problem, then configs and reasons."""
    console = console or screen.out()
    screen.print_table(results_table(results), console)
    for result, name in zip(results, _names(results), strict=True):
        style = "red" if result.status is Outcome.FAILED else ""
        for line in _remarks(result, name):
            console.print(Text(line, style=style), soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which columns these results have."""

    library: str
    untuned: bool
    called: bool
    failed: bool

    @classmethod
    def of(cls, results: Sequence[TuneResult]) -> _Columns:
        return cls(
            library_column(r.baseline for r in results if r.status is not Outcome.FAILED),
            any(result.untuned_ns is not None for result in results),
            any(result.speedup.as_called for result in results),
            any(result.failures for result in results),
        )

    def cells(self, result: TuneResult) -> dict[str, str]:
        """What a row has under each heading."""
        ran = result.status is not Outcome.FAILED
        cells = self._times(result) | self._gains(result)
        cells = cells if ran else dict.fromkeys(cells, "-")
        if self.failed:
            count = sum(trial.status.failed for trial in result.trials)
            cells["failed"] = f"{count} of {len(result.trials)}" if count else "-"
        counts = {"builds": str(result.builds), "runs": str(result.runs)}
        return cells | counts | {"s": f"{result.seconds:.1f}"}

    def _times(self, result: TuneResult) -> dict[str, str]:
        untuned = {"untuned": time_text(result.untuned_ns)} if self.untuned else {}
        library = {} if self.library == DEFAULT else {self.library: self._library(result)}
        return {
            **untuned,
            "default": time_text(result.default_ns),
            **library,
            "tuned": time_text(result.time_ns),
            "spread": f"{100 * result.spread:.1f} %",
            "rate": rate_text(*result.rate),
            "of peak": percent_text(result.peak_share),
        }

    def _gains(self, result: TuneResult) -> dict[str, str]:
        gains = result.speedup
        return {
            f"x {self.library}": library_cell(_gain(gains.baseline), result.baseline, self.library),
            **({"as called": _called(result)} if self.called else {}),
            "x default": _gain(gains.default),
            **({"x untuned": _gain(gains.untuned)} if self.untuned else {}),
        }

    def _library(self, result: TuneResult) -> str:
        if result.baseline == DEFAULT:
            return "-"
        return library_cell(time_text(result.baseline_ns), result.baseline, self.library)


def results_table(results: Sequence[TuneResult]) -> Table:
    """The rows."""
    columns = _Columns.of(results)
    cells = [columns.cells(result) for result in results]
    numbers = [TableColumn(name, right=True) for name in (cells[0] if cells else ())]
    rows: list[tuple[Text | str, ...]] = [
        (name, *row.values(), Text(result.status.word, style=_STYLES[result.status]))
        for result, name, row in zip(results, _names(results), cells, strict=True)
    ]
    return table(["problem", *numbers, "bank"], rows)


def _gain(ratio: Ratio | None) -> str:
    if ratio is not None and ratio.noisy:
        return "noisy"
    return gain_text(ratio.ratio, ratio.low, ratio.high) if ratio else "-"


def _called(result: TuneResult) -> str:
    """A long call is as fast from Python as it is: then the native gain is the caller's."""
    if result.speedup.as_called:
        return _gain(result.speedup.as_called)
    return "same" if result.vendor and result.time_ns > Limits().long_call_ns else "-"


def _names(results: Sequence[TuneResult]) -> list[str]:
    """What tells the rows apart: problems, and devices or deployments where there are several."""
    on = len({result.device for result in results}) > 1
    ways = len({result.deployed for result in results}) > 1
    return [
        f"{result.problem.key}{f' on {result.device}' if on else ''}"
        f"{f' ({result.deployed})' if ways else ''}"
        for result in results
    ]


def _remarks(result: TuneResult, key: str) -> list[str]:
    """The winner's config, libraries without a column, why it is not in the bank, what failed."""
    lines = [f"{key}: {result.reason}"]
    if result.status is not Outcome.FAILED:
        count = len(result.ties)
        ties = f", tied with {numbered(count, 'other')}" if count else ""
        lines = [f"{key}: {result.solver} {settings_text(result.best)}{ties}"]
        for name, gain in result.speedup.vendors.items():
            if name != result.baseline:
                lines.append(f"  {_gain(gain)} over {library_name(name)}")
        if result.reason:
            lines.append(f"  {result.reason}")
    return [*lines, *_searched(result), *(f"  {line}" for line in failure_lines(result))]


def failure_lines(result: TuneResult) -> list[str]:
    """``3 of 8 configs failed (2 crash, 1 wrong), 2 of them because of crash: ... SIGILL``."""
    if not result.failures:
        return []
    reason, count = result.failures[0]
    by_status = result.failed_by_status
    failed = sum(by_status.values())
    most = "all" if count == failed else f"{count} of them"
    counts = ", ".join(f"{number} {status}" for status, number in by_status.items())
    tried = numbered(len(result.trials), "config")
    return [f"{failed} of {tried} failed ({counts}), {most} because of {reason}"]


def _searched(result: TuneResult) -> list[str]:
    """Who searched what, where several searchers did."""
    found: dict[str, list[str]] = {}
    for score in result.solvers:
        found.setdefault(score.searcher, []).append(f"{score.solver} {score.trials}")
    if len(found) < 2:
        return []
    parts = [f"{', '.join(solvers)} by {searcher}" for searcher, solvers in found.items()]
    return [f"  configs tried: {'; '.join(parts)}"]
